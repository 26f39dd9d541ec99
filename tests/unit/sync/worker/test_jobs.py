# SPDX-License-Identifier: Apache-2.0

import uuid

import fixtures
from oslo_config import cfg
from oslo_messaging.notify import _impl_test
from taskflow import engines

from octavia_hmsync.amphora import upload_result
from octavia_hmsync import compat
from octavia_hmsync.db import models
from octavia_hmsync.notifications import broker
from octavia_hmsync.sync.db import amphora as amphora_repo
from octavia_hmsync.sync.db import claim as claim_repo
from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.db import health_manager as hm_repo
from octavia_hmsync.sync.db import outcome as outcome_repo
from octavia_hmsync.sync import heartbeat_key
from octavia_hmsync.sync.rules import trial
from octavia_hmsync.sync.worker import jobboard
from tests.cloud import waiting
from tests.db_cases import base
from tests.unit.db import sqlite
from tests.unit import fakes

KEY = 'the key of all controllers'
JOB = str(uuid.uuid4())
ADDRESS = '192.0.2.101:5555'


class TestJobRunner(sqlite.SqliteMixin, base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.driver = fakes.install_driver(self)
        self.log = self.useFixture(fixtures.FakeLogger())
        self.now = 0
        self.subject = self.make()

    def make_worker_conf(self, **hmsync):
        return self.make_conf(
            controller_worker={'amphora_driver': fakes.DRIVER},
            database={'connection': self.database.connection},
            health_manager={'heartbeat_key': KEY}, hmsync=hmsync)

    def make(self, **hmsync):
        return jobboard.JobRunner(self.make_worker_conf(**hmsync),
                                  lambda: self.now)

    def publish(self, number=1, status=trial.OPEN):
        generation_repo.publish(self.engine, number, {ADDRESS: 0}, 'because',
                                'controller1', status)

    def add(self, number):
        ids = self.add_amphorae(number)
        amphora_repo.add_missing(self.engine)
        return ids

    def owners(self):
        return {row.claim_owner for row in self.rows(models.Amphora)}

    def test_nothing_published(self):
        self.add(1)
        self.assertEqual({}, self.subject.run(JOB))

    def test_until_none_is_due(self):
        ids = self.add(7)
        self.publish()
        self.driver.broken.add(ids[0])
        self.assertEqual({'APPLIED': 6, 'UNREACHABLE': 1},
                         self.make(batch_size=2,
                                   retry_interval=600).run(JOB))
        self.assertEqual({None}, self.owners())
        self.assertEqual({}, self.subject.run(JOB))

    def test_others_are_told_who_failed(self):
        broken, _fine = self.add(2)
        self.publish()
        self.driver.broken.add(broken)
        conf = self.make_worker_conf()
        broker.has_driver(conf)
        for name, value in (('driver', ['test']), ('transport_url',
                                                   'fake://')):
            conf.set_override(name, value, 'oslo_messaging_notifications')
        self.patch(_impl_test, 'NOTIFICATIONS', [])
        jobboard.JobRunner(conf, lambda: self.now).run(JOB)
        waiting.wait_for(lambda: _impl_test.NOTIFICATIONS, 'notification')
        self.assertEqual([broken], [
            message['payload']['amphora_id'] for _context, message,
            _priority, _retry in _impl_test.NOTIFICATIONS])

    def test_until_the_time_is_up(self):
        self.add(7)
        self.publish()
        subject = self.make(batch_size=2)
        upload = self.driver.update_amphora_agent_config

        def take_long(*args):
            self.now += 1
            upload(*args)
        self.driver.update_amphora_agent_config = take_long
        self.assertEqual({'APPLIED': 2}, subject.run(JOB))

    def test_no_more_than_in_flight_at_once(self):
        self.add(5)
        self.publish()
        subject = self.make(batch_size=20, upload_concurrency=3)
        limits = []
        claim_due = claim_repo.claim_due

        def note(engine, number, owner, limit, *args):
            limits.append(limit)
            return claim_due(engine, number, owner, limit, *args)
        self.patch(claim_repo, 'claim_due', note)
        subject.run(JOB)
        self.assertEqual({3}, set(limits))

    def test_on_trial(self):
        admitted, *others = self.add(3)
        self.publish()
        self.publish(2, trial.CANARY)
        with self.engine.begin() as connection:
            connection.execute(
                models.Amphora.__table__.update()
                .where(models.Amphora.amphora_id == admitted)
                .values(admitted_generation=2))
        self.assertEqual({'APPLIED': 3}, self.subject.run(JOB))
        self.assertEqual(
            {admitted: 2, **dict.fromkeys(others, 1)},
            {r.amphora_id: r.generation for r in self.rows(models.Amphora)})

    def _die(self, *args):
        raise SystemExit()

    def _pass(self, *args):
        pass

    def test_it_goes_on_with_what_a_killed_worker_left(self):
        ids = self.add(4)
        self.publish()
        # Who is killed gives nothing back.
        name = 'octavia_hmsync.sync.worker.batch.Batch.'
        with (fixtures.MonkeyPatch(name + 'run', self._die),
              fixtures.MonkeyPatch(name + '__exit__', self._pass)):
            self.assertRaises(SystemExit, self.subject.run, JOB)
        left, = self.owners()
        self.assertEqual({}, self.subject.run(str(uuid.uuid4())))
        self.assertEqual({left}, self.owners())
        self.assertEqual({'APPLIED': 4}, self.subject.run(JOB))
        self.assertEqual(set(ids), set(self.driver.files))
        self.assertIn(f'Going on with job {JOB}', self.log.output)
        # What was taken for dead and is not can record nothing.
        self.assertEqual(set(), outcome_repo.record(
            self.engine, 1, left, [outcome_repo.Outcome(
                ids[0], upload_result.UNREACHABLE, (ADDRESS,), 'late', 10)]))

    def test_another_heartbeat_key(self):
        self.add(1)
        self.publish()
        hm_repo.register(self.engine, 'hm1', '192.0.2.1', 5555, 'hm1', 20,
                         heartbeat_key.digest('another key'))
        for _ in range(2):
            self.assertEqual({}, self.subject.run(JOB))
        self.assertEqual({}, self.driver.files)
        self.assertEqual({None}, self.owners())
        self.assertEqual(1, self.log.output.count('No amphora is configured'))
        self.assertNotIn(KEY, self.log.output)

    def test_batch_that_fails_gives_its_claims_back(self):
        self.add(2)
        self.publish()
        self.patch(outcome_repo, 'record', self._fail)
        self.assertEqual({}, self.subject.run(JOB))
        self.assertEqual({None}, self.owners())
        self.assertIn('ZeroDivisionError', self.log.output)

    def _fail(self, *args):
        raise ZeroDivisionError()


class TestFlow(base.base.TestCase):

    def test_requires_and_provides(self):
        flow = jobboard.get_run_batches_flow()
        self.assertEqual({'job_id'}, flow.requires)
        self.assertEqual({'results'}, flow.provides)

    def test_off(self):
        """Not switched on here: the job ends in good order."""
        self.patch(compat, 'CONF', cfg.ConfigOpts())
        log = self.useFixture(fixtures.FakeLogger())
        self.addCleanup(jobboard._runners.clear)
        for _ in range(2):
            engine = engines.load(jobboard.get_run_batches_flow(),
                                  store={'job_id': JOB})
            engine.run()
            self.assertEqual({}, engine.storage.fetch('results'))
        self.assertEqual(1, log.output.count('octavia-hmsync is off'))
