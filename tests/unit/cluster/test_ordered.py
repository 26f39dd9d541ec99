# SPDX-License-Identifier: Apache-2.0

"""Members of a cluster: what its manager does, or does not, and who dies."""

import datetime
import types
from unittest import mock

import fixtures
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st
import sqlalchemy as sa

from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster import image_replacement as ordered
from octavia_hmsync.conf import image as image_conf
from octavia_hmsync.conf import opts as groups
from octavia_hmsync.db import models
from octavia_hmsync import exceptions
from octavia_hmsync.image.db import cancel as cancel_repo
from octavia_hmsync.image.db import replacement as replace_repo
from octavia_hmsync.image.preflight import run
from octavia_hmsync.image.replace import attempt
from octavia_hmsync.image.replace import work as work_
from octavia_hmsync.image import target
from tests.cloud import records
from tests.db_cases.cluster import calls as cluster_calls
from tests.unit.image.replace import attempts

OLD, NEW = 'image-old', 'image-new'


class World:
    """A load balancer on a cluster; its manager does a step at each pause.

    :param standby: how many stand by.
    :param events: by the number of the step of the replacement, what is
                   raised at it.
    :param is_deaf: no manager takes an order up.
    :param fails_at: the number of the order that cannot be carried out.
    :param makes_bad: the number of that whose new amphora does not serve.
    :param image: of new amphorae.
    """

    def __init__(self, case, size=3, standby=0, events=(), is_deaf=False,
                 fails_at=None, makes_bad=None, image=NEW):
        self.case, self.engine = case, case.engine
        self.events = dict(events)
        self.steps = []
        self.is_deaf, self.fails_at = is_deaf, fails_at
        self.makes_bad, self.image = makes_bad, image
        self.bad, self.taken = set(), []
        self.clock = 0
        self._work = None
        self.id = case.records.add_load_balancer('ACTIVE_ACTIVE')
        case.records.change('load_balancer', self.id,
                            provider='amphora_cluster')
        self.cluster_id = records.new_id()
        cluster_repo.add(self.engine, cluster_calls.new(
            id=self.cluster_id, load_balancer_id=self.id, desired_size=size,
            min_size=1, standby=standby))
        cluster_repo.set_status(self.engine, self.cluster_id, 'ACTIVE')
        for number in range(size + standby):
            self.add(OLD, 'ACTIVE' if number < size else 'STANDBY')
        # They are from before anything was asked for.
        with self.engine.begin() as connection:
            connection.execute(
                sa.update(models.ClusterMember.__table__)
                .values(created_at=sa.func.datetime('now', '-1 hours')))
        self.before = self.by_slot()

    def add(self, image, state):
        row = {**records.amphora_row(records.new_id(), '192.0.2.1', self.id,
                                     'IN_CLUSTER'), 'image_id': image}
        row['created_at'] -= datetime.timedelta(hours=2)
        self.case.records.insert_all({'amphora': [row]})
        member_id = records.new_id()
        size = 0 if state in ('STANDBY', 'BUILDING') else 9
        member_repo.add(self.engine, self.cluster_id, member_id, size)
        member_repo.assign_amphora(self.engine, member_id, row['id'])
        if state != 'BUILDING':
            member_repo.set_state(self.engine, member_id, ('BUILDING',),
                                  state)
        return member_id

    def members(self):
        return member_repo.get_of_cluster(self.engine, self.cluster_id)

    def by_slot(self):
        return {member.slot: member.amphora_id for member in self.members()
                if member.state == 'ACTIVE'}

    def images(self):
        return [row['image_id'] for row in self.case.records.rows('amphora')
                if row['load_balancer_id'] == self.id and
                row['status'] != 'DELETED']

    def step(self, name):
        error = self.events.get(len(self.steps))
        self.steps.append(name)
        if error is not None:
            raise error

    # The manager

    def _manage(self):
        members = self.members()
        leaving = [m for m in members if m.ordered == 'REPLACE' and
                   m.slot is None and m.state != 'STANDBY']
        if leaving:
            self._delete(leaving[0])
            return
        for member in members:
            if member.ordered == 'REPLACE' and not self.is_deaf:
                self._work = self._replace(member)
                self.taken.append(member.amphora_id)
                return

    def _delete(self, member):
        self.case.records.set_status(member.amphora_id, 'DELETED')
        member_repo.delete(self.engine, member.id)

    def _replace(self, member):
        number = len(self.taken)
        if number == self.fails_at:
            member_repo.record(self.engine, member.id, error='No host.')
            return
        new = self.add(self.image, 'BUILDING')
        if number == self.makes_bad:
            self.bad.add(member_repo.get(self.engine, new).amphora_id)
        yield
        if member.state == 'STANDBY':
            member_repo.set_state(self.engine, new, ('BUILDING',), 'STANDBY')
            yield
            self._delete(member)
        else:
            assert member_repo.take_over_slot(self.engine, new, member.id)

    def pause(self, work, seconds=0.2):
        work.check()
        self.clock += seconds
        self.step('pause')
        if self._work is None:
            self._manage()
        elif next(self._work, self) is self:
            self._work = None


