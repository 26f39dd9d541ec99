# SPDX-License-Identifier: Apache-2.0

"""Replacements in any world: whoever dies, and whatever fails, at any step."""

import types
from unittest import mock

import fixtures
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st
import sqlalchemy as sa
from taskflow.patterns import linear_flow
from taskflow import retry
from taskflow import task

from octavia_hmsync.amphora import removal
from octavia_hmsync import compute
from octavia_hmsync.conf import opts as groups
from octavia_hmsync.db import models
from octavia_hmsync.db import octavia_amphora as octavia_repo
from octavia_hmsync import exceptions
from octavia_hmsync.image.db import cancel as cancel_repo
from octavia_hmsync.image.db import claim as claims_repo
from octavia_hmsync.image.db import evidence as evidence_repo
from octavia_hmsync.image.db import replacement as replace_repo
from octavia_hmsync.image.db import rollout as rollout_repo
from octavia_hmsync.image import inventory
from octavia_hmsync.image import phases
from octavia_hmsync.image.preflight import run as preflight
from octavia_hmsync.image.replace import attempt
from octavia_hmsync.image.replace import process
from octavia_hmsync.image.replace import work as work_
from octavia_hmsync.image import target
from tests.cloud import records
from tests.unit import base
from tests.unit.image.replace import attempts

OLD, NEW = 'image-old', 'image-new'
TOPOLOGIES = ('SINGLE', 'ACTIVE_STANDBY')


class World:
    """The amphorae, and what happens at which step.

    .events are by the number of the step: what is raised before it is done,
    or after it.
    """

    def __init__(self, case, topology, events=()):
        self.case = case
        self.engine = case.engine
        self.topology = topology
        self.events = dict(events)
        self.steps = []
        self.are_members_at_fault = False
        self.load_balancer_id = case.records.add_load_balancer(topology)
        self.instances = set()
        self.prepared = set()
        # Those that do not answer.
        self.silent = set()
        # How often Neutron does not tell what the way back needs.
        self.is_away = 0
        # What of an amphora cannot be deleted.
        self.undeletable = []
        # Those whose keepalived was stopped, or that left the VIP.
        self.left = set()
        for role in records.ROLES[topology]:
            self.add(OLD, role)
        self.holder = self.ids()[-1]
        self.prepared |= set(self.ids())

    def add(self, image_id, role, amphora_id=None):
        row = {**records.amphora_row(
            amphora_id or records.new_id(), '192.0.2.1',
            self.load_balancer_id, role), 'image_id': image_id}
        self.case.records.insert_all({'amphora': [row]})
        self.instances.add(row['id'])
        return row['id']

    def ids(self):
        return sorted(evidence_repo.read(
            self.engine, self.load_balancer_id).amphorae)

    def step(self, name, function=lambda: None):
        """Do something; or die, or fail, before or after it."""
        when, what = self.events.get(len(self.steps), ('', None))
        self.steps.append(name)
        if name == 'remove' and not isinstance(what, attempts.Death):
            # It tells what it could not delete, and raises nothing.
            when = ''
        if when == 'before':
            raise what
        function()
        # Clients are served by somebody who knows how.
        assert self.holder in self.instances & self.prepared, self.steps
        if when == 'after':
            raise what

    # What stands for Octavia

    def build(self, work, load_balancer, role):
        amphora_id = records.new_id()

        def record():
            self.add(NEW, role, amphora_id)
            work.new_id = amphora_id
            work.enter(phases.Phase.BUILD, new_amphora_id=amphora_id)
        self.step('create', record)
        self.step('boot')

    def remove(self, work, amphora, answers):
        # One that answers was told to leave the VIP.
        if answers():
            assert amphora.id in self.left

        def gone():
            self.instances.discard(amphora.id)
            octavia_repo.set_gone(self.engine, amphora.id)
        self.step('remove', gone)
        assert not answers()
        return list(self.undeletable)

    def look(self, amphora):
        if amphora.id in self.silent or amphora.id not in self.instances:
            raise exceptions.AgentUnreachable('No answer.')

    def leave(self, amphora):
        self.look(amphora)
        self.left.add(amphora.id)

    def get_load_balancer(self, load_balancer_id):
        found = evidence_repo.read(self.engine, load_balancer_id).amphorae
        return types.SimpleNamespace(
            id=load_balancer_id, topology=self.topology,
            vip=types.SimpleNamespace(ip_address='192.0.2.5'),
            amphorae=[types.SimpleNamespace(
                id=each.id, status=each.status, role='BACKUP',
                lb_network_ip=each.lb_network_ip)
                for each in found.values()])


class Topology:
    """What stands for single.Single and pair.Pair."""

    def __init__(self, world, work):
        self.world = world
        self.work = work

    def get_holders(self, old_id, new_id, is_switched):
        return frozenset()

    def configure(self, old, new):
        self.world.step('configure', lambda: self.world.prepared.add(new.id))

    def _give(self, amphora_id):
        def give():
            self.world.holder = amphora_id
        return give

    def switch(self, old, new):
        if old is None or self.world.holder == old.id:
            self.world.step('switch', self._give(new.id))

    def leave(self, amphora):
        self.world.leave(amphora)

    def back(self, old, new):
        if self.world.is_away:
            self.world.is_away -= 1
            raise exceptions.CloudUnavailable('Neutron does not tell.')
        if new is not None and self.world.holder == new.id:
            self.world.step('give back', self._give(old.id))

    def settle(self, gone_id):
        self.world.step('settle')


