# SPDX-License-Identifier: Apache-2.0

import ipaddress
import random

from hypothesis import given
from hypothesis import strategies as st

from octavia_hmsync import addresses as addr
from octavia_hmsync import exceptions
from tests.unit import base

MALFORMED = (
    '', ':', '5555', '192.0.2.1', '192.0.2.1:', ':5555', '192.0.2.1:0',
    '192.0.2.1:65536', '192.0.2.1:-1', '192.0.2.1:+5', '192.0.2.1:5 5',
    '192.0.2.1:port', '192.0.2.1:5555:5555', '192.0.2.256:5555',
    '192.0.2:5555', 'hm1.example.org:5555', '2001:db8::1',
    '[2001:db8::1]', '[2001:db8::1]5555', '2001:db8:1:2:3:4:5:6',
    '[2001:db8::1:5555', '2001:db8::1]:5555', '[]:5555', '[::g]:5555',
    '192.0.2.1:\u0665\u0665', '192.0.2.1:5555,192.0.2.2:5555',
    '192.0.2.1:5555\n[health_manager]')
IPS = st.ip_addresses()
ADDRESSES = st.builds(addr.format_address, IPS, st.integers(1, 65535))


def as_the_amphora_reads_it(entry):
    """Take an entry apart as health_sender.UDPStatusSender does.

    :raises ValueError: where it would stop reading the list.
    """
    ip, port = entry.rsplit(':', 1)
    if ip and ip[0] == '[' and ip[-1] == ']':
        ip = ip[1:-1]
    return ipaddress.ip_address(ip), int(port)


def as_an_old_amphora_reads_it(entry):
    """The same before Octavia 10.1.0, 11.0.1, 12.0.1 and 13.0.0.

    :raises ValueError: where its sender would end.
    """
    ip, port = entry.rsplit(':', 1)
    return ipaddress.ip_address(ip), int(port)


class TestParse(base.TestCase):

    def test_ipv4(self):
        self.assertEqual((ipaddress.ip_address('192.0.2.1'), 5555),
                         addr.parse_address(' 192.0.2.1:5555 '))

    def test_ipv6(self):
        self.assertEqual((ipaddress.ip_address('2001:db8::1'), 5555),
                         addr.parse_address('[2001:DB8:0::1]:5555'))

    def test_as_octavia_reads_it(self):
        """charm-octavia and devstack write IPv6 without brackets."""
        for text, ip, port in (
                ('2001:db8::1:5555', '2001:db8::1', 5555),
                ('fd00:1:2:3:4:5:6:7:5556', 'fd00:1:2:3:4:5:6:7', 5556),
                ('::1:2', '::1', 2), ('1::2:3', '1::2', 3),
                ('[192.0.2.1]:5555', '192.0.2.1', 5555)):
            self.assertEqual((ipaddress.ip_address(ip), port),
                             addr.parse_address(text))
            self.assertEqual(as_the_amphora_reads_it(text),
                             addr.parse_address(text))

    def test_malformed_is_named(self):
        for text in MALFORMED:
            e = self.assertRaises(exceptions.InvalidAddress,
                                  addr.parse_address, text)
            self.assertIn(f'"{text}"', str(e))

    def test_scope_is_malformed(self):
        # It names an interface of whoever wrote it. getaddrinfo() in an
        # amphora without that interface raises, at each heartbeat again.
        for scope in ('eth0', 'a,b', '\n', ' '):
            self.assertRaises(exceptions.InvalidAddress, addr.parse_address,
                              f'[fe80::1%{scope}]:5555')

    @given(st.text(max_size=40) | st.text('0123456789.:[]abcf%', max_size=40))
    def test_what_passes_is_well_formed_for_the_amphora(self, text):
        try:
            entry = addr.format_address(*addr.parse_address(text))
        except exceptions.InvalidAddress:
            return
        ip, port = as_the_amphora_reads_it(entry)
        self.assertEqual(entry, addr.format_address(ip, port))

    @given(IPS, st.integers(1, 65535))
    def test_reads_what_it_writes(self, ip, port):
        entry = addr.format_address(ip, port)
        self.assertEqual((ip, port), addr.parse_address(entry))
        self.assertEqual((ip, port), as_the_amphora_reads_it(entry))

    @given(st.lists(st.tuples(IPS, st.integers(1, 65535))))
    def test_what_agents_get_is_read_by_every_release(self, wanted):
        entries = addr.for_agents(
            [addr.format_address(*each) for each in wanted])
        for read in (as_the_amphora_reads_it, as_an_old_amphora_reads_it,
                     addr.parse_address):
            self.assertEqual(wanted, [read(entry) for entry in entries])