class Prover:
    """What stands for whole_prover.WholeProver."""

    def __init__(self, world):
        self.world = world

    def remember(self):
        self.world.step('remember')

    def prove_all(self, amphora_ids):
        self.world.step('prove')
        if self.world.bad & set(amphora_ids):
            raise exceptions.NotProven('It is bad.')


class TestOrdered(attempts.AttemptTestCase):

    mode = ordered.Ordered

    def setUp(self):
        super().setUp()
        groups.register(self.conf)
        self.conf.set_override('failover_timeout', 60, image_conf.GROUP)
        self.world = None
        for patched, name, new in (
                (work_.agent_client, 'RestAgentClient', mock.Mock()),
                (work_, 'compat_amphora', mock.Mock()),
                (attempt.preflight, 'judge',
                 lambda *args: run.Verdict()),
                (attempt.target, 'Targets', lambda conf:
                    types.SimpleNamespace(
                        get=lambda tag: target.Target(NEW))),
                (ordered.whole_prover, 'WholeProver',
                 lambda work, is_vip_shared: Prover(self.world)),
                (ordered, 'time', types.SimpleNamespace(
                    monotonic=lambda: self.world.clock)),
                (work_.Work, 'pause', lambda work, *args:
                    self.world.pause(work, *args))):
            self.useFixture(fixtures.MockPatchObject(patched, name, new))

    def test_cancelled(self):
        """The order is taken back while no other one is in its place."""
        world = World(self, is_deaf=True)
        step = world.step

        def do(name):
            step(name)
            if len(world.steps) == 3:
                cancel_repo.cancel(self.engine, replace_repo.get_open(
                    self.engine)[0].id, 'The owner calls.')
        world.step = do
        row = self.replace(world)
        self.assertEqual(('CANCELLED', 'The owner calls.'),
                         (row.state, row.reason))
        self.assertEqual({None}, {m.ordered for m in world.members()})
        self.assertEqual([OLD] * 3, world.images())

    def test_cancelled_when_one_is_done(self):
        """That one stays, and no other one is ordered."""
        world = World(self)
        step = world.step

        def do(name):
            step(name)
            if name == 'prove':
                cancel_repo.cancel(self.engine, replace_repo.get_open(
                    self.engine)[0].id, 'The owner calls.')
        world.step = do
        row = self.replace(world)
        self.assertEqual('CANCELLED', row.state)
        self.finish(world)
        self.assertEqual([NEW, OLD, OLD], sorted(world.images()))

    def replace(self, world, owners=9, **values):
        self.world = world
        return self.carry_out(replace_repo.New(
            records.new_id(), world.id, 'replace', NEW, 'ACTIVE_ACTIVE',
            **values), owners)

    def finish(self, world):
        """Let the manager do what is left."""
        for _ in range(9):
            world.events = {}
            world.pause(mock.Mock())

    def assertDone(self, world, row):
        self.assertEqual(('DONE', None), (row.state, row.reason))
        self.assertEqual('LOCK', row.phase)
        self.finish(world)
        self.assertEqual([NEW] * 3, world.images())
        self.assertEqual(sorted(world.before), sorted(world.by_slot()))
        self.assertEqual([None] * 3, [m.ordered for m in world.members()])

    def assertOneTaken(self, world, row, words, taken=1):
        self.assertEqual('FAILED', row.state)
        self.assertIn(words, row.reason)
        self.assertEqual(taken, len(world.taken))
        self.assertNotIn('REPLACE', [
            m.ordered for m in world.members() if m.slot is not None])

    def test_one_after_the_other(self):
        """By slot, and each is proven before the next."""
        world = World(self)
        row = self.replace(world)
        self.assertDone(world, row)
        self.assertEqual([world.before[slot] for slot in range(3)],
                         world.taken)
        self.assertEqual(3, world.steps.count('prove'))
        self.assertEqual(world.by_slot()[2], row.new_amphora_id)
        self.assertEqual(world.before[2], row.old_amphora_id)

    def test_those_that_stand_by_first(self):
        world = World(self, size=2, standby=1)
        spare = next(m.amphora_id for m in world.members()
                     if m.state == 'STANDBY')
        self.assertDone(world, self.replace(world))
        self.assertEqual(spare, world.taken[0])

    def test_nothing_to_do(self):
        world = World(self, image=OLD)
        for amphora_id in world.before.values():
            self.records.change('amphora', amphora_id, image_id=NEW)
        self.assertEqual('DONE', self.replace(world).state)
        self.assertEqual([], world.taken)

    def test_forced(self):
        world = World(self)
        for amphora_id in world.before.values():
            self.records.change('amphora', amphora_id, image_id=NEW)
        self.assertDone(world, self.replace(world, forced=True))
        self.assertEqual(3, len(world.taken))

    def test_not_whole(self):
        world = World(self)
        member_repo.set_state(self.engine, world.members()[1].id,
                              ('ACTIVE',), 'DRAINING')
        row = self.replace(world)
        self.assertEqual(('SKIPPED', 'in the way: NOT_WHOLE'),
                         (row.state, row.reason))
        self.assertIsNotNone(row.not_before)
        self.assertEqual([], world.taken)
        # What an operator has ordered is no fault.
        member_repo.set_order(self.engine, world.members()[1].id, 'DRAIN')
        self.assertDone(world, self.replace(world))

    def test_in_error(self):
        world = World(self)
        self.records.change('load_balancer', world.id,
                            provisioning_status='ERROR')
        self.assertEqual('in the way: ERROR', self.replace(world).reason)
        self.assertEqual([], world.taken)

    def test_cannot_be_replaced(self):
        """It serves on, and no other one is touched."""
        world = World(self, fails_at=2)
        row = self.replace(world)
        self.assertOneTaken(world, row, 'could not be replaced, and serves '
                                        'on: No host.', 2)
        self.finish(world)
        self.assertEqual([NEW, OLD, OLD], sorted(world.images()))

    def test_bad_image(self):
        world = World(self, makes_bad=1)
        self.assertOneTaken(world, self.replace(world),
                            'It is bad. No other one was touched.')

    def test_nobody_takes_it_up(self):
        world = World(self, is_deaf=True)
        self.assertOneTaken(world, self.replace(world),
                            'was not replaced within 60 s, and serves on', 0)
        self.assertGreater(world.clock, 60)

    def test_taken_back(self):
        world = World(self, is_deaf=True)
        pause = world.pause

        def cancel(*args):
            pause(*args)
            member_repo.set_order(self.engine, world.members()[0].id, None)

        world.pause = cancel
        self.assertOneTaken(world, self.replace(world),
                            'The order was taken back', 0)

    def test_older_error(self):
        """What went wrong with it before says nothing."""
        world = World(self)
        for member in world.members():
            member_repo.record(self.engine, member.id, error='older')
        self.assertDone(world, self.replace(world))

    def test_falls_silent_meanwhile(self):
        """What speaks against it is no reason to keep it."""
        world = World(self)
        add = world.add

        def fall_silent(*args):
            member = next(m for m in world.members() if m.ordered)
            member_repo.set_health(self.engine, member.id, 'SUSPECT',
                                   'No heartbeat.')
            return add(*args)

        world.add = fall_silent
        self.assertDone(world, self.replace(world))

    def test_drains_for_long(self):
        """The next one waits for that, and has its own time."""
        world = World(self)
        delete, left = world._delete, {}

        def wait(member):
            left[member.id] = left.get(member.id, 0) + 1
            if left[member.id] > 90:
                delete(member)

        world._delete = wait
        self.assertEqual('DONE', self.replace(world).state)
        self.assertGreater(world.clock, 180)

    def test_deleted(self):
        for change in (
                lambda world: self.records.change(
                    'load_balancer', world.id,
                    provisioning_status='DELETED') or
                cluster_repo.delete(self.engine, world.cluster_id),
                lambda world: cluster_repo.set_status(
                    self.engine, world.cluster_id, 'PENDING_DELETE')):
            world = World(self, is_deaf=True)
            pause = world.pause

            def delete(*args, world=world, pause=pause, change=change):
                pause(*args)
                change(world)

            world.pause = delete
            row = self.replace(world)
            self.assertEqual(('SKIPPED', 'it was deleted'),
                             (row.state, row.reason))

    def test_another_image_by_now(self):
        """None is replaced twice."""
        world = World(self, image='newer')
        self.assertEqual('DONE', self.replace(world).state)
        self.assertEqual(3, len(world.taken))

    @settings(max_examples=25, deadline=None)
    @given(st.sets(st.integers(0, 30), max_size=4))
    def test_whoever_dies(self, steps):
        world = World(self, events={n: attempts.Death() for n in steps})
        self.assertDone(world, self.replace(world))
        self.assertEqual(3, len(world.taken))
        self.assertEqual(set(world.before.values()), set(world.taken))
