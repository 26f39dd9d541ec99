# SPDX-License-Identifier: Apache-2.0

"""Whose connections are, by what Open vSwitch 3.1 shows of its cache."""

import collections
import math
import re

from oslotest import base

from octavia_hmsync.distributor.ovs import recorder
from octavia_hmsync.distributor.ovs import sharing

A, B, C = [f'fa:16:3e:00:01:0{letter}' for letter in 'abc']
VIP = 'fa:16:3e:00:01:01'
_HEAD = (f'recirc_id(0),in_port(2),packet_type(ns=0,id=0),'
         f'eth(src=fa:16:3e:00:01:64,dst={VIP}),')
SINGLE = (_HEAD + 'eth_type(0x0800),ipv4(src=10.0.0.100,dst=10.0.0.5,proto=6,'
          'frag=no),tcp(src=60184),tcp_flags(-syn+ack), packets:1, bytes:66, '
          f'used:0.112s, flags:., actions:set(eth(src={VIP},dst={A})),3')
DOUBLED = (_HEAD + 'eth_type(0x0800),ipv4(src=10.0.0.100,dst=10.0.0.5,'
           'proto=6,tos=0/0xfc,frag=no),tcp(src=60184,dst=8000),tcp_flags('
           '-fin-syn-rst+ack), packets:2, bytes:134, used:0.005s, flags:P., '
           f'actions:set(eth(src={VIP},dst={A})),set(ipv4(tos=0xdc/0xfc)),4,'
           f'set(eth(dst={C})),5')
DOUBLED6 = (_HEAD + 'eth_type(0x86dd),ipv6(src=fd00::64,dst=fd00::5,proto=6,'
            'tclass=0/0xfc,hlimit=64,frag=no),tcp(src=37710,dst=8000),'
            'tcp_flags(+fin-syn-rst+ack), packets:2, bytes:174, used:0.005s, '
            f'flags:P., actions:set(eth(src={VIP},dst={B})),set(ipv6('
            f'tclass=0xdc/0xfc)),4,set(eth(dst={C})),5')
SYN = (_HEAD + 'eth_type(0x0800),ipv4(src=10.0.0.100,dst=10.0.0.5,proto=6,'
       'frag=no),tcp(src=60184,dst=8000),tcp_flags(+syn-ack), packets:0, '
       f'bytes:0, used:never, actions:set(eth(src={VIP},dst={C})),5')
OTHERS = (
    _HEAD + 'eth_type(0x0806),arp(sip=10.0.0.10,tip=10.0.0.250,op=1), '
    'packets:0, bytes:0, used:never, actions:userspace(pid=0)',
    _HEAD + 'eth_type(0x86dd),ipv6(frag=no), packets:7, bytes:620, '
    'used:0.004s, flags:SP., actions:2', 'flow-dump from the main thread:')
KEY = recorder.Key(4, '10.0.0.100', 60184, '10.0.0.5', 8000)
KEY6 = recorder.Key(6, 'fd00::64', 37710, 'fd00::5', 8000)
LIVING = {A, B, C}
TIMEOUT = 75


def read(*lines):
    return list(recorder.read(lines))


