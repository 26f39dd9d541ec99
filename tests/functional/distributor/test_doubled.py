# SPDX-License-Identifier: Apache-2.0

"""Connections over changes of members that get packets of each other's."""

import contextlib
import itertools
import socket
import threading
import time
from unittest import mock

from octavia_hmsync.distributor import document as doc
from octavia_hmsync.distributor.ovs import ofctl
from octavia_hmsync.distributor.ovs import openflow
from octavia_hmsync.distributor.ovs import recorder
from octavia_hmsync.distributor.ovs import sharing
from octavia_hmsync.distributor.ovs import state as states
from octavia_hmsync.distributor.ovs import transition as transitions
from tests.cloud import waiting
from tests.functional.distributor import fabric
from tests.functional.distributor import test_connections

_PIN_TIMEOUT = 60
_LENGTH = _PIN_TIMEOUT + transitions.MARGIN + transitions.LATER


class TestDoubled(test_connections.FabricTestCase):

    def make_member(self, number, drops=True, is_old=False):
        host = super().make_member(number)
        if drops:
            host.hold_resets(is_old)
        return host

    def make_vip(self, members, **kwargs):
        vip = super().make_vip((), **kwargs)
        vip.probes, vip.pin_timeout = True, _PIN_TIMEOUT
        for slot, host in enumerate(members):
            vip.set(host, doc.ACTIVE, slot, slot // 2)
        vip.apply()
        return vip

    def change(self, vip, host, state, slot=None, nodes=()):
        vip.set(host, state, slot)
        vip.apply(*nodes)

    def let_pass(self, vip, seconds=_LENGTH, node=None):
        """All connections have packets meanwhile."""
        node = node or self.node
        node.distributor.keeper.read_caches(vip.now)
        # First packets are no longer there later.
        node.vswitch.appctl('revalidator/purge')
        self.check()
        end = vip.now + seconds
        while vip.now < end:
            vip.now = min(end, vip.now + 5)
            node.distributor.keeper.read_caches(vip.now)
        vip.apply(node)

    def count(self, vip, table, node=None):
        node = node or self.node
        return node.distributor._ofctl.count(
            vip.bridge, openflow.Match(table))[0]

    def assertDoubles(self, vip, *pinned, node=None):
        """Some members alone have connections pinned one by one."""
        described = states.describe(vip.states[node or self.node])
        self.assertEqual(sorted(host.mac for host in pinned),
                         described['pinned'])

    def assertOver(self, vip, node=None):
        self.assertIsNone(states.describe(
            vip.states[node or self.node]))

    def test_changes(self):
        a, b, c, d, e, f = [self.make_member(n, is_old=n % 2)
                            for n in range(6)]
        vip = self.make_vip([a, b, c])
        self.open(100, a, b, c)
        self.change(vip, d, doc.ACTIVE, 3)
        self.assertDoubles(vip)
        self.check()
        self.open(60, a, b, c, d)
        self.check()
        # Nothing is remembered.
        self.node.vswitch.wait_for_revalidators()
        self.assertEqual(0, self.count(vip, sharing.PINS))
        self.let_pass(vip)
        self.assertOver(vip)
        # Of those that were moved, one is remembered, and no more.
        self.assertLess(0, self.count(vip, sharing.PINS))
        self.assertGreater(100, self.count(vip, sharing.PINS))
        self.check()
        self.open(60, a, b, c, d)

        # Several, with some time between them.
        for host, slot in ((e, 4), (f, 5)):
            self.change(vip, host, doc.ACTIVE, slot)
            self.check()
            self.let_pass(vip, 30)
        self.change(vip, b, doc.DRAINING)
        self.open(60, a, c, d, e, f)
        self.assertEqual(4, states.describe(
            vip.states[self.node])['mappings'])
        self.assertDoubles(vip)
        self.let_pass(vip, _LENGTH - 60)
        self.assertEqual(3, states.describe(
            vip.states[self.node])['mappings'])
        self.check()
        self.open(60, a, c, d, e, f)
        self.let_pass(vip)
        self.assertOver(vip)
        self.check()
        self.clients.close(*[one for one in self.clients.connections
                             if one.member == b.name])
        vip.remove(b)
        vip.apply()
        self.check()

    def test_there_and_back(self):
        """All have packets while lists of before come again."""
        a, b, c, d = [self.make_member(n) for n in range(4)]
        vip = self.make_vip([a, b, c])
        self.open(60, a, b, c)
        self.change(vip, d, doc.ACTIVE, 3)
        stopping, broken = threading.Event(), []

        def use():
            while not (stopping.is_set() or broken):
                broken.extend(self.clients.find_broken())

        thread = threading.Thread(target=use)
        thread.start()
        try:
            for state in (doc.DRAINING, doc.ACTIVE, doc.DRAINING):
                time.sleep(0.2)
                self.change(vip, d, state)
        finally:
            stopping.set()
            thread.join()
        self.assertEqual([], broken)
        self.open(20, a, b, c)

    def test_known(self):
        """Who has one that was there, or began long after, is known."""
        a, b, c = [self.make_member(n) for n in range(3)]
        # As if others on this node had connections, too.
        self.node.distributor._rooms._load = ofctl.Load(0, 100000, 200000)
        vip = self.make_vip([a, b])
        self.open(40, a, b)
        # They began long before.
        self.node.vswitch.appctl('revalidator/purge')
        self.check()
        self.change(vip, c, doc.ACTIVE, 2)
        self.let_pass(vip, 20)
        self.open(40, a, b, c)
        self.let_pass(vip)
        self.assertOver(vip)
        self.check()
        self.assertEqual([0], self.node.distributor._ofctl.count(
            vip.bridge, recorder.DOUBTFUL))
        # Packets go to one again.
        self.node.vswitch.wait_for_revalidators()
        self.assertEqual([], [
            one for one in recorder.read(
                self.node.vswitch.appctl('dpctl/dump-flows').splitlines())
            if one.is_marked])

    def test_counted(self):
        """A member that drains is not without connections before it is."""
        a, b, c = [self.make_member(n) for n in range(3)]
        vip = self.make_vip([a, b, c])
        self.open(60, a, b, c)
        # They began long before.
        self.node.vswitch.appctl('revalidator/purge')
        self.check()
        self.change(vip, a, doc.DRAINING)

        def count(name):
            return vip.read_counters()[a.mac][name]

        self.assertIsNone(count('connections'))
        self.let_pass(vip, _LENGTH - 10)
        self.assertDoubles(vip)
        mine = [one for one in self.clients.connections
                if one.member == a.name]
        self.assertEqual((0, len(mine)), (count('pins'),
                                          count('connections')))
        self.let_pass(vip)
        self.assertOver(vip)
        self.assertEqual(len(mine), count('connections'))

    def test_ended(self):
        """What ends after a change is forgotten soon."""
        a, b, c = [self.make_member(n) for n in range(3)]
        vip = self.make_vip([a, b, c])
        vip.pin_timeout = 300
        self.open(60, a, b, c)
        # They began long before.
        self.node.vswitch.appctl('revalidator/purge')
        self.check()
        self.change(vip, a, doc.DRAINING)
        self.let_pass(vip, 330)
        self.assertOver(vip)
        ended = [one for one in self.clients.connections
                 if one.member == a.name][::2]
        self.clients.close(*ended)
        self.check()

        def find_ended():
            self.node.vswitch.wait_for_revalidators()
            return [line for line in self.node.distributor._ofctl.get_flows(
                vip.bridge, sharing.match_pins(a.mac))
                if f'idle_timeout={sharing.FIN_TIMEOUT},' in line]

        waiting.wait_for(lambda: len(find_ended()) == len(ended),
                         'ends of connections')

    def test_dies(self):
        """Those of others go on, its own are reset."""
        a, b, c = [self.make_member(n) for n in range(3)]
        vip = self.make_vip([a, b])
        self.open(40, a, b)
        self.change(vip, c, doc.ACTIVE, 2)
        self.open(60, a, b, c)
        self.let_pass(vip)
        self.assertNotEqual([0], self.node.distributor._ofctl.count(
            vip.bridge, recorder.DOUBTFUL))
        self.kill(c)
        vip.set(c, doc.DEAD)
        vip.apply()
        self.check(whose=[c])
        self.open(60, a, b)
        # In the middle of a change.
        self.change(vip, b, doc.DRAINING)
        self.open(20, a)
        self.kill(b)
        vip.set(b, doc.DEAD)
        vip.apply()
        self.check(whose=[b])

    @staticmethod
    def kill(host):
        host.namespace.run('ip', 'link', 'set', 'eth0', 'down')

    def test_reset(self):
        """Who has a connection may reset it, and who has none does so."""
        a, b = [self.make_member(n) for n in range(2)]
        vip = self.make_vip([a])
        self.open(20, a)
        self.change(vip, a, doc.DRAINING)
        self.change(vip, b, doc.ACTIVE, 1)
        self.open(20, b)
        self.check()
        # What is new and unknown is refused.
        with contextlib.closing(self.client.socket(
                socket.AF_INET, socket.SOCK_STREAM)) as one:
            self.assertRaises(ConnectionRefusedError, one.connect,
                              (fabric.VIP, fabric.PORT + 1))

    def test_no_rule(self):
        """One that answers packets of others gets its own alone."""
        a, b, d = [self.make_member(n) for n in (0, 1, 3)]
        c = self.make_member(2, drops=False)
        vip = self.make_vip([a, b])
        self.open(60, a, b)
        self.change(vip, c, doc.ACTIVE, 2)
        self.assertDoubles(vip, c)
        self.check()
        self.open(60, a, b, c)
        self.check()
        self.change(vip, d, doc.ACTIVE, 3)
        self.assertDoubles(vip, c)
        self.check()
        self.open(60, a, b, c, d)
        self.change(vip, c, doc.DRAINING)
        self.open(60, a, b, d)
        self.check()
        self.let_pass(vip)
        self.assertOver(vip)
        self.check()
        self.change(vip, a, doc.DRAINING)
        self.open(40, b, d)
        self.let_pass(vip)
        self.check()

    def test_mark_is_lost(self):
        """As by a QoS policy: all is remembered one by one."""
        a, b, c = members = [self.make_member(n) for n in range(3)]
        vip = self.make_vip([a, b])
        port = self.node.vswitch.vsctl(
            'get', 'Interface', vip.peer, 'ofport')
        for protocol in ('ip', 'ipv6'):
            self.node.ofctl(
                'add-flow', 'br-int', f'priority=10,in_port={port},'
                f'{protocol},actions=set_field:0->ip_dscp,NORMAL')
        self.open(60, a, b)
        self.change(vip, c, doc.ACTIVE, 2)
        self.assertDoubles(vip, *members)
        self.check()
        self.open(60, *members)
        self.change(vip, b, doc.DRAINING)
        self.open(60, a, c)
        self.check()
        self.let_pass(vip)
        self.assertOver(vip)
        self.check()

    def test_source_ip(self):
        a, b, c, d = members = [self.make_member(n) for n in range(4)]
        vip = self.make_vip(members)
        self.open(60, *members)
        vip.affinity = doc.SOURCE_IP
        vip.version += 1
        vip.apply()
        self.assertDoubles(vip)
        self.check()
        self.clients.open(20)
        self.check()
        self.change(vip, a, doc.DRAINING)
        self.clients.open(20)
        self.let_pass(vip)
        self.assertOver(vip)
        self.check()

    def test_ports_used_again(self):
        """Over changes, and where they are remembered."""
        # Else the client itself would wait for a minute.
        self.client.namespace.run('sysctl', '-w',
                                  'net.ipv4.tcp_max_tw_buckets=0')
        a, b, c = [self.make_member(n) for n in range(3)]
        vip = self.make_vip([a, b])
        ports = range(31000, 31020)

        def use(is_kept=False):
            for port in ports:
                one = fabric.Connection(self.client, port=port)
                one.say()
                self.assertTrue(one.hear(time.monotonic() + 20), port)
                if is_kept:
                    self.clients.connections.append(one)
                else:
                    self.reset(one)

        use()
        for host, state, slot in ((c, doc.ACTIVE, 2), (a, doc.DRAINING, None),
                                  (a, doc.ACTIVE, None),
                                  (b, doc.DRAINING, None)):
            self.change(vip, host, state, slot)
            self.node.vswitch.appctl('revalidator/purge')
            use()
        use(is_kept=True)
        self.let_pass(vip)
        self.assertOver(vip)
        self.check()
        for one in list(self.clients.connections):
            self.reset(one)
            self.clients.connections.remove(one)
        self.change(vip, a, doc.DRAINING)
        self.node.vswitch.appctl('revalidator/purge')
        use()
        use(is_kept=True)
        self.check()

    def test_ports_used_again_at_once(self):
        """Seconds later: the cache knows the way of their first packets."""
        self.client.namespace.run('sysctl', '-w',
                                  'net.ipv4.tcp_max_tw_buckets=0')
        a, b, c, d = [self.make_member(n) for n in range(4)]
        vip = self.make_vip([a, b, c])
        stopping, failed = threading.Event(), []

        def use():
            for port in itertools.cycle(range(31000, 31400)):
                if stopping.is_set():
                    return
                try:
                    one = fabric.Connection(self.client, port=port)
                    one.say()
                    one.hear(time.monotonic() + 20)
                    self.reset(one)
                except OSError as e:
                    failed.append((port, e))
                time.sleep(0.003)

        thread = threading.Thread(target=use)
        thread.start()
        try:
            for host, state, slot in ((d, doc.ACTIVE, 3),
                                      *2 * [(a, doc.DRAINING, None),
                                            (a, doc.ACTIVE, None),
                                            (b, doc.DRAINING, None),
                                            (b, doc.ACTIVE, None)]):
                time.sleep(2)
                self.change(vip, host, state, slot)
        finally:
            time.sleep(2)
            stopping.set()
            thread.join()
        # As far as first packets of the moment of a change are in the cache; a
        # hundred if others were, too.
        self.assertLess(len(failed), 10, failed)

    def test_ports_used_again_while_the_cache_is_late(self):
        """It has their other packets go as before the change, for a moment."""
        self.client.namespace.run('sysctl', '-w',
                                  'net.ipv4.tcp_max_tw_buckets=0')
        a, b, c = [self.make_member(n) for n in range(3)]
        vip = self.make_vip([a, b])
        wait = self.node.distributor._ofctl.wait_for_cache

        def wait_and_pause():
            wait()
            self.node.vswitch.appctl('revalidator/pause')

        for first, (host, state, slot) in zip(itertools.count(31000, 30), (
                (c, doc.ACTIVE, 2), (a, doc.DRAINING, None))):
            ports = range(first, first + 30)
            before = [fabric.Connection(self.client, port=port)
                      for port in ports]
            # Of its first packet the cache knows nothing any more.
            self.node.vswitch.appctl('revalidator/purge')
            for one in before:
                one.say()
                self.assertTrue(one.hear(time.monotonic() + 20))
            with mock.patch.object(self.node.distributor._ofctl,
                                   'wait_for_cache', wait_and_pause):
                self.change(vip, host, state, slot)
            for one in before:
                self.reset(one)
            after = [fabric.Connection(self.client, port=port)
                     for port in ports]
            self.assertNotEqual([one.member for one in before],
                                [one.member for one in after])
            self.node.vswitch.appctl('revalidator/resume')
            for one in after:
                self.reset(one)

    def follow_connections(self, *members):
        """Have the port of each member drop what fits no connection."""
        for zone, host in enumerate(members, 1):
            port = self.node.vswitch.vsctl('get', 'Interface',
                                           f'tap-{host.name}', 'ofport')
            for kind in ('tcp', 'tcp6'):
                for flow in (
                        f'priority=20,in_port={port},{kind},'
                        f'actions=ct(table=1,zone={zone})',
                        # An interface gets nothing back by this.
                        f'table=1,{kind},ct_state=-inv,actions=NORMAL',
                        f'priority=10,dl_dst={host.mac},{kind},'
                        f'actions=ct(table={10 + zone},zone={zone})',
                        f'table={10 + zone},{kind},ct_state=+new-inv,'
                        f'actions=ct(commit,zone={zone}),output:{port}',
                        f'table={10 + zone},{kind},ct_state=-new-inv,'
                        f'actions=output:{port}'):
                    self.node.ofctl('add-flow', 'br-int', flow)

    def test_ports_used_again_that_are_followed(self):
        """By the connection tracking of user space, at members' ports."""
        self.client.namespace.run('sysctl', '-w',
                                  'net.ipv4.tcp_max_tw_buckets=0')
        a, b, c = members = [self.make_member(n) for n in range(3)]
        self.follow_connections(*members)
        vip = self.make_vip([a, b])
        addresses = (fabric.VIP, fabric.VIP6)

        def use(ports):
            return {(address, port): fabric.Connection(
                self.client, address, port)
                for address in addresses for port in ports}

        for first, (host, state, slot) in zip(itertools.count(31000, 20), (
                (c, doc.ACTIVE, 2), (a, doc.DRAINING, None),
                (a, doc.ACTIVE, None))):
            ports = range(first, first + 20)
            before = use(ports)
            self.change(vip, host, state, slot)
            for one in before.values():
                # By its first packet alone a FIN leaves nothing behind.
                one.say()
                self.assertTrue(one.hear(time.monotonic() + 20))
                one.socket.shutdown(socket.SHUT_WR)
                self.assertEqual(b'', one.socket.recv(1))
                one.close()
            after = use(ports)
            self.assertNotEqual([one.member for one in before.values()],
                                [one.member for one in after.values()])
            for one in after.values():
                one.close()

    def test_take_over(self):
        """In the middle of a change, after it, and back."""
        other = self.make_node('network2', 2)
        self.node.vswitch.link(other.vswitch, 'network2')
        a, b, c, d = [self.make_member(n) for n in range(4)]
        vip = self.make_vip([a, b, c], nodes=[self.node, other])
        self.open(60, a, b, c)
        self.change(vip, d, doc.ACTIVE, 3)
        vip.share(other)
        self.assertDoubles(vip)
        self.assertDoubles(vip, node=other)
        self.open(60, a, b, c, d)
        self.take_over(vip, other)
        self.check()
        self.open(40, a, b, c, d)
        vip.share(self.node)
        # What the one forgets the other one does not, until it is told.
        self.let_pass(vip, node=other)
        self.assertOver(vip, other)
        self.assertDoubles(vip)
        vip.apply(self.node)
        self.assertDoubles(vip)
        self.check()
        self.change(vip, b, doc.DRAINING)
        self.assertEqual(2, states.describe(
            vip.states[other])['mappings'])
        vip.share(self.node)
        self.assertEqual(2, states.describe(
            vip.states[self.node])['mappings'])
        self.assertNotEqual([0], self.node.distributor._ofctl.count(
            vip.bridge, recorder.WAITING))
        self.open(40, a, c, d)
        self.take_over(vip, self.node)
        self.assertEqual([0], self.node.distributor._ofctl.count(
            vip.bridge, recorder.WAITING))
        self.check()
        self.open(40, a, c, d)
        self.let_pass(vip)
        self.assertOver(vip)
        self.check()

    def test_restart(self):
        """Of the process, then of ovs-vswitchd, in the middle of a change."""
        a, b, c = [self.make_member(n) for n in range(3)]
        vip = self.make_vip([a, b])
        self.open(60, a, b)
        self.change(vip, c, doc.ACTIVE, 2)
        self.open(60, a, b, c)
        self.let_pass(vip, _LENGTH - 10)
        self.node.distributor = self.node.make_distributor()
        vip.apply()
        self.assertDoubles(vip)
        self.check()
        # Now it takes its time again.
        self.let_pass(vip, 20)
        self.assertDoubles(vip)
        self.check()
        self.node.vswitch.vswitchd.stop()
        self.node.vswitch.start_vswitchd()
        self.assertEqual([vip.id], self.node.distributor.has_lost_flows())
        vip.apply()
        self.check()
        self.open(20, a, b, c)
        self.let_pass(vip)
        self.assertOver(vip)
        self.check()

    def test_thread(self):
        """It reads the cache by itself."""
        a, b, c = [self.make_member(n) for n in range(3)]
        self.node.vswitch.vsctl('set', 'Open_vSwitch', '.',
                                'other_config:max-idle=2000')
        vip = self.make_vip([a, b])
        distributor = self.node.distributor
        self.assertEqual(2, distributor._bridges.get_max_idle())
        distributor.start()
        self.addCleanup(distributor.stop)
        self.open(40, a, b)
        self.change(vip, c, doc.ACTIVE, 2)

        def find():
            self.check()
            (known, *_), = distributor.keeper._recorders.values()
            return known.find_pins(True, {a.mac, b.mac, c.mac})

        waiting.wait_for(find, 'connections')
