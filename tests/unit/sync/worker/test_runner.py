# SPDX-License-Identifier: Apache-2.0

import fixtures

from octavia_hmsync.amphora import uploader
from octavia_hmsync.db import models
from octavia_hmsync import exceptions
from octavia_hmsync.sync.db import amphora as amphora_repo
from octavia_hmsync.sync.db import claim as claim_repo
from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.db import pause as pause_repo
from octavia_hmsync.sync.rules import trial
from octavia_hmsync.sync.worker import runner
from octavia_hmsync.sync.worker import scout
from tests.db_cases import base
from tests.unit.db import sqlite
from tests.unit import fakes

SLOTS = {'192.0.2.101:5555': 0}

# What may raise between the claim and the last record, in this order.
BEFORE_UPLOADS = (
    'sync.rules.subset.subset',
    'amphora.agent_config.AgentConfigRenderer.render',
    'amphora.agent_client.create_client',
    'sync.worker.runner.get_sync_amphorae_flow',
    'sync.worker.runner.ConfigureAmphorae.execute')
AFTER_UPLOADS = (
    'amphora.uploader.Uploader.upload_all',
    'sync.worker.batch.Batch._outcome',
    'sync.db.outcome.record')


class TestBatchRunner(sqlite.SqliteMixin, base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.driver = fakes.install_driver(self)
        self.conf = self.make_conf(
            controller_worker={'amphora_driver': fakes.DRIVER},
            health_manager={'heartbeat_key': 'S3cret'})
        pace = uploader.Uploader(concurrency=8)
        self.addCleanup(pace.close)
        self.subject = runner.BatchRunner(
            self.conf, self.engine, pace,
            scout.Scout(self.conf, self.engine, scout.HOUSEKEEPING))

    def publish(self, number=1, status=trial.OPEN, slots=SLOTS):
        generation_repo.publish(self.engine, number, slots, 'because', 'here',
                                status)

    def add(self, number):
        ids = self.add_amphorae(number)
        amphora_repo.add_missing(self.engine)
        return ids

    def owners(self):
        return {row.claim_owner for row in self.rows(models.Amphora)}

    def results(self):
        return {row.result for row in self.rows(models.Amphora)}

    def failing(self, name, after=None):
        """Have a function raise, after another one was called.

        :param name: its name below octavia_hmsync.
        :param after: called with its arguments.
        """
        def fail(*args, **kwargs):
            if after:
                after(*args, **kwargs)
            # Only of something that is claimed is there anything to lose.
            self.assertNotEqual({None}, self.owners(), name)
            raise ZeroDivisionError()
        return fixtures.MonkeyPatch(f'octavia_hmsync.{name}', fail)

    def check_failure(self, *args):
        with self.failing(*args):
            self.assertRaises(ZeroDivisionError, self.subject.run)
        self.assertEqual({None}, self.owners(), args)

    def test_due(self):
        self.assertFalse(self.subject.is_due())
        self.publish()
        self.assertFalse(self.subject.is_due())
        self.add(1)
        self.assertTrue(self.subject.is_due())
        pause_repo.begin(self.engine, 60, 'maintenance')
        self.assertFalse(self.subject.is_due())
        pause_repo.end(self.engine)
        self.subject.run()
        self.assertFalse(self.subject.is_due())

    def test_due_on_trial(self):
        admitted, _other = self.add(2)
        self.publish(1, trial.CANARY)
        self.assertFalse(self.subject.is_due())
        with self.engine.begin() as connection:
            connection.execute(
                models.Amphora.__table__.update()
                .where(models.Amphora.amphora_id == admitted)
                .values(admitted_generation=1))
        self.assertTrue(self.subject.is_due())
        self.assertEqual({'APPLIED': 1}, self.subject.run())
        self.assertFalse(self.subject.is_due())

    def test_no_flow_for_nothing(self):
        self.publish()
        with fixtures.MonkeyPatch('taskflow.engines.load', self.fail):
            self.assertEqual({}, self.subject.run())

    def test_without_a_key(self):
        """Whoever looks is told, and nothing is claimed."""
        self.add(1)
        self.publish()
        self.conf.clear_override('heartbeat_key', 'health_manager')
        for call in (self.subject.is_due, self.subject.run):
            self.assertRaises(exceptions.InvalidConfiguration, call)
        self.assertEqual({None}, self.owners())

    def test_limit(self):
        self.add(3)
        self.publish()
        self.assertEqual({'APPLIED': 2}, self.subject.run(limit=2))

    # Claims are given back

    def test_before_anything_was_uploaded(self):
        """What is known of them stays true."""
        self.add(3)
        self.publish()
        self.subject.run()
        self.publish(2, slots={'192.0.2.102:5555': 0})
        for name in BEFORE_UPLOADS:
            self.check_failure(name)
            self.assertEqual({'APPLIED'}, self.results(), name)
        self.assertEqual(3, len(self.driver.uploads))
        self.assertEqual({'APPLIED': 3}, self.subject.run())

    def test_after_something_was_uploaded(self):
        """What they have by now is not known."""
        self.add(3)
        self.publish()
        for name in AFTER_UPLOADS:
            self.check_failure(name)
            self.assertEqual({None}, self.results() - {'APPLIED'}, name)
            claim_repo.upload_again(self.engine, [
                row.amphora_id for row in self.rows(models.Amphora)])
        self.assertEqual({'APPLIED': 3}, self.subject.run())

    def test_answer_to_the_claim_is_lost(self):
        self.add(2)
        self.publish()
        self.check_failure('sync.db.claim.claim_due',
                           claim_repo.claim_due)
        self.assertEqual({'APPLIED': 2}, self.subject.run())

    def test_nothing_is_seen_of_what_was_claimed(self):
        self.add(2)
        self.publish()
        with fixtures.MonkeyPatch(
                'octavia_hmsync.sync.db.claim._get_claimed',
                lambda *args: []):
            self.assertEqual({}, self.subject.run())
        self.assertEqual({None}, self.owners())

    def test_database_is_gone(self):
        """What went wrong first is told; the claims lapse by themselves."""
        self.add(2)
        self.publish()
        gone = fixtures.MonkeyPatch(
            'octavia_hmsync.sync.db.claim._release', self._fail)
        with gone:
            with self.failing('amphora.agent_client.create_client'):
                self.assertRaises(ZeroDivisionError, self.subject.run)
        self.assertNotEqual({None}, self.owners())
        self.make_older(models.Amphora, 'claim_expires_at', 0)
        self.assertEqual({'APPLIED': 2}, self.subject.run())

    def _fail(self, *args, **kwargs):
        raise OSError()
