# SPDX-License-Identifier: Apache-2.0

import socket

import psutil
from psutil import _common

from octavia_hmsync import exceptions
from octavia_hmsync.sync.health_manager import address
from tests.unit import base


def snicaddr(family, ip):
    types = getattr(_common, 'snicaddr', None) or psutil._ntp.snicaddr
    return types(family, ip, None, None, None)


class TestDrivers(base.TestCase):

    def get(self, driver, **groups):
        return address.load_driver(self.make_conf(
            **{'health_manager': {'bind_ip': '::'}, **groups,
               'hmsync': {'address_driver': driver,
                          **groups.get('hmsync', {})}})).get()

    def assertRefused(self, words, *args, **kwargs):
        e = self.assertRaises(exceptions.HMSyncException, self.get, *args,
                              **kwargs)
        self.assertIn(words, str(e))

    def test_bind_ip(self):
        for ip in ('192.0.2.1', '2001:db8::1'):
            self.assertEqual(ip, self.get('bind_ip',
                                          health_manager={'bind_ip': ip}))

    def test_static(self):
        self.assertEqual('192.0.2.7', self.get(
            'static', hmsync={'static_address': '192.0.2.7'}))

    def test_static_without_address(self):
        self.assertRefused('static_address', 'static')

    def test_unknown_driver(self):
        self.assertRefused('bind_ip, interface, neutron_port, static',
                           'magic')

    def test_interface_of_this_machine(self):
        self.assertEqual('127.0.0.1', self.get(
            'interface', hmsync={'address_interface': 'lo'}))

    def test_no_such_interface(self):
        self.assertRefused('no network interface o-hm0', 'interface')

    def interface(self, *addresses):
        """Have o-hm0 these addresses."""
        families = {4: socket.AF_INET, 6: socket.AF_INET6}
        found = [snicaddr(families[6 if ':' in a else 4], a)
                 for a in addresses]
        found.append(snicaddr(psutil.AF_LINK, '52:54:00:00:00:01'))
        self.patch(psutil, 'net_if_addrs', lambda: {'o-hm0': found})

    def test_interface_ipv4_before_ipv6(self):
        self.interface('2001:db8::1', 'fe80::1%o-hm0', '192.0.2.1')
        self.assertEqual('192.0.2.1', self.get('interface'))

    def test_interface_with_ipv6_only(self):
        self.interface('fe80::1%o-hm0', '2001:db8::1')
        self.assertEqual('2001:db8::1', self.get('interface'))

    def test_interface_with_two_addresses(self):
        """The same one each time, as long as it is there."""
        self.interface('192.0.2.10', '192.0.2.9')
        first = self.get('interface')
        self.interface('192.0.2.9', '192.0.2.10')
        self.assertEqual(first, self.get('interface'))

    def test_interface_with_addresses_in_numeric_order(self):
        """As each list of addresses has them, and not as text."""
        for addresses, lowest in (
                (('192.0.2.10', '192.0.2.9', '192.0.2.100'), '192.0.2.9'),
                (('10.0.0.1', '9.255.0.1'), '9.255.0.1'),
                (('2001:db8::10', '2001:db8::9', 'fe80::1%o-hm0'),
                 '2001:db8::9'),
                (('2001:db8::1', '198.51.100.7'), '198.51.100.7')):
            self.interface(*addresses)
            self.assertEqual(lowest, self.get('interface'))

    def test_allowed_networks_choose_among_several(self):
        self.interface('192.0.2.10', '192.0.2.9', '198.51.100.2',
                       '198.51.100.11', '2001:db8::10', '2001:db8:1::1',
                       'fe80::1%o-hm0')
        for networks, chosen in (
                (['198.51.100.0/24'], '198.51.100.2'),
                (['198.51.100.8/29'], '198.51.100.11'),
                (['192.0.2.10/32'], '192.0.2.10'),
                (['2001:db8:1::/48'], '2001:db8:1::1'),
                (['2001:db8::/32', '192.0.2.0/24'], '192.0.2.9'),
                ([], '192.0.2.9')):
            self.assertEqual(chosen, self.get(
                'interface', hmsync={'allowed_networks': networks}))

    def test_interface_with_nothing_in_allowed_networks(self):
        self.interface('192.0.2.10', '192.0.2.9', '2001:db8::1')
        self.assertRefused(
            'the network interface o-hm0 has 192.0.2.9, 192.0.2.10, '
            '2001:db8::1, and nothing in [hmsync] allowed_networks '
            '(203.0.113.0/24, 2001:db8:1::/48)', 'interface',
            hmsync={'allowed_networks': ['203.0.113.0/24',
                                         '2001:db8:1::/48']})
        self.assertRefused('[hmsync] allowed_networks: ', 'interface',
                           hmsync={'allowed_networks': ['192.0.2.1/24']})

    def test_interface_without_address(self):
        for addresses in ((), ('fe80::1%o-hm0', '169.254.1.1')):
            self.interface(*addresses)
            self.assertRefused('has no address yet', 'interface')

    def get_further(self, *networks, own='192.0.2.1', bind_ip='::', **hmsync):
        return address.FurtherAddresses(self.make_conf(
            health_manager={'bind_ip': bind_ip},
            hmsync={'further_networks': list(networks), **hmsync})).get(own)

    def test_further_networks(self):
        self.interface('192.0.2.1', '198.51.100.12', '198.51.100.7',
                       'fe80::1%o-hm0', '2001:db8::5')
        self.assertEqual(({}, []), self.get_further())
        self.assertEqual(
            ({'198.51.100.0/24': '198.51.100.7',
              '2001:db8::/64': '2001:db8::5'}, []),
            # That of its own address has one already.
            self.get_further('192.0.2.0/24', '198.51.100.0/24',
                             '2001:db8::/64'))

    def test_further_network_without_an_address(self):
        self.interface('192.0.2.1', '198.51.100.7')
        found, problems = self.get_further('203.0.113.0/24',
                                           '198.51.100.0/24', 'fe80::/64')
        self.assertEqual({'198.51.100.0/24': '198.51.100.7'}, found)
        self.assertEqual(2, len(problems))
        self.assertIn('203.0.113.0/24: no interface', problems[0])

    def test_further_network_that_nothing_listens_in(self):
        self.interface('192.0.2.1', '198.51.100.7')
        found, problems = self.get_further('198.51.100.0/24',
                                           bind_ip='192.0.2.1')
        self.assertEqual({}, found)
        self.assertIn('bind_ip = 0.0.0.0', problems[0])

    def test_further_network_that_is_none(self):
        e = self.assertRaises(exceptions.InvalidConfiguration,
                              self.get_further, '198.51.100.7/24')
        self.assertIn('[hmsync] further_networks: ', str(e))

    def test_interface_that_comes_up_late(self):
        driver = address.load_driver(self.make_conf(
            hmsync={'address_driver': 'interface'},
            health_manager={'bind_ip': '192.0.2.1'}))
        self.assertRaises(exceptions.InvalidAddress, driver.get)
        self.interface('192.0.2.1')
        self.assertEqual('192.0.2.1', driver.get())

    def test_interface_that_nobody_listens_at(self):
        """Amphorae must not be told to send there."""
        for ip, bind_ip in (('192.0.2.1', '127.0.0.1'),
                            ('192.0.2.1', '192.0.2.2'),
                            ('2001:db8::1', '0.0.0.0'),  # nosec B104
                            ('2001:db8::1', '2001:db8::2')):
            self.interface(ip)
            self.assertRefused(f'heartbeats to {ip} would not be heard',
                               'interface',
                               health_manager={'bind_ip': bind_ip})
        for ip, bind_ip in (('192.0.2.1', '0.0.0.0'),  # nosec B104
                            ('192.0.2.1', '192.0.2.1'),
                            ('192.0.2.1', '::'),
                            ('2001:db8::1', '::'),
                            ('2001:db8::1', '2001:DB8:0::1')):
            self.interface(ip)
            self.assertEqual(ip, self.get(
                'interface', health_manager={'bind_ip': bind_ip}))
