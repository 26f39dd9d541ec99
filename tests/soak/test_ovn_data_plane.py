# SPDX-License-Identifier: Apache-2.0

"""Distributors on a real OVN, without anything of Octavia's.

Members are machines that have the VIP on lo and answer no ARP.
"""

import contextlib
import itertools
import os
import socket
import struct
import time

from oslotest import base
from testtools import content

from octavia_hmsync.distributor import document
from tests.cloud import certificates
from tests.cloud import machines
from tests.cloud import tenants
from tests.cloud import vip
from tests.cloud import waiting


class VipTestCase(base.BaseTestCase):

    # A kind of networking.KINDS.
    network = 'ovn'
    # What that takes.
    how: dict = {}

    def setUp(self):
        super().setUp()
        self.cloud = self.useFixture(tenants.Networks(self.network,
                                                      **self.how))
        self.distributors = self.useFixture(vip.Distributors(
            self.cloud, self.useFixture(certificates.Certificates(
                os.path.join(self.cloud.directory, 'certs'))))).all
        self.addOnException(lambda _: self.addDetail(
            'nodes', content.text_content(self.describe())))

    def describe(self):
        return '\n'.join([
            self.cloud.networking.describe(),
            *(f'--- {each.name}\n{each.log_tail(30)}'
              for each in self.distributors)])


class TestConnections(VipTestCase):
    """Two families at one VIP, whose clients are everywhere."""

    # Whether one outside comes by IPv6 as well, which is routed: there are no
    # floating addresses of it.
    comes_by_ipv6 = False
    # As the images of members do. Else each connection is remembered by
    # itself, for eight times as much of a processor: on a machine that has it
    # not, packets get lost.
    have_nft = True

    def setUp(self):
        super().setUp()
        self.cloud.add_subnet(self.cloud.network, 'fd00:1::/64', 'fd00:1::1',
                              self.cloud.router)
        other = self.cloud.add_network('other', '10.2.0.0/24', '10.2.0.1',
                                       router=self.cloud.router)[0]
        self.cloud.add_subnet(other, 'fd00:2::/64', 'fd00:2::1',
                              self.cloud.router)
        gateway = self.comes_by_ipv6 and self.cloud.open_ipv6()
        self.inside, self.routed, self.outside = (
            self.useFixture(machines.Client(self.cloud, name, network,
                                            host='compute2'))
            for name, network in (('inside', self.cloud.network),
                                  ('routed', other),
                                  ('outside', self.cloud.external_network)))
        self.vip = self.useFixture(vip.Vip(self.cloud, self.distributors,
                                           self.cloud.network, 4,
                                           have_nft=self.have_nft))
        self.floating = self.cloud.add_floating_ip(self.vip.port.id)
        if gateway:
            self.outside.namespace.run('ip', '-6', 'route', 'add',
                                       'fd00:1::/64', 'via', gateway)
        self.addOnException(lambda _: self.addDetail(
            'neighbours', content.text_content('\n'.join(
                f'--- {each.name}\n{each.describe_neighbours()}'
                for each in self.machines))))
        self.addOnException(lambda _: self.addDetail(
            'packets without an answer', content.text_content('\n'.join(
                f'--- {each.name}\n{each.describe_waiting()}'
                for each in self.machines))))

    @property
    def machines(self):
        return (self.inside, self.routed, self.outside, *self.vip.members)

    @property
    def ways(self):
        """Who uses which address."""
        for address in self.vip.addresses:
            yield self.inside, address
            yield self.routed, address
        yield self.outside, self.floating
        if self.comes_by_ipv6:
            yield self.outside, self.vip.addresses[1]

    def assert_answers(self, names):
        for client, address in self.ways:
            found = {client.get(address) for _ in range(24)}
            # One of five gets none of so many once in a while.
            more = 72
            while more and found < names:
                found.add(client.get(address))
                more -= 1
            self.assertEqual(names, found, (client.name, address))

    def assert_broken(self, ports):
        # Each is used meanwhile.
        time.sleep(3)
        broken = {}
        for (client, address), each in zip(itertools.cycle(self.ways),
                                           self.held, strict=False):
            broken.update({
                port: f'{client.name} to {address}: {error}'
                for port, error in each.report().broken.items()})
        self.assertEqual(ports, set(broken), {
            port: error for port, error in broken.items()
            if port not in ports})

    def start_probes(self):
        self.probes = [
            client.start_probe(address, rate=20, timeout=machines.PATIENCE)
            for client, address in self.ways]
        # One that is being opened may be reset when the VIP moves.
        waiting.wait_for(
            lambda: all(any(one.kept and not one.error for one in
                            probe.requests) for probe in self.probes),
            'what the probes keep')

    def assert_served(self, but_for=0):
        reports = [each.stop() for each in self.probes]
        self.assertEqual(0, sum(each.broken for each in reports), reports)
        self.assertLessEqual(sum(each.failed for each in reports), but_for,
                             reports)

    def test_members_and_distributors(self):
        first, second = self.distributors
        self.assert_answers({each.name for each in self.vip.members})
        self.assertEqual(0, self.vip.packets(second))
        self.held = [client.hold(address, 30, rate=1).wait_until_open()
                     for client, address in self.ways]
        self.start_probes()
        opened = set().union(*(each.report().opened for each in self.held))
        self.assertEqual(30 * len(self.held), len(opened))

        # Another distributor has the VIP.
        self.vip.active = second
        self.vip.apply()
        time.sleep(3)
        before = self.vip.packets(first)
        time.sleep(2)
        self.assertEqual(before, self.vip.packets(first))
        self.assert_broken(set())

        # A member more, and one that is drained.
        self.vip.add_member()
        self.vip.apply()
        self.assertEqual(self.have_nft, not self.vip.remembers_each)
        self.assert_answers({each.name for each in self.vip.members})
        self.assert_broken(set())
        self.vip.states[1] = document.DRAINING
        self.vip.apply()
        rest = {each.name for each in self.vip.members} - {'member1'}
        self.assert_answers(rest)
        self.assert_broken(set())
        # The first one has the VIP again: it knows what the changes moved.
        self.held += [client.hold(address, 30, rate=1).wait_until_open()
                      for client, address in self.ways]
        self.assert_broken(set())
        self.assert_served()
        self.start_probes()
        self.vip.active = first
        self.vip.apply()
        time.sleep(3)
        self.assert_broken(set())
        opened |= set().union(*(each.report().opened for each in self.held))
        # It may get the second packet of one that is being opened before it
        # has heard of the first: of each client one, at most.
        self.assert_served(but_for=len(self.probes))

        # One that dies.
        dead = self.vip.members[0]
        lost = self.vip.get_connections(dead) & opened
        self.assertTrue(lost)
        dead.kill()
        self.vip.states[0] = document.DEAD
        self.vip.apply()
        self.assert_answers(rest - {'member0'})
        waiting.wait_for(lambda: all(
            lost & each.report().opened <= set(each.report().broken)
            for each in self.held), 'end of its connections')
        self.assert_broken(lost)


