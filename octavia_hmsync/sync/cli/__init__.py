# SPDX-License-Identifier: Apache-2.0

"""Commands of health managers, lists and amphorae."""
