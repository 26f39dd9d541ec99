# SPDX-License-Identifier: Apache-2.0

"""What octavia-health-manager does for the list."""
