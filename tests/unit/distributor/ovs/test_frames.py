# SPDX-License-Identifier: Apache-2.0

import ipaddress
import struct

from oslotest import base

from octavia_hmsync.distributor.ovs import answers
from octavia_hmsync.distributor.ovs import claims
from octavia_hmsync.distributor.ovs import counters
from octavia_hmsync.distributor.ovs import frames

MAC = 'fa:16:3e:00:00:99'
RAW = bytes.fromhex('fa163e000099')


class TestAnnouncements(base.BaseTestCase):

    def test_arp(self):
        request, answer = frames.make_announcements('10.0.0.5', MAC)
        ip = bytes([10, 0, 0, 5])
        self.assertEqual(
            b'\xff' * 6 + RAW + bytes.fromhex('0806 0001 0800 06 04 0001') +
            RAW + ip + bytes(6) + ip, request)
        self.assertEqual(2, answer[21])
        self.assertEqual((RAW, ip, ip), (answer[22:28], answer[28:32],
                                         answer[38:42]))

    def test_neighbour_advertisement(self):
        for address in ('fd00::5', 'fd00::ffff:ffff:ffff:ffff',
                        '2001:db8::'):
            frame, = frames.make_announcements(address, MAC)
            self.assertEqual(bytes.fromhex('333300000001') + RAW +
                             b'\x86\xdd', frame[:14])
            head, body = frame[14:54], frame[54:]
            self.assertEqual((len(body), 58, 255),
                             struct.unpack('!HBB', head[4:8]))
            ip = ipaddress.ip_address(address).packed
            self.assertEqual(ip, head[8:24])
            self.assertEqual(b'\x88\x00', body[:2])
            # Override, and no more.
            self.assertEqual(b'\x20\0\0\0' + ip + b'\x02\x01' + RAW,
                             body[4:])
            # With its checksum, the sum is all ones.
            data = head[8:40] + struct.pack('!II', len(body), 58) + body
            total = sum(struct.unpack(f'!{len(data) // 2}H', data))
            self.assertEqual(0, total % 0xffff)


class TestAnswers(base.BaseTestCase):

    def test_solicited(self):
        self.assertEqual('33:33:ff:12:34:56', answers.get_solicited_mac(
            'fd00::ab12:3456'))

    def test_passive(self):
        """It says nothing, and hears the claims of others all the same."""
        for address in ('10.0.0.5', 'fd00::5'):
            flows = answers.make_flows(address, MAC, 1, 0, 80, False)
            self.assertEqual(
                [(answers.CLAIM_PRIORITY, claims.ACTIONS),
                 (answers.CLAIM_PRIORITY, ())],
                [(flow.priority, flow.actions) for flow in flows])


class TestCounters(base.BaseTestCase):

    def test_program(self):
        """What a flow gives to what it learns is not its own cookie."""
        self.assertEqual(
            ({0x6d1: 2, 0x6d2: 1}, {'fa:16:3e:00:01:00'}),
            counters.read_program([
                'cookie=0x6d1, duration=1s, table=60, n_packets=0, '
                'n_bytes=0, priority=30,tcp actions=learn(table=20,'
                'cookie=0x2fa163e000102,limit=9),resubmit(,70)',
                'cookie=0x6d1, duration=1s, table=60, n_packets=0, '
                'n_bytes=0, priority=0 actions=group:1',
                'cookie=0x6d2, duration=1s, table=70, n_packets=0, '
                'n_bytes=0, priority=10,reg4=1 actions='
                'set_field:fa:16:3e:00:01:00->eth_dst,IN_PORT']))

    def test_claims(self):
        self.assertEqual(3, counters.sum_claims([
            'cookie=0x6d1, table=0, n_packets=3, n_bytes=126, '
            'priority=800,arp,in_port=1,arp_spa=10.0.0.5 '
            'actions=resubmit(,90)',
            'cookie=0x6d1, table=0, n_packets=9, n_bytes=126, '
            'priority=900,vlan_tci=0x1000/0x1000 actions=drop']))
