# SPDX-License-Identifier: Apache-2.0

"""Mode failover: what a worker does, or does not do, and whoever dies."""

import types
from unittest import mock

import fixtures
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st
import sqlalchemy as sa

from octavia_hmsync.compat import workers as compat_workers
from octavia_hmsync.conf import image as image_conf
from octavia_hmsync.conf import opts as groups
from octavia_hmsync.db import models
from octavia_hmsync import exceptions
from octavia_hmsync.image.db import claim as claims_repo
from octavia_hmsync.image.db import replacement as replace_repo
from octavia_hmsync.image import inventory
from octavia_hmsync.image import outdated
from octavia_hmsync.image.preflight import run as preflight
from octavia_hmsync.image.replace import attempt
from octavia_hmsync.image.replace import stock
from octavia_hmsync.image.replace import work as work_
from octavia_hmsync.image import target
from tests.cloud import records
from tests.unit import base as unit_base
from tests.unit.image.replace import attempts

OLD, NEW = 'image-old', 'image-new'
Progress = stock.Progress


class TestJudge(unit_base.TestCase):

    def judge(self, status, *amphorae):
        return stock.judge(outdated.LoadBalancer(
            'lb', None, None, None, 'SINGLE', status,
            amphorae=tuple(amphorae)), 'old')

    def test_each(self):
        before = outdated.Amphora('old', 'ALLOCATED')
        busy = outdated.Amphora('old', 'ALLOCATED', is_busy=True)
        going = outdated.Amphora('old', 'PENDING_DELETE')
        new = outdated.Amphora('new', 'ALLOCATED')
        for expected, found in (
                (Progress.NOT_BEGUN, ('PENDING_UPDATE', before)),
                (Progress.GOES_ON, ('PENDING_UPDATE', busy)),
                (Progress.GOES_ON, ('PENDING_UPDATE', going, new)),
                (Progress.GOES_ON, ('PENDING_UPDATE', new)),
                (Progress.DONE, ('ACTIVE', new)),
                (Progress.DONE, ('ACTIVE', going, new)),
                (Progress.FAILED, ('ERROR', before)),
                (Progress.FAILED, ('ERROR',)),
                (Progress.GIVEN_BACK, ('ACTIVE', before, new))):
            self.assertEqual(expected, self.judge(*found), found)


class World:
    """A load balancer, and the one worker; who does a step at each pause.

    :param events: by the number of the step of the replacement, what is
                   raised before or after it.
    :param is_deaf: no worker takes a message.
    :param fails_at: the number of the failover that ends in ERROR.
    :param makes_bad: the number of that whose new amphora does not serve.
    """

    def __init__(self, case, topology='SINGLE', events=(), is_deaf=False,
                 fails_at=None, makes_bad=None):
        self.case = case
        self.engine = case.engine
        self.events = dict(events)
        self.steps = []
        self.is_deaf = is_deaf
        self.fails_at = fails_at
        self.makes_bad = makes_bad
        self.is_down = False
        self.asked = []
        self.bad = set()
        self.clock = 0
        self._flow = None
        self.topology = topology
        self.id = case.records.add_load_balancer(topology)
        for role in records.ROLES[topology]:
            self.add(role, image_id=OLD)
        self.before = self.ids()
        self.holder = self.before[-1]

    def add(self, role, **values):
        row = {**records.amphora_row(records.new_id(), '192.0.2.1', self.id,
                                     role), **values}
        self.case.records.insert_all({'amphora': [row]})
        return row['id']

    def amphorae(self):
        return {row['id']: row for row in
                self.case.records.rows('amphora')
                if row['load_balancer_id'] == self.id and
                row['status'] != 'DELETED'}

    def ids(self):
        return sorted(self.amphorae())

    @property
    def status(self):
        row, = (row for row in self.case.records.rows('load_balancer')
                if row['id'] == self.id)
        return row['provisioning_status']

    def set_status(self, status):
        self.case.records.change('load_balancer', self.id,
                                 provisioning_status=status)

    def step(self, name):
        """Tell of a step, and of what is to happen at it."""
        error = self.events.get(len(self.steps))
        self.steps.append(name)
        if error is not None:
            raise error

    # What stands for compat.workers.Workers

    def __call__(self):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def close(self):
        pass

    def connect(self):
        if self.is_down:
            raise OSError('amqp://octavia:secret@host')
        self.step('connect')

    def ask_for_failover(self, amphora_id):
        self.step('before asking')
        # It checks nothing; so the lock has to be there.
        assert self.status == 'PENDING_UPDATE', self.steps
        assert amphora_id not in self.asked, self.steps
        self.asked.append(amphora_id)
        if not self.is_deaf:
            self._flow = self._fail_over(amphora_id, len(self.asked))
        self.step('after asking')

    def _fail_over(self, old_id, number):
        change = self.case.records.change
        role = self.amphorae()[old_id]['role']
        change('amphora', old_id, status='PENDING_DELETE')
        yield
        if number == self.fails_at:
            change('amphora', old_id, status='ERROR')
            self.set_status('ERROR')
            return
        new_id = self.add(role, image_id=None, status='BOOTING')
        yield
        change('amphora', new_id, image_id=NEW, status='ALLOCATED')
        if number == self.makes_bad:
            self.bad.add(new_id)
        yield
        change('amphora', old_id, status='DELETED')
        if self.holder == old_id:
            self.holder = new_id
        yield
        # Nobody but it gives back what it works on.
        assert self.status == 'PENDING_UPDATE', self.steps
        self.set_status('ACTIVE')

    def pause(self, work, seconds=0.2):
        work.check()
        self.clock += seconds
        self.step('pause')
        next(self._flow or iter(()), None)