class Prover:
    """What stands for prover.Prover."""

    def __init__(self, world, work):
        self.world = world
        self.work = work
        self.is_alone = False

    def remember(self):
        self.world.step('remember')

    def prove(self, is_switched):
        def check():
            if is_switched and self.world.holder == self.work.old_id:
                raise exceptions.NotProven('It has the VIP.')
            if self.work.new_id not in self.world.prepared:
                raise exceptions.NotProven('It does not serve.')
        self.world.step('prove', check)

    def were_members_at_fault(self):
        return self.world.are_members_at_fault

    def serves(self, amphora):
        return amphora is not None and self.world.holder == amphora.id


def _raise(error):
    raise error


class ProcessTestCase(attempts.AttemptTestCase):

    mode = process.Process

    def setUp(self):
        super().setUp()
        groups.register(self.conf)
        for patched, name, new in (
                (work_.agent_client, 'RestAgentClient', mock.Mock()),
                (work_, 'compat_amphora', mock.Mock()),
                (attempt.preflight, 'judge', self._judge),
                (attempt.target, 'Targets', self._make_targets),
                (process, 'build', self._build),
                (process.removal, 'remove', self._remove),
                (process.single, 'Single', self._make_topology),
                (process.pair, 'Pair', self._make_topology),
                (process.prover, 'Prover', self._make_prover)):
            self.useFixture(fixtures.MockPatchObject(patched, name, new))
        work_.compat_amphora.get_load_balancer = self._get_load_balancer
        for name, new in (('find_holders', self._find_holders),
                          ('agent_of', self._agent_of),
                          ('pause', lambda *args: None),
                          ('insist', self._insist)):
            self.useFixture(fixtures.MockPatchObject(work_.Work, name, new))
        self.world = None

        self.target = NEW

    def _judge(self, *args):
        return preflight.Verdict()

    def _make_targets(self, conf):
        return types.SimpleNamespace(
            get=lambda tag: target.Target(self.target))

    def _build(self, work, found, role, _zone):
        return self.world.build(work, found, role)

    def _remove(self, *args):
        return self.world.remove(*args)

    def _make_topology(self, work):
        return Topology(self.world, work)

    def _make_prover(self, work, *_):
        return Prover(self.world, work)

    def _get_load_balancer(self, load_balancer_id):
        return self.world.get_load_balancer(load_balancer_id)

    def _find_holders(self, amphorae, vip):
        return {each.id: None if each.id in self.world.silent
                else each.id == self.world.holder for each in amphorae}

    def _agent_of(self, amphora, timeout=None):
        def get_listeners():
            self.world.look(amphora)
            return {}
        return types.SimpleNamespace(get_listeners=get_listeners,
                                     holds=lambda vip: True)

    @staticmethod
    def _insist(work, function, *args):
        raise exceptions.AgentUnreachable('No answer.')

    def replace(self, world, forced=False, image_id=NEW):
        """Replace, with a successor for each who dies; returns the row."""
        self.world = world
        self.target = image_id
        return self.carry_out(replace_repo.New(
            records.new_id(), world.load_balancer_id, 'replace', image_id,
            forced=forced))

    def images(self, world):
        return sorted(each.image_id for each in evidence_repo.read(
            self.engine, world.load_balancer_id).amphorae.values())

    def status(self, world):
        return self.records.query(
            'SELECT provisioning_status FROM load_balancer WHERE id = :id',
            id=world.load_balancer_id)[0]['provisioning_status']

    def assertWhole(self, world, row):
        """As many amphorae as before, and nothing else; given back."""
        number = len(records.ROLES[world.topology])
        found = evidence_repo.read(self.engine, world.load_balancer_id)
        self.assertEqual(world.instances, set(found.amphorae), world.steps)
        self.assertEqual(
            ['ALLOCATED'] * number,
            [each.status for each in found.amphorae.values()], world.steps)
        self.assertIn(world.holder, found.amphorae)
        self.assertEqual('ACTIVE', self.status(world), world.steps)
        if row.state == 'DONE':
            self.assertEqual([NEW] * number, self.images(world))


class Hosts:
    """Stands for compute.Compute: instances by the ids of amphorae."""

    def __init__(self):
        self.on = {}
        # Of what is built.
        self.next = 'host2'
        self.enabled = {'host1': False, 'host2': True}

    def get_hosts(self, _host=None):
        return self.on

    def list_hosts(self):
        return [compute.Host(name, is_enabled=is_enabled)
                for name, is_enabled in self.enabled.items()]


