# SPDX-License-Identifier: Apache-2.0

"""Cluster managers, which decide for clusters, and what they share."""
