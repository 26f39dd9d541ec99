# SPDX-License-Identifier: Apache-2.0

import ipaddress
import struct

from hypothesis import given
from hypothesis import strategies as st

from octavia_hmsync.distributor import probe_frames
from tests.unit import base
from tests.unit.distributor import examples

ADDRESSES = st.one_of(
    st.tuples(st.ip_addresses(v=4), st.ip_addresses(v=4)),
    st.tuples(st.ip_addresses(v=6), st.ip_addresses(v=6)))
PORTS = st.integers(1, 65535)
NUMBERS = st.integers(0, 2 ** 32 - 1)


def sum_words(data):
    total = sum(struct.unpack(f'!{len(data) // 2}H', data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return total


class TestFrames(base.TestCase):

    @given(ADDRESSES, PORTS, PORTS, NUMBERS, NUMBERS, st.integers(0, 31),
           st.binary(max_size=40))
    def test_any(self, addresses, source_port, target_port, sequence,
                 acknowledged, flags, payload):
        segment = probe_frames.Segment(
            examples.make_mac(1), examples.make_mac(2),
            *map(str, addresses), source_port, target_port, sequence,
            acknowledged, flags, payload)
        frame = segment.to_frame()
        self.assertEqual(segment, probe_frames.parse(frame))
        self.assertLessEqual(60, len(frame))
        # The check sums are right, as a kernel looks at them.
        if addresses[0].version == 4:
            self.assertEqual(0xffff, sum_words(frame[14:34]))
            tcp = frame[34:54 + len(payload)]
        else:
            tcp = frame[54:74 + len(payload)]
        self.assertEqual(0xffff, sum_words(
            b''.join(address.packed for address in addresses) +
            struct.pack('!II', len(tcp), 6) + tcp + b'\0' * (len(tcp) % 2)))

    @given(st.binary(max_size=100))
    def test_whatever_comes(self, frame):
        probe_frames.parse(frame)

    @given(st.sampled_from(['10.0.0.1', 'fd00::1']), st.data())
    def test_cut_and_changed(self, address, data):
        frame = bytearray(probe_frames.Segment(
            examples.make_mac(1), examples.make_mac(2), address, address, 1,
            2, 3, 4, probe_frames.SYN).to_frame())
        for _ in range(data.draw(st.integers(0, 5))):
            frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(
                st.integers(0, 255))
        found = probe_frames.parse(bytes(
            frame[:data.draw(st.integers(0, len(frame)))]))
        if found:
            ipaddress.ip_address(found.source)

    def test_none(self):
        frame = probe_frames.Segment(
            examples.make_mac(1), examples.make_mac(2), '10.0.0.1',
            '10.0.0.2', 1, 2, 3, 4, probe_frames.SYN).to_frame()
        for at, value in ((12, b'\x08\x06'), (14, b'\x65'), (14, b'\x44'),
                          (20, b'\x20\x00'), (20, b'\x00\x01'),
                          (23, b'\x11')):
            self.assertIsNone(probe_frames.parse(
                frame[:at] + value + frame[at + len(value):]), (at, value))

    def test_reset(self):
        """It takes back what the answer has begun, and says no more."""
        answer = probe_frames.Segment(
            examples.make_mac(2), examples.make_mac(1), '10.0.0.5',
            '10.0.0.9', 80, 40000, 77, 1001,
            probe_frames.SYN | probe_frames.ACK)
        self.assertEqual(probe_frames.Segment(
            examples.make_mac(1), examples.make_mac(2), '10.0.0.9',
            '10.0.0.5', 40000, 80, 1001, 0, probe_frames.RST),
            probe_frames.make_reset(answer))