class TestHosts(ProcessTestCase):
    """Amphorae leave a host, whatever their image is."""

    def setUp(self):
        super().setUp()
        self.hosts = Hosts()
        self.useFixture(fixtures.MockPatchObject(
            compute, 'connect', lambda _conf: self.hosts))

    def drain(self, topology, *on, image_id=NEW, **events):
        """Have amphorae on hosts, and the first host drained."""
        self.world = World(self, topology, **events)
        for amphora_id, host in zip(self.world.ids(), on, strict=True):
            self.hosts.on[amphora_id] = host
            self.records.change('amphora', amphora_id, image_id=image_id,
                                compute_id=amphora_id)
        self.target = NEW
        return self.carry_out(replace_repo.New(
            records.new_id(), self.world.load_balancer_id, 'replace', NEW,
            cause='HOST', cause_value='host1'))

    def _build(self, work, *args):
        super()._build(work, *args)
        self.hosts.on[work.new_id] = self.hosts.next
        self.records.change('amphora', work.new_id, compute_id=work.new_id)

    def where(self):
        return sorted(self.hosts.on[each] for each in self.world.ids())

    def test_single(self):
        row = self.drain('SINGLE', 'host1')
        self.assertEqual(('DONE', None), (row.state, row.reason))
        self.assertWhole(self.world, row)
        self.assertEqual(['host2'], self.where())

    def test_one_of_a_pair(self):
        """The other one stays, be its image old."""
        row = self.drain('ACTIVE_STANDBY', 'host1', 'host3', image_id=OLD)
        self.assertEqual('DONE', row.state)
        self.assertEqual(['host2', 'host3'], self.where())
        self.assertEqual([NEW, OLD], self.images(self.world))
        self.assertEqual(1, self.world.steps.count('remove'))

    def test_both_of_a_pair(self):
        row = self.drain('ACTIVE_STANDBY', 'host1', 'host1')
        self.assertWhole(self.world, row)
        self.assertEqual(['host2', 'host2'], self.where())

    def test_host_dies_meanwhile(self):
        """The new one serves; of what is left there nothing is waited for."""
        row = self.drain('SINGLE', 'host1', events={
            6: ('before', exceptions.NotProven('unknown')),
            **{step: ('before', exceptions.AgentUnreachable('No answer.'))
               for step in (7, 8, 9)}})
        self.assertEqual('DONE', row.state)
        self.assertIn('cannot have the VIP again: No answer.', row.reason)
        self.assertWhole(self.world, row)
        self.assertEqual(['host2'], self.where())

    def test_no_amphora_is_there(self):
        row = self.drain('SINGLE', 'host2')
        self.assertEqual(('DONE', []), (row.state, self.world.steps))

    def test_new_one_is_there_too(self):
        """It is not taken, and the old one goes on serving."""
        self.hosts.next = 'host1'
        row = self.drain('SINGLE', 'host1')
        self.assertEqual('FAILED', row.state)
        self.assertIn('have to leave host host1, too, and is', row.reason)
        self.assertWhole(self.world, row)
        self.assertNotIn('switch', self.world.steps)

    def test_host_takes_instances_again(self):
        self.hosts.enabled['host1'] = True
        row = self.drain('SINGLE', 'host1')
        self.assertEqual(('SKIPPED', []), (row.state, self.world.steps))
        self.assertIn('service set --disable host1', row.reason)


class TestBalance(ProcessTestCase):
    """One of a pair goes back to the zone that it left."""

    def setUp(self):
        super().setUp()
        self.hosts = [compute.Host('host1', zone='az1'),
                      compute.Host('host2', zone='az2')]
        self.useFixture(fixtures.MockPatchObject(
            compute, 'connect', lambda _conf: mock.Mock(
                list_hosts=lambda: self.hosts)))
        self.world = World(self, 'ACTIVE_STANDBY')
        for amphora_id in self.world.ids():
            self.records.change('amphora', amphora_id, cached_zone='az2')
        self.goes_to = None
        self.judged = []

    def _judge(self, *args):
        self.judged.append(args[-1])
        return super()._judge(*args)

    def _build(self, work, found, role, zone):
        super()._build(work, found, role, zone)
        self.records.change('amphora', work.new_id,
                            cached_zone=self.goes_to or zone)

    def balance(self):
        """Carry out a rollout out of az1, and one that evens out."""
        rollout_repo.add(self.engine, 'rollout', rollout_repo.from_options(
            self.conf.hmsync_image, cause='ZONE', cause_value='az1'))
        claims_repo.begin(self.engine, 'rollout', 0, [replace_repo.New(
            'one', self.world.load_balancer_id, 'replace', NEW,
            cause='ZONE', cause_value='az1', was_spread=True)], 'me', 60)
        claims_repo.finish(self.engine, 'one', 'me', 'DONE')
        self.target = NEW
        return self.carry_out(replace_repo.New(
            records.new_id(), self.world.load_balancer_id, 'replace', NEW,
            cause='BALANCE'))

    def zones(self):
        return {row['id']: row['cached_zone'] for row in self.records.query(
            'SELECT id, cached_zone FROM amphora WHERE status = :status',
            status='ALLOCATED')}

    def test_one_goes_back(self):
        """The one that serves stays, so that no connection breaks."""
        holder = self.world.holder
        row = self.balance()
        self.assertEqual(('DONE', None), (row.state, row.reason))
        zones = self.zones()
        self.assertEqual(['az1', 'az2'], sorted(zones.values()))
        self.assertEqual((holder, 'az2'), (self.world.holder, zones[holder]))
        self.assertNotIn('switch', self.world.steps)
        self.assertEqual(['az1'], self.judged)

    def test_it_comes_to_the_same_zone(self):
        self.goes_to = 'az2'
        row = self.balance()
        self.assertEqual('FAILED', row.state)
        self.assertIn('came to zone az2, which has more', row.reason)
        self.assertEqual(['az2', 'az2'], sorted(self.zones().values()))

    def test_no_host_there(self):
        self.hosts.pop(0)
        row = self.balance()
        self.assertEqual(('DONE', []), (row.state, self.world.steps))


