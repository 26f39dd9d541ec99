# SPDX-License-Identifier: Apache-2.0

"""A tenant's clone of a load balancer, through the API alone.

Nothing here imports Octavia, oslo.db or compat, or reads octavia.conf.
"""
