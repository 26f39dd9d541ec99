# SPDX-License-Identifier: Apache-2.0

"""Pure rules of the membership: no I/O, no clock."""