class TestProcess(ProcessTestCase):

    def test_single(self):
        world = World(self, 'SINGLE')
        row = self.replace(world)
        self.assertEqual(('DONE', None), (row.state, row.reason))
        self.assertWhole(world, row)
        self.assertEqual(
            ['remember', 'create', 'boot', 'configure', 'prove', 'switch',
             'prove', 'remove', 'settle'], world.steps)

    def test_pair(self):
        """The one that has the VIP goes last."""
        world = World(self, 'ACTIVE_STANDBY')
        row = self.replace(world)
        self.assertEqual('DONE', row.state)
        self.assertWhole(world, row)
        self.assertEqual(1, world.steps.count('switch'))
        self.assertGreater(world.steps.index('switch'),
                           world.steps.index('remove'))

    def test_nothing_to_do(self):
        world = World(self, 'SINGLE')
        row = self.replace(world, image_id=OLD)
        self.assertEqual(('DONE', []), (row.state, world.steps))

    def test_forced(self):
        """Each one that was there, and none that it has built."""
        for topology in TOPOLOGIES:
            world = World(self, topology)
            before = set(world.ids())
            for amphora_id in before:
                self.records.change('amphora', amphora_id, image_id=NEW)
            row = self.replace(world, forced=True)
            self.assertWhole(world, row)
            self.assertEqual(set(), before & set(world.ids()))
            self.assertEqual(len(before), world.steps.count('create'))

    def test_failed(self):
        world = World(self, 'SINGLE', {4: ('before', exceptions.NotProven(
            'No heartbeat.'))})
        row = self.replace(world)
        self.assertEqual(('FAILED', 'No heartbeat.'), (row.state, row.reason))
        self.assertWhole(world, row)
        self.assertEqual([OLD], self.images(world))

    def test_the_only_one_died(self):
        """The new one takes the VIP, whether the old one leaves it or not."""
        world = World(self, 'SINGLE')
        real = world.step

        def step(name, function=lambda: None):
            if name == 'switch':
                # Nothing is asked of it.
                self.assertEqual([], sorted(world.left))
            real(name, function)
        world.step = step
        self.useFixture(fixtures.MockPatchObject(
            Prover, 'is_alone', True, create=True))
        row = self.replace(world)
        self.assertEqual('DONE', row.state)
        self.assertWhole(world, row)

    def test_no_certificates(self):
        """A service that is away says nothing of the image."""
        for topology in TOPOLOGIES:
            world = World(self, topology, {3: (
                'before', exceptions.SecretsUnavailable('Barbican.'))})
            row = self.replace(world)
            self.assertEqual(('SKIPPED', 'Barbican.'),
                             (row.state, row.reason))
            self.assertWhole(world, row)

    def test_members_failed(self):
        """What happens to members is tried again later."""
        world = World(self, 'SINGLE', {4: ('before', exceptions.NotProven(
            'Members.'))})
        world.are_members_at_fault = True
        row = self.replace(world)
        self.assertEqual(
            ('SKIPPED', 'Members. They are no better without it.'),
            (row.state, row.reason))
        self.assertGreater(row.not_before, row.finished_at)
        self.assertWhole(world, row)

    def test_one_left_something_and_the_other_failed(self):
        """The row tells of both."""
        world = World(self, 'ACTIVE_STANDBY', {12: (
            'before', exceptions.NotProven('No heartbeat.'))})
        world.undeletable = ['port 1']
        row = self.replace(world)
        left = ('Could not be deleted: port 1; see "octavia-hmsync image '
                'leaks".')
        self.assertEqual(('FAILED', f'No heartbeat. {left} {left}'),
                         (row.state, row.reason))
        self.assertEqual([NEW, OLD], self.images(world))

    def test_unexpected(self):
        """What nobody thought of leads back, too."""
        world = World(self, 'SINGLE', {5: ('after', KeyError('mtu'))})
        row = self.replace(world)
        self.assertEqual('FAILED', row.state)
        self.assertIn('KeyError, see the log of the housekeeper', row.reason)
        self.assertWhole(world, row)
        self.assertEqual([OLD], self.images(world))

    def test_busy(self):
        """What is locked by somebody else is tried again later."""
        world = World(self, 'SINGLE')
        self.records.change('load_balancer', world.load_balancer_id,
                            provisioning_status='PENDING_UPDATE')
        row = self.replace(world)
        self.assertEqual('SKIPPED', row.state)
        self.assertGreater(row.not_before, row.finished_at)
        self.assertEqual('PENDING_UPDATE', self.status(world))
        self.assertEqual([], world.steps)

    def test_error_beside(self):
        """Never beside an amphora in ERROR."""
        world = World(self, 'ACTIVE_STANDBY')
        self.records.set_status(world.ids()[0], 'ERROR')
        row = self.replace(world)
        self.assertEqual(('SKIPPED', 'in the way: AMPHORA_ERROR'),
                         (row.state, row.reason))
        self.assertEqual(('ACTIVE', []), (self.status(world), world.steps))

    def test_deleted(self):
        world = World(self, 'SINGLE')
        self.records.change('load_balancer', world.load_balancer_id,
                            provisioning_status='DELETED')
        row = self.replace(world)
        self.assertEqual(('SKIPPED', 'it was deleted', None),
                         (row.state, row.reason, row.not_before))

    def test_old_one_dies(self):
        """What serves is not given up for what cannot any more."""
        world = World(self, 'SINGLE', {
            6: ('before', exceptions.NotProven('unknown')),
            **{step: ('before', exceptions.AgentUnreachable('No answer.'))
               for step in (7, 8, 9)}})
        row = self.replace(world)
        self.assertEqual('DONE', row.state)
        self.assertIn('cannot have the VIP again: No answer.', row.reason)
        self.assertWhole(world, row)

    def test_dead_amphora(self):
        """Octavia fails it over; nothing is built beside it."""
        world = World(self, 'ACTIVE_STANDBY')
        world.silent = {world.ids()[0]}
        row = self.replace(world)
        self.assertEqual('SKIPPED', row.state)
        self.assertIn(f'{world.ids()[0]} does not answer', row.reason)
        self.assertEqual(('ACTIVE', []), (self.status(world), world.steps))
        # Its owner was not locked out for that, nor a rate used up.
        self.assertEqual((None, None), (row.phase, row.old_amphora_id))

    def test_amphora_dies_meanwhile(self):
        """It is no fault of the image."""
        world = World(self, 'ACTIVE_STANDBY')
        old = world.ids()

        def die():
            world.silent = {old[0]}
            return exceptions.NotProven('It does not say.')
        step = world.step
        world.step = lambda name, function=lambda: None: (
            _raise(die()) if name == 'configure' else step(name, function))
        row = self.replace(world)
        self.assertEqual('SKIPPED', row.state)
        self.assertIn('It does not say. Amphora', row.reason)
        self.assertEqual([OLD, OLD], self.images(world))
        self.assertEqual('ACTIVE', self.status(world))

    def test_back_at_last(self):
        """One that does not answer for a moment gets the VIP back."""
        world = World(self, 'SINGLE', {
            6: ('before', exceptions.NotProven('unknown')),
            7: ('before', exceptions.AgentUnreachable('No answer.'))})
        row = self.replace(world)
        self.assertEqual(('FAILED', 'unknown'), (row.state, row.reason))
        self.assertEqual([OLD], self.images(world))

    def test_lost(self):
        """Whoever has lost it does nothing more."""
        world = World(self, 'SINGLE')

        def lose():
            with self.engine.begin() as connection:
                connection.execute(sa.update(
                    models.ImageReplacement.__table__).values(
                        claim_owner='another'))
        world.step = mock.Mock(side_effect=lambda name, function=None: (
            function() if function else None,
            lose() if name == 'configure' else None))
        self.assertRaises(exceptions.Lost, self.replace, world)
        self.assertEqual(['remember', 'create', 'boot', 'configure', 'prove'],
                         [call.args[0] for call in world.step.mock_calls])

    def test_stopped(self):
        """One that ends leaves it where the next one can go on."""
        world = World(self, 'SINGLE')
        world.step = mock.Mock(side_effect=lambda name, function=None: (
            function() if function else None,
            work.held.claims.stopping.set() if name == 'boot' else None))
        self.world = world
        replace_repo.add(self.engine, replace_repo.New(
            'one', world.load_balancer_id, 'replace', NEW))
        claimed, = claims_repo.claim(self.engine, 'me', 1, attempts.EXPIRY)
        work = attempts.make_work(self.conf, self.engine, claimed, 'me')
        self.assertRaises(exceptions.Stopped, process.Process(
            work, inventory.Inventory(self.conf, self.engine)).run)
        self.assertEqual('BUILD', replace_repo.get(self.engine, 'one').phase)

    @settings(max_examples=60, deadline=None)
    @given(st.sampled_from(TOPOLOGIES), st.dictionaries(
        st.integers(0, 25), st.tuples(
            st.sampled_from(('before', 'after')),
            st.sampled_from((attempts.Death(),
                             exceptions.AgentUnreachable('Gone.'),
                             exceptions.BuildFailed('No host.'),
                             RuntimeError('neutron')))), max_size=3))
    def test_whatever_happens(self, topology, events):
        world = World(self, topology, events)
        row = self.replace(world)
        self.assertIn(row.state, ('DONE', 'FAILED', 'SKIPPED'), world.steps)
        self.assertWhole(world, row)


