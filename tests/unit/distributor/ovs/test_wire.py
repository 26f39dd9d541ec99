# SPDX-License-Identifier: Apache-2.0

import os
import socket
import struct
import threading

import fixtures
from hypothesis import given
from hypothesis import strategies as st

from octavia_hmsync.distributor.ovs import openflow
from octavia_hmsync.distributor.ovs import sharing
from octavia_hmsync.distributor.ovs import wire
from octavia_hmsync import exceptions
from tests.unit import base

FRAME = b'\x01' * 60


def packet_in(frame, match=b'\0\x01\0\x0c\x80\0\0\x04\0\0\0\x01' + b'\0' * 4):
    return wire.make_message(10, struct.pack(
        '!IHBBQ', 0xffffffff, len(frame), 1, 0, 5) + match + b'\0\0' + frame)


class TestLine(base.TestCase):

    def setUp(self):
        super().setUp()
        path = os.path.join(self.useFixture(fixtures.TempDir()).path, 's')
        server = socket.socket(socket.AF_UNIX)
        self.addCleanup(server.close)
        server.bind(path)
        server.listen()
        self.path, self.server = path, server
        self.connect()

    def connect(self):
        self.line = wire.Line(self.path, 1)
        self.addCleanup(self.line.close)
        self.vswitch, _ = self.server.accept()
        self.addCleanup(self.vswitch.close)
        # Hello; and that frames are wanted.
        self.assertEqual(bytes.fromhex('04000008 00000000'
                                       '0409000c 00000000 0000ffff'),
                         self.vswitch.recv(4096))

    def test_send(self):
        self.line.send([FRAME, FRAME], b'mark')
        self.assertEqual(2 * (bytes.fromhex(
            '040d0064 00000000 ffffffff fffffffe 0010 000000000000'
            '0000 0010 00000001 0000 000000000000') + FRAME) +
            bytes.fromhex('0402000c 00000000') + b'mark',
            self.vswitch.recv(4096))

    def test_receive(self):
        self.vswitch.send(packet_in(FRAME) +
                          wire.make_message(3, b'mark') +
                          wire.make_message(2, b'alive?', 7) +
                          wire.make_message(12, b'a port has changed'))
        heard = self.line.receive()
        self.assertEqual(([FRAME], [b'mark'], False),
                         (heard.frames, heard.marks, heard.is_more))
        self.assertEqual(wire.make_message(3, b'alive?', 7),
                         self.vswitch.recv(4096))
        heard = self.line.receive()
        self.assertEqual(([], []), (heard.frames, heard.marks))

    def test_wait_for(self):
        self.vswitch.send(packet_in(FRAME) + wire.make_message(3, b'other'))
        threading.Timer(0.01, self.vswitch.send, [
            wire.make_message(3, b'mark')]).start()
        self.line.wait_for(b'mark', 60)
        error = self.assertRaises(exceptions.VswitchUnavailable,
                                  self.line.wait_for, b'mark', 0.01)
        self.assertIn('no answer within 0.01 s', str(error))

    def test_add_meters(self):
        meters = [openflow.Meter(kind, 500) for kind in range(2)]
        added = (bytes.fromhex(
            '041d0020 00000000 0000 000e 000003e8'
            '0001 0010 000001f4 000001f4 00000000') + bytes.fromhex(
            '041d0020 00000000 0000 000e 000003e9'
            '0001 0010 000001f4 000001f4 00000000') +
            wire.make_message(2, b'meters'))
        exists, none = (wire.make_message(1, bytes.fromhex(code))
                        for code in ('000c0001', '000c000b'))
        for errors, has_meters in ((b'', True), (exists, True),
                                   (exists + none, False)):
            self.vswitch.send(errors + wire.make_message(3, b'meters'))
            self.assertEqual(has_meters, self.line.add_meters(meters, 60))
            self.assertEqual(added, self.vswitch.recv(4096))

    def test_empty(self):
        self.vswitch.send(wire.make_message(3, b'emptied'))
        self.line.empty(32, 60)
        self.assertEqual(bytes.fromhex(
            '040e0038 00000000 0000000000000000 0000000000000000'
            '20 03 0000 0000 0000 ffffffff ffffffff ffffffff 0000 0000'
            '0001 0004 00000000') + wire.make_message(2, b'emptied'),
            self.vswitch.recv(4096))

    def test_sum(self):
        """As Open vSwitch answers, of two cookies and a register."""
        def answer(number, flows):
            return wire.make_message(19, struct.pack(
                '!HH4xQQI4x', 2, 0, 7, 420, flows), number)

        done = wire.make_message(3, b'counted')
        self.vswitch.send(answer(1, 3) + answer(0, 90) + answer(2, 1) + done)
        self.assertEqual([(7, 420, 90), (7, 420, 3), (7, 420, 1)],
                         self.line.sum([
                             openflow.PROGRAMS,
                             openflow.Match(20, 5, (1 << 64) - 1),
                             sharing.match_sent('fa:16:3e:00:01:02', 70)],
                             60))
        fixed = '000000 ffffffff ffffffff 00000000'
        self.assertEqual(bytes.fromhex(
            f'04120038 00000000 0002 0000 00000000 ff {fixed}'
            f'6d00000000000000 ff00000000000000 0001 0004 00000000'
            f'04120038 00000001 0002 0000 00000000 14 {fixed}'
            f'0000000000000005 ffffffffffffffff 0001 0004 00000000'
            f'04120040 00000002 0002 0000 00000000 46 {fixed}'
            f'0000000000000000 0000000000000000 0001 0010 80010408'
            f'0000fa163e000102') +
            wire.make_message(2, b'counted'), self.vswitch.recv(4096))
        self.vswitch.send(answer(0, 90) + done)
        self.assertRaises(exceptions.VswitchUnavailable, self.line.sum,
                          [openflow.Match(1), openflow.Match(2)], 60)

    @given(st.lists(st.integers(1, 200), max_size=20), st.data())
    def test_in_parts(self, lengths, data):
        self.connect()
        text = b''.join(packet_in(b'\x02' * length) for length in lengths)
        found = []
        while text:
            cut = data.draw(st.integers(1, len(text)))
            self.vswitch.send(text[:cut])
            text = text[cut:]
            found += self.line.receive().frames
        self.assertEqual([b'\x02' * length for length in lengths], found)

    def test_broken(self):
        for text in (wire.make_message(10, b''),
                     wire.make_message(10, b'\0' * 19),
                     packet_in(b'')):
            self.vswitch.send(text)
            self.assertEqual([], self.line.receive().frames)
        self.vswitch.send(b'\4\0\0\1\0\0\0\0')
        error = self.assertRaises(exceptions.VswitchUnavailable,
                                  self.line.receive)
        self.assertIn('it does not speak OpenFlow', str(error))
        self.assertRaises(exceptions.VswitchUnavailable, self.line.send,
                          [FRAME])

    def test_closed(self):
        self.vswitch.close()
        error = self.assertRaises(exceptions.VswitchUnavailable,
                                  self.line.receive)
        self.assertIn(self.path, str(error))
        self.assertRaises(exceptions.VswitchUnavailable, wire.Line,
                          self.path + 'x', 1)

    def test_nobody_reads(self):
        """It never waits, and ends when too much waits."""
        def send():
            for _ in range(100):
                self.line.send([FRAME] * 1000)

        thread = threading.Thread(target=self.assertRaises, args=(
            exceptions.VswitchUnavailable, send))
        thread.start()
        thread.join(20)
        self.assertFalse(thread.is_alive())

    def test_slow_reader(self):
        self.line.send([FRAME] * 5000)
        received = 0
        while received < 5000 * 100:
            received += len(self.vswitch.recv(1 << 20))
            self.vswitch.send(wire.make_message(2, b''))
            self.line.receive()
        self.assertEqual(b'', self.line._out)
