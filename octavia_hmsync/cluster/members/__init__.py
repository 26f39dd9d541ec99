# SPDX-License-Identifier: Apache-2.0

"""Building, configuring and deleting members."""
