# SPDX-License-Identifier: Apache-2.0

"""First packets in the cache of the data path."""

from oslotest import base

from octavia_hmsync.distributor.ovs import beginnings

MEMBERS = ('fa:16:3e:00:01:0a', 'fa:16:3e:00:01:0b')
_LINE = ('recirc_id(0),in_port(2),packet_type(ns=0,id=0),'
         'eth(src=fa:16:3e:00:01:64,dst=fa:16:3e:00:01:01),{network},'
         'tcp(src={port}),tcp_flags({flags}), packets:0, bytes:0, '
         'used:never, actions:{other}set(eth(src=fa:16:3e:00:01:01,'
         'dst={mac})),4')
_V4 = ('eth_type(0x0800),ipv4(src=10.0.0.100,dst=10.0.0.5,proto=6,frag=no)')
_V6 = ('eth_type(0x86dd),ipv6(src=fd00::99,dst=fd00::5,proto=6,hlimit=255,'
       'frag=no)')


def line(port, flags='+syn-ack', network=_V4, mac=MEMBERS[1], other=''):
    return _LINE.format(port=port, flags=flags, network=network, mac=mac,
                        other=other)


class TestBeginnings(base.BaseTestCase):

    def find(self, *lines):
        return beginnings.find(lines, MEMBERS)

    def test_find(self):
        self.assertEqual(
            [('4', '10.0.0.100', '10.0.0.5', 1001, MEMBERS[1]),
             ('6', 'fd00::99', 'fd00::5', 1001, MEMBERS[0])],
            self.find('flow-dump from the main thread:', line(1001),
                      line(1001, network=_V6, mac=MEMBERS[0]),
                      line(1002), line(1002, '-syn+ack'),
                      line(1003, '-syn', mac=MEMBERS[0]),
                      # Dropped; to one that is none; what is no TCP.
                      line(1004).partition(' actions:')[0] + ' actions:drop',
                      line(1005, mac='fa:16:3e:00:01:0c'),
                      line(1006).replace('proto=6', 'proto=17'), ''))

    def test_find_in_a_change(self):
        """With the port of the VIP, and a frame for the other one."""
        one = line(7, other='clone(set(eth(src=fa:16:3e:00:01:01,dst='
                            'fa:16:3e:00:01:02)),3),')
        one = one.replace('src=7)', 'src=7,dst=80)')
        self.assertEqual([7], [found.port for found in self.find(one)])

    def test_text(self):
        four, six = self.find(line(7), line(8, network=_V6))
        self.assertEqual(
            'flow add cookie=0x1fa163e00010b,table=25,priority=5,'
            'hard_timeout=60,tcp,nw_src=10.0.0.100,nw_dst=10.0.0.5,tcp_src=7,'
            'actions=set_field:0xfa163e00010b->xreg2,set_field:1->reg7',
            four.to_text())
        self.assertIn('tcp6,ipv6_src=fd00::99,ipv6_dst=fd00::5,tcp_src=8,',
                      six.to_text())
