# SPDX-License-Identifier: Apache-2.0

"""Changes of topology, with a death or a failure at any step."""

import types
from unittest import mock

import fixtures
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from octavia_hmsync import exceptions
from octavia_hmsync.image.db import cancel as cancel_repo
from octavia_hmsync.image.db import replacement as replace_repo
from octavia_hmsync.image.replace import change
from octavia_hmsync.image.replace import work as work_
from tests.cloud import records
from tests.unit import base
from tests.unit.image.replace import attempts
from tests.unit.image.replace import test_process

SINGLE, PAIR = test_process.TOPOLOGIES
OTHER = {SINGLE: PAIR, PAIR: SINGLE}


class World(test_process.World):
    """Its load balancer has the topology and the roles of the tables."""

    def get_load_balancer(self, load_balancer_id):
        found = super().get_load_balancer(load_balancer_id)
        found.topology = self.read_topology()
        roles = {row['id']: row['role']
                 for row in self.case.records.rows('amphora')}
        for each in found.amphorae:
            each.role = roles[each.id]
        return found

    def read_topology(self):
        return self.case.records.query(
            'SELECT topology FROM load_balancer WHERE id = :id',
            id=self.load_balancer_id)[0]['topology']

    def side(self, topology):
        return [each.id for each in
                self.get_load_balancer(self.load_balancer_id).amphorae
                if each.role in records.ROLES[topology]]


class Change(test_process.Topology):
    """What stands for change.Change."""

    def __init__(self, world, work):
        super().__init__(world, work)
        self.topology = work.replacement.cause_value

    def get_new_ids(self):
        return self.world.side(self.topology)

    def configure(self, old, new):
        assert len(self.get_new_ids()) == len(records.ROLES[self.topology])
        self.world.step('configure', lambda: self.world.prepared.update(
            self.get_new_ids()))

    def switch(self, old, new):
        if self.world.holder not in self.get_new_ids():
            self.world.step('switch', self._give(self.get_new_ids()[0]))

    def back(self, old, new):
        side = self.world.side(OTHER[self.topology])
        if self.world.holder not in side:
            self.world.step('give back', self._give(side[0]))


class ChangeTestCase(test_process.ProcessTestCase):

    mode = change.Process

    def setUp(self):
        super().setUp()
        self.useFixture(fixtures.MockPatchObject(
            change, 'Change', lambda work: Change(self.world, work)))

    def change(self, world):
        """Have the other topology; returns the row."""
        self.world = world
        self.target = test_process.NEW
        return self.carry_out(replace_repo.New(
            records.new_id(), world.load_balancer_id, 'replace',
            test_process.NEW, topology=world.topology, cause='TOPOLOGY',
            cause_value=OTHER[world.topology]))

    def assertIs(self, topology, world):
        """It has this topology, and nothing is left of the other one."""
        self.assertEqual(topology, world.read_topology(), world.steps)
        self.assertEqual(
            [('ALLOCATED', role) for role in sorted(records.ROLES[topology])],
            sorted((row['status'], row['role'])
                   for row in self.records.rows('amphora')
                   if row['id'] in world.ids()), world.steps)
        self.assertEqual(world.instances, set(world.ids()), world.steps)
        self.assertIn(world.holder, world.ids())
        self.assertEqual('ACTIVE', self.status(world), world.steps)
        if topology == SINGLE:
            self.assertNotIn(world.load_balancer_id, [
                row['load_balancer_id']
                for row in self.records.rows('vrrp_group')])


