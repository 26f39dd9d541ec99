# SPDX-License-Identifier: Apache-2.0

import threading

from oslo_messaging.notify import _impl_test
import sqlalchemy as sa

from octavia_hmsync.amphora import agent_client
from octavia_hmsync.amphora import uploader
from octavia_hmsync.db import models
from octavia_hmsync import exceptions
from octavia_hmsync.image.db import claim as claims_repo
from octavia_hmsync.image.db import replacement as replace_repo
from octavia_hmsync.notifications import broker
from octavia_hmsync.notifications import outbox
from octavia_hmsync.sync.db import amphora as amphora_repo
from octavia_hmsync.sync.db import claim as claim_repo
from octavia_hmsync.sync.db import doubt as doubt_repo
from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.db import outcome as outcome_repo
from octavia_hmsync.sync import heartbeat_key
from octavia_hmsync.sync import payloads
from octavia_hmsync.sync.rules import trial
from octavia_hmsync.sync.worker import batch
from octavia_hmsync.sync.worker import scout
from tests.cloud import waiting
from tests.db_cases import base
from tests.unit.db import sqlite
from tests.unit import fakes

OWN = heartbeat_key.digest('S3cret')
SLOTS = {'192.0.2.1:5555': 0}


class TestBatch(sqlite.SqliteMixin, base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.driver = fakes.install_driver(self)
        self.conf = self.make_conf(
            controller_worker={'amphora_driver': fakes.DRIVER},
            health_manager={'heartbeat_key': 'S3cret'},
            hmsync={'poll_interval': 1})
        self.uploader = uploader.Uploader(concurrency=1, get_rate=lambda: 20)
        self.addCleanup(self.uploader.close)
        self.notifier = fakes.Notifier()
        self.scout = scout.Scout(self.conf, self.engine, scout.HOUSEKEEPING)
        self.publish(1)

    def publish(self, number, status=trial.OPEN):
        generation_repo.publish(self.engine, number, SLOTS, '', 'here',
                                status)

    def add(self, amphorae):
        ids = self.add_amphorae(amphorae)
        amphora_repo.add_missing(self.engine)
        return ids

    def run_batch(self, number=1, on_all_begun=lambda: None, slots=SLOTS,
                  key_digest=None):
        generation = generation_repo.Generation(
            number, slots, '', trial.OPEN, 0, None, None, key_digest)
        with batch.Batch(self.conf, self.engine, generation, 'batch',
                         self.scout, self.notifier) as work:
            if work.claim(100):
                return work.run(self.uploader, on_all_begun)
        return {}

    def run_with(self, change):
        """Run a batch; change() is called before any upload ends."""
        self.uploader = uploader.Uploader(concurrency=100)
        self.addCleanup(self.uploader.close)
        return self.run_batch(on_all_begun=change)

    def claimed(self):
        return [row.amphora_id for row in self.rows(models.Amphora)
                if row.claim_owner]

    def test_nothing_due(self):
        self.assertEqual({}, self.run_batch())

    def run_and_supersede(self, number, status=trial.OPEN):
        """Publish another list in the middle of a batch."""
        ids = self.add(20)
        self.driver.close_gate()
        results = []
        thread = threading.Thread(
            target=lambda: results.append(self.run_batch()))
        thread.start()
        waiting.wait_for(lambda: self.driver.uploads, 'upload')
        self.publish(number, status)
        # The batch asks at most each poll_interval.
        for _ in range(20):
            self.driver.gate.wait(0.1)
        self.driver.gate.set()
        thread.join()
        self.assertEqual([], self.claimed())
        return ids, results[0]

    def test_a_later_generation(self):
        """What waits is not uploaded to; it gets the later one at once."""
        ids, results = self.run_and_supersede(2)
        uploaded = len(self.driver.uploads)
        self.assertLess(uploaded, len(ids))
        self.assertEqual({'APPLIED': uploaded}, results)
        later = claim_repo.claim_due(self.engine, 2, 'later', 100, 120)
        self.assertEqual(len(ids), len(later))
        self.assertEqual(uploaded, len([
            a for a in later if a.result == 'APPLIED']))

    def test_a_later_one_that_is_on_trial(self):
        """Others than its canaries still get this one."""
        ids, results = self.run_and_supersede(2, trial.CANARY)
        self.assertEqual({'APPLIED': len(ids)}, results)

    def test_claims_that_end_soon(self):
        """An upload could last for longer."""
        self.add(3)
        self.conf.set_override('claim_expiry',
                               self.conf.hmsync.upload_timeout, 'hmsync')
        begun = threading.Event()
        self.assertEqual({}, self.run_batch(on_all_begun=begun.set))
        self.assertTrue(begun.is_set())
        self.assertEqual([], self.driver.uploads)
        self.assertEqual([], self.claimed())

    def test_certificates_that_cannot_be_used(self):
        """Nothing was uploaded, so what is known of them stays true."""
        self.add(3)
        self.run_batch()
        self.publish(2)

        def fail(conf):
            raise ZeroDivisionError()

        self.patch(agent_client, 'create_client', fail)
        self.assertRaises(ZeroDivisionError, self.run_batch, 2,
                          slots={'192.0.2.2:5555': 0})
        self.assertEqual({(None, 'APPLIED')}, {
            (row.claim_owner, row.result)
            for row in self.rows(models.Amphora)})

    def test_result_that_cannot_be_recorded(self):
        """No upload goes on behind the back of who gets the claims next."""
        self.add(10)

        def fail(*args):
            raise ZeroDivisionError()

        self.patch(outcome_repo, 'record', fail)
        self.patch(batch.Batch, '_record', lambda batch, outcomes: (
            outcomes and fail()))
        self.assertRaises(ZeroDivisionError, self.run_batch)
        uploaded = len(self.driver.uploads)
        self.driver.close_gate()
        self.assertFalse(self.driver.gate.wait(0.5))
        self.assertEqual(uploaded, len(self.driver.uploads))

    # The heartbeat key that comes with a list

    def test_a_key_is_noted(self):
        self.add(1)
        self.run_batch(key_digest=OWN)
        self.assertEqual([OWN], self.key_digests())

    def test_what_failed_brought_no_key(self):
        broken, = self.add(1)
        self.driver.broken.add(broken)
        self.run_batch(key_digest=OWN)
        self.assertEqual([None], self.key_digests())

    def test_the_same_list_with_another_key(self):
        """It has to be uploaded, and to be proven, too."""
        self.add(1)
        for key, adopted in ((None, True), ('S3cret', False)):
            self.conf.set_override('heartbeat_key', key or 'an old key',
                                   'health_manager')
            uploads = len(self.driver.uploads)
            self.publish(2 if adopted else 3)
            self.run_batch(2 if adopted else 3, key_digest=(
                heartbeat_key.digest(key or 'an old key')))
            self.assertEqual(uploads + 1, len(self.driver.uploads))
            row, = self.rows(models.Amphora)
            self.assertIsNone(row.adopted_at)
            doubt_repo.set_adopted(self.engine,
                                   doubt_repo.get_unproven(self.engine))
        # And once more the same: not uploaded, still proven.
        self.publish(4)
        self.run_batch(4, key_digest=OWN)
        self.assertEqual(uploads + 1, len(self.driver.uploads))
        row, = self.rows(models.Amphora)
        self.assertIsNotNone(row.adopted_at)
        self.assertEqual((4, OWN), (row.generation, row.key_digest))

    def test_a_key_of_which_nothing_is_known(self):
        self.add(1)
        self.run_batch()
        with self.engine.begin() as connection:
            connection.execute(
                sa.update(models.Amphora).values(key_digest=None))
        self.publish(2)
        self.run_batch(2, key_digest=OWN)
        self.assertEqual(2, len(self.driver.uploads))
        self.assertEqual([OWN], self.key_digests())

    def test_key_that_changes_as_a_batch_begins(self):
        """SIGHUP comes at any time."""
        self.add(1)
        self.conf.set_override('heartbeat_key', 'another', 'health_manager')
        error = self.assertRaises(exceptions.InvalidConfiguration,
                                  self.run_batch, key_digest=OWN)
        self.assertIn('changed here meanwhile', str(error))
        self.assertEqual([], self.driver.uploads)
        self.assertEqual([], self.claimed())

    def key_digests(self):
        return [row.key_digest for row in self.rows(models.Amphora)]

    # What others are told

    def run_again(self):
        claim_repo.retry_now(self.engine)
        self.run_batch()

    def told(self):
        """Class, amphora and generation of what was told since."""
        return {(type(p), p.amphora_id, p.generation)
                for p in self.notifier.take()}

    def test_failures_are_told_once(self):
        broken, old, _fine = self.add(3)
        self.driver.broken.add(broken)
        self.driver.old.add(old)
        self.run_batch()
        self.assertEqual({(payloads.AmphoraUnreachable, broken, 1),
                          (payloads.AmphoraUnsupported, old, 1)},
                         self.told())
        self.run_again()
        self.assertEqual(set(), self.told())
        self.driver.broken.clear()
        self.run_again()
        self.assertEqual({(payloads.AmphoraRecovered, broken, 1)},
                         self.told())

    def test_what_is_told_of_a_failure(self):
        lb = self.records.add_load_balancer()
        amphora_id = self.records.add_amphora('192.0.2.1', lb)
        self.driver.broken.add(amphora_id)
        self.add(0)
        self.run_batch()
        told, = self.notifier.sent
        self.assertEqual(lb, told.load_balancer_id)
        self.assertEqual(self.rows(models.Amphora)[0].error, told.error)

    def test_recovered_after_a_claim_that_lapsed(self):
        """It ends what was told, though the result was lost."""
        broken, = self.add(1)
        self.driver.broken.add(broken)
        self.run_batch()
        claim_repo.retry_now(self.engine)
        claim_repo.claim_due(self.engine, 1, 'batch', 100, 120)
        claim_repo.release(self.engine, 'batch')
        self.told()
        self.driver.broken.clear()
        self.run_again()
        self.assertEqual({(payloads.AmphoraRecovered, broken, 1)},
                         self.told())

    def test_another_batch_took_over(self):
        """That one tells."""
        broken, = self.add(1)
        self.driver.broken.add(broken)
        self.run_with(lambda: claim_repo.release(self.engine, 'batch'))
        self.assertEqual(set(), self.told())

    def test_another_batch_took_over_some(self):
        """Of the others it is for this one to tell."""
        first, second = self.add(2)
        self.driver.broken |= {first, second}

        def take_over():
            with self.engine.begin() as connection:
                connection.execute(
                    sa.update(models.Amphora).values(claim_owner='other')
                    .where(models.Amphora.amphora_id == first))

        self.run_with(take_over)
        self.assertEqual({(payloads.AmphoraUnreachable, second, 1)},
                         self.told())
        self.assertEqual({first: None, second: 'UNREACHABLE'}, {
            row.amphora_id: row.result for row in self.rows(models.Amphora)})

    def test_deleted_or_replaced_meanwhile(self):
        """Nobody wants to know that it does not answer any more."""
        deleted, replaced, broken = ids = self.add(3)
        self.driver.broken.update(ids)

        def go():
            self.records.set_status(deleted, 'DELETED')
            replace_repo.add(self.engine, replace_repo.New(
                'replacement', 'lb', 'replace', 'image'))
            claims_repo.claim(self.engine, 'one', 1, 60)
            claims_repo.set_phase(self.engine, 'replacement', 'one', 60,
                                  'SWITCH', old_amphora_id=replaced)

        self.assertEqual({'UNREACHABLE': 1}, self.run_with(go))
        self.assertEqual({(payloads.AmphoraUnreachable, broken, 1)},
                         self.told())
        self.assertEqual({deleted: None, replaced: None,
                          broken: 'UNREACHABLE'}, {
            row.amphora_id: row.result for row in self.rows(models.Amphora)})
        self.assertEqual([], self.claimed())

    def test_no_secret_is_told(self):
        secrets = ('S3cret-key', 'S3cret-database', 'S3cret-rabbit')
        broken, = self.add(1)
        broker.has_driver(self.conf)
        for group, name, value in (
                ('health_manager', 'heartbeat_key', secrets[0]),
                ('database', 'connection',
                 f'mysql+pymysql://octavia:{secrets[1]}@192.0.2.1/octavia'),
                ('oslo_messaging_notifications', 'transport_url',
                 f'fake://octavia:{secrets[2]}@192.0.2.1/'),
                ('oslo_messaging_notifications', 'driver', ['test'])):
            self.conf.set_override(name, value, group)

        def fail(amphora, agent_config):
            self.assertIn(secrets[0], agent_config)
            raise RuntimeError(agent_config + self.conf.database.connection)

        self.driver.update_amphora_agent_config = fail
        self.patch(_impl_test, 'NOTIFICATIONS', [])
        self.notifier = outbox.Outbox(self.conf)
        self.run_batch()
        self.assertEqual(0, self.notifier.close(60))
        told, = _impl_test.NOTIFICATIONS
        self.assertEqual(broken, told[1]['payload']['amphora_id'])
        for secret in secrets:
            self.assertNotIn(secret, repr(told))
            self.assertNotIn(secret, repr(self.rows(models.Amphora)))
