# SPDX-License-Identifier: Apache-2.0

"""What the distributor uses, against an Open vSwitch without packets."""

import copy
import re
import threading
from unittest import mock

import fixtures
from oslo_config import cfg
from oslotest import base

from octavia_hmsync.distributor import document as doc
from octavia_hmsync.distributor.ovs import announcer
from octavia_hmsync.distributor.ovs import ofctl
from octavia_hmsync.distributor.ovs import openvswitch
from octavia_hmsync.distributor.ovs import proof
from octavia_hmsync.distributor.ovs import recorder
from octavia_hmsync.distributor.ovs import room
from octavia_hmsync.distributor.ovs import sharing
from octavia_hmsync.distributor.ovs import wire
from octavia_hmsync import exceptions
from tests.cloud import waiting
from tests.unit.distributor.ovs import documents

VIP = '11111111-1111-4111-8111-111111111111'
OTHER = '22222222-2222-4222-8222-222222222222'


class FakeFlows:
    """Keeps what it is told, as text.

    :ivar flows: by bridge, a dict from (table, priority, match) to cookie
                 and actions
    :ivar calls: how often apply() was called
    :ivar reads: how often get_flows() was called
    :ivar waits: how often wait_for_cache() was, and after which call
    """

    def __init__(self):
        self.flows = {}
        self.groups = {}
        self.calls = self.reads = 0
        self.waits = []
        self.boot = 1
        self.is_down = False
        self.lines = []
        self.load = ofctl.Load(100, 20, 200000)
        self.learned = {}
        self.cache = []

    def reset(self):
        """As if it were started anew."""
        self.flows, self.groups = {}, {}
        self.boot += 1

    def _check(self):
        if self.is_down:
            raise exceptions.VswitchUnavailable('It is down.')

    def apply(self, bridge, lines):
        self._check()
        self.calls += 1
        self.lines = lines
        flows = self.flows.setdefault(bridge, {})
        groups = self.groups.setdefault(bridge, {})
        for line in lines:
            what, verb, text = line.split(' ', 2)
            if (what, verb) == ('group', 'add_or_mod'):
                groups[int(re.search('group_id=([0-9]+)', text)[1])] = text
            elif text == 'group_id=all':
                groups.clear()
            elif what == 'group':
                del groups[int(text.partition('=')[2])]
            elif verb == 'add':
                cookie, key, actions = re.fullmatch(
                    'cookie=(.*?),(.*),actions=(.*)', text).groups()
                flows[key] = int(cookie, 16), actions
            elif text == 'cookie=0/0':
                flows.clear()
            elif text.endswith('/-1'):
                old = int(text[len('cookie='):-3], 16)
                for key in [key for key, (cookie, _) in flows.items()
                            if cookie == old]:
                    del flows[key]

    def wait_for_cache(self):
        self.waits.append(self.calls)

    def sum(self, bridge, *matches):
        self._check()
        lines = self.flows.get(bridge, {})
        return [wire.Sum(len(found), 60 * len(found), len(found)) for found in
                [[key for key in lines if 'xreg{}={:#x}'.format(
                    *match.register) in key and
                    key.startswith(f'table={match.table},')]
                 for match in matches]]

    def count(self, bridge, *matches):
        self._check()
        return [self.learned.get((bridge, match.table), 0)
                if match.table is not None else
                sum(cookie & match.mask == match.cookie for cookie, _ in
                    self.flows.get(bridge, {}).values())
                for match in matches]

    def get_groups(self, bridge):
        return set(self.groups.get(bridge, ()))

    def get_flows(self, bridge, match):
        self.reads += 1
        return [f'cookie={cookie:#x}, n_packets=1, n_bytes=60, '
                f'{key.replace(",", ", ", 1)} actions={actions}'
                for key, (cookie, actions)
                in self.flows.get(bridge, {}).items()
                if match.table is None or
                key.startswith(f'table={match.table},')]

    def get_cache(self, datapath_type, mac):
        self._check()
        return self.cache

    def read_load(self):
        self._check()
        return self.load

    def get_socket(self, bridge):
        return bridge

    def get_boot(self, bridge):
        return self.boot

    def check(self, bridge):
        self._check()


class FakeLinks:

    def __init__(self):
        self.vips = {}
        self.bounds = []

    def ensure(self, vip_id, port):
        self.vips.setdefault(vip_id, '')
        return 1

    def has(self, vip_id):
        return vip_id in self.vips

    def remove(self, vip_id):
        return self.vips.pop(vip_id, None) is not None

    def list_vips(self):
        return sorted(self.vips)

    def get_announced(self, vip_id):
        return self.vips[vip_id]

    def set_announced(self, vip_id, announced):
        self.vips[vip_id] = announced

    def bound(self, flows):
        self.bounds.append(flows)

    def check(self):
        return '3.1.0'

    def get_max_idle(self):
        return 10


