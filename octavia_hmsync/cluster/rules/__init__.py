# SPDX-License-Identifier: Apache-2.0

"""Pure rules of clusters: no I/O, no clock."""
