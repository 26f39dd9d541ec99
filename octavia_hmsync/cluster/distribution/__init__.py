# SPDX-License-Identifier: Apache-2.0

"""Distributors and OVN: what spreads connections."""
