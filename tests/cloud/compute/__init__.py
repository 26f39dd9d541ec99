# SPDX-License-Identifier: Apache-2.0

"""Amphorae as processes: what a compute service is to Octavia."""
