# SPDX-License-Identifier: Apache-2.0

"""What octavia-worker does for clusters: flows, tasks."""
