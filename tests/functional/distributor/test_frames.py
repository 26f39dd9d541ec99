# SPDX-License-Identifier: Apache-2.0

"""Frames of all kinds: what a distributor answers, forwards, and ignores."""

import ipaddress
import itertools
import socket
import struct
import time

import fixtures
from oslotest import base

from octavia_hmsync.distributor import document as doc
from tests.cloud import waiting
from tests.functional.distributor import fabric
from tests.functional.distributor import raw

VIP_A = '11111111-1111-4111-8111-111111111111'
VIP_B = '22222222-2222-4222-8222-222222222222'
SOLICITED = '33:33:ff:00:00:05'
SOLICITED6 = 'ff02::1:ff00:5'
MARK = b'marked-by-a-test'
ARP, IP, IP6 = 0x806, 0x800, 0x86dd


class FramesTestCase(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.directory = self.useFixture(fixtures.TempDir()).path
        self.node = self.useFixture(fabric.Node('network1', 1,
                                                self.directory))
        self.servers = self.useFixture(fabric.Servers())

    def make_host(self, name, number, tag=1):
        return self.useFixture(fabric.Host(
            name, self.node.namespace, self.node.vswitch, number,
            self.directory, tag))

    def make_tap(self, host):
        return self.useFixture(raw.Tap(host))

    def make_vip(self, vip_id, members, tag=1):
        vip = fabric.Vip(vip_id, self.node, tag=tag)
        for slot, host in enumerate(members):
            self.servers.serve(host)
            vip.set(host, doc.ACTIVE, slot)
        vip.apply()
        return vip


class TestFrames(FramesTestCase):

    def setUp(self):
        super().setUp()
        self.members = [self.make_host(f'm{n}', 10 + n) for n in range(3)]
        self.client = self.make_host('client', 100)
        self.vip = self.make_vip(VIP_A, self.members)
        self.mac = self.vip.document(self.node).port.mac
        self.tap = self.make_tap(self.client)

    def ask(self, kind, payload, target, wanted, seconds=30):
        """What comes first of what is wanted; None if nothing does."""
        self.tap.send(raw.ethernet(self.client.mac, target, kind, payload))
        heard = self.tap.hear(wanted, seconds)
        return heard[-1] if heard and wanted(heard[-1]) else None

    def ask_arp(self, address=fabric.VIP, target=raw.BROADCAST, seconds=30,
                sender=None):
        answer = self.ask(
            ARP, raw.arp(1, self.client.mac, sender or self.client.address,
                         '00:00:00:00:00:00', address), target,
            lambda frame: frame[12:14] == b'\x08\x06' and
            frame[21] == 2 and frame[28:32] == socket.inet_aton(address) and
            frame[:6] == raw.mac(self.client.mac), seconds)
        return answer and answer[6:12], answer and answer[22:28]

    def solicit(self, target_mac=SOLICITED, target=SOLICITED6, option=True,
                source=None, seconds=30):
        ip = ipaddress.ip_address(fabric.VIP6).packed
        rest = bytes(4) + ip + (b'\x01\x01' + raw.mac(self.client.mac)
                                if option else b'')
        source = source or self.client.address6
        return self.ask(
            IP6, raw.icmp6(source, target, 135, rest), target_mac,
            lambda frame: frame[12:14] == b'\x86\xdd' and frame[54] == 136
            and frame[62:78] == ip and frame[:2] != b'\x33\x33', seconds)

    def test_answers(self):
        own = raw.mac(self.mac)
        self.assertEqual((own, own), self.ask_arp())
        self.assertEqual((own, own), self.ask_arp(target=self.mac))
        # Somebody who wants to know whether the address is free.
        self.assertEqual((own, own), self.ask_arp(sender='0.0.0.0'))
        self.assertEqual((None, None),
                         self.ask_arp('10.0.0.6', seconds=0.5))
        for kwargs in ({}, {'target_mac': self.mac, 'target': fabric.VIP6}):
            frame = self.solicit(**kwargs)
            self.assertEqual(own, frame[6:12])
            # To the one who asks; solicited, override; its MAC address.
            self.assertEqual(
                ipaddress.ip_address(self.client.address6).packed,
                frame[38:54])
            self.assertEqual(b'\x60\0\0\0', frame[58:62])
            self.assertEqual(b'\x02\x01' + own, frame[78:86])
            pseudo = frame[22:54] + b'\0\0\0\x20\0\0\0\x3a'
            self.assertEqual(0, raw.checksum(pseudo + frame[54:86]))
        # One that knows the MAC address, and asks whether it is still true.
        frame = self.solicit(self.mac, fabric.VIP6, option=False)
        self.assertEqual(own, frame[6:12])
        # Whether another may have the address is not its affair.
        self.assertIsNone(self.solicit(source='::', option=False,
                                       seconds=0.5))

        fabric.Connection(self.client).close()
        self.vip.active = None
        self.vip.version += 1
        self.vip.apply()
        # The data path has the way of the last question in its cache.
        waiting.wait_for(
            lambda: self.ask_arp(seconds=0.5) == (None, None), 'silence')
        self.assertIsNone(self.solicit(seconds=0.5))
        # Who knows it is served all the same.
        fabric.Connection(self.client).close()

    def test_announcements(self):
        """When it becomes active, and when told to."""
        self.tap.hear(seconds=1)
        for told in (False, True):
            if told:
                self.node.distributor.announce(VIP_A)
            else:
                self.vip.active = None
                self.vip.version += 1
                self.vip.apply()
                self.vip.active = self.node
                self.vip.version += 1
                self.vip.apply()
            missing = {(ARP, 1), (ARP, 2), (IP6, 136)}

            def is_last(frame):
                kind = int.from_bytes(frame[12:14], 'big')
                if frame[6:12] == raw.mac(self.mac):
                    missing.discard((kind, frame[21] if kind == ARP else
                                     frame[54]))
                return not missing

            self.tap.hear(is_last, 60)
            self.assertEqual(set(), missing)

    def test_warnings(self):
        """Whoever looks and goes leaves none in ovs-vswitchd's log."""
        distributor = self.node.distributor
        for _ in range(3):
            distributor.check()
            distributor.announce(VIP_A)
            distributor.read_counters(VIP_A, [])
        self.assertEqual([], distributor.has_lost_flows())
        self.assertEqual([], [
            line for line in self.node.vswitch.vswitchd.log().splitlines()
            if '|rconn|WARN|' in line])

    def test_claims(self):
        """Somebody else who says that the VIP were its own is counted."""
        def count():
            return self.node.distributor.read_counters(VIP_A, [])['claims']

        before = count()
        mac = self.client.mac
        self.tap.send(raw.ethernet(mac, raw.BROADCAST, ARP, raw.arp(
            2, mac, fabric.VIP, mac, fabric.VIP)))
        self.tap.send(raw.ethernet(
            mac, '33:33:00:00:00:01', IP6, raw.icmp6(
                self.client.address6, 'ff02::1', 136, b'\x20\0\0\0' +
                ipaddress.ip_address(fabric.VIP6).packed + b'\x02\x01' +
                raw.mac(mac))))
        waiting.wait_for(lambda: count() >= before + 2, 'claims')

    def heard_by(self, total):
        """How often each member hears of what was marked, so often in all."""
        heard = [0] * len(self.taps)

        def listen():
            for number, tap in enumerate(self.taps):
                # What br-int knows no port for it sends to all.
                heard[number] += sum(
                    MARK in frame and frame[:6] == raw.mac(tap.host.mac)
                    for frame in tap.hear(seconds=0.1))
            return sum(heard) >= total

        waiting.wait_for(listen, lambda: f'{total} frames: {heard}')
        # Nobody hears it twice.
        listen()
        return heard

    def test_no_tcp(self):
        # By an answer br-int learns where the distributor is: what it does not
        # know yet it sends to all.
        self.ask_arp()
        self.taps = [self.make_tap(host) for host in self.members]
        source = self.client.address

        def send(payload):
            self.tap.send(raw.ethernet(self.client.mac, self.mac, IP,
                                       payload))

        # "Fragmentation needed": all have to look whether it is theirs.
        send(raw.ipv4('10.0.0.1', fabric.VIP, 1, raw.icmp(
            3, 4, b'\0\0\x05\0' + MARK)))
        self.assertEqual([1, 1, 1], self.heard_by(3))
        # A datagram in parts: one member gets them all.
        for port in range(40000, 40010):
            # Each with a mark.
            whole = raw.udp(port, fabric.PORT, MARK * 29)
            for at in range(0, len(whole), 160):
                part = whole[at:at + 160]
                more = 0x2000 if at + 160 < len(whole) else 0
                send(raw.ipv4(source, fabric.VIP, 17, part, more | at // 8,
                              port))
            heard = self.heard_by(7)
            self.assertEqual([2, 2, 3], sorted(heard), heard)
        # Datagrams.
        for family, address in ((socket.AF_INET, fabric.VIP),
                                (socket.AF_INET6, fabric.VIP6)):
            members = set()
            for _ in range(30):
                one = self.client.socket(family, socket.SOCK_DGRAM)
                one.settimeout(10)
                one.connect((address, fabric.PORT))
                answers = set()
                for _ in range(3):
                    one.send(b'?')
                    answers.add(one.recv(100))
                one.close()
                self.assertEqual(1, len(answers))
                members |= answers
            self.assertEqual({b'm0\n', b'm1\n', b'm2\n'}, members)


class TestIsolation(FramesTestCase):
    """Two tenants with the same addresses."""

    def test_hostile_amphora(self):
        hostile = self.make_host('a0', 10)
        peer = self.make_host('a1', 11)
        client = self.make_host('ca', 100)
        victims = [self.make_host('b0', 10, tag=2),
                   self.make_host('cb', 100, tag=2)]
        vip_a = self.make_vip(VIP_A, [hostile, peer])
        vip_b = self.make_vip(VIP_B, victims[:1], tag=2)
        own = vip_a.document(self.node).port.mac
        other = vip_b.document(self.node).port.mac
        tap = self.make_tap(hostile)
        heard_by_b = [self.make_tap(host) for host in victims]
        heard_by_a = {host.name: self.make_tap(host)
                      for host in (peer, client)}
        connections = [fabric.Connection(client),
                       fabric.Connection(victims[1])]
        self.assertEqual(['b0'], [connections[1].member])
        flows = self.node.ofctl('dump-flows', vip_b.bridge)

        targets = [own, other, *(host.mac for host in victims),
                   raw.BROADCAST, '33:33:00:00:00:01', SOLICITED,
                   '01:80:c2:00:00:00']
        sent = self.send_all(tap, [hostile.mac, other, victims[0].mac,
                                   raw.BROADCAST], targets)
        self.assertLess(8000, sent)
        # The last one, by which it is known that all the others were there.
        end = raw.ethernet(hostile.mac, own, IP, raw.ipv4(
            '10.0.0.1', fabric.VIP, 1, raw.icmp(3, 4, b'\0\0\0\0the end')))
        frames = []
        deadline = time.monotonic() + 60
        # After so many one may be lost.
        while time.monotonic() < deadline and not (
                frames and b'the end' in frames[-1]):
            tap.send(end)
            frames += heard_by_a['a1'].hear(lambda one: b'the end' in one, 2)
        self.assertIn(b'the end', frames[-1])
        frames += heard_by_a['ca'].hear(seconds=1)
        # As the distributor; after that br-int takes it for that one, as
        # there is no port security here.
        self.send_all(tap, [own], targets)
        tap.send(raw.ethernet(hostile.mac, peer.mac, 0x88b5, b'the end'))
        heard_by_a['a1'].hear(lambda one: one.endswith(b'the end'), 60)

        for one in heard_by_b:
            self.assertEqual([], [frame for frame in one.hear(seconds=1)
                                  if MARK in frame])
        # Of all that, the distributor lets pass what is for the VIP.
        for frame in frames:
            if MARK in frame and frame[6:12] == raw.mac(own) and (
                    not is_answer(frame)):
                self.assertEqual(raw.mac(peer.mac), frame[:6])
                self.assertIn(raw_vip(frame), (
                    socket.inet_aton(fabric.VIP),
                    ipaddress.ip_address(fabric.VIP6).packed))
        # And of the other tenant, nobody noticed.
        self.assertEqual(self.strip(flows), self.strip(self.node.ofctl(
            'dump-flows', vip_b.bridge)))
        for one in connections:
            one.say()
        self.assertTrue(connections[1].hear(
            fabric.time.monotonic() + 20))
        for one in connections:
            one.close()
        self.assertEqual('b0', fabric.Connection(victims[1]).member)

    @staticmethod
    def strip(flows):
        return sorted(line.partition('table=')[2].partition(',')[0] +
                      line.partition('priority=')[2]
                      for line in flows.splitlines() if 'table=' in line)

    def send_all(self, tap, sources, targets):
        sent = 0
        for source, target, vlans in itertools.product(
                sources, targets, [(), (2,), (1, 2), (0,)]):
            for kind, payload in self.make_payloads(source):
                tap.send(raw.ethernet(source, target, kind, payload, vlans))
                sent += 1
        return sent

    def make_payloads(self, source):
        mac = source
        for target in (fabric.VIP, '10.0.0.100', '10.0.0.10', '192.0.2.9'):
            for claimed in ('10.0.0.10', fabric.VIP, '0.0.0.0'):
                yield ARP, raw.arp(1, mac, claimed, mac, target) + MARK
                yield ARP, raw.arp(2, mac, claimed, mac, target) + MARK
                yield IP, raw.ipv4(claimed, target, 17,
                                   raw.udp(53, 53, MARK))
            yield IP, raw.ipv4('10.0.0.100', target, 6,
                               raw.tcp(1024, fabric.PORT, 2, MARK))
            yield IP, raw.ipv4('10.0.0.100', target, 47, MARK)
            yield IP, raw.ipv4('10.0.0.100', target, 1,
                               raw.icmp(5, 1, bytes(4) + MARK))
        for target in (fabric.VIP6, 'fd00::64', 'ff02::1', SOLICITED6):
            for kind in (133, 134, 135, 136, 137):
                yield IP6, raw.icmp6(
                    'fe80::1', target, kind, bytes(4) + ipaddress.ip_address(
                        fabric.VIP6).packed + b'\x01\x01' + raw.mac(mac) +
                    MARK)
        yield 0x88cc, MARK
        yield 0x8847, MARK


def is_answer(frame):
    """Whether somebody is told the MAC address of the VIP."""
    return (frame[12:14] == b'\x08\x06' and frame[21] == 2 or
            frame[12:14] == b'\x86\xdd' and frame[54] == 136)


def raw_vip(frame):
    """The address that a packet is for."""
    return frame[30:34] if frame[12:14] == b'\x08\x00' else frame[38:54]


class TestFloods(FramesTestCase):

    def test_copies(self):
        """What goes to all members is bounded, and nothing else is."""
        self.node.distributor = self.node.make_distributor(max_copied=10)
        members = [self.make_host(f'm{n}', 10 + n) for n in range(3)]
        client = self.make_host('client', 100)
        vip = self.make_vip(VIP_A, members)
        mac = vip.get_mac(self.node)
        taps = [self.make_tap(member) for member in members]
        sender = self.make_tap(client)
        packets = (
            (IP, raw.ipv4('10.0.0.1', fabric.VIP, 1, raw.icmp(
                3, 4, bytes(4) + MARK))),
            (IP, raw.ipv4('10.0.0.1', fabric.VIP, 6, bytes(8) + MARK,
                          fragment=64)),
            (IP6, raw.icmp6('fd00::1', fabric.VIP6, 2, bytes(4) + MARK)),
            (IP6, raw.ipv6('fd00::1', fabric.VIP6, 44, struct.pack(
                '!BBHI', 6, 0, 64, 7) + bytes(8) + MARK)))
        for _ in range(500):
            for kind, packet in packets:
                sender.send(raw.ethernet(client.mac, mac, kind, packet))
        for tap in taps:
            # Its own connection comes after all of that.
            fabric.Connection(client).close()
            frames = [frame for frame in tap.hear(seconds=0.5)
                      if MARK in frame]
            self.assertNotEqual([], frames)
            self.assertLess(len(frames), 1000)
        # As many of one as there were, the other one is counted by itself.
        names = {(frame[12:14], frame[23 if frame[12] == 8 else 20])
                 for frame in frames}
        self.assertLess(1, len(names), names)