class TestProcess(ChangeTestCase):

    def test_to_a_pair(self):
        """Both are built before the VIP moves, and the old one goes last."""
        world = World(self, SINGLE)
        row = self.change(world)
        self.assertEqual(('DONE', None), (row.state, row.reason))
        self.assertEqual(
            ['remember', 'create', 'boot', 'create', 'boot', 'configure',
             'prove', 'switch', 'prove', 'remove', 'settle'], world.steps)
        self.assertIs(PAIR, world)

    def test_to_single(self):
        world = World(self, PAIR)
        row = self.change(world)
        self.assertEqual(('DONE', None), (row.state, row.reason))
        self.assertEqual(
            ['remember', 'create', 'boot', 'configure', 'prove', 'switch',
             'prove', 'remove', 'remove', 'settle'], world.steps)
        self.assertIs(SINGLE, world)

    def test_back(self):
        """All that is new goes, also what another housekeeper has built."""
        for topology in OTHER:
            done = World(self, topology)
            self.change(done)
            for number in range(done.steps.index('remove')):
                world = World(self, topology, {
                    number: ('after', attempts.Death())})
                before = world.ids()
                row = self.change(world)
                if 'switch' in world.steps[:number + 1]:
                    # It serves, and so goes on.
                    self.assertEqual('DONE', row.state)
                    continue
                self.assertEqual('SKIPPED', row.state, world.steps)
                self.assertEqual(before, world.ids(), world.steps)
                self.assertIs(topology, world)

    def test_second_one_is_not_built(self):
        world = World(self, SINGLE, {4: (
            'before', exceptions.BuildFailed('No valid host.'))})
        before = world.ids()
        row = self.change(world)
        self.assertEqual(('FAILED', 'No valid host.'), (row.state, row.reason))
        self.assertEqual(before, world.ids())
        self.assertIs(SINGLE, world)

    def test_cancelled(self):
        self.useFixture(fixtures.MockPatchObject(work_, '_CANCEL_INTERVAL',
                                                 0))
        for topology in OTHER:
            world = World(self, topology)
            step = world.step

            def do(name, function=lambda: None, world=world, step=step):
                if name == 'configure':
                    cancel_repo.cancel(self.engine, replace_repo.get_open(
                        self.engine)[0].id, 'Not now.')
                step(name, function)
            world.step = do
            before = world.ids()
            self.assertEqual('CANCELLED', self.change(world).state)
            self.assertEqual(before, world.ids())
            self.assertIs(topology, world)

    @settings(max_examples=40, deadline=None)
    @given(st.sampled_from(test_process.TOPOLOGIES), st.dictionaries(
        st.integers(0, 20), st.tuples(
            st.sampled_from(('before', 'after')),
            st.sampled_from((attempts.Death(),
                             exceptions.AgentUnreachable('Gone.'),
                             exceptions.BuildFailed('No host.'),
                             RuntimeError('neutron')))), max_size=3))
    def test_whatever_happens(self, topology, events):
        world = World(self, topology, events)
        row = self.change(world)
        self.assertIn(row.state, ('DONE', 'FAILED', 'SKIPPED'), world.steps)
        self.assertIs(OTHER[topology] if row.state == 'DONE' else topology,
                      world)


class Agents:
    """Amphorae of both sides; .holders have the VIP, .calls is what was asked.

    keepalived that runs takes the VIP, unless another one has it, or it is
    deaf. What does not answer raises.
    """

    def __init__(self, sides, holder):
        self.sides = sides
        self.holders = [holder]
        self.running = {holder} & set(sides[PAIR])
        self.calls = []
        self.silent = set()
        self.deaf = False
        # How many had the VIP at once, after each call.
        self.numbers = [1]

    def get_load_balancer(self):
        return types.SimpleNamespace(
            id='lb', topology=SINGLE, additional_vips=[],
            vip=types.SimpleNamespace(ip_address='192.0.2.5'),
            listeners=[types.SimpleNamespace(enabled=True)],
            amphorae=[types.SimpleNamespace(
                id=name, role=role, lb_network_ip=name, vrrp_ip=name)
                for topology, names in self.sides.items()
                for name, role in zip(names, records.ROLES[topology],
                                      strict=False)])

    def hold(self, name, holds):
        self.holders = [each for each in self.holders if each != name]
        if holds:
            self.holders.append(name)

    def elect(self):
        if self.running and not self.deaf and not (
                self.running & set(self.holders)):
            self.hold(min(self.running), True)

    def make(self, amphora, timeout=None):
        name = amphora.id

        def ask(what, function=lambda: None):
            def call(*_args):
                if name in self.silent:
                    raise exceptions.AgentUnreachable(f'{name} is silent.')
                self.calls.append(f'{what} {name}')
                function()
                self.numbers.append(len(self.holders))
            return call

        def stop():
            self.running.discard(name)
            self.hold(name, False)
            self.elect()

        def start():
            self.running.add(name)
            self.elect()
        return types.SimpleNamespace(
            holds=lambda vip: name in self.holders,
            take_vip=ask('take', lambda: self.hold(name, True)),
            release_vip=ask('release', lambda: self.hold(name, False)),
            advertise=ask('announce'),
            upload_keepalived=lambda text: ask(f'upload {text}')(),
            start_keepalived=ask('start', start),
            stop_keepalived=ask('stop', stop))


