# SPDX-License-Identifier: Apache-2.0

"""Distributors with Neutron's ML2/OVS: its agents, tunnels and firewall.

Two nodes with instances, two with distributors, and one with routers.
"""

from tests.soak import test_ovn_data_plane


class TestConnections(test_ovn_data_plane.TestConnections):

    network = 'ovs'
    comes_by_ipv6 = True
