# SPDX-License-Identifier: Apache-2.0

"""Rollouts: which load balancers get the newest image, and when."""
