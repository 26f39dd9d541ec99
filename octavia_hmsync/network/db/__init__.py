# SPDX-License-Identifier: Apache-2.0

"""Queries: the network, the ports of nodes."""
