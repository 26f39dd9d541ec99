# SPDX-License-Identifier: Apache-2.0

"""What is looked at for the rollout that runs, and what is not."""

import datetime
import types

import fixtures
from oslo_utils import timeutils

from octavia_hmsync import compute
from octavia_hmsync.conf import opts as groups
from octavia_hmsync.db import models
from octavia_hmsync.image.db import cancel as cancel_repo
from octavia_hmsync.image.db import claim as claims_repo
from octavia_hmsync.image.db import replacement as replace_repo
from octavia_hmsync.image.db import rollout as rollout_repo
from octavia_hmsync.image.rollout import keeper as rollout_keeper
from octavia_hmsync.image import target
from octavia_hmsync.sync.db import zone_drain as drain_repo
from tests.cloud import records
from tests.db_cases import base
from tests.db_cases.image import calls as image_calls
from tests.unit.db import sqlite

# Never in the month of the test.
CLOSED = 'Mon 00:00-00:01'
OLD, NEW = 'image-old', 'image-new'


class KeeperTestCase(sqlite.SqliteMixin, base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        groups.register(self.conf)
        self.useFixture(fixtures.MockPatchObject(
            rollout_keeper.target, 'Targets', lambda conf:
            types.SimpleNamespace(get=lambda tag, image=self.image:
                                  target.Target(image))))
        self.image = NEW
        self.now = 0.0
        self.subject = rollout_keeper.RolloutKeeper(
            self.conf, self.engine, clock=lambda: self.now)

    def start(self, name='rollout', **settings):
        rollout_repo.add(self.engine, name, rollout_repo.Settings(**{
            'mode': 'replace', 'canaries': 1, 'parallel': 1,
            'parallel_per_az': 0, 'rate_per_hour': 0, 'max_failures': 1,
            'windows': '', **settings}))

    def add(self, image_id=OLD):
        """Have a load balancer with one amphora; returns its id."""
        lb_id = self.records.add_load_balancer()
        amphora_id = self.records.add_amphora('192.0.2.1', lb_id)
        self.records.change('amphora', amphora_id, image_id=image_id)
        self.records.set_health(amphora_id)
        return lb_id

    def begin(self, lb_id, name='one'):
        rollout = rollout_repo.get_active(self.engine)
        new = replace_repo.New(name, lb_id, 'replace', NEW, 'SINGLE',
                               canary=True, operating_status='ONLINE')
        claims_repo.begin(self.engine, 'rollout', rollout.version, [new],
                          'me', 600)

    def finish(self, state='DONE', name='one'):
        claims_repo.finish(self.engine, name, 'me', state)

    def look(self):
        """Look once; returns the load balancers that begin."""
        rollout = self.subject.watch()
        return [] if rollout is None else [
            candidate.load_balancer_id
            for candidate, _ in self.subject.decide(rollout)]

    def get(self):
        return rollout_repo.get(self.engine, 'rollout')

    def state(self, name='one'):
        return replace_repo.get(self.engine, name).state


class TestPurge(sqlite.SqliteMixin, base.DatabaseTestCase):

    def test_history(self):
        log = self.useFixture(fixtures.FakeLogger(
            'octavia_hmsync', format='%(levelname)s %(message)s'))
        for days in (0, 89, 91):
            replace_repo.add(self.engine, image_calls.new(days))
            cancel_repo.cancel(self.engine, f'replacement{days}', 'because')
            self.make_older(models.ImageReplacement, 'finished_at',
                            days * 86400, id=f'replacement{days}')
        rollout_keeper.purge(self.make_conf(hmsync_image={'history_days': 0}),
                             self.engine)
        self.assertEqual(3, len(self.rows(models.ImageReplacement)))
        for _ in range(2):
            rollout_keeper.purge(self.make_conf(), self.engine)
        self.assertEqual(
            {'replacement0', 'replacement89'},
            {row.id for row in self.rows(models.ImageReplacement)})
        self.assertEqual(
            'INFO Deleted 0 rollouts of images and 1 replacements of '
            'amphorae: they ended more than 90 days ago.\n', log.output)


class TestDrainedZone(KeeperTestCase):

    def test_what_follows_its_end(self):
        """Whatever a rollout that leaves it would still begin."""
        self.useFixture(fixtures.MockPatchObject(
            compute, 'connect', lambda conf: types.SimpleNamespace(
                list_hosts=list)))
        lb_id = self.add()
        amphora_id, = (row['id'] for row in self.records.rows('amphora'))
        self.records.change('amphora', amphora_id, cached_zone='az1')
        drain_repo.begin(self.engine, 'az1', timeutils.utcnow() +
                         datetime.timedelta(hours=1), False)
        self.start(cause='ZONE', cause_value='az1')
        self.assertEqual([lb_id], self.look())
        drain_repo.end(self.engine, 'az1')
        self.assertEqual([], self.look())
        self.assertEqual('CANCELLED', self.get().state)
        self.assertEqual([], self.look())
        last = rollout_repo.get_last(self.engine)
        self.assertEqual(('BALANCE', 'DONE'), (last.settings.cause,
                                               last.state))


class TestTargets(KeeperTestCase):

    def test_tag_has_another_image_since(self):
        """What was asked for the rollout before does not end this one."""
        lb_id = self.add()
        self.image = OLD
        self.start()
        self.look()
        self.assertIsNone(rollout_repo.get_active(self.engine))
        self.image = NEW
        self.start(name='undo')
        self.assertEqual([lb_id], self.look())


class TestLimits(KeeperTestCase):
    """While nothing may begin nothing of the fleet is read."""

    def assertReads(self, is_read):
        with self.count_statements() as statements:
            self.look()
        self.assertEqual(is_read, any(
            'topology' in each and 'FROM load_balancer' in each
            for each in statements), statements)

    def close_window(self):
        self.useFixture(fixtures.MockPatchObject(
            rollout_keeper.limits.win, 'is_open',
            lambda windows, now: False))

    def test_open(self):
        self.start()
        lb_id = self.add()
        self.assertEqual([lb_id], self.look())
        self.assertReads(True)

    def test_window(self):
        """But once after each change."""
        self.close_window()
        self.start(windows=CLOSED)
        self.add()
        self.assertReads(True)
        for _ in range(3):
            self.assertReads(False)
        self.begin(self.add())
        self.assertReads(False)
        self.finish('SKIPPED')
        self.assertReads(True)
        self.assertReads(False)
        self.assertEqual('RUNNING', self.get().state)

    def test_end_outside_of_the_window(self):
        """Also where the last one was watched when it closed."""
        self.start(windows=CLOSED, watch_time=300)
        self.begin(self.add(NEW))
        self.finish()
        self.useFixture(fixtures.MockPatchObject(
            rollout_keeper.limits.win, 'is_open', lambda windows, now: True))
        self.look()
        self.close_window()
        self.look()
        self.assertEqual('RUNNING', self.get().state)
        self.make_older(models.ImageReplacement, 'finished_at', 300)
        self.look()
        self.assertEqual('DONE', self.get().state)

    def test_full(self):
        self.start(parallel=2, canaries=0, watch_time=300)
        for name in ('one', 'two'):
            self.begin(self.add(), name)
        self.assertReads(False)
        self.finish()
        # One runs, one is watched.
        self.assertReads(False)
        self.make_older(models.ImageReplacement, 'finished_at', 300)
        self.assertReads(True)

    def test_halted_all_the_same(self):
        self.close_window()
        self.start(windows=CLOSED)
        self.begin(self.add())
        self.finish('FAILED')
        self.look()
        self.assertEqual('HALTED', self.get().state)


class TestWatch(KeeperTestCase):

    def setUp(self):
        super().setUp()
        self.start(watch_time=300, parallel=9)
        self.lb_id = self.add(NEW)
        self.others = [self.add() for _ in range(3)]
        self.begin(self.lb_id)
        amphora, = (row for row in self.records.rows('amphora')
                    if row['load_balancer_id'] == self.lb_id)
        self.amphora_id = amphora['id']
        claims_repo.set_phase(self.engine, 'one', 'me', 600, 'UNLOCK',
                              new_amphora_id=self.amphora_id)
        self.finish()

    def assertHalted(self, words):
        self.assertEqual([], self.look())
        self.assertEqual('HALTED', self.get().state)
        row = replace_repo.get(self.engine, 'one')
        self.assertEqual('FAILED', row.state)
        self.assertIn(f'It was done, and then {words}', row.reason)

    def test_well(self):
        self.assertEqual([], self.look())
        self.assertEqual('DONE', self.state())
        self.make_older(models.ImageReplacement, 'finished_at', 300)
        # The canary is done.
        begun = self.look()
        self.assertEqual(3, len(begun))

    def test_dies(self):
        self.records.set_status(self.amphora_id, 'ERROR')
        self.assertHalted(f'amphora {self.amphora_id} is in ERROR.')

    def test_falls_silent(self):
        self.records.set_health(self.amphora_id, age=61)
        self.assertHalted(f'amphora {self.amphora_id} has sent no heartbeat')

    def test_failed_over_again(self):
        self.records.set_status(self.amphora_id, 'DELETED')
        new_id = records.new_id()
        self.records.insert_all({'amphora': [{
            **records.amphora_row(new_id, '192.0.2.2', self.lb_id),
            'created_at': records.utcnow() +
            rollout_keeper.limits.datetime.timedelta(seconds=5)}]})
        self.assertHalted(f'an amphora was failed over again, to {new_id}.')

    def test_operating_status(self):
        """It has to last: members of tenants come and go."""
        change = self.records.change
        for status in ('ERROR', 'ONLINE', 'ERROR'):
            change('load_balancer', self.lb_id, operating_status=status)
            self.now += 59
            self.look()
            self.assertEqual('DONE', self.state())
        self.now += 60
        self.assertHalted('its operating status, ONLINE before, is ERROR.')

    def test_one_failure_of_several(self):
        self.records.set_status(self.amphora_id, 'ERROR')
        with self.engine.begin() as connection:
            connection.execute(models.ImageRollout.__table__.update().values(
                max_failures=2))
        # Another one is the canary.
        self.assertEqual([min(self.others)], self.look())
        self.assertEqual('RUNNING', self.get().state)

    def test_paused(self):
        """What goes wrong is noted, and nothing else is done."""
        rollout_repo.change_state(self.engine, 'rollout', ('RUNNING',),
                                  'PAUSED')
        self.records.set_status(self.amphora_id, 'ERROR')
        self.assertEqual([], self.look())
        self.assertEqual(('FAILED', 'PAUSED'),
                         (self.state(), self.get().state))
