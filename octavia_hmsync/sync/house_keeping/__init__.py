# SPDX-License-Identifier: Apache-2.0

"""What octavia-housekeeping does for the list."""
