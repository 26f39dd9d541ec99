#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""Distributors with Neutron's ML2/OVS: its agents, tunnels and firewall.

Two nodes with instances, two with distributors, and one with routers.
"""

from tests.soak import test_ovn_data_plane


class TestConnections(test_ovn_data_plane.TestConnections):

    network = 'ovs'
    comes_by_ipv6 = True