_MARK = b'octavia-hmsync-stranger'


def _mac(text):
    return bytes.fromhex(text.replace(':', ''))


def _vlan(number):
    return struct.pack('!HH', 0x8100, number)


def _ip(source, destination, protocol=17):
    """A packet with the mark; TCP is a SYN."""
    payload = (struct.pack('!HHHH', 5000, 80, 8 + len(_MARK), 0)
               if protocol == 17 else
               struct.pack('!HHIIBBHHH', 5000, 80, 1, 0, 5 << 4, 2, 8192, 0,
                           0)) + _MARK
    head = struct.pack('!BBHHHBBH4s4s', 0x45, 0, 20 + len(payload), 1, 0, 64,
                       protocol, 0, socket.inet_aton(source),
                       socket.inet_aton(destination))
    total = sum(struct.unpack('!10H', head))
    total = (total & 0xffff) + (total >> 16)
    total = ~(total + (total >> 16)) & 0xffff
    return (b'\x08\x00' + head[:10] + struct.pack('!H', total) + head[12:] +
            payload)


def _arp(operation, mac, source, asked):
    return struct.pack('!HHHBBH6s4s6s4s', 0x806, 1, 0x800, 6, 4, operation,
                       mac, socket.inet_aton(source), b'\0' * 6,
                       socket.inet_aton(asked)) + _MARK


def _open(interface):
    raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    raw.bind((interface, 0))
    raw.setblocking(False)
    return raw


class TestTenants(VipTestCase):
    """Two tenants with the same addresses, behind the same distributors."""

    def setUp(self):
        super().setUp()
        self.networks = [
            self.cloud.add_network(f'tenant{number}', '10.9.0.0/24')[0]
            for number in range(2)]
        self.vips = [self.useFixture(vip.Vip(
            self.cloud, self.distributors, network, 2, f'tenant{number}-'))
            for number, network in enumerate(self.networks)]
        self.clients = [self.useFixture(machines.Client(
            self.cloud, f'client{number}', network))
            for number, network in enumerate(self.networks)]

    def assert_own_answers(self):
        for client, each in zip(self.clients, self.vips):
            self.assertEqual({member.name for member in each.members}, {
                client.get(each.addresses[0]) for _ in range(16)})

    def listen(self, machine):
        """Open a socket that gets all frames of a machine."""
        raw = machine.namespace.call(_open, 'eth0')
        self.addCleanup(raw.close)
        return raw

    @staticmethod
    def count(raw):
        """How many frames with the mark came."""
        found = 0
        with contextlib.suppress(BlockingIOError):
            while True:
                data, address = raw.recvfrom(2000)
                found += _MARK in data and address[2] != 4
        return found

    def test_stranger(self):
        self.assert_own_answers()
        ours, theirs = self.vips
        stranger, friend = ours.members
        out = self.listen(stranger)
        friendly = self.listen(friend)
        strange = [self.listen(each)
                   for each in (*theirs.members, self.clients[1])]
        # An honest one comes, and is seen.
        own = _mac(stranger.mac)
        out.send(_mac(friend.mac) + own +
                 _ip(stranger.address, friend.address))
        waiting.wait_for(lambda: self.count(friendly), 'an honest packet')

        distributors = [_mac(port.mac_address) for each in self.vips
                        for port in each.ports.values()]
        victims = [_mac(each.mac)
                   for each in (*theirs.members, self.clients[1])]
        targets = [*distributors, *victims, b'\xff' * 6]
        sources = [own, *distributors, *victims]
        their_vip = theirs.addresses[0]
        sent = 0
        for target in targets:
            for source in sources:
                for tag in (b'', _vlan(0), _vlan(1), _vlan(1) + _vlan(2)):
                    for body in (
                            _ip(stranger.address, their_vip),
                            _ip(self.clients[1].address, their_vip, 6),
                            _ip(ours.addresses[0], theirs.members[0].address),
                            _arp(1, source, their_vip, their_vip),
                            _arp(2, source, their_vip,
                                 self.clients[1].address)):
                        out.send(target + source + tag + body)
                        sent += 1
        self.assertGreater(sent, 500)
        time.sleep(3)
        self.assertEqual([0] * len(strange), [self.count(each)
                                              for each in strange])
        # Nor did it take anything from anybody.
        self.assert_own_answers()
