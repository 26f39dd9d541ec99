# SPDX-License-Identifier: Apache-2.0

"""Commands of image upgrades, a module for each subject."""
