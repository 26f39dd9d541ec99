# SPDX-License-Identifier: Apache-2.0

"""Which parts run in which process of Octavia."""
