# SPDX-License-Identifier: Apache-2.0

import ipaddress
import struct

from oslotest import base

from octavia_hmsync.distributor import announcement

MAC = 'fa:16:3e:00:00:99'
RAW = bytes.fromhex('fa163e000099')


class TestAnnouncements(base.BaseTestCase):

    def test_arp(self):
        request, answer = announcement.make_frames('10.0.0.5', MAC)
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
            frame, = announcement.make_frames(address, MAC)
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
