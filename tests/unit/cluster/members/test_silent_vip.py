# SPDX-License-Identifier: Apache-2.0

"""What keepalived of a member is told.

That nobody is answered is shown by tests/functional/test_silent_vip.py.
"""

import base64
import ipaddress
import pathlib
import re
import subprocess
import types

import fixtures
import hypothesis
from hypothesis import strategies as st

from octavia_hmsync.amphora import agent
from octavia_hmsync.cluster.members import silent_vip
from octavia_hmsync import exceptions
from tests.unit import base

SUBNET = agent.Subnet('192.0.2.0/24', '192.0.2.1',
                      (('203.0.113.0/24', '192.0.2.9'),))
IPV6 = agent.Subnet('2001:db8::/64', '2001:db8::1')
MAC = 'fa:16:3e:00:00:01'
EXAMPLE = '''\
# By octavia-hmsync, for a member of a cluster: a distributor \
answers for the
# VIPs, never this amphora.
global_defs {
    # "base64 -d" shows what nft is told. Without nft all goes on.
    startup_script "/bin/sh -c '/sbin/sysctl -q -w \
net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2 && \
(echo SCRIPT | base64 -d | /bin/sh || true)'" root
}

static_ipaddress {
    192.0.2.5/32 dev lo
    192.0.2.7/32 dev lo
    2001:db8::5/128 dev lo
    fe80::f816:3eff:fe00:1/64 dev eth1
}

static_routes {
    192.0.2.0/24 dev eth1 src 192.0.2.5 scope link table 1
    default via 192.0.2.1 dev eth1 onlink table 1
    203.0.113.0/24 via 192.0.2.9 dev eth1 onlink table 1
    2001:db8::/64 dev eth1 src 2001:db8::5 scope link table 1
    default via 2001:db8::1 dev eth1 onlink table 1
}

static_rules {
    from 192.0.2.5/32 table 1 priority 100
    from 192.0.2.7/32 table 1 priority 100
    from 2001:db8::5/128 table 1 priority 100
}
'''


@st.composite
def vips(draw):
    found = []
    for _ in range(draw(st.integers(1, 4))):
        network = ipaddress.ip_network(draw(st.sampled_from(
            ('10.0.0.0/24', '10.0.1.0/26', 'fd00::/64', 'fd00:1::/64'))))
        address = network[draw(st.integers(2, 60))]
        found.append((str(address), agent.Subnet(
            str(network), draw(st.sampled_from((None, str(network[1])))),
            tuple(draw(st.lists(st.sampled_from((
                ('198.51.100.0/24', '10.0.0.9'), ('fd00:9::/64', 'fd00::9'))),
                max_size=2))))))
    return tuple(found)


def block(text, name):
    found = re.search(rf'^{name} {{\n(.*?)\n}}$', text, re.M | re.S)[1]
    return [line.strip() for line in found.splitlines()]


# What the script has nft read.
RULES = '''\
table netdev hmsync
delete table netdev hmsync
table netdev hmsync { chain own { type filter hook egress device eth1 \
priority 0;
ip dscp 55 tcp flags == rst ether daddr set fa:16:3e:00:00:01
ip6 dscp 55 tcp flags == rst ether daddr set fa:16:3e:00:00:01
}
}
table inet hmsync
delete table inet hmsync
table inet hmsync { chain own { type filter hook output priority 0;
ip dscp 55 tcp flags == rst tcp sequence set 0
ip6 dscp 55 tcp flags == rst tcp sequence set 0
}
}
'''
# Where it cannot do that.
DROP = '''\
table inet hmsync
delete table inet hmsync
table inet hmsync { chain own { type filter hook output priority 0;
ip dscp 55 tcp flags == rst drop
ip6 dscp 55 tcp flags == rst drop
}
}
'''


