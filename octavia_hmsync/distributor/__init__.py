# SPDX-License-Identifier: Apache-2.0

"""Distributors: what spreads the connections to a VIP over a cluster."""
