# SPDX-License-Identifier: Apache-2.0

"""Distributors: they spread the connections to a VIP over a cluster."""
