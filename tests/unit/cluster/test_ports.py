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
from hypothesis import given
from hypothesis import strategies as st

from octavia_hmsync.cluster import ports
from octavia_hmsync import exceptions
from tests.unit import base

ADDRESSES = st.lists(st.ip_addresses().filter(
    lambda ip: not ip.is_multicast).map(str), min_size=1, max_size=3,
    unique=True)


class TestNames(base.TestCase):

    def test_any_node(self):
        self.assertEqual('octavia-lb-distributor-c-network1',
                         ports.get_name('c', 'network1'))
        self.assertLessEqual(len(ports.get_name('c', 'n' * 255)), 255)

    def test_mac(self):
        macs = {ports.make_mac(cluster, host) for cluster in 'ab'
                for host in ('network1', 'network2')}
        self.assertEqual(4, len(macs))
        for mac in macs:
            self.assertRegex(mac, '^fa:16:3e(:[0-9a-f]{2}){3}$')


class TestPairs(base.TestCase):

    def test_distributor(self):
        self.assertEqual(
            ['192.0.2.5', '0.0.0.0/0'],
            [p['ip_address'] for p in ports.get_pairs(['192.0.2.5'])])
        # Neutron takes no ::/0.
        self.assertEqual(
            ['fd00::5', '2000::/3', 'fc00::/7'],
            [p['ip_address'] for p in ports.get_pairs(['fd00::5'])])

    @given(ADDRESSES)
    def test_each_address_as_it_is_written(self, addresses):
        pairs = [p['ip_address'] for p in ports.get_pairs(addresses)]
        self.assertEqual(addresses, pairs[:len(addresses)])
        self.assertEqual(len(pairs), len(set(pairs)))


class TestNetwork(base.TestCase):

    NETWORK = {'id': 'n', 'name': 'net1', 'mtu': 1450}

    def test_fit(self):
        ports.check_network(self.NETWORK)
        ports.check_network({**self.NETWORK, 'l2_adjacency': True}, 'normal')

    def test_sriov(self):
        e = self.assertRaises(exceptions.NotPossible, ports.check_network,
                              self.NETWORK, 'direct')
        self.assertIn('SR-IOV', str(e))

    def test_routed(self):
        e = self.assertRaises(exceptions.NotPossible, ports.check_network,
                              {**self.NETWORK, 'l2_adjacency': False})
        self.assertIn('net1: it is a routed one', str(e))