class TestRead(base.BaseTestCase):

    def test_kinds(self):
        single, doubled, doubled6, syn = read(
            *OTHERS, SINGLE, DOUBLED, *OTHERS, DOUBLED6, SYN)
        self.assertEqual(
            (VIP, KEY._replace(target_port=recorder.ANY), (A,), False),
            (single.vip, single.key, single.macs, single.is_marked))
        self.assertEqual((KEY, (A, C), True, False, False), (
            doubled.key, doubled.macs, doubled.is_marked, doubled.begins,
            doubled.ends))
        self.assertEqual((KEY6, (B, C), True, True), (
            doubled6.key, doubled6.macs, doubled6.is_marked, doubled6.ends))
        self.assertEqual((KEY, (C,), False, True), (
            syn.key, syn.macs, syn.is_marked, syn.begins))

    def test_pins(self):
        """What is written is read."""
        for key in (KEY, KEY6):
            for macs in ((A,), (A, C), (A, B, C)):
                pin = recorder.Pin(key, macs)
                self.assertEqual(pin, recorder.Pin.from_json(pin.to_json()))
                for timeout in (75, 3600, None):
                    text = pin.to_text(timeout)
                    self.assertEqual(timeout is None, 'idle_' not in text)
                    self.assertEqual(timeout == 3600, text.endswith(
                        ',fin_timeout(idle_timeout=120)'))
                    # As ovs-ofctl shows it.
                    shown = text.replace('flow add ', '').replace(
                        ',actions=', ' actions=').replace(
                        'tcp_src', 'tp_src').replace('tcp_dst', 'tp_dst')
                    self.assertEqual([pin], list(recorder.read_pins([shown])))
                    self.assertEqual(timeout is None, recorder.waits(shown))
                    if timeout:
                        self.assertEqual(timeout,
                                         recorder.get_timeout(shown))

    def test_cookies(self):
        """One of several members is not gone with one of them."""
        for macs, kind in (((A,), recorder.CERTAIN),
                           ((A, B), recorder.DOUBTFUL)):
            for timeout in (75, None):
                text = recorder.Pin(KEY, macs).to_text(timeout)
                cookie = int(re.search('cookie=([^,]+)', text)[1], 16)
                self.assertEqual(kind.cookie, cookie & kind.mask)
                mine = sharing.match_pins(A)
                self.assertEqual(len(macs) == 1,
                                 cookie & mine.mask == mine.cookie)
                waiting = recorder.WAITING
                self.assertEqual(timeout is None,
                                 cookie & waiting.mask == waiting.cookie)


