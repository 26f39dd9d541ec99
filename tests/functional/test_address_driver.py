# SPDX-License-Identifier: Apache-2.0

"""The address driver "interface" on an interface with several addresses."""

import fixtures

from octavia_hmsync import exceptions
from octavia_hmsync.sync.health_manager import address
from tests.cloud import openvswitch
from tests.unit import base

IPV4 = ('192.0.2.10', '192.0.2.9', '198.51.100.2')
IPV6 = ('2001:db8::10', '2001:db8::9', '2001:db8:1::2')


class TestInterface(base.TestCase):
    """The loopback interface of a namespace: no other is to be had anywhere.

    It has 127.0.0.1 and ::1 as well, as a node has addresses of its own.
    """

    def setUp(self):
        super().setUp()
        self.namespace = self.useFixture(openvswitch.Namespace(
            'node1', self.useFixture(fixtures.TempDir()).path))

    def add(self, *addresses):
        for ip in addresses:
            self.namespace.run(
                'ip', 'address', 'add', f'{ip}/{64 if ":" in ip else 24}',
                'dev', 'lo')

    def get(self, *networks):
        driver = address.load_driver(self.make_conf(
            hmsync={'address_driver': 'interface', 'address_interface': 'lo',
                    'allowed_networks': list(networks)},
            health_manager={'bind_ip': '::'}))
        return self.namespace.call(driver.get)

    def test_alias_beside_the_own_address(self):
        for addresses, networks, chosen in (
                (IPV4, ['192.0.2.0/24'], '192.0.2.9'),
                ((), ['192.0.2.10/32'], '192.0.2.10'),
                ((), ['198.51.100.0/24', '192.0.2.8/29'], '192.0.2.9'),
                ((), ['198.51.100.0/24'], '198.51.100.2'),
                (IPV6, ['2001:db8::/64'], '2001:db8::9'),
                ((), ['2001:db8::10/128'], '2001:db8::10'),
                ((), ['2001:db8:1::/64', '198.51.100.0/24'], '198.51.100.2')):
            self.add(*addresses)
            self.assertEqual(chosen, self.get(*networks))

    def test_another_address_while_it_runs(self):
        self.add(IPV4[0])
        self.assertEqual(IPV4[0], self.get('192.0.2.0/24'))
        self.add(IPV4[1])
        self.assertEqual(IPV4[1], self.get('192.0.2.0/24'))
        self.namespace.run('ip', 'address', 'del', f'{IPV4[1]}/24', 'dev',
                           'lo')
        self.assertEqual(IPV4[0], self.get('192.0.2.0/24'))

    def test_nothing_that_is_allowed(self):
        self.add(*IPV4)
        e = self.assertRaises(exceptions.InvalidAddress, self.get,
                              '203.0.113.0/24')
        self.assertIn('has 127.0.0.1, 192.0.2.9, 192.0.2.10, 198.51.100.2, ',
                      str(e))
        self.assertIn('[hmsync] allowed_networks (203.0.113.0/24)', str(e))