class TestChange(base.TestCase):

    def make(self, to, holder):
        self.agents = agents = Agents(
            {SINGLE: ['alone'], PAIR: ['first', 'second']}, holder)
        work = mock.Mock(spec=work_.Work, engine=None, load_balancer_id='lb',
                         replacement=mock.Mock(cause_value=to),
                         network=mock.Mock())
        work.agent_of.side_effect = agents.make
        work.insist.side_effect = lambda function, *args: function(*args)
        work.ask_network.side_effect = lambda key, function, *args: function(
            *args)
        work.get_load_balancer.side_effect = (
            lambda without=(): agents.get_load_balancer())
        work.find_holders.side_effect = lambda amphorae, vip: {
            each.id: None if each.id in agents.silent
            else each.id in agents.holders for each in amphorae}
        work.get_listeners.return_value.update.side_effect = (
            lambda load_balancer, each: agents.calls.append(
                f'listeners {each.id} {load_balancer.topology} '
                f'{"+".join(a.id for a in load_balancer.amphorae)}'))
        self.busy = []
        for target, name, new in (
                (change.octavia_repo, 'set_interface', lambda *args: None),
                (change.octavia_repo, 'set_busy',
                 lambda _engine, ids: self.busy.extend(ids)),
                (change.own_list, 'give_of_zone', lambda work, new: None),
                (change.own_list, 'give', lambda work, new, topology:
                 agents.calls.append(f'{topology} {new.id}')),
                (change.compat_amphora, 'ensure_vrrp_group',
                 lambda lb_id: agents.calls.append('group')),
                (change.single.Single, '_read', lambda *args: 'plugged'),
                (change.pair.Pair, 'render', lambda *args: 'text'),
                (change.pair, 'hush', lambda text: f'hushed {text}'),
                (change.pair.Pair, 'set_interface', lambda *args: None),
                (change.pair, 'time', types.SimpleNamespace(
                    monotonic=lambda: work.pause.call_count))):
            self.useFixture(fixtures.MockPatchObject(target, name, new))
        self.work = work
        return change.Change(work)

    def test_configure(self):
        """The new side has peers of its own side, and hears them."""
        self.make(PAIR, 'alone').configure(None, None)
        self.assertEqual(
            ['group', 'listeners first ACTIVE_STANDBY first+second',
             'listeners second ACTIVE_STANDBY first+second'],
            self.agents.calls)
        found, = self.work.network.update_vip.call_args.args
        self.assertEqual(PAIR, found.topology)
        self.make(SINGLE, 'first').configure(None, None)
        self.assertEqual(['listeners alone SINGLE alone'], self.agents.calls)
        self.work.network.update_vip.assert_not_called()

    def test_to_a_pair(self):
        self.make(PAIR, 'alone').switch('old', 'new')
        self.assertEqual(
            ['upload text first', 'start first', 'upload text second',
             'start second', 'release alone'], self.agents.calls)
        self.assertEqual(['first'], self.agents.holders)
        self.assertNotIn(0, self.agents.numbers)

    def test_to_single(self):
        """The holder is hushed, or neighbours would turn back to it.

        The standby stops first, or it would take the VIP.
        """
        topology = self.make(SINGLE, 'first')
        self.agents.running = {'first', 'second'}
        topology.switch('old', 'new')
        self.assertEqual(
            ['SINGLE alone', 'upload hushed text first', 'start first',
             'take alone', 'announce alone', 'stop second',
             *['announce alone'] * 4, 'stop first', *['announce alone'] * 4],
            self.agents.calls)
        self.assertEqual(['alone'], self.agents.holders)
        self.assertNotIn(0, self.agents.numbers)
        self.assertEqual(['first', 'second'], self.busy)

    def test_twice(self):
        """Another housekeeper repeats a switch that was done."""
        for to, holder in ((PAIR, 'alone'), (SINGLE, 'first')):
            topology = self.make(to, holder)
            topology.switch('old', 'new')
            holders = self.agents.holders
            topology.switch('old', 'new')
            self.assertEqual(holders, self.agents.holders)
            self.assertNotIn(0, self.agents.numbers)

    def test_back(self):
        """Also where what is new does not answer any more."""
        for to, holder, silent in (
                (PAIR, 'alone', ()), (PAIR, 'alone', ('first',)),
                (SINGLE, 'first', ()), (SINGLE, 'first', ('alone',)),
                (SINGLE, 'first', ('second',))):
            topology = self.make(to, holder)
            topology.switch('old', 'new')
            self.agents.silent = set(silent)
            topology.back('old', 'new')
            self.assertEqual(
                {'alone'} if to == PAIR else {'first'},
                set(self.agents.holders) - self.agents.silent, (to, silent))
            self.assertNotIn(0, self.agents.numbers)

    def test_not_taken(self):
        """Then the old one keeps it."""
        topology = self.make(PAIR, 'alone')
        self.agents.deaf = True
        error = self.assertRaises(exceptions.NotProven, topology.switch,
                                  'old', 'new')
        self.assertIn('does not choose one for the VIP', str(error))
        self.assertEqual(['alone'], self.agents.holders)

    def test_fails(self):
        """What is new is not taken without an answer."""
        for to, holder, silent in ((PAIR, 'alone', 'second'),
                                   (SINGLE, 'first', 'alone')):
            topology = self.make(to, holder)
            self.agents.silent = {silent}
            self.assertRaises(exceptions.AgentUnreachable, topology.switch,
                              'old', 'new')
            self.assertIn(holder, self.agents.holders)

    def test_old_side_is_dead(self):
        for to, holder in ((PAIR, 'alone'), (SINGLE, 'first')):
            topology = self.make(to, holder)
            self.agents.silent = set(self.agents.sides[
                OTHER[to]]) | {holder}
            topology.switch(None, 'new')
            self.assertIn(self.agents.sides[to][0], self.agents.holders)

    def test_leave(self):
        """Each in the way of its side, whichever way it goes."""
        topology = self.make(PAIR, 'alone')
        for each in self.agents.get_load_balancer().amphorae:
            topology.leave(each)
        self.assertEqual(['release alone', 'stop first', 'stop second'],
                         self.agents.calls)

    def test_one_is_gone(self):
        """A pair is not proven by one of them."""
        topology = self.make(PAIR, 'alone')
        self.assertEqual(['first', 'second'], topology.get_new_ids())
        self.agents.sides[PAIR] = ['first']
        error = self.assertRaises(exceptions.NotProven, topology.get_new_ids)
        self.assertIn('only first is left', str(error))

    def test_holders(self):
        topology = self.make(PAIR, 'alone')
        self.assertEqual({'alone'}, topology.get_holders('a', 'b', False))
        self.assertEqual({'first', 'second'},
                         topology.get_holders('a', 'b', True))