class Prover:
    """What stands for prover.Prover."""

    def __init__(self, world, work):
        self.world = world
        self.work = work

    def remember(self):
        self.world.step('remember')

    def prove_all(self, amphora_ids=None):
        self.world.step(f'prove {len(amphora_ids or self.world.ids())}')
        bad = self.world.bad & set(amphora_ids or self.world.ids())
        if bad:
            raise exceptions.NotProven(f'{", ".join(bad)} is bad.')


class StockTestCase(attempts.AttemptTestCase):

    mode = stock.Stock

    def setUp(self):
        super().setUp()
        groups.register(self.conf)
        self.conf.set_override('failover_timeout', 60, image_conf.GROUP)
        self.world = None
        for patched, name, new in (
                (work_.agent_client, 'RestAgentClient', mock.Mock()),
                (work_, 'compat_amphora', mock.Mock()),
                (attempt.preflight, 'judge',
                 lambda *args: preflight.Verdict()),
                (attempt.target, 'Targets', lambda conf:
                    types.SimpleNamespace(
                        get=lambda tag: target.Target(NEW))),
                (stock.compat_workers, 'Workers', lambda: self.world),
                (stock.whole_prover, 'WholeProver',
                 lambda work: Prover(self.world, work)),
                (stock, 'time', types.SimpleNamespace(
                    monotonic=lambda: self.world.clock)),
                (work_.Work, 'pause', lambda work, *args:
                    self.world.pause(work, *args)),
                (work_.Work, 'find_holders', lambda work, amphorae, vip: {
                    each.id: each.id == self.world.holder
                    for each in amphorae}),
                (work_.Work, 'get_load_balancer', mock.Mock())):
            self.useFixture(fixtures.MockPatchObject(patched, name, new))

    def replace(self, world, owners=9, **values):
        """Have it failed over, by several one after the other."""
        self.world = world
        return self.carry_out(replace_repo.New(
            records.new_id(), world.id, 'failover', NEW, **values), owners)

    def assertDone(self, world, row):
        self.assertEqual(('DONE', None), (row.state, row.reason))
        self.assertEqual('ACTIVE', world.status)
        self.assertFalse(set(world.before) & set(world.ids()))
        self.assertEqual(
            [(NEW, 'ALLOCATED')] * len(world.before),
            [(row['image_id'], row['status'])
             for row in world.amphorae().values()])
        self.assertEqual(set(world.before), set(world.asked))

    def assertUntouched(self, world, status='ACTIVE'):
        self.assertEqual((status, []), (world.status, world.asked))
        self.assertEqual(world.before, world.ids())


