# SPDX-License-Identifier: Apache-2.0

"""Who decides what becomes of clusters: managers, and what they share."""