class TestCancel(ProcessTestCase):
    """An operator wants it back, while a step is done."""

    def setUp(self):
        super().setUp()
        self.useFixture(fixtures.MockPatchObject(work_, '_CANCEL_INTERVAL',
                                                 0))

    def cancel_at(self, topology, number, undeletable=()):
        """Cancel it at a step, by the number of that."""
        world = World(self, topology)
        world.undeletable += undeletable
        step = world.step

        def do(name, function=lambda: None):
            if len(world.steps) == number:
                cancel_repo.cancel(self.engine, replace_repo.get_open(
                    self.engine)[0].id, 'The owner calls.')
            step(name, function)
        world.step = do
        row = self.replace(world)
        self.assertWhole(world, row)
        return world, row

    def test_where_there_is_a_way_back(self):
        # Of ['remember', 'create', 'boot', 'configure', 'prove', 'switch',
        # 'prove', 'remove', 'settle']; what leads to another phase looks.
        for number, name in enumerate(('remember', 'create', 'boot',
                                       'configure', 'prove')):
            world, row = self.cancel_at('SINGLE', number)
            self.assertEqual(('CANCELLED', 'The owner calls.', None),
                             (row.state, row.reason, row.not_before), name)
            self.assertEqual([OLD], self.images(world))
            self.assertNotIn('switch', world.steps)

    def test_with_the_vip(self):
        """The prover looks while it waits; the VIP goes back."""
        prove = Prover.prove

        def look(prover, is_switched):
            prove(prover, is_switched)
            prover.work.check()
        self.useFixture(fixtures.MockPatchObject(Prover, 'prove', look))
        for number in (5, 6):
            world, row = self.cancel_at('SINGLE', number)
            self.assertEqual('CANCELLED', row.state)
            self.assertEqual([OLD], self.images(world))
            self.assertIn('give back', world.steps)

    def test_something_is_left(self):
        """The row says so, beside what the operator said."""
        _world, row = self.cancel_at('SINGLE', 3, ['port 1'])
        self.assertEqual(
            ('CANCELLED', 'The owner calls. Could not be deleted: port 1; '
             'see "octavia-hmsync image leaks".'), (row.state, row.reason))

    def test_past_the_way_back(self):
        for number in (7, 8):
            world, row = self.cancel_at('SINGLE', number)
            self.assertEqual(('DONE', [NEW]), (row.state,
                                               self.images(world)))

    def test_one_of_a_pair_is_done(self):
        """It stays so, and the other one is not begun."""
        world, row = self.cancel_at('ACTIVE_STANDBY', 7)
        self.assertEqual('remove', world.steps[6], world.steps)
        self.assertEqual(('CANCELLED', [NEW, OLD]),
                         (row.state, self.images(world)))

    def test_one_that_failed_by_itself(self):
        world = World(self, 'SINGLE', {4: ('before', exceptions.NotProven(
            'No heartbeat.'))})
        step = world.step

        def do(name, function=lambda: None):
            if name == 'settle':
                cancel_repo.cancel(self.engine, replace_repo.get_open(
                    self.engine)[0].id, 'The owner calls.')
            step(name, function)
        world.step = do
        row = self.replace(world)
        self.assertEqual(('FAILED', 'No heartbeat.'), (row.state, row.reason))

    @settings(max_examples=60, deadline=None)
    @given(st.sampled_from(TOPOLOGIES), st.integers(0, 20),
           st.dictionaries(st.integers(0, 25), st.tuples(
               st.sampled_from(('before', 'after')),
               st.sampled_from((attempts.Death(),
                                exceptions.AgentUnreachable('Gone.'),
                                RuntimeError('neutron')))), max_size=3))
    def test_whatever_happens(self, topology, number, events):
        """Also where whoever works on it dies: the wish is in the row."""
        world = World(self, topology, events)
        step = world.step

        def do(name, function=lambda: None):
            if len(world.steps) == number:
                cancel_repo.cancel(self.engine, replace_repo.get_open(
                    self.engine)[0].id, 'The owner calls.')
            step(name, function)
        world.step = do
        row = self.replace(world)
        self.assertIn(row.state, ('DONE', 'FAILED', 'SKIPPED', 'CANCELLED'))
        if row.state == 'SKIPPED':
            self.assertIsNone(row.cancel_requested)
        self.assertWhole(world, row)