class TestStock(StockTestCase):

    def test_single(self):
        world = World(self)
        row = self.replace(world)
        self.assertDone(world, row)
        self.assertEqual(('LOCK', world.ids()[0]),
                         (row.phase, row.new_amphora_id))
        self.assertEqual(['connect', 'remember', 'before asking',
                          'after asking', 'pause'], world.steps[:5])
        self.assertEqual('prove 1', world.steps[-1])

    def test_pair(self):
        """The standby first; and each one is proven before the next."""
        world = World(self, 'ACTIVE_STANDBY')
        holder = world.holder
        self.assertDone(world, self.replace(world))
        self.assertEqual(holder, world.asked[1])
        self.assertEqual(['prove 1', 'prove 2', 'prove 2'],
                         [step for step in world.steps if 'prove' in step])
        self.assertGreater(
            len(world.steps) - world.steps[::-1].index('before asking'),
            world.steps.index('prove 2'))

    def test_forced(self):
        world = World(self, 'ACTIVE_STANDBY')
        for amphora_id in world.before:
            self.records.change('amphora', amphora_id, image_id=NEW)
        self.assertDone(world, self.replace(world, forced=True))

    def test_not_beside_one_that_does_not_serve(self):
        world = World(self, 'ACTIVE_STANDBY')
        world.bad.add(world.holder)
        row = self.replace(world)
        self.assertEqual('SKIPPED', row.state)
        self.assertIn('Nothing was begun.', row.reason)
        self.assertUntouched(world)

    def test_not_beside_error_or_busy(self):
        for status in ('ERROR', 'BOOTING'):
            world = World(self, 'ACTIVE_STANDBY')
            self.records.set_status(world.holder, status)
            row = self.replace(world)
            self.assertEqual('SKIPPED', row.state)
            self.assertUntouched(world)

    def test_error_at_the_last_moment(self):
        """Between the look and the lock; it is given back."""
        world = World(self, 'ACTIVE_STANDBY')
        connect = world.connect

        def fail():
            connect()
            self.records.set_status(world.holder, 'ERROR')

        world.connect = fail
        row = self.replace(world)
        self.assertEqual(('SKIPPED', 'in the way: AMPHORA_ERROR'),
                         (row.state, row.reason))
        self.assertUntouched(world)

    def test_bad_image(self):
        """The other one serves on."""
        world = World(self, 'ACTIVE_STANDBY', makes_bad=1)
        row = self.replace(world)
        self.assertEqual('FAILED', row.state)
        self.assertIn('is bad. No other one was touched.', row.reason)
        self.assertEqual(1, len(world.asked))
        self.assertIn(world.holder, world.ids())
        # And whoever asks again finds it, too.
        self.assertIn('Nothing was begun.', self.replace(world).reason)
        self.assertEqual(1, len(world.asked))

    def test_worker_fails(self):
        world = World(self, 'ACTIVE_STANDBY', fails_at=1)
        row = self.replace(world)
        self.assertEqual(('FAILED', 'ERROR', 1), (
            row.state, world.status, len(world.asked)))
        self.assertIn(f'image restore {world.id}', row.reason)

    def test_nobody_is_there(self):
        """What a worker may still take up is left to it."""
        world = World(self, is_deaf=True)
        row = self.replace(world)
        self.assertEqual(('FAILED', 'PENDING_UPDATE'),
                         (row.state, world.status))
        self.assertIn('No octavia-worker has begun', row.reason)
        self.assertEqual(world.before, world.ids())
        self.assertGreater(world.clock, 60)

    def test_worker_that_does_not_end(self):
        world = World(self)
        ask = world.ask_for_failover

        def hang(amphora_id):
            ask(amphora_id)
            next(world._flow)
            world._flow = None

        world.ask_for_failover = hang
        row = self.replace(world)
        self.assertEqual(('FAILED', 'PENDING_UPDATE'),
                         (row.state, world.status))
        self.assertIn('is not done after 60 s', row.reason)

    def test_given_back(self):
        world = World(self, is_deaf=True)
        pause = world.pause
        world.pause = lambda *args: (pause(*args),
                                     world.set_status('ACTIVE'))
        row = self.replace(world)
        self.assertEqual('FAILED', row.state)
        self.assertIn('was unlocked before a worker', row.reason)

    def test_another_node_of_galera(self):
        """It has not heard of the lock yet."""
        world = World(self)
        judge = stock.judge
        looks = iter([Progress.GIVEN_BACK] * 5)
        self.patch(stock, 'judge', lambda *args: next(looks, None) or
                   judge(*args))
        self.assertDone(world, self.replace(world))

    def test_deleted(self):
        """By its owner, as soon as the worker has given it back."""
        world = World(self, is_deaf=True)
        pause = world.pause
        world.pause = lambda *args: (pause(*args),
                                     world.set_status('DELETED'))
        row = self.replace(world)
        self.assertEqual(('SKIPPED', 'it was deleted'),
                         (row.state, row.reason))

    def test_no_rabbitmq(self):
        world = World(self)
        world.is_down = True
        row = self.replace(world)
        self.assertEqual('SKIPPED', row.state)
        self.assertIn('does not answer (OSError)', row.reason)
        self.assertNotIn('secret', row.reason)
        self.assertGreater(row.not_before, row.finished_at)
        self.assertUntouched(world)

    def test_no_worker_ever(self):
        """For sure nobody has the message: it is given back."""
        world = World(self, events={2: compat_workers.Undeliverable(
            None, 'octavia', 'topic', 'message')})
        row = self.replace(world)
        self.assertEqual('SKIPPED', row.state)
        self.assertIn('there is no octavia-worker', row.reason)
        self.assertUntouched(world)

    def test_nobody_knows_whether_it_was_sent(self):
        """It has arrived; or it has not, and nobody may take it back."""
        for step, state, status in ((3, 'DONE', 'ACTIVE'),
                                    (2, 'FAILED', 'PENDING_UPDATE')):
            world = World(self, events={step: OSError('reset')})
            row = self.replace(world)
            self.assertEqual((state, status), (row.state, world.status))

    def test_killed_before_anybody_was_asked(self):
        """It is given back, and begun anew."""
        world = World(self)
        enter = work_.Work.enter

        def die(work, phase, **kwargs):
            if phase == 'FAILOVER' and not world.steps.count('died'):
                world.step('died')
                raise attempts.Death
            enter(work, phase, **kwargs)

        self.patch(work_.Work, 'enter', die)
        self.assertDone(world, self.replace(world))

    def test_lost(self):
        """Whoever has lost it asks nobody."""
        world = World(self)
        self.world = world
        replace_repo.add(self.engine, replace_repo.New(
            'one', world.id, 'failover', NEW))
        claimed, = claims_repo.claim(self.engine, 'me', 1, attempts.EXPIRY)
        remember = Prover.remember

        def lose(prover):
            remember(prover)
            with self.engine.begin() as connection:
                connection.execute(sa.update(
                    models.ImageReplacement.__table__).values(
                        claim_owner='another'))

        self.patch(Prover, 'remember', lose)
        work = attempts.make_work(self.conf, self.engine, claimed, 'me')
        self.assertRaises(exceptions.Lost, stock.Stock(
            work, inventory.Inventory(self.conf, self.engine)).run)
        self.assertUntouched(world)

    @settings(max_examples=40, deadline=None)
    @given(st.sampled_from(('SINGLE', 'ACTIVE_STANDBY')),
           st.sets(st.integers(0, 30), max_size=4),
           st.sampled_from((None, 1, 2)), st.sampled_from((None, 1, 2)),
           st.booleans())
    def test_whoever_dies(self, topology, deaths, fails_at, makes_bad,
                          is_deaf):
        """Nobody is asked twice, nor what is worked on given back."""
        world = World(self, topology, dict.fromkeys(deaths, attempts.Death()),
                      is_deaf, fails_at, makes_bad)
        row = self.replace(world)
        self.assertIn(row.state, ('DONE', 'FAILED'), world.steps)
        if row.state == 'DONE':
            self.assertDone(world, row)
            self.assertEqual(set(), world.bad)
        else:
            # One at most is worse than before.
            healthy = [
                amphora_id for amphora_id, one in world.amphorae().items()
                if one['status'] == 'ALLOCATED' and
                amphora_id not in world.bad]
            self.assertGreaterEqual(len(healthy), len(world.before) - 1)
        if world.asked[len(world.before):]:
            self.fail(world.asked)
