# SPDX-License-Identifier: Apache-2.0

"""Commands that look at all parts."""