class TestPermission(ProcessTestCase):
    """What is told before the lock; nothing was touched then."""

    def refuse(self, *args, **kwargs):
        world = World(self, 'SINGLE')
        found = preflight.Verdict(*args, **kwargs)
        self.useFixture(fixtures.MockPatchObject(
            attempt.preflight, 'judge', lambda *args: found))
        row = self.replace(world)
        self.assertEqual([], world.steps)
        self.assertIsNone(row.phase)
        self.assertWhole(world, row)
        return row

    def test_failure(self):
        row = self.refuse(('The VIP is gone.', 'The group is gone.'))
        self.assertEqual(('FAILED', 'The VIP is gone. The group is gone.'),
                         (row.state, row.reason))

    def test_what_its_owner_broke(self):
        """It says nothing of the image."""
        row = self.refuse(('The VIP is gone.',), is_tenants=True)
        self.assertEqual(('REFUSED', 'The VIP is gone.', None),
                         (row.state, row.reason, row.not_before))

    def test_what_passes(self):
        row = self.refuse(('Neutron is down.',), is_passing=True)
        self.assertEqual(('SKIPPED', 'Neutron is down.'),
                         (row.state, row.reason))
        self.assertGreater(row.not_before, row.finished_at)

    def test_warnings_are_no_matter(self):
        row = self.refuse_nothing(preflight.Verdict(warnings=('Perhaps.',)))
        self.assertEqual('DONE', row.state)

    def refuse_nothing(self, found):
        self.useFixture(fixtures.MockPatchObject(
            attempt.preflight, 'judge', lambda *args: found))
        world = World(self, 'SINGLE')
        row = self.replace(world)
        self.assertWhole(world, row)
        return row

    def test_asked_once_and_not_under_the_lock(self):
        """Whoever takes up what is locked has to end it."""
        asked = []
        self.useFixture(fixtures.MockPatchObject(
            attempt.preflight, 'judge', lambda *args: (
                asked.append(1) or preflight.Verdict(
                    () if len(asked) == 1 else ('Gone.',)))))
        world = World(self, 'ACTIVE_STANDBY', {6: ('after', attempts.Death())})
        row = self.replace(world)
        self.assertEqual('remove', world.steps[6], world.steps)
        self.assertEqual(('FAILED', 'Gone.'), (row.state, row.reason))
        self.assertWhole(world, row)
        self.assertEqual([NEW, OLD], self.images(world))

    def test_newer_image(self):
        world = World(self, 'SINGLE')
        self.useFixture(fixtures.MockPatchObject(
            attempt.target, 'Targets', lambda conf: types.SimpleNamespace(
                get=lambda tag: target.Target('newest'))))
        row = self.replace(world)
        self.assertEqual('SKIPPED', row.state)
        self.assertIn('of image newest', row.reason)
        self.assertEqual([], world.steps)


