# SPDX-License-Identifier: Apache-2.0

"""Established connections, over all that can happen to a cluster."""

import contextlib
import functools
import re
import socket
import struct
import time
import types

import fixtures
from oslotest import base

from octavia_hmsync.distributor import document as doc
from octavia_hmsync.distributor.ovs import openflow
from octavia_hmsync.distributor.ovs import sharing
from octavia_hmsync import exceptions
from tests.cloud import openvswitch as cloud_ovs
from tests.cloud import waiting
from tests.functional.distributor import fabric
from tests.functional.distributor import raw

VIP_ID = '11111111-1111-4111-8111-111111111111'
OTHER_ID = '22222222-2222-4222-8222-222222222222'


class FabricTestCase(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.directory = self.useFixture(fixtures.TempDir()).path
        self.node = self.make_node('network1', 1)
        self.servers = self.useFixture(fabric.Servers())
        self.client = self.make_host('client', 100)
        self.clients = self.useFixture(fabric.Clients(self.client))

    def make_node(self, name, number):
        return self.useFixture(fabric.Node(name, number, self.directory))

    def make_host(self, name, number, tag=1, node=None):
        node = node or self.node
        return self.useFixture(fabric.Host(
            name, node.namespace, node.vswitch, number, self.directory, tag))

    def make_member(self, number):
        host = self.make_host(f'm{number}', 10 + number)
        self.servers.serve(host)
        return host

    def make_vip(self, members, **kwargs):
        vip = fabric.Vip(VIP_ID, *kwargs.pop('nodes', [self.node]), **kwargs)
        for slot, host in enumerate(members):
            vip.set(host, doc.ACTIVE, slot, slot // 2)
        vip.apply()
        return vip

    def check(self, whose=()):
        """All connections live, but those of the members named."""
        broken = self.clients.find_broken()
        names = {host.name for host in whose}
        self.assertEqual([], [one.member for one in broken
                              if one.member not in names])
        self.assertEqual([one for one in self.clients.connections
                          if one.member in names], broken)
        self.clients.close(*broken)

    def open(self, count, *hosts):
        """Open connections; only these members get some, each of them."""
        new = self.clients.open(count)
        self.assertEqual({host.name for host in hosts},
                         {one.member for one in new})

    @staticmethod
    def reset(connection):
        connection.socket.setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
        connection.close()

    def take_over(self, vip, node, *told):
        vip.active = node
        vip.version += 1
        vip.apply(*told)
        for address in (fabric.VIP, fabric.VIP6):
            waiting.wait_for(
                lambda a=address: self.client.get_neighbour(a) ==
                vip.get_mac(node), f'new MAC address of {address}')


class TestConnections(FabricTestCase):

    def test_changes(self):
        """Nobody else's connection breaks.

        One is added, one drained, it is removed, two are added at once, the
        change is over, one dies.
        """
        a, b, c, d, e, f = [self.make_member(n) for n in range(6)]
        vip = self.make_vip([a, b, c])
        self.open(200, a, b, c)
        self.check()

        vip.set(d, doc.ACTIVE, 3)
        vip.apply()
        self.check()
        self.open(60, a, b, c, d)
        self.check()

        vip.set(b, doc.DRAINING)
        vip.apply()
        self.check()
        self.open(60, a, c, d)
        self.check()

        # What it still has ends.
        self.clients.close(*[one for one in self.clients.connections
                             if one.member == b.name])
        vip.remove(b)
        vip.apply()
        self.check()

        # One after the other, without a moment between.
        for slot, host in ((4, e), (5, f)):
            vip.set(host, doc.ACTIVE, slot)
            vip.apply()
        self.check()
        self.open(60, a, c, d, e, f)
        self.check()

        # Nothing is left of what was before, but pins.
        waiting.wait_for(vip.count_pins, 'pins')
        vip.now += 4000
        vip.apply()
        self.assertEqual(vip.states[self.node]['base'],
                         vip.states[self.node]['current'])
        self.check()

        c.namespace.run('ip', 'link', 'set', 'eth0', 'down')
        vip.set(c, doc.DEAD)
        vip.apply()
        self.check(whose=[c])
        self.open(60, a, d, e, f)
        self.node.vswitch.wait_for_revalidators()
        counted = vip.read_counters()
        for host in (a, d, e, f):
            self.assertTrue(counted[host.mac]['packets'] and
                            counted[host.mac]['bytes'], counted)
        self.check()

    def test_sent_twice(self):
        """Where nobody was quick to answer, just before a change."""
        a, b, c = [self.make_member(n) for n in range(3)]
        vip = self.make_vip([a])
        stutter = self.useFixture(raw.Stutter(self.client))
        self.open(40, a)
        for slot, host in ((1, b), (2, c)):
            vip.set(host, doc.ACTIVE, slot)
            vip.apply()
            self.check()
            self.open(40, *[host for host, *_ in vip.members.values()])
        self.assertLess(100, len(stutter.sent))
        vip.set(a, doc.DRAINING)
        vip.apply()
        self.check()
        self.open(40, b, c)
        vip.set(a, doc.ACTIVE)
        vip.apply()
        self.check()

    def test_begun(self):
        """A handshake whose answer was lost before a change goes on.

        The first packet comes again, seconds later, and then the second.
        """
        a, b, c = members = [self.make_member(n) for n in range(3)]
        vip = self.make_vip([a, b])
        mac = vip.get_mac(self.node)
        tap = self.useFixture(raw.Tap(self.client))
        taps = {host.name: self.useFixture(raw.Tap(host)) for host in members}

        def send(flags):
            """Returns who gets it, by the address of the sender."""
            for number in range(120):
                segment = raw.tcp(2000 + number, fabric.PORT, flags)
                tap.send(raw.ethernet(
                    self.client.mac, mac, 0x800, raw.ipv4(
                        f'10.0.0.{120 + number}', fabric.VIP, 6, segment))
                    if number % 2 else raw.ethernet(
                        self.client.mac, mac, 0x86dd, raw.ipv6(
                            f'fd00::{number + 120:x}', fabric.VIP6, 6,
                            segment)))
            found = {}

            def hear():
                for name, one in taps.items():
                    for frame in one.hear(seconds=0.1):
                        at = 34 if frame[12:14] == b'\x08\x00' else 54
                        port = int.from_bytes(frame[at:at + 2], 'big')
                        if (2000 <= port < 2120 and frame[at + 13] == flags
                                and frame[:6] == raw.mac(one.host.mac)):
                            found[port] = name
                return len(found) == 120

            waiting.wait_for(hear, 'frames')
            return found

        first = send(0x02)
        # What is learned of it in the moment of a change is another matter.
        self.node.vswitch.wait_for_revalidators()
        vip.set(c, doc.ACTIVE, 2)
        vip.apply()
        self.assertEqual(first, send(0x02))
        self.assertEqual(first, send(0x10))
        # Others are not concerned.
        self.open(60, a, b, c)
        self.check()

    def test_old_ports(self):
        """A port that comes again is a new connection."""
        a, b = [self.make_member(n) for n in range(2)]
        vip = self.make_vip([a])
        ports = range(30000, 30020)
        for port in ports:
            # Gone without a word, for Open vSwitch at least.
            self.reset(fabric.Connection(self.client, port=port))
        vip.set(a, doc.DRAINING)
        vip.set(b, doc.ACTIVE, 1)
        vip.apply()
        # A cache of before would pass the first packet on to where it was.
        self.node.vswitch.wait_for_revalidators()
        for port in ports:
            one = fabric.Connection(self.client, port=port)
            self.clients.connections.append(one)
            self.assertEqual(b.name, one.member)
        self.check()

    def test_slots(self):
        """Who goes or comes changes whose new connections are its own."""
        a, b, c, d = [self.make_member(n) for n in range(4)]
        vip = self.make_vip([a, b, c])

        def choose():
            """Return who gets a new connection, by its port."""
            self.node.vswitch.wait_for_revalidators()
            found = {}
            for port in range(32000, 32060):
                one = fabric.Connection(self.client, port=port)
                found[port] = one.member
                self.reset(one)
            # A change pins what is accounted for while it takes place, and a
            # reset from before it would have its port stay where it was.
            self.node.vswitch.wait_for_revalidators()
            return found

        def find(those, member):
            return {port for port, name in those.items()
                    if name == member.name}

        before = choose()
        vip.remove(b)
        vip.apply()
        without = choose()
        vip.set(d, doc.ACTIVE, 3)
        vip.apply()
        after = choose()
        spread = find(before, b)
        for one in (a, c):
            self.assertLess(find(before, one), find(without, one))
            self.assertLessEqual(find(without, one) - find(before, one),
                                 spread)
            self.assertLess(find(after, one), find(without, one))
            self.assertTrue(find(after, d) & find(without, one))

    def test_ports_used_again(self):
        """Over changes, whether a connection was closed or reset before."""
        # Else the client itself would wait for a minute.
        self.client.namespace.run('sysctl', '-w',
                                  'net.ipv4.tcp_max_tw_buckets=0')
        a, b, c = [self.make_member(n) for n in range(3)]
        vip = self.make_vip([a, b])
        ports = range(31000, 31012)
        changes = ((c, doc.ACTIVE, 2), (a, doc.DRAINING, None),
                   (a, doc.ACTIVE, None), (b, doc.DRAINING, None))
        for host, state, slot in ((None, None, None), *changes):
            if host:
                vip.set(host, state, slot)
                vip.apply()
                # What a cache of before passes on within milliseconds, it
                # passes on as it was.
                self.node.vswitch.appctl('dpctl/del-flows')
            for end in (fabric.Connection.close, self.reset) * 2:
                for port in ports:
                    one = fabric.Connection(self.client, port=port)
                    one.say()
                    self.assertTrue(one.hear(time.monotonic() + 20), port)
                    end(one)
                waiting.wait_for(lambda: not self.client.namespace.run(
                    'ss', '-Htan', 'sport >= :31000 and sport < :31012'
                ).stdout, 'end of connections')

    def test_ended(self):
        """What ends with its first packet after a change is forgotten soon."""
        a, b = [self.make_member(n) for n in range(2)]
        vip = self.make_vip([a, b])
        self.open(40, a, b)
        vip.set(b, doc.DRAINING)
        vip.apply()
        # What a cache of before passes on may have ended unseen.
        self.node.vswitch.wait_for_revalidators()
        ended = [one for one in self.clients.connections
                 if one.member == b.name][::2]
        ports = {str(one.socket.getsockname()[1]) for one in ended}
        self.clients.close(*ended)
        self.check()

        def find_pins():
            self.node.vswitch.wait_for_revalidators()
            # Of those that were just beginning, in a table of their own.
            return {re.search(r'tp_src=(\d+)', line).group(1):
                    f'idle_timeout={sharing.FIN_TIMEOUT},' in line
                    for match in (sharing.match_pins(b.mac, table) for table
                                  in (sharing.PINS, sharing.HANDSHAKES))
                    for line in self.node.ofctl(
                        'dump-flows', vip.bridge, match.to_text()).splitlines()
                    if 'tp_src=' in line}

        count = len(ended) + len([one for one in self.clients.connections
                                  if one.member == b.name])
        waiting.wait_for(lambda: len(find_pins()) == count, 'pins')
        self.assertEqual(ports, {port for port, is_ended in
                                 find_pins().items() if is_ended})

    def test_source_ip(self):
        """A client has one member; when that dies, its peer.

        From the moment on when a pool needs it: what is open stays.
        """
        a, b, c, d = members = [self.make_member(n) for n in range(4)]
        vip = self.make_vip(members)
        self.open(100, *members)
        vip.affinity = doc.SOURCE_IP
        vip.version += 1
        vip.apply()
        self.check()
        peers = {a.name: b, b.name: a, c.name: d, d.name: c}
        others = [self.useFixture(fabric.Clients(self.make_host(
            f'client{n}', 101 + n))) for n in range(3)]
        all_clients = [self.clients, *others]
        found = {}
        for clients in all_clients:
            for address in (fabric.VIP, fabric.VIP6):
                member, = {one.member for one in
                           clients.open(10, [address])}
                found[clients, address] = member
        dead = next(host for host in members
                    if host.name in found.values())
        dead.namespace.run('ip', 'link', 'set', 'eth0', 'down')
        vip.set(dead, doc.DEAD)
        vip.apply()
        for clients in all_clients:
            broken = clients.find_broken()
            self.assertEqual([one for one in clients.connections
                              if one.member == dead.name], broken)
            clients.close(*broken)
        for (clients, address), member in found.items():
            expected = (peers[member].name if member == dead.name
                        else member)
            self.assertEqual({expected}, {
                one.member for one in clients.open(5, [address])})

    def test_bound(self):
        """Without room for more pins what begins goes where it went before.

        Open vSwitch itself learns no more than it is told to.
        """
        self.node.distributor = self.node.make_distributor(max_pins=20)
        look = self.node.distributor.measure_load
        a, b, c = [self.make_member(n) for n in range(3)]
        vip = self.make_vip([a, b])
        self.open(20, a, b)
        vip.set(c, doc.ACTIVE, 2)
        vip.apply()
        for _ in range(300):
            if look()['full_vips']:
                break
            self.clients.open(1)
        self.assertEqual([vip.id], look()['full_vips'])
        self.assertIn(c.name, {one.member for one in
                               self.clients.connections})
        self.open(60, a, b)
        self.check()
        self.assertEqual({'max_flows': 1000000, 'full': False}, {
            name: look()[name] for name in ('max_flows', 'full')})
        # By a flood, which is not looked at meanwhile.
        self.flood(vip)
        self.check()
        for table in sharing.LEARNED:
            self.assertGreater(21, self.node.distributor._ofctl.count(
                vip.bridge, openflow.Match(table))[0])
        # It ends when they do.
        self.clients.close(*self.clients.connections)
        self.node.ofctl('del-flows', vip.bridge,
                        f'table={sharing.HANDSHAKES}')
        self.node.ofctl('del-flows', vip.bridge, f'table={sharing.PINS}')
        self.assertEqual([], look()['full_vips'])
        # No more than there is room for until somebody looks again.
        for _ in range(100):
            if self.clients.open(1)[0].member == c.name:
                break
        else:
            self.fail('The new member gets no connections.')

    def flood(self, vip):
        """Send packets of connections that nobody has opened."""
        tap = self.useFixture(raw.Tap(self.client))
        for number in range(300):
            tap.send(raw.ethernet(
                self.client.mac, vip.get_mac(self.node), 0x800, raw.ipv4(
                    '10.0.0.200', fabric.VIP, 6, raw.tcp(
                        2000 + number, fabric.PORT, 0x10))))

    def test_bound_of_the_node(self):
        """All VIPs together have no room for more pins, and lose nothing."""
        a, b, c = [self.make_member(n) for n in range(3)]
        vip = self.make_vip([a, b])
        others = [self.make_host(f'o{n}', 10 + n, tag=2) for n in range(3)]
        other = fabric.Vip(OTHER_ID, self.node, tag=2)
        for slot, host in enumerate(others):
            self.servers.serve(host)
            if slot < 2:
                other.set(host, doc.ACTIVE, slot)
        other.apply()
        clients = self.useFixture(fabric.Clients(
            self.make_host('client2', 100, tag=2)))
        clients.open(30)
        self.open(20, a, b)
        for one, host in ((vip, c), (other, others[2])):
            one.set(host, doc.ACTIVE, 2)
            one.apply()
        # At the bound each VIP needs some flows more.
        most = 2 * self.node.distributor.measure_load()['flows']
        self.node.distributor = self.node.make_distributor(max_flows=most)
        look = self.node.distributor.measure_load
        for one in (vip, other):
            one.apply()
        self.assertEqual((most, False), (look()['max_flows'], look()['full']))
        for _ in range(most):
            if look()['full']:
                break
            self.clients.open(1)
        self.assertTrue(look()['full'])

        def count():
            return [self.node.distributor._ofctl.count(
                one.bridge, openflow.Match(table))[0]
                for one in (vip, other) for table in sharing.LEARNED]

        before = count()
        # Each goes by the list of before as long as that is good.
        self.open(40, a, b)
        clients.open(40)
        self.flood(vip)
        self.check()
        self.assertEqual([], clients.find_broken())
        for then, now in zip(before, count(), strict=True):
            self.assertLessEqual(now, then)
        # It ends when they do.
        for one, of_one in ((vip, self.clients), (other, clients)):
            of_one.close(*of_one.connections)
            for table in sharing.LEARNED:
                self.node.ofctl('del-flows', one.bridge, f'table={table}')
        self.assertFalse(look()['full'])
        for _ in range(100):
            if self.clients.open(1)[0].member == c.name:
                break
        else:
            self.fail('The new member gets no connections.')

    def test_path_mtu(self):
        """A member learns that a path is narrower than its network."""
        members = [self.make_member(n) for n in range(3)]
        self.make_vip(members)
        router = self.make_host('router', 99)
        border, far = [self.useFixture(cloud_ovs.Namespace(
            name, self.directory)) for name in ('border', 'far')]
        self.connect(router.namespace, border, 1, mtu=1400)
        self.connect(border, far, 2)
        for namespace in (router.namespace, border):
            namespace.run('sysctl', '-w', 'net.ipv4.ip_forward=1',
                          'net.ipv6.conf.all.forwarding=1')
        for namespace, network, via, via6 in (
                *((member.namespace, 2, router.address, router.address6)
                  for member in members),
                (router.namespace, 2, '10.1.0.2', 'fd01::2'),
                (border, 0, '10.1.0.1', 'fd01::1'),
                (far, 0, '10.2.0.1', 'fd02::1')):
            namespace.run('ip', 'route', 'add', f'10.{network}.0.0/24', 'via',
                          via)
            namespace.run('ip', '-6', 'route', 'add', f'fd0{network}::/64',
                          'via', via6)
        client = types.SimpleNamespace(socket=functools.partial(
            far.call, socket.socket))
        line = b'x' * 8000 + b'\n'
        for address in (fabric.VIP, fabric.VIP6):
            found = set()
            # Ports are the client's choice.
            for _ in range(100):
                if len(found) == len(members):
                    break
                one = fabric.Connection(client, address)
                self.addCleanup(one.close)
                found.add(one.member)
                one.socket.sendall(line)
                with one.socket.makefile('rb') as answer:
                    self.assertEqual(line, answer.readline())
            self.assertEqual({host.name for host in members}, found)

    @staticmethod
    def connect(near, far, number, mtu=1500):
        """A link, on which the near end is 10.NUMBER.0.1."""
        near.link(far, f'to{number}', f'from{number}')
        for end, namespace, name in ((1, near, f'to{number}'),
                                     (2, far, f'from{number}')):
            namespace.run('ip', 'link', 'set', name, 'mtu', str(mtu))
            namespace.run('ip', 'address', 'add', f'10.{number}.0.{end}/24',
                          'dev', name)
            namespace.run('ip', 'address', 'add', f'fd0{number}::{end}/64',
                          'dev', name, 'nodad')

    def test_take_over(self):
        """Another distributor answers for the VIP, nobody notices."""
        other = self.make_node('network2', 2)
        self.node.vswitch.link(other.vswitch, 'network2')
        members = [self.make_member(n) for n in range(3)]
        vip = self.make_vip(members, nodes=[self.node, other])
        self.open(200, *members)
        self.check()
        documents = [vip.document(node) for node in vip.nodes]
        self.assertEqual([True, False], [one.active for one in documents])

        vip.active = other
        vip.version += 1
        vip.apply()
        mac = vip.document(other).port.mac
        for address in (fabric.VIP, fabric.VIP6):
            waiting.wait_for(
                lambda a=address: self.client.get_neighbour(a) == mac,
                f'new MAC address of {address}')
        before = self.count(other, vip)
        self.check()
        self.assertLessEqual(before + 200, self.count(other, vip))
        # The first one is not needed any more.
        self.node.distributor.remove(vip.id)
        self.assertEqual([], self.node.distributor.list_vips())
        self.check()
        self.open(60, *members)
        vip.set(members[0], doc.DRAINING)
        vip.apply(other)
        self.open(60, *members[1:])
        self.check()

    def test_take_over_after_changes(self):
        """What changes have moved stays where it is, there and back."""
        other = self.make_node('network2', 2)
        self.node.vswitch.link(other.vswitch, 'network2')
        a, b, c, d = [self.make_member(n) for n in range(4)]
        vip = self.make_vip([a, b, c], nodes=[self.node, other])
        self.open(100, a, b, c)
        vip.set(d, doc.ACTIVE, 3)
        vip.apply()
        self.open(60, a, b, c, d)
        vip.set(a, doc.DRAINING)
        vip.apply()
        self.open(60, b, c, d)
        # Nothing of it reaches a member twice.
        packets = self.count(self.node, vip)
        self.check()
        self.assertEqual(0, self.count(other, vip))
        self.assertLessEqual(packets + 220, self.count(self.node, vip))
        # The other one is told anew.
        self.assertLess(0, self.count_told(vip))
        with contextlib.closing(self.node.distributor.dial(vip.id)) as line:
            line.empty(sharing.SHARED, 20)
        self.assertEqual(0, self.count_told(vip))
        self.take_over(vip, other)
        self.check()
        self.open(60, b, c, d)

        # The change is over: pins alone tell.
        vip.now += 4000
        vip.apply()
        self.check()
        for node in vip.nodes:
            self.assertEqual(vip.states[node]['base'],
                             vip.states[node]['current'])
        # The other one dies, and all it knew.
        other.vswitch.vsctl('del-br', vip.bridge)
        self.take_over(vip, self.node, self.node)
        self.check()
        self.open(60, b, c, d)

    def count_told(self, vip):
        return self.node.distributor._ofctl.count(
            vip.bridge, openflow.Match(sharing.SHARED))[0]

    def test_take_over_by_one_that_missed_a_change(self):
        """It knows whose those are that began where a slot was empty."""
        other = self.make_node('network2', 2)
        self.node.vswitch.link(other.vswitch, 'network2')
        a, b, c = [self.make_member(n) for n in range(3)]
        vip = self.make_vip([a, b], nodes=[self.node, other])
        vip.remove(b)
        vip.apply(self.node)
        self.open(40, a)
        vip.set(c, doc.ACTIVE, 1)
        vip.apply(self.node)
        vip.apply(other)
        self.assertNotEqual(vip.states[self.node]['base'],
                            vip.states[other]['base'])
        vip.share(other)
        self.assertEqual({**vip.states[self.node], 'stands_by': True},
                         vip.states[other])
        self.check()
        # There and back: what begins at one is known to the other.
        self.take_over(vip, other)
        self.open(60, a, c)
        self.check()
        self.take_over(vip, self.node)
        self.check()

    @staticmethod
    def count(node, vip):
        node.vswitch.wait_for_revalidators()
        return sum(one['packets'] for one in vip.read_counters(node).values())

    def test_restart(self):
        """Of the process, then of ovs-vswitchd."""
        a, b, c = members = [self.make_member(n) for n in range(3)]
        vip = self.make_vip(members)
        self.open(200, *members)
        vip.set(c, doc.DRAINING)
        vip.apply()
        self.check()
        self.open(40, a, b)
        before = self.dump(vip)

        # Another process finds it all, and touches nothing.
        self.node.distributor = self.node.make_distributor()
        self.assertEqual([vip.id], self.node.distributor.list_vips())
        vip.apply()
        self.assertEqual(before, self.dump(vip))
        self.assertEqual([], self.node.distributor.has_lost_flows())
        pins = vip.count_pins()
        self.check()
        self.assertLessEqual(pins, vip.count_pins())

        # What begins is not moved twice, so no pins are needed here.
        vip.now += 4000
        vip.apply()
        self.clients.close(*[one for one in self.clients.connections
                             if one.member == c.name])
        vip.remove(c)
        vip.apply()
        self.clients.close(*self.clients.connections)
        self.open(200, a, b)
        self.node.vswitch.vswitchd.stop()
        # Nobody waits for what does not answer.
        vip.set(c, doc.ACTIVE, 2)
        error = self.assertRaises(exceptions.VswitchUnavailable, vip.apply)
        self.assertIn('ovs-vswitchd', str(error))
        self.assertEqual([vip.id], self.node.distributor.has_lost_flows())
        self.node.vswitch.start_vswitchd()
        self.assertEqual([vip.id], self.node.distributor.has_lost_flows())
        vip.apply()
        self.assertEqual([], self.node.distributor.has_lost_flows())
        self.check()
        self.open(60, a, b, c)

        # With all flows the pins are gone: of those that the change moved.
        self.node.ofctl('del-flows', vip.bridge)
        self.assertEqual([vip.id], self.node.distributor.has_lost_flows())
        vip.apply()
        self.check(whose=[c])

    def dump(self, vip):
        """Flows and groups without counters and pins."""
        return sorted(
            line for command in ('dump-flows', 'dump-groups')
            for line in self.node.ofctl(command, vip.bridge, *(
                ['--no-stats'] if command == 'dump-flows' else
                [])).splitlines()
            if not re.search('table=(2[05]|32)|reply', line))
