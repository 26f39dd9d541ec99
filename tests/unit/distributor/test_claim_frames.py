# SPDX-License-Identifier: Apache-2.0

from hypothesis import given
from hypothesis import strategies as st
from oslotest import base

from octavia_hmsync.distributor import announcement
from octavia_hmsync.distributor import claims

MAC = 'fa:16:3e:00:00:01'
SIXTY = b'\0' * 60


class TestRead(base.BaseTestCase):

    def test_announcements(self):
        for address in ('10.0.0.5', 'fd00::5'):
            for frame in announcement.make_frames(address, MAC):
                self.assertEqual((MAC, address), claims.read_claim(frame))
                # As long as it has to be, and with more after it.
                self.assertEqual((MAC, address),
                                 claims.read_claim(frame + SIXTY))

    def test_others(self):
        """A solicitation, what is no ICMPv6, another protocol."""
        frame, = announcement.make_frames('fd00::5', MAC)
        for at, value in ((54, 135), (20, 6), (13, 0xdc)):
            other = bytearray(frame)
            other[at] = value
            self.assertIsNone(claims.read_claim(bytes(other)))

    def test_cut(self):
        for address in ('10.0.0.5', 'fd00::5'):
            frame = announcement.make_frames(address, MAC)[0]
            last = {'10.0.0.5': 42, 'fd00::5': 78}[address]
            for length in range(last):
                self.assertIsNone(claims.read_claim(frame[:length]))
            self.assertEqual((MAC, address), claims.read_claim(frame[:last]))

    @given(st.binary(max_size=150))
    def test_any(self, frame):
        claims.read_claim(frame)