class TestRemoval(ProcessTestCase):
    """What cannot be deleted, with the removal as it is."""

    def setUp(self):
        self.remove = removal.remove
        super().setUp()
        for name, new in (('get_member_ports', lambda amphora_id: []),
                          ('forget_member_port', lambda port_id: None)):
            self.useFixture(fixtures.MockPatchObject(
                removal.compat_amphora, name, new))
        # How often Nova refuses; what happens at each pause.
        self.refusals = 0
        self.on_pause = lambda: None
        self.useFixture(fixtures.MockPatchObject(
            work_.Work, 'pause', lambda *args: self.on_pause()))
        self.seen = []

    def _remove(self, work, amphora, answers):
        world = self.world

        def delete(compute_id):
            # Its peers know it, and it knows that it is to go.
            assert 'settle' not in world.steps[world.begun:], world.steps
            assert amphora.id in world.left
            if self.refusals:
                self.refusals -= 1
                self.seen.append(replace_repo.get_open(self.engine)[0])
                raise OSError('503 of Keystone')
            world.instances.discard(amphora.id)

        work.compute = types.SimpleNamespace(delete=delete)
        work.network = types.SimpleNamespace(
            delete_port=lambda port_id: None, get_port_by_name=mock.Mock(
                side_effect=removal.compat_amphora.PortNotFound))
        world.begun = len(world.steps)
        return self.remove(work, amphora, answers)

    def make(self, topology, events=()):
        world = World(self, topology, events)
        for amphora_id in world.ids():
            self.records.change('amphora', amphora_id, compute_id=amphora_id)
        add = world.add

        def add_with_instance(*args):
            found = add(*args)
            self.records.change('amphora', found, compute_id=found)
            return found
        world.add = add_with_instance
        return world

    def test_nova_is_away(self):
        for topology in TOPOLOGIES:
            self.seen.clear()
            # In four tries one removal gives up once.
            self.refusals = 30
            world = self.make(topology)
            row = self.replace(world)
            self.assertEqual(('DONE', None), (row.state, row.reason))
            self.assertWhole(world, row)
            self.assertEqual({'DELETE_OLD'}, {r.phase for r in self.seen})
            self.assertIn('still answers, though its instance',
                          self.seen[-1].reason)

    def test_nova_is_away_on_the_way_back(self):
        for topology in TOPOLOGIES:
            self.seen.clear()
            self.refusals = 30
            world = self.make(topology, {4: (
                'before', exceptions.NotProven('No heartbeat.'))})
            row = self.replace(world)
            self.assertEqual(('FAILED', 'No heartbeat.'),
                             (row.state, row.reason))
            self.assertWhole(world, row)
            self.assertEqual({'BACK'}, {r.phase for r in self.seen})

    def test_housekeeper_ends_meanwhile(self):
        """The next one goes on deleting; the lock stays."""
        world = self.make('ACTIVE_STANDBY')
        self.refusals = 30
        deaths = [6, 3]

        def die():
            if self.seen and deaths:
                deaths[-1] -= 1
                if not deaths[-1]:
                    deaths.pop()
                    raise attempts.Death
        self.on_pause = die
        row = self.replace(world)
        self.assertEqual([], deaths)
        self.assertEqual(('DONE', 3), (row.state, row.attempts))
        self.assertWhole(world, row)

    def test_it_falls_silent_and_cannot_be_deleted(self):
        world = self.make('ACTIVE_STANDBY')
        self.refusals = 10 ** 6

        def fall_silent():
            if len(self.seen) >= 9:
                # Its network is cut off.
                world.silent |= {self.seen[-1].old_amphora_id}
        self.on_pause = fall_silent
        row = self.replace(world)
        self.assertEqual('DONE', row.state)
        self.assertIn('Could not be deleted: instance ', row.reason)
        self.assertIn('"octavia-hmsync image leaks"', row.reason)


class TestNeutronAway(ProcessTestCase):
    """The VIP is to go back, and Neutron does not tell how."""

    def setUp(self):
        super().setUp()
        self.reasons = []
        self.useFixture(fixtures.MockPatchObject(
            work_.Work, 'pause', lambda *args: self.reasons.append(
                replace_repo.get_open(self.engine)[0].reason)))

    def go_back(self, topology, serves):
        """Have the new one be bad once it has the VIP."""
        self.useFixture(fixtures.MockPatchObject(
            Prover, 'serves', lambda *_: serves))
        bad = exceptions.NotProven('No heartbeat.')
        world = World(self, topology, {6: ('before', bad)})
        world.is_away = 20
        return world, self.replace(world)

    def test_it_is_waited_for(self):
        """One of the two always has the VIP."""
        for serves in (False, True):
            self.reasons.clear()
            world, row = self.go_back('SINGLE', serves)
            self.assertEqual(('FAILED', 'No heartbeat.'),
                             (row.state, row.reason))
            self.assertWhole(world, row)
            self.assertEqual([OLD], self.images(world))
            self.assertEqual(20, len(self.reasons))
            self.assertIn('stays locked: Neutron does not tell.',
                          self.reasons[-1])

    def test_old_one_does_not_take_it(self):
        """What serves nobody is deleted; the row says what is missing."""
        world = World(self, 'SINGLE', {6: (
            'before', exceptions.NotProven('No heartbeat.'))})
        self.useFixture(fixtures.MockPatchObject(
            Prover, 'serves', lambda *_: False))
        self.useFixture(fixtures.MockPatchObject(
            Topology, 'back', lambda *_: _raise(
                exceptions.AgentUnreachable('No answer.'))))
        self.useFixture(fixtures.MockPatchObject(
            World, 'remove', lambda *_: ['port 1']))
        self.useFixture(fixtures.MockPatchObject(
            Topology, 'settle', lambda *_: _raise(
                exceptions.AgentUnreachable('Nor here.'))))
        row = self.replace(world)
        self.assertEqual(
            ('FAILED', 'No heartbeat. The old amphora cannot have the VIP '
             'again: No answer. Could not be deleted: port 1; see '
             '"octavia-hmsync image leaks". Nor here.'),
            (row.state, row.reason))