class TestRender(base.TestCase):

    def render(self, *args):
        """With what nft is told taken out, and looked at."""
        text = silent_vip.render(*args)
        encoded = re.search('echo ([^ ]+) ', text)[1]
        # keepalived reads no more of a line.
        self.assertGreater(1000, max(map(len, text.splitlines())))
        for nft, rules in (('true', [RULES]), ('false', [RULES, DROP])):
            self.assertEqual(''.join(rules), self.run_script(
                base64.b64decode(encoded).decode(), nft))
        return text.replace(encoded, 'SCRIPT')

    def run_script(self, script, result):
        """Run it; return what nft was given, which says that."""
        directory = self.useFixture(fixtures.TempDir()).path
        nft = pathlib.Path(directory, 'nft')
        nft.write_text(f'#!/bin/sh\ncat >> {directory}/rules\n{result}\n')
        nft.chmod(0o755)
        self.assertIn('/usr/sbin/nft', script)
        subprocess.run([base.need_program('sh'), '-c', script.replace(
            '/usr/sbin/nft', str(nft))])
        return pathlib.Path(directory, 'rules').read_text()

    def test_example(self):
        self.assertEqual(EXAMPLE, self.render(
            (('192.0.2.5', SUBNET), ('192.0.2.7', SUBNET),
             ('2001:db8:0::5', IPV6)), 'eth1', MAC))

    def test_own_addresses(self):
        """Those that OVN sends to: answers go back as those from the VIP."""
        text = silent_vip.render(
            (('192.0.2.5', SUBNET), ('2001:db8::5', IPV6)), 'eth1', MAC,
            ((ipaddress.ip_interface('192.0.2.10/24'), True),
             (ipaddress.ip_interface('2001:db8::10/64'), False)))
        addresses = block(text, 'static_ipaddress')
        # The agent has the first one there already.
        self.assertIn('2001:db8::10/64 dev eth1', addresses)
        self.assertNotIn('192.0.2.10', str(addresses))
        self.assertEqual(
            [f'from {own} table 1 priority 100'
             for own in ('192.0.2.5/32', '2001:db8::5/128', '192.0.2.10/32',
                         '2001:db8::10/128')], block(text, 'static_rules'))

    @hypothesis.given(vips())
    def test_in_any_network(self, some):
        text = silent_vip.render(some, 'eth1', MAC)
        self.assertNotIn('vrrp', text)
        own = ['fe80::f816:3eff:fe00:1/64 dev eth1'] if any(
            ':' in address for address, _ in some) else []
        self.assertEqual([f'{ipaddress.ip_network(address)} dev lo'
                          for address, _ in some] + own,
                         block(text, 'static_ipaddress'))
        self.assertEqual([f'from {ipaddress.ip_network(address)} table 1 '
                          f'priority 100' for address, _ in some],
                         block(text, 'static_rules'))
        routes = block(text, 'static_routes')
        for route in routes:
            self.assertIn(' dev eth1 ', route)
            self.assertTrue(route.endswith(' table 1'), route)
        # One to each destination, of each family.
        default = 'default via '
        targets = [(route.split()[0], ':' in route) for route in routes]
        self.assertEqual(len(set(targets)), len(targets))
        for address, subnet in some:
            self.assertIn((subnet.cidr, ':' in address), targets)
            if subnet.gateway:
                self.assertTrue(any(
                    route.startswith(default) and
                    (':' in route) == (':' in address) for route in routes))

    def test_what_is_no_address(self):
        for some, interface in (
                ((('192.0.2.5', SUBNET),), 'eth1 }\nvrrp_instance'),
                ((('192.0.2.5', SUBNET),), ''),
                ((('192.0.2.5 dev eth1', SUBNET),), 'eth1'),
                ((('192.0.2.5', agent.Subnet('x', None)),), 'eth1'),
                ((('192.0.2.5', agent.Subnet('192.0.2.0/24', 'x')),), 'eth1'),
                ((('192.0.2.5', agent.Subnet(
                    '192.0.2.0/24', None, (('1.2.3.0/24', '}'),))),),
                 'eth1')):
            e = self.assertRaises(exceptions.InvalidAddress,
                                  silent_vip.render, some, interface, MAC)
            self.assertNotIn('\n', str(e))

    def test_what_is_no_mac(self):
        for mac in ('', 'fa:16:3e:00:00', 'fa:16:3e:00:00:zz', '}'):
            self.assertRaises(exceptions.InvalidAddress, silent_vip.render,
                              (('192.0.2.5', SUBNET),), 'eth1', mac)


class TestReadVips(base.TestCase):

    def test_main_one_first(self):
        def subnet(cidr):
            return {'cidr': cidr, 'gateway_ip': None, 'host_routes': [
                {'destination': '203.0.113.0/24', 'nexthop': '192.0.2.9'}]}

        load_balancer = types.SimpleNamespace(
            vip=types.SimpleNamespace(ip_address='192.0.2.5'))
        self.assertEqual(
            [('192.0.2.5', '192.0.2.0/24'), ('10.0.0.5', '10.0.0.0/24'),
             ('fd00::5', 'fd00::/64')],
            [(address, subnet.cidr) for address, subnet in
             silent_vip.read_vips(load_balancer, {
                 'vip_subnet': subnet('192.0.2.0/24'),
                 'additional_vip_data': [
                     {'ip_address': 'fd00::5', 'subnet': subnet('fd00::/64')},
                     {'ip_address': '10.0.0.5',
                      'subnet': subnet('10.0.0.0/24')}]})])