class TestFormat(base.TestCase):

    def test_port_out_of_range(self):
        for port in (0, -1, 65536):
            self.assertRaises(ValueError, addr.format_address, '192.0.2.1',
                              port)

    def test_no_address(self):
        self.assertRaises(ValueError, addr.format_address, 'hm1', 5555)


class TestCanonical(base.TestCase):

    def test_numeric_order_and_ipv4_first(self):
        self.assertEqual(
            ('192.0.2.9:5555', '192.0.2.10:5555', '192.0.2.10:5556',
             '[2001:db8::1]:5555'),
            addr.canonical(['[2001:db8::1]:5555', '192.0.2.10:5556',
                            '192.0.2.10:5555', '192.0.2.9:5555']))

    def test_one_spelling(self):
        self.assertEqual(
            ('[2001:db8::1]:5555',),
            addr.canonical(['[2001:DB8::1]:05555', '[2001:db8:0::1]:5555']))

    @given(st.lists(ADDRESSES), st.randoms(use_true_random=False))
    def test_same_addresses_same_list(self, entries, rng):
        shuffled = random.Random(rng.random()).sample(entries, len(entries))
        expected = addr.canonical(entries)
        self.assertEqual(expected, addr.canonical(shuffled + entries))
        self.assertEqual(expected, addr.canonical(expected))
        self.assertEqual(set(entries), set(expected))

    @given(st.lists(ADDRESSES, min_size=1), ADDRESSES)
    def test_a_new_one_leaves_the_others_in_their_order(self, entries, new):
        without = addr.canonical(set(entries) - {new})
        self.assertEqual(without, tuple(
            a for a in addr.canonical([*entries, new]) if a != new))


class TestList(base.TestCase):

    @given(st.lists(ADDRESSES))
    def test_reads_what_it_writes(self, entries):
        self.assertEqual(tuple(entries),
                         addr.split_list(addr.join_list(entries)))

    def test_nothing(self):
        self.assertEqual((), addr.split_list(None))
        self.assertEqual((), addr.split_list(' , '))


class TestCheckAdvertised(base.TestCase):

    def assertRefused(self, words, ip, networks=(), allow_loopback=False):
        e = self.assertRaises(exceptions.InvalidAddress,
                              addr.check_advertised, ip, networks,
                              allow_loopback)
        self.assertIn(words, str(e))

    def test_normal_form(self):
        self.assertEqual('2001:db8::1',
                         addr.check_advertised('2001:DB8:0::1', [], False))

    def test_wildcard(self):
        self.assertRefused('bind_ip', '0.0.0.0')  # nosec B104
        self.assertRefused('address_driver', '::', allow_loopback=True)

    def test_loopback(self):
        for ip in ('127.0.0.1', '127.1.2.3', '::1'):
            self.assertRefused('allow_loopback', ip)
            self.assertEqual(ip, addr.check_advertised(ip, [], True))

    def test_multicast(self):
        self.assertRefused('multicast', '224.0.0.1')
        self.assertRefused('multicast', 'ff02::1')

    def test_no_address(self):
        self.assertRefused('"hm1"', 'hm1')

    def test_scope(self):
        self.assertRefused('fe80::1%eth0', 'fe80::1%eth0')

    def test_allowed_networks(self):
        networks = ['192.0.2.0/24', '2001:db8::/64']
        for ip in ('192.0.2.7', '2001:db8::7'):
            self.assertEqual(ip, addr.check_advertised(ip, networks, False))
        for ip in ('198.51.100.7', '2001:db8:1::7'):
            self.assertRefused('192.0.2.0/24, 2001:db8::/64', ip, networks)

    def test_loopback_must_be_in_the_allowed_networks_too(self):
        self.assertRefused('allowed_networks', '127.0.0.1', ['192.0.2.0/24'],
                           allow_loopback=True)

    def test_malformed_network(self):
        for network in ('192.0.2.1/24', '192.0.2.0/33', 'lb-mgmt-net'):
            e = self.assertRaises(exceptions.InvalidConfiguration,
                                  addr.check_advertised, '192.0.2.1',
                                  [network], False)
            self.assertIn('allowed_networks', str(e))

    @given(IPS, st.booleans())
    def test_never_a_useless_address(self, ip, allow_loopback):
        try:
            text = addr.check_advertised(str(ip), [], allow_loopback)
        except exceptions.InvalidAddress:
            return
        ip = ipaddress.ip_address(text)
        self.assertFalse(ip.is_unspecified or ip.is_multicast)
        self.assertTrue(allow_loopback or not ip.is_loopback)
