# SPDX-License-Identifier: Apache-2.0

"""Clusters: one load balancer on several amphorae behind distributors."""