class TestRecorder(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.now = 1000.0
        self.recorder = recorder.Recorder(10, 100, self.now)

    def note(self, *lines, after=5, took=0.0):
        self.now += after
        self.recorder.note(read(*lines), self.now, TIMEOUT, took)

    def find(self, current_only=True, living=LIVING):
        return {pin.key: pin.macs for pin in self.recorder.find_pins(
            current_only, living)}

    def test_doubtful(self):
        self.recorder.change([], self.now)
        self.note(DOUBLED, DOUBLED6)
        self.assertEqual({KEY: (A, C), KEY6: (B, C)}, self.find())
        # One of them is dead.
        self.assertEqual({KEY: (C,), KEY6: (B, C)},
                         self.find(living={B, C}))
        self.assertEqual({}, self.find(living=set()))

    def test_there_before(self):
        self.recorder.change(read(SINGLE), self.now)
        self.note(DOUBLED)
        self.assertEqual({KEY: (A,)}, self.find())

    def test_began_later(self):
        """It goes where the list of now leads; another list may follow."""
        self.recorder.change(read(SINGLE), self.now)
        for _ in range(3):
            self.note()
        self.note(SYN)
        self.note(DOUBLED)
        self.assertEqual({}, self.find())
        self.assertEqual({KEY: (C,)}, self.find(current_only=False))

    def test_began_about_then(self):
        """What the cache shows is not what was so."""
        self.recorder.change(read(SINGLE), self.now)
        self.note(SYN, DOUBLED)
        self.note(DOUBLED)
        self.assertEqual({KEY: (A, C)}, self.find())

    def test_silent(self):
        self.recorder.change(read(SINGLE), self.now)
        self.note(DOUBLED)
        for _ in range(15):
            self.note()
        self.assertEqual({KEY: (A,)}, self.find())
        self.note()
        self.assertEqual({}, self.find())

    def test_ended(self):
        """It has some time still, as its other end may not have ended."""
        self.note(DOUBLED6)
        pin, = self.recorder.find_pins(True, LIVING)
        self.assertTrue(pin.ends)
        self.assertIn('idle_timeout=120,', pin.to_text(3600))
        for _ in range(15):
            self.note()
        self.assertEqual([KEY6], list(self.find()))
        self.note()
        self.assertEqual({}, self.find())

    def test_goes_on(self):
        """One whose client has ended its half."""
        self.note(DOUBLED6)
        for _ in range(20):
            self.note(DOUBLED6.replace('+fin', '-fin'))
        pin, = self.recorder.find_pins(True, LIVING)
        self.assertFalse(pin.ends)

    def test_reset(self):
        self.recorder.change(read(SINGLE), self.now)
        self.note(DOUBLED)
        # In any order.
        self.note(DOUBLED.replace('-rst', '+rst'), DOUBLED)
        self.assertEqual({}, self.find())
        # The same address and port are used again.
        self.note(DOUBLED)
        self.assertEqual({KEY: (A, C)}, self.find())

    def test_missed(self):
        """What is not known is said."""
        self.assertEqual(math.inf, self.recorder.known_since)
        self.note()
        self.assertEqual(1005, self.recorder.known_since)
        self.note(after=10)
        self.assertEqual(1005, self.recorder.known_since)
        self.note(after=11)
        self.assertEqual(1026, self.recorder.known_since)
        # What had a packet just after reading began may be gone.
        self.note(after=7, took=4)
        self.assertEqual(1033, self.recorder.known_since)
        self.note(after=7, took=3)
        self.assertEqual(1033, self.recorder.known_since)
        self.recorder.miss()
        self.assertEqual(math.inf, self.recorder.known_since)
        self.recorder.change([], 1030)
        self.assertEqual(1030, self.recorder.known_since)

    def test_bound(self):
        lines = [DOUBLED.replace('60184', str(number))
                 for number in range(1000, 1150)]
        self.note(*lines)
        self.assertEqual(100, len(self.find()))
        self.assertEqual(1005, self.recorder.known_since)
        self.note(*(line.replace('=1', '=2') for line in lines))
        self.assertEqual(math.inf, self.recorder.known_since)

    def test_bound_of_owners(self):
        """Of what is beyond it alone it is not known whose it is."""
        singles, doubled = ([line.replace('60184', str(number))
                             for number in range(1000, 1250)]
                            for line in (SINGLE, DOUBLED))
        self.recorder.change(read(*singles), self.now)
        self.note(*doubled)
        self.assertEqual({(A,): 200, (A, C): 50}, collections.Counter(
            tuple(pin.macs) for pin in self.find_all()))

    def find_all(self):
        self.recorder._most = 1000
        return self.recorder.find_pins(True, LIVING)

    def test_silent_for_long(self):
        """Of one that has ended nothing is remembered."""
        self.recorder.change(read(SINGLE), self.now)
        # It has packets, which go to one member still.
        for _ in range(30):
            self.note(SINGLE)
        self.note(DOUBLED)
        self.assertEqual({KEY: (A,)}, self.find())
        # Whether it has some is not known.
        for _ in range(2):
            self.note(after=2 * TIMEOUT)
        self.note(DOUBLED)
        self.assertEqual({KEY: (A,)}, self.find())
        for _ in range(16):
            self.note()
        self.note(DOUBLED)
        self.assertEqual({KEY: (A, C)}, self.find())

    def count(self):
        return self.recorder.count(self.now, TIMEOUT)

    def test_count(self):
        self.recorder.change(read(SINGLE), self.now)
        self.note(DOUBLED, DOUBLED6)
        self.assertEqual(({A: 1, B: 1, C: 1}, False), self.count())
        for _ in range(15):
            self.note(DOUBLED)
        self.assertEqual(({A: 1, B: 1, C: 1}, True), self.count())
        self.note(DOUBLED)
        self.assertEqual(({A: 1}, True), self.count())
        self.recorder.miss()
        self.assertEqual(({A: 1}, False), self.count())
