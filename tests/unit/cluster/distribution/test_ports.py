# SPDX-License-Identifier: Apache-2.0

import json

from hypothesis import given
from hypothesis import strategies as st
import requests

from octavia_hmsync.cluster.distribution import ports
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


class TestRead(base.TestCase):
    """Of a Neutron that answers in pages, and may say less than there is."""

    current_project_id = 'octavia'

    def setUp(self):
        super().setUp()
        self.network = self
        self.there = {}
        self.hidden = set()
        self.asked = []
        self.subject = ports.Ports(
            self.make_conf(hmsync_network={'api_timeout': 60}), self)

    def get(self, path, params=None):
        self.asked.append(path)
        answer = requests.Response()
        answer.status_code = 200
        if path == '/ports':
            ids = sorted(key for key in self.there if key not in self.hidden
                         and key in params.get('id', self.there) and
                         key > params.get('marker', ''))
            body = {'ports': [self.there[key] for key in ids[:40]]}
            if len(ids) > 40:
                body['ports_links'] = [{'rel': 'next', 'href': 'https://'}]
        else:
            found = self.there.get(path.split('/')[-1])
            answer.status_code = 200 if found else 404
            body = {'port': found}
        answer._content = json.dumps(body).encode()
        return answer

    def add(self, number, **values):
        port_id = f'port{number:03}'
        self.there[port_id] = {'id': port_id, **values}
        return port_id

    def test_many(self):
        wanted = {self.add(number) for number in range(120)}
        for number in range(200, 260):
            self.add(number)
        self.assertEqual(wanted, set(self.subject.read(wanted)))
        self.assertEqual(5, len(self.asked))
        self.assertEqual({}, self.subject.read(set()))
        self.assertEqual(5, len(self.asked))

    def test_gone(self):
        """What is missing in a list is asked for alone."""
        one, two = self.add(1), self.add(2)
        self.hidden.add(two)
        self.assertEqual({one, two},
                         set(self.subject.read({one, two, 'gone'})))

    def test_state(self):
        for values, expected, is_right in (
                ({'port_security_enabled': False},
                 ports.State(False, (), ()), True),
                ({'allowed_address_pairs': [{'ip_address': '0.0.0.0/0'}],
                  'security_groups': ['b', 'a']},
                 ports.State(True, ('0.0.0.0/0',), ('a', 'b')), True),
                ({'allowed_address_pairs': [{'ip_address': '0.0.0.0/0'}]},
                 ports.State(True, ('0.0.0.0/0',), ()), False),
                ({'security_groups': ['a']},
                 ports.State(True, (), ('a',)), False)):
            state, = self.subject.read({self.add(1, **values)}).values()
            self.assertEqual(expected, state)
            self.assertEqual(is_right,
                             self.subject.is_right(state, {'a', 'b'}))
        self.assertFalse(self.subject.is_right(
            ports.State(True, ('0.0.0.0/0',), ('a', 'other')), {'a', 'b'}))
