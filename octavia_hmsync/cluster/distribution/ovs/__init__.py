# SPDX-License-Identifier: Apache-2.0

"""Distributors in Open vSwitch, told by their REST API."""