class TestOpenVSwitch(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.line = self.useFixture(fixtures.MockPatchObject(
            wire, 'Line', autospec=True)).mock
        self.line.return_value.add_meters.return_value = True
        # Its thread would go on after the test.
        self.announce = announcer.Announcer.start
        self.patch(announcer.Announcer, 'start', lambda *_: None)
        self.flows, self.links = FakeFlows(), FakeLinks()
        self.conf = cfg.ConfigOpts()
        self.now = 5.0
        self.vswitch = self.make()
        self.state = None

    def make(self):
        return openvswitch.OpenVSwitch(self.conf, self.flows, self.links,
                                       lambda: self.now)

    def apply(self, *states, now=1000, **kwargs):
        self.state = self.vswitch.apply(
            VIP, documents.make_document(*states, **kwargs), self.state, now)

    def test_again(self):
        """What is right is not touched, by another process neither."""
        self.apply(doc.ACTIVE)
        self.apply(doc.ACTIVE)
        self.vswitch = self.make()
        self.assertEqual([VIP], self.vswitch.list_vips())
        self.apply(doc.ACTIVE)
        self.assertEqual(1, self.flows.calls)

    def test_new(self):
        """Nobody asks what a new bridge has."""
        self.apply(doc.ACTIVE)
        self.assertEqual(0, self.flows.reads)
        # Made, and not programmed as far as is known.
        self.vswitch = self.make()
        self.flows.reset()
        self.apply(doc.ACTIVE)
        self.assertEqual(0, self.flows.reads)
        self.assertEqual(2, self.flows.calls)

    def test_new_with_flows_of_before(self):
        """Its bridge was deleted, which nobody has told ovs-vswitchd."""
        self.apply(doc.ACTIVE, doc.ACTIVE)
        self.vswitch.remove(VIP)
        self.state = None
        self.apply(doc.ACTIVE)
        there = self.flows.flows, self.flows.groups
        self.flows = FakeFlows()
        self.vswitch = self.make()
        self.apply(doc.ACTIVE)
        self.assertEqual(there, (self.flows.flows, self.flows.groups))

    def test_change_and_back(self):
        """Nothing is left of what was there in between."""
        self.apply(doc.ACTIVE, doc.ACTIVE)
        first = self.flows.flows, self.flows.groups
        before = copy.deepcopy(first)
        self.apply(doc.ACTIVE, doc.DRAINING)
        self.assertNotEqual(before, first)
        self.assertEqual({1, 2}, self.flows.get_groups('hmb11111111111'))
        self.apply(doc.ACTIVE, doc.ACTIVE)
        self.assertEqual(before, first)

    def test_handover(self):
        """Before beginnings go elsewhere, those of before are pinned."""
        self.apply(doc.ACTIVE)
        self.apply(doc.ACTIVE, doc.ACTIVE)
        self.assertEqual((3, [2]), (self.flows.calls, self.flows.waits))
        # Nobody waits for the others when one dies, or has time passed.
        self.apply(doc.ACTIVE, doc.DEAD)
        self.apply(doc.ACTIVE, doc.DEAD, now=9999)
        self.assertEqual([2], self.flows.waits)

    def test_handover_of_one_that_is_down(self):
        """What begins meanwhile goes where it will go, again, too."""
        told, apply = [], self.flows.apply

        def note(bridge, lines):
            told.append(lines)
            if len(told) != 2:
                apply(bridge, lines)

        self.apply(doc.ACTIVE, doc.ACTIVE)
        self.patch(self.flows, 'apply', note)
        self.flows.cache = [
            'eth_type(0x0800),ipv4(src=10.0.0.9,dst=10.0.0.5,proto=6,frag=no),'
            f'tcp(src={port}),tcp_flags(+syn-ack), packets:0, actions:set(eth('
            f'dst={documents.mac(port)})),4' for port in (0, 1)]
        document = documents.make_document(doc.ACTIVE, doc.DRAINING)
        self.vswitch.apply(VIP, document, self.state, 1000,
                           down={documents.mac(1)})
        [handover, begun, after] = told
        self.assertEqual(1, len(begun))
        self.assertIn('tcp_src=0', begun[0])
        self.assertEqual(*([line for line in lines if line.startswith(
            'group add')] for lines in (handover, after)))

    def test_beginnings(self):
        """What begins is pinned, whatever becomes of that."""
        told, apply = [], self.flows.apply

        def note(bridge, lines):
            told.append(lines)
            if any('priority=5,' in line for line in lines):
                raise exceptions.VswitchUnavailable('The table is full.')
            apply(bridge, lines)

        self.apply(doc.ACTIVE)
        self.patch(self.flows, 'apply', note)
        self.flows.cache = [
            'eth_type(0x0800),ipv4(src=10.0.0.9,dst=10.0.0.5,proto=6,frag=no),'
            'tcp(src=7),tcp_flags(+syn-ack), packets:0, actions:set(eth(dst='
            f'{documents.mac(0)})),4']
        self.apply(doc.ACTIVE, doc.ACTIVE)
        self.assertEqual(3, len(told))
        self.assertIn('nw_src=10.0.0.9,nw_dst=10.0.0.5,tcp_src=7',
                      told[1][0])
        # When one dies, no change waits for that; and not in a flood.
        told.clear()
        self.apply(doc.ACTIVE, doc.DEAD)
        self.flows.load = ofctl.Load(100, 100001, 200000)
        self.vswitch.measure_load()
        self.apply(doc.ACTIVE, doc.ACTIVE)
        self.assertEqual(3, len(told))

    def test_half_of_a_handover(self):
        """The next call ends it."""
        self.apply(doc.ACTIVE)
        first = self.flows.flows, self.flows.groups
        self.flows.wait_for_cache = lambda: self.fail('Killed')
        self.assertRaises(AssertionError, self.apply, doc.ACTIVE, doc.ACTIVE)
        self.assertEqual([VIP], self.vswitch.has_lost_flows())
        self.apply(doc.ACTIVE, doc.ACTIVE)
        there = copy.deepcopy(first)
        self.flows.reset()
        self.vswitch = self.make()
        self.apply(doc.ACTIVE, doc.ACTIVE)
        self.assertEqual(there, (self.flows.flows, self.flows.groups))

    def test_time(self):
        self.apply(doc.ACTIVE)
        document = documents.make_document(doc.ACTIVE, doc.ACTIVE)
        self.assertFalse(self.vswitch.is_due(document, self.state, 9999))
        self.apply(doc.ACTIVE, doc.ACTIVE)
        self.assertFalse(self.vswitch.is_due(document, self.state, 4629))
        self.assertTrue(self.vswitch.is_due(document, self.state, 4630))
        self.apply(doc.ACTIVE, doc.ACTIVE, now=4630)
        self.assertFalse(self.vswitch.is_due(document, self.state, 9999))

    def test_kept_first(self):
        """Who keeps the state before flows follow it gets the same."""
        self.apply(doc.ACTIVE)
        document = documents.make_document(doc.ACTIVE, doc.ACTIVE)
        kept = self.vswitch.advance(document, self.state, 1005)
        self.assertEqual(kept, self.vswitch.apply(VIP, document, kept, 1005))

    def test_unreadable_state(self):
        for state in ({}, [], {'base': 1}, 'x'):
            self.state = state
            self.apply(doc.ACTIVE)
            self.assertEqual(self.state['base'], self.state['current'])

    def test_dead(self):
        """Its pins are forgotten, those of who drains are not."""
        self.apply(doc.ACTIVE, doc.ACTIVE, doc.ACTIVE)
        self.apply(doc.ACTIVE, doc.DEAD, doc.ACTIVE)
        self.assertEqual(
            ['flow delete cookie=0xfa163e000101/0xffffffffffff,table=20',
             'flow delete cookie=0xfa163e000101/0xffffffffffff,table=25'],
            self.get_forgotten())
        self.apply(doc.ACTIVE, doc.DEAD, doc.DRAINING)
        self.assertEqual([], self.get_forgotten())

    def get_forgotten(self):
        return [line for line in self.flows.lines if '0xfffff' in line]

    def test_partners(self):
        """With each change others are told anew of what goes on."""
        self.apply(doc.ACTIVE, doc.ACTIVE)
        self.assertNotIn('flow delete table=32', self.flows.lines)
        for number in range(2):
            self.apply(doc.ACTIVE, doc.ACTIVE,
                       partners=[documents.mac(90 + number)])
            self.assertIn('flow delete table=32', self.flows.lines)

    def test_announced(self):
        """Once for each time that it becomes active, over restarts."""
        sent = []
        self.line.return_value.send.side_effect = (
            lambda frames, mark: sent.append(len(frames)))
        self.apply(doc.ACTIVE, active=False)
        self.assertEqual('', self.links.vips[VIP])
        self.patch(announcer, 'DELAYS', (0,))
        self.patch(announcer.Announcer, 'start', self.announce)
        self.apply(doc.ACTIVE)
        # IPv4 in two ways, and IPv6.
        waiting.wait_for(lambda: sent, 'frame')
        self.assertEqual(3, sent[0])
        self.assertEqual(mock.call('hmb11111111111', 1), self.line.call_args)
        self.vswitch.remove(VIP)
        self.links.vips[VIP] = 'fa:16:3e:00:00:99,10.0.0.5,fd00::5'
        # A frame of before may be on its way still.
        started = []
        self.patch(announcer.Announcer, 'start',
                   lambda subject, key: started.append(key))
        self.vswitch = self.make()
        self.apply(doc.ACTIVE)
        self.assertRaises(exceptions.VswitchUnavailable,
                          self.vswitch.announce, OTHER)
        self.assertEqual([], started)
        self.vswitch.announce(VIP)
        self.assertEqual([VIP], started)

    def test_announced_again(self):
        """Another one may have had it meanwhile, over restarts, too."""
        started = []
        self.patch(announcer.Announcer, 'start',
                   lambda subject, key: started.append(key))
        for version, count in ((7, 1), (7, 1), (8, 1), (9, 1), (11, 2),
                               (12, 2), (12, 2), (20, 3)):
            self.apply(doc.ACTIVE, version=version)
            self.assertEqual(count, len(started), version)
            if version % 2:
                self.vswitch = self.make()
        self.apply(doc.ACTIVE, version=21, active=False)
        self.apply(doc.ACTIVE, version=22)
        self.assertEqual(4, len(started))

    def test_lost_flows(self):
        self.assertEqual([], self.vswitch.has_lost_flows())
        self.apply(doc.ACTIVE)
        self.assertEqual([], self.vswitch.has_lost_flows())
        # Somebody deletes one.
        flows = self.flows.flows['hmb11111111111']
        flows.pop(next(iter(flows)))
        self.assertEqual([VIP], self.vswitch.has_lost_flows())
        self.apply(doc.ACTIVE)
        self.assertEqual([], self.vswitch.has_lost_flows())
        self.flows.reset()
        self.assertEqual([VIP], self.vswitch.has_lost_flows())
        self.apply(doc.ACTIVE)
        self.assertEqual([], self.vswitch.has_lost_flows())
        self.vswitch.remove(VIP)
        self.assertEqual([], self.vswitch.has_lost_flows())

    def test_no_flows_are_lost_while_they_are_changed(self):
        self.apply(doc.ACTIVE)
        found, apply = [], self.flows.apply

        def slow(*args):
            found.append(self.vswitch.has_lost_flows())
            return apply(*args)

        self.patch(self.flows, 'apply', slow)
        self.apply(doc.ACTIVE, doc.ACTIVE)
        self.assertEqual([[], []], found)
        self.assertEqual([], self.vswitch.has_lost_flows())

    def test_lost_flows_of_many(self):
        """A restart is seen at once, the rest in turn."""
        self.patch(openvswitch, '_SHARE', 20)
        ids = [f'{n:08x}-1111-4111-8111-111111111111' for n in range(50)]
        document = documents.make_document(doc.ACTIVE, active=False)
        for vip_id in ids:
            self.vswitch.apply(vip_id, document)
        self.flows.flows[f'hmb{ids[45].replace("-", "")[:11]}'].clear()
        found = [self.vswitch.has_lost_flows() for _ in range(3)]
        self.assertEqual([[], [], [ids[45]]], found)
        bridges = list(self.flows.flows)
        self.flows.reset()
        self.flows.flows = {bridge: {} for bridge in bridges}
        self.assertEqual(ids, self.vswitch.has_lost_flows())

    def test_down(self):
        self.flows.is_down = True
        self.assertRaises(exceptions.VswitchUnavailable, self.apply,
                          doc.ACTIVE)
        self.assertRaises(exceptions.VswitchUnavailable, self.vswitch.check)
        # Until that has worked.
        self.assertEqual([VIP], self.vswitch.has_lost_flows())
        self.assertRaises(exceptions.VswitchUnavailable,
                          self.vswitch.announce, VIP)
        self.flows.is_down = False
        self.apply(doc.ACTIVE)
        self.assertEqual([], self.vswitch.has_lost_flows())
        self.assertEqual('3.1.0', self.vswitch.check())

    def test_meters(self):
        """Added where something is programmed that another one has not."""
        meters = self.line.return_value.add_meters
        for count in (2, 2):
            self.apply(doc.ACTIVE)
            self.assertEqual(count, meters.call_count)
            self.assertEqual(500, meters.call_args.args[0][-1].rate)
        self.apply(doc.ACTIVE, doc.ACTIVE)
        self.assertEqual(2, meters.call_count)
        self.flows.reset()
        self.apply(doc.ACTIVE, doc.ACTIVE)
        self.assertEqual(3, meters.call_count)

    def test_no_meters(self):
        log = self.useFixture(fixtures.FakeLogger())
        self.line.return_value.add_meters.return_value = False
        self.apply(doc.ACTIVE)
        self.apply(doc.ACTIVE, doc.ACTIVE)
        self.assertEqual(1, log.output.count('has no meters'))
        self.assertNotIn('meter', str(self.flows.flows))

    def test_load(self):
        """Who is full learns no more, and is said to."""
        log = self.useFixture(fixtures.FakeLogger(level='INFO'))
        self.apply(doc.ACTIVE)
        self.apply(doc.ACTIVE, doc.ACTIVE)
        calls, name = self.flows.calls, 'hmb11111111111'
        programs = [copy.deepcopy(self.flows.flows)]
        for number, full, is_new, passed in (
                (0, [], False, 0), (49999, [], False, 0),
                (50000, [], True, 0), (94999, [], False, 0),
                (95000, [VIP], True, 0), (76001, [VIP], False, 0),
                (75999, [], True, 0), (39999, [], True, 0),
                (39999, [], False, room.RETURN - 1), (39999, [], True, 1)):
            self.now += passed
            self.flows.learned[name, 25] = number
            self.assertEqual(full, self.vswitch.measure_load()['full_vips'])
            calls += is_new
            self.assertEqual(calls, self.flows.calls, number)
            self.assertEqual([], self.vswitch.has_lost_flows())
            if is_new:
                programs.append(copy.deepcopy(self.flows.flows))
        self.assertEqual(programs[0], programs[-1])
        self.assertEqual({100000}, set(self.links.bounds))
        self.assertEqual(1, log.output.count('max_pins = 100000'))

    def test_full_cache(self):
        log = self.useFixture(fixtures.FakeLogger(level='INFO'))
        # What Open vSwitch allows for is less while it is busy.
        for cached, limit, is_full, said in (
                (1899, 2000, False, 0), (1900, 2000, True, 1),
                (1530, 2000, True, 1), (1500, 2000, False, 1),
                (1500, 1000, True, 2), (0, 0, False, 2)):
            self.flows.load = ofctl.Load(10, cached, limit)
            self.assertIs(is_full, self.vswitch.measure_load()['cache_full'])
            self.assertEqual(said, log.output.count('flow-limit'))

    def test_load_of_all(self):
        log = self.useFixture(fixtures.FakeLogger(level='INFO'))
        self.conf.set_override('max_flows', 1000, 'hmsync_distributor')
        self.vswitch = self.make()
        self.apply(doc.ACTIVE)
        for number, full, bound in ((499, False, 100000), (950, True, 0),
                                    (761, True, 0), (759, False, 100000)):
            self.flows.load = ofctl.Load(number, 20, 200000)
            self.assertEqual(
                {'flows': number, 'max_flows': 1000, 'cached_flows': 20,
                 'max_cached_flows': 200000, 'full': full,
                 'cache_full': False, 'full_vips': []},
                self.vswitch.measure_load())
            self.assertEqual(bound, self.links.bounds[-1])
        self.assertEqual(1, log.output.count('max_flows = 1000'))
        self.assertEqual(1, log.output.count('remembered again'))
        # Traffic goes on, whatever ovs-appctl says.
        self.patch(self.flows, 'read_load', self.refuse)
        for _ in range(2):
            self.assertIsNone(self.vswitch.measure_load()['flows'])
        self.assertEqual(1, log.output.count('No ovs-appctl.'))

    @staticmethod
    def refuse():
        raise exceptions.VswitchUnavailable('No ovs-appctl.')

    def test_told_again(self):
        """Once a minute, of all that goes on; by the active one."""
        empty = self.line.return_value.empty
        partners = [documents.mac(90)]
        for active, others, count in ((False, partners, 0), (True, [], 0),
                                      (True, partners, 1)):
            self.apply(doc.ACTIVE, active=active, partners=others)
            self.vswitch.measure_load()
            self.now += sharing.INTERVAL
            self.vswitch.measure_load()
            self.assertEqual(count, empty.call_count)
        self.vswitch.measure_load()
        empty.assert_called_once_with(sharing.SHARED, 10)
        empty.side_effect = exceptions.VswitchUnavailable('It is down.')
        self.now += sharing.INTERVAL
        self.vswitch.measure_load()
        self.assertEqual(2, empty.call_count)

    def prove(self, *numbers, refuse=()):
        """Have members bear packets of connections of others."""
        self.patch(proof, 'prove', lambda _line, _document, macs: proof.Proof(
            frozenset(map(documents.mac, numbers)) & macs,
            frozenset(map(documents.mac, refuse)) & macs))

    def test_proven(self):
        """That is kept before it is in force."""
        self.prove(0, 1)
        self.apply(doc.ACTIVE)
        document, kept = documents.make_document(doc.ACTIVE, doc.ACTIVE), []
        before = self.vswitch.advance(document, self.state, 1000)
        state = self.vswitch.apply(
            VIP, document, before, 1000,
            lambda state: kept.append((state, self.flows.calls)))
        self.assertEqual([(state, 2)], kept)
        # What goes on goes to both before first packets go elsewhere.
        self.assertEqual((4, [3]), (self.flows.calls, self.flows.waits))
        self.assertEqual([documents.mac(0), documents.mac(1)],
                         state['proven'])
        self.assertEqual({'mappings': 2, 'pinned': []},
                         self.vswitch.describe(state))
        # Again, and by another process.
        for _ in range(2):
            self.assertEqual(state, self.vswitch.apply(
                VIP, document, state, 1001, self.fail))
            self.assertEqual(4, self.flows.calls)
            self.vswitch = self.make()

    def test_refused(self):
        """What it costs is said once."""
        log = self.useFixture(fixtures.FakeLogger())
        self.prove(0, 2, 3, refuse=[1])
        self.apply(doc.ACTIVE)
        self.apply(doc.ACTIVE, doc.ACTIVE)
        self.assertEqual({'mappings': 2, 'pinned': [
            documents.mac(0), documents.mac(1)]},
            self.vswitch.describe(self.state))
        self.apply(doc.ACTIVE, doc.ACTIVE, doc.ACTIVE)
        self.assertEqual({'mappings': 2, 'pinned': [documents.mac(1)]},
                         self.vswitch.describe(self.state))
        self.assertEqual(1, log.output.count(
            f'MAC addresses {documents.mac(1)} answer'))

    def test_proven_in_the_place_of_a_dead_one(self):
        """Also where there is one other member."""
        self.prove(0, 1, 9)
        for states in ((), (doc.ACTIVE,), ((doc.ACTIVE, 9),)):
            self.apply(doc.ACTIVE, *states)
        self.assertEqual([documents.mac(0), documents.mac(9)],
                         self.state['proven'])

    def test_not_asked(self):
        """In a cache that is too large nobody could find connections."""
        self.prove(0, 1)
        self.apply(doc.ACTIVE)
        self.flows.load = ofctl.Load(100, 100001, 200000)
        self.vswitch.measure_load()
        self.apply(doc.ACTIVE, doc.ACTIVE)
        self.assertEqual([], self.state['proven'])

    def change(self):
        """A change whose connections are found in the cache."""
        self.prove(0, 1)
        self.apply(doc.ACTIVE)
        self.apply(doc.ACTIVE, doc.ACTIVE)
        self.flows.cache = [self.show_doubled(7)]

    @staticmethod
    def show(port, actions, flags):
        return ('eth(src=52:54:00:00:00:01,dst=fa:16:3e:00:00:99),'
                'eth_type(0x0800),ipv4(src=10.0.0.9,dst=10.0.0.5,proto=6,'
                f'tos=0/0xfc,frag=no),tcp(src={port},dst=80),'
                f'tcp_flags({flags}), packets:0, actions:{actions}')

    def show_single(self, port, flags='-syn+ack'):
        return self.show(port, f'set(eth(dst={documents.mac(0)})),3', flags)

    def show_doubled(self, port):
        return self.show(
            port, f'set(eth(dst={documents.mac(0)})),set(ipv4('
            f'tos=0xdc/0xfc)),3,set(eth(dst={documents.mac(1)})),4',
            '-fin-syn-rst')

    def read_on(self, end):
        """Have the cache read until a time."""
        for now in range(1009, end, 9):
            self.vswitch.keeper.read_caches(now)

    def get_pins(self, table):
        """Return what is remembered, by the port of the client."""
        return {int(re.search('tcp_src=([0-9]+)', key)[1]): cookie
                for key, (cookie, _) in
                self.flows.flows['hmb11111111111'].items()
                if key.startswith(f'table={table},') and 'tcp_src=' in key}

    def test_large_cache(self):
        """Whose connections are is known from all of it that is read."""
        self.prove(0, 1)
        self.apply(doc.ACTIVE)
        ports = range(1, 20)
        self.flows.cache = [
            *map(self.show_single, ports),
            *(self.show_single(port, '+syn-ack')
              for port in range(40001, 42501))]
        self.flows.load = ofctl.Load(100, 100000, 200000)
        self.vswitch.measure_load()
        self.apply(doc.ACTIVE, doc.ACTIVE)
        # Of what begins, more are a flood.
        self.assertEqual(2000, len(self.get_pins(sharing.HANDSHAKES)))
        self.flows.cache = [*map(self.show_doubled, (*ports, 40000))]
        end = 1000 + 60 + 30
        self.read_on(end)
        self.apply(doc.ACTIVE, doc.ACTIVE, now=end, pin_timeout=60)
        self.assertIsNone(self.vswitch.describe(self.state))
        doubtful = sharing.DOUBTFUL << 48
        self.assertEqual(
            {**dict.fromkeys(ports, sharing.get_pin_cookie(
                documents.mac(0), sharing.TOLD)), 40000: doubtful},
            self.get_pins(sharing.PINS))

    def test_removed_while_members_change(self):
        """The cache is not read for it any more."""
        self.change()
        get_cache = self.patch_cache()
        self.vswitch.keeper.read_caches(1010)
        self.assertEqual(1, get_cache.call_count)
        self.vswitch.remove(VIP)
        self.vswitch.keeper.read_caches(1020)
        self.assertEqual(1, get_cache.call_count)

    def patch_cache(self):
        get_cache = mock.create_autospec(self.flows.get_cache,
                                         return_value=[])
        self.patch(self.flows, 'get_cache', get_cache)
        return get_cache

    def test_forgotten(self):
        """What lives on is pinned, once the cache was read for long."""
        self.change()
        document = documents.make_document(doc.ACTIVE, doc.ACTIVE)
        end = 1000 + 3600 + 30
        self.assertTrue(self.vswitch.is_due(document, self.state, end))
        # Something was missed meanwhile.
        self.vswitch.keeper.read_caches(1100)
        self.assertFalse(self.vswitch.is_due(document, self.state, end))
        for now in range(1109, end + 90, 9):
            self.vswitch.keeper.read_caches(now)
        self.assertFalse(self.vswitch.is_due(document, self.state, end + 84))
        self.assertTrue(self.vswitch.is_due(document, self.state, end + 85))
        calls = self.flows.calls
        self.apply(doc.ACTIVE, doc.ACTIVE, now=end + 85)
        self.assertIsNone(self.vswitch.describe(self.state))
        # In force before the mapping goes.
        self.assertEqual(calls + 2, self.flows.calls)
        pins = [key for key in self.flows.flows['hmb11111111111']
                if key.startswith('table=20')]
        self.assertEqual(
            ['table=20,priority=8,idle_timeout=3615,tcp,nw_src=10.0.0.9,'
             'nw_dst=10.0.0.5,tcp_src=7,tcp_dst=80'], pins)
        self.flows.learned['hmb11111111111', 20] = 1
        pin = ['10.0.0.9', 7, '10.0.0.5', 80,
               [documents.mac(0), documents.mac(1)]]
        self.assertIn(pin, self.vswitch.read_pins(VIP))

    def test_cache_is_not_read(self):
        """As long as it is not, nothing is forgotten."""
        self.change()
        document = documents.make_document(doc.ACTIVE, doc.ACTIVE)
        for broken in (ofctl.Load(100, 100001, 200000),
                       ofctl.Load(100, 51, 50)):
            self.vswitch.keeper.read_caches(1005)
            self.flows.load = broken
            self.vswitch.keeper.read_caches(1010)
            self.assertFalse(self.vswitch.is_due(document, self.state,
                                                 99999))
            self.flows.load = ofctl.Load(100, 20, 200000)
        self.vswitch.keeper.read_caches(1015)
        # It had more flows than this a moment ago, and so has lost some.
        self.flows.load = ofctl.Load(100, 5, 15)
        self.vswitch.keeper.read_caches(1016)
        self.assertFalse(self.vswitch.is_due(document, self.state, 99999))
        self.vswitch.keeper.read_caches(1017)
        self.assertTrue(self.vswitch.is_due(document, self.state, 99999))
        self.patch(self.flows, 'read_load', self.refuse)
        self.vswitch.keeper.read_caches(1020)
        self.assertFalse(self.vswitch.is_due(document, self.state, 99999))
        # Another process has seen nothing.
        self.vswitch = self.make()
        self.assertFalse(self.vswitch.is_due(document, self.state, 99999))

    def test_stands_by(self):
        """It keeps all mappings until it is told, and pins, too."""
        self.prove(0, 1)
        self.apply(doc.ACTIVE, active=False)
        self.apply(doc.ACTIVE, doc.ACTIVE, active=False)
        document = documents.make_document(doc.ACTIVE, doc.ACTIVE,
                                           active=False)
        self.assertFalse(self.vswitch.is_due(document, self.state, 99999))
        pin = ['10.0.0.9', 7, '10.0.0.5', 80, [documents.mac(0)]]
        gone = ['10.0.0.9', 8, '10.0.0.5', 80, [documents.mac(9)]]
        self.vswitch.take_pins(VIP, document, [pin, gone])
        self.assertEqual(2, len(self.flows.lines))
        self.assertNotIn('idle_timeout', self.flows.lines[1])
        # None again.
        self.vswitch.take_pins(VIP, document, [])
        self.assertEqual(2, len(self.flows.lines))
        self.flows.learned['hmb11111111111', 20] = 1
        self.vswitch.take_pins(VIP, document, [])
        self.assertEqual(1, len(self.flows.lines))
        self.vswitch.take_pins(VIP, document, [pin])
        # It becomes active, and pins have their time.
        self.apply(doc.ACTIVE, doc.ACTIVE, now=5000)
        self.assertIn('idle_timeout=3615', self.flows.lines[0])
        self.assertEqual(5000, self.state['since'])

    def test_load_of_one_that_is_gone(self):
        """Nothing is done to a bridge that has no flows any more."""
        self.apply(doc.ACTIVE)
        self.apply(doc.ACTIVE, doc.ACTIVE)
        self.flows.reset()
        self.flows.learned['hmb11111111111', 20] = 99999
        calls = self.flows.calls
        self.vswitch.measure_load()
        self.assertEqual(calls, self.flows.calls)
        self.assertEqual([VIP], self.vswitch.has_lost_flows())

    def test_counters(self):
        self.apply(doc.ACTIVE, doc.DRAINING)
        self.assertEqual(
            {'claims': 4, 'members': {
                documents.mac(n): {'packets': 1, 'bytes': 60, 'pins': 0,
                                   'connections': 0}
                for n in range(2)}}, self.vswitch.read_counters(
                    VIP, [documents.mac(n) for n in range(2)]))

    def count(self, now=1000):
        """Return what is counted of two members."""
        members = self.vswitch.read_counters(
            VIP, [documents.mac(n) for n in range(2)], now)['members']
        self.assertEqual([0, 0], [one['pins'] for one in members.values()])
        return [one['connections'] for one in members.values()]

    def test_connections(self):
        """A member has none if none can be its own."""
        self.change()
        # Some may be silent.
        self.assertEqual([None, None], self.count())
        self.read_on(1010)
        self.assertEqual([1, 1], self.count(1010))
        self.flows.cache = []
        self.read_on(1000 + 2 * 3630)
        self.assertEqual([0, 0], self.count(1000 + 2 * 3630))
        # Another process has seen nothing.
        self.vswitch = self.make()
        self.assertEqual([None, None], self.count())
        self.apply(doc.ACTIVE, doc.ACTIVE)
        self.assertEqual([None, None], self.count())

    def test_connections_of_one_that_stands_by(self):
        """It does not look."""
        self.prove(0, 1)
        for states in ((doc.ACTIVE,), (doc.ACTIVE, doc.ACTIVE)):
            self.apply(*states, active=False)
        self.assertEqual([None, None], self.count())

    def test_connections_of_one_of_several(self):
        self.change()
        self.read_on(1000 + 3690)
        self.apply(doc.ACTIVE, doc.ACTIVE, now=1000 + 3690)
        self.flows.learned['hmb11111111111', sharing.PINS] = 0
        self.assertEqual([0, 0], self.count())
        self.patch(self.flows, 'count', lambda _bridge, *matches: [
            match == recorder.DOUBTFUL for match in matches])
        self.assertEqual([1, 1], self.count())


class TestAnnouncer(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.patch(announcer, 'DELAYS', (0, 0.01, 0.02))
        self.heard = []
        self.came = threading.Condition()

    def send(self, key, *args):
        with self.came:
            self.heard.append((key, *args))
            self.came.notify_all()
        if key == 'bad':
            raise exceptions.VswitchUnavailable('No.')
        if key == 'worse':
            raise ValueError('What?')

    def wait_for(self, expected):
        with self.came:
            self.came.wait_for(lambda: len(self.heard) >= len(expected), 10)
            self.assertEqual(sorted(expected), sorted(self.heard))

    def test_several_times(self):
        one = announcer.Announcer(self.send)
        one.start('a', 1)
        self.wait_for([('a', 1)] * 3)
        # Its thread has ended, or does now.
        one.start('b')
        self.wait_for([('a', 1)] * 3 + [('b',)] * 3)

    def test_failures(self):
        """They are logged, and keep nobody else from it."""
        one = announcer.Announcer(self.send)
        for key in ('bad', 'worse', 'good'):
            one.start(key)
        self.wait_for([('bad',)] * 3 + [('worse',)] * 3 + [('good',)] * 3)

    def test_stopped(self):
        self.patch(announcer, 'DELAYS', (0.3,))
        one = announcer.Announcer(self.send)
        one.start('a')
        one.start('b')
        one.stop('a')
        self.wait_for([('b',)])
