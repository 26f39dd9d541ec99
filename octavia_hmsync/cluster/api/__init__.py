# SPDX-License-Identifier: Apache-2.0

"""What octavia-api loads for clusters."""