class TestGone(ProcessTestCase):
    """The row of the old amphora is gone, in the middle."""

    def lose(self, world, step):
        """Lose it when a step begins."""
        original = world.step

        def wrapped(name, function=lambda: None):
            if name == step and not world.lost:
                world.lost = [r.old_amphora_id for r in
                              replace_repo.get_open(self.engine)]
                world.instances.difference_update(world.lost)
                octavia_repo.set_gone(self.engine, world.lost[0])
                if world.holder in world.lost:
                    world.holder = next(iter(world.instances))
                    world.prepared |= world.instances
            original(name, function)
        world.lost = []
        world.step = wrapped

    def test_single(self):
        for step in ('switch', 'prove'):
            for events in ({}, {6: ('before', exceptions.NotProven('No.'))}):
                world = World(self, 'SINGLE', events)
                self.lose(world, step)
                row = self.replace(world)
                with self.subTest(f'{step} {events} {world.steps}'):
                    self.assertEqual('DONE', row.state, row.reason)
                    self.assertWhole(world, row)
                    self.assertEqual([NEW], self.images(world))
                    if events:
                        self.assertIn('is gone, so that amphora', row.reason)

    def test_it_does_not_serve(self):
        world = World(self, 'SINGLE', {6: ('before', exceptions.NotProven(
            'No.'))})
        self.lose(world, 'prove')
        self.useFixture(fixtures.MockPatchObject(
            Prover, 'serves', lambda *_: False))
        row = self.replace(world)
        self.assertEqual('FAILED', row.state)
        self.assertIn('It is not shown to serve.', row.reason)
        self.assertWhole(world, row)


CREATE = 'prefix-' + process.compat_amphora.CREATE_TASK


class Step(task.Task):

    def __init__(self, name, done, error=None):
        super().__init__(name=name)
        self.done = done
        self.error = error

    def execute(self):
        self.done.append(self.name)
        if self.error:
            raise self.error
        return 'new-amphora'

    def revert(self, *args, **kwargs):
        self.done.append(f'undo {self.name}')


class TestBuild(base.TestCase):

    def setUp(self):
        super().setUp()
        self.done = []
        self.work = mock.Mock(spec=work_.Work, new_id=None, engine=None,
                              conf=self.make_conf())
        self.useFixture(fixtures.MockPatchObject(
            process.drain_repo, 'get_build_zone', return_value='az2'))
        self.work.enter.side_effect = (
            lambda phase, **ids: self.done.append((str(phase), ids)))

    def build(self, *steps, error=None):
        flow = linear_flow.Flow('build', retry=retry.AlwaysRevert())
        for name in steps:
            flow.add(Step(name, self.done, error if name == steps[-1]
                          else None))
        self.useFixture(fixtures.MockPatchObject(
            process.compat_amphora, 'make_build_flow',
            lambda load_balancer, role, zone: (flow, {})))
        process.build(self.work, mock.sentinel.load_balancer, 'MASTER')

    def test_id_comes_first(self):
        """Nothing is built before the row names the amphora."""
        self.build('before', CREATE, 'boot', 'plug')
        self.assertEqual(
            ['before', CREATE, ('BUILD', {'new_amphora_id': 'new-amphora'}),
             'boot', 'plug'], self.done)
        self.assertEqual('new-amphora', self.work.new_id)

    def test_failed(self):
        e = self.assertRaises(exceptions.BuildFailed, self.build, CREATE,
                              'boot', error=ValueError('No valid\nhost.'))
        self.assertEqual('The new amphora could not be built: ValueError: '
                         'No valid host.', str(e))
        self.assertEqual(['boot', 'undo boot', f'undo {CREATE}'],
                         self.done[2:])

    def test_lost(self):
        """Nothing more is done, and nothing undone: it is somebody else's."""
        self.work.enter.side_effect = exceptions.Lost
        self.assertRaises(exceptions.Lost, self.build, CREATE, 'boot')
        self.assertEqual([CREATE], self.done)

    def test_stopped(self):
        self.work.check.side_effect = [None, None, exceptions.Stopped]
        self.assertRaises(exceptions.Stopped, self.build, 'before', CREATE,
                          'boot', 'plug', 'more')
        self.assertEqual('boot', self.done[-1])

    def test_nobody_can_record(self):
        """Without the database nothing is built, either."""
        self.work.enter.side_effect = OSError('down')
        self.assertRaises(OSError, self.build, CREATE, 'boot')
        self.assertEqual([CREATE], self.done)
