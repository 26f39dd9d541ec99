# SPDX-License-Identifier: Apache-2.0

"""Distributors without a machine: OVN spreads connections over members."""
