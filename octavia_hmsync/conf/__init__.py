# SPDX-License-Identifier: Apache-2.0

"""Options, a module for each group."""
