# SPDX-License-Identifier: Apache-2.0

import threading
import time
import uuid

import fixtures

from octavia_hmsync.db import models
from octavia_hmsync import exceptions
from octavia_hmsync.image.db import claim as claims_repo
from octavia_hmsync.image.db import replacement as replace_repo
from octavia_hmsync.metrics import instruments
from octavia_hmsync.sync.db import amphora as amphora_repo
from octavia_hmsync.sync.db import claim as claim_repo
from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.db import health_manager as hm_repo
from octavia_hmsync.sync.db import outcome as outcome_repo
from octavia_hmsync.sync import heartbeat_key
from octavia_hmsync.sync.house_keeping import synchronizer
from octavia_hmsync.sync import payloads
from octavia_hmsync.sync.rules import subset
from tests.cloud import waiting
from tests.db_cases import base
from tests.unit.db import sqlite
from tests.unit import fakes
from tests.unit.sync.house_keeping import passes

KEY = 'the key of all controllers'
CREATE_CLIENT = 'octavia_hmsync.amphora.agent_client.create_client'


class TestSynchronizer(sqlite.SqliteMixin, base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.stop_clock()
        self.driver = fakes.install_driver(self)
        self.woken = threading.Event()
        self.number = 0
        self.notifier = fakes.Notifier()
        self.subject = self.make()

    def make(self, measure=None, **hmsync):
        self.conf = self.make_conf(
            controller_worker={'amphora_driver': fakes.DRIVER},
            health_manager={'heartbeat_key': KEY}, hmsync=hmsync)
        subject = synchronizer.Synchronizer(
            self.conf, self.engine, self.engine, self.woken.set,
            notifier=self.notifier, measure=measure)
        self.addCleanup(subject.stop)
        return subject

    def publish(self, *numbers):
        self.number += 1
        generation_repo.publish(
            self.engine, self.number, subset.assign_slots(
                {}, [f'192.0.2.{n}:5555' for n in numbers]), 'because',
            'controller1')

    def run_until_idle(self, subject=None):
        return passes.run_until_idle(subject or self.subject)

    def due(self):
        return amphora_repo.count(self.engine, self.number).due

    def test_nothing_published(self):
        self.add_amphorae(2)
        self.assertEqual({}, self.subject.run_once())
        self.assertEqual([], self.rows(models.Amphora))

    def test_no_amphorae(self):
        self.publish(1)
        self.assertEqual({}, self.run_until_idle())
        self.assertIsNotNone(
            generation_repo.get_newest(self.engine).completed_at)

    def test_each_gets_the_list(self):
        ids = self.add_amphorae(5)
        self.publish(1, 2)
        self.assertEqual({'APPLIED': 5}, self.run_until_idle())
        self.assertEqual(
            dict.fromkeys(ids, '192.0.2.1:5555, 192.0.2.2:5555'),
            self.driver.lists())
        self.assertEqual(0, self.due())
        self.subject.run_once()
        newest = generation_repo.get_newest(self.engine)
        self.assertIsNotNone(newest.completed_at)
        # Which others are told once.
        self.make().run_once()
        self.assertEqual([payloads.GenerationCompleted(
            1, newest.addresses, newest.published_at)], self.notifier.sent)

    def test_others_are_told_who_failed(self):
        broken, _fine = self.add_amphorae(2)
        self.driver.broken.add(broken)
        self.publish(1)
        self.run_until_idle()
        told, = self.notifier.take()
        self.assertEqual((payloads.AmphoraUnreachable, broken, 1),
                         (type(told), told.amphora_id, told.generation))

    def test_replaced_meanwhile(self):
        """It gets the list once it serves; nobody waits for it till then."""
        old, other = self.add_amphorae(2)
        self.publish(1)
        self.run_until_idle()
        replace_repo.add(self.engine, replace_repo.New(
            'replacement', 'lb', 'replace', 'image'))
        claims_repo.claim(self.engine, 'one', 1, 60)
        new = str(uuid.uuid4())

        def begin(phase):
            claims_repo.set_phase(
                self.engine, 'replacement', 'one', 60, phase,
                old_amphora_id=old, new_amphora_id=new)

        begin('BUILD')
        self.records.add_amphora('192.0.2.99', amphora_id=new)
        self.publish(2)
        self.assertEqual({'APPLIED': 2}, self.run_until_idle())
        begin('SWITCH')
        self.publish(3)
        self.driver.broken.add(old)
        self.assertEqual({'APPLIED': 1}, self.run_until_idle())
        self.subject.run_once()
        self.assertIsNotNone(
            generation_repo.get_newest(self.engine).completed_at)
        self.assertEqual({old: '192.0.2.2:5555', other: '192.0.2.3:5555'},
                         self.driver.lists())
        begin('DELETE_OLD')
        self.assertEqual({'APPLIED': 1}, self.run_until_idle())
        self.assertEqual('192.0.2.3:5555', self.driver.lists()[new])
        self.records.set_status(old, 'DELETED')
        claims_repo.finish(self.engine, 'replacement', 'one', 'DONE')
        self.assertEqual({}, self.run_until_idle())
        self.assertEqual(0, self.due())

    def test_once_only(self):
        self.add_amphorae(5)
        self.publish(1, 2)
        self.run_until_idle()
        self.assertEqual({}, self.run_until_idle())
        self.assertEqual(5, len(self.driver.uploads))

    def register(self, host, key):
        number = len(hm_repo.get_rows(self.engine)) + 1
        hm_repo.register(self.engine, host, f'192.0.2.{number}', 5555, host,
                         20, heartbeat_key.digest(key))

    def test_key_of_the_health_managers(self):
        """Another one would silence every amphora."""
        self.add_amphorae(2)
        self.publish(1)
        self.register('hm1', KEY)
        self.register('hm2', 'another key')
        error = self.assertRaises(exceptions.InvalidConfiguration,
                                  self.run_until_idle)
        self.assertIn('with another one: hm2', str(error))
        self.assertNotIn(KEY, str(error))
        self.assertEqual({}, self.driver.files)
        hm_repo.set_offline(self.engine, 'hm2', 'hm2')
        self.assertEqual({'APPLIED': 2}, self.run_until_idle())

    def test_no_key(self):
        self.add_amphorae(1)
        self.publish(1)
        self.conf.clear_override('heartbeat_key', 'health_manager')
        error = self.assertRaises(exceptions.InvalidConfiguration,
                                  self.run_until_idle)
        self.assertIn('heartbeat_key is not set', str(error))

    def test_topologies(self):
        lb = self.records.add_load_balancer('ACTIVE_STANDBY')
        master = self.records.add_amphora('192.0.2.1', lb, 'MASTER')
        single = self.records.add_amphora('192.0.2.2')
        self.publish(1)
        self.run_until_idle()
        self.assertIn('loadbalancer_topology = ACTIVE_STANDBY',
                      self.driver.files[master])
        self.assertIn('loadbalancer_topology = SINGLE',
                      self.driver.files[single])

    def test_one_that_is_born_with_an_old_list(self):
        self.add_amphorae(1)
        self.publish(1)
        self.run_until_idle()
        new = self.records.add_amphora('192.0.2.9')
        self.assertEqual(1, self.due())
        self.run_until_idle()
        self.assertIn(new, self.driver.files)

    def test_several_batches(self):
        self.add_amphorae(30)
        self.publish(1)
        subject = self.make(batch_size=4)
        self.assertEqual({'APPLIED': 30}, self.run_until_idle(subject))
        self.assertEqual(30, len(self.driver.uploads))

    def test_two_housekeepers_share_the_work(self):
        self.add_amphorae(40)
        self.publish(1)
        subjects = [self.make(batch_size=5) for _ in range(2)]
        self.run_at_once([lambda s=s: self.run_until_idle(s)
                          for s in subjects])
        self.run_until_idle(subjects[0])
        self.assertEqual(40, len(self.driver.uploads))
        self.assertEqual(0, self.due())

    def test_results(self):
        ok, broken, old = self.add_amphorae(3)
        self.driver.broken.add(broken)
        self.driver.old.add(old)
        self.publish(1)
        self.assertEqual(
            {'APPLIED': 1, 'UNREACHABLE': 1, 'UNSUPPORTED': 1},
            self.run_until_idle())
        self.assertEqual(2, self.due())
        rows = {r.amphora_id: r for r in self.rows(models.Amphora)}
        self.assertIsNone(rows[ok].error)
        self.assertIn('RuntimeError', rows[broken].error)
        self.assertEqual({'ALLOCATED'}, {
            row['status'] for row in self.records.rows('amphora')})

    def test_back_off(self):
        amphora_id, = self.add_amphorae(1)
        self.driver.broken.add(amphora_id)
        self.publish(1)
        for attempts in range(1, 5):
            self.run_until_idle()
            self.assertEqual(attempts, len(self.driver.uploads))
            for model in (models.Amphora, models.Attempt):
                self.make_older(model, 'next_attempt_at', 1)
        self.driver.broken.clear()
        self.assertEqual({'APPLIED': 1}, self.run_until_idle())

    def test_new_generation_does_not_wait_for_the_back_off(self):
        amphora_id, = self.add_amphorae(1)
        self.driver.broken.add(amphora_id)
        self.publish(1)
        self.run_until_idle()
        self.driver.broken.clear()
        self.publish(1, 2)
        self.assertEqual({'APPLIED': 1}, self.run_until_idle())

    def test_not_concerned_is_not_uploaded_to(self):
        self.add_amphorae(3)
        self.publish(1)
        self.run_until_idle()
        self.publish(1)
        self.assertEqual({'APPLIED': 3}, self.run_until_idle())
        self.assertEqual(3, len(self.driver.uploads))
        self.assertEqual(0, self.due())

    def test_list_is_no_longer_than_one_can_serve(self):
        self.add_amphorae(10)
        self.publish(*range(1, 21))
        self.run_until_idle()
        lists = set(self.driver.lists().values())
        self.assertEqual({5}, {len(text.split(', ')) for text in lists})
        self.assertGreater(len(lists), 1)

    def test_one_of_twenty_is_replaced(self):
        """Only those that had it are uploaded to."""
        ids = self.add_amphorae(400)
        old, new = ([f'192.0.2.{n}:5555' for n in range(first, first + 20)]
                    for first in (1, 2))
        slots = subset.assign_slots({}, old)
        generation_repo.publish(self.engine, 1, slots, '', 'here')
        self.run_until_idle()
        had_it = [amphora_id for amphora_id in ids
                  if old[0] in subset.subset(amphora_id, slots, 5)]
        self.driver.uploads.clear()
        slots = subset.assign_slots(slots, new)
        generation_repo.publish(self.engine, 2, slots, '', 'here')
        self.run_until_idle()
        self.assertEqual(sorted(had_it), sorted(self.driver.uploads))
        self.assertEqual(0, amphora_repo.count(self.engine, 2).due)
        lists = self.driver.lists()
        self.assertEqual(set(had_it), {
            amphora_id for amphora_id in ids
            if new[-1] in lists[amphora_id].split(', ')})
        self.assertNotIn(old[0], ', '.join(lists.values()).split(', '))

    def test_run_once_does_not_wait_for_those_that_hang(self):
        self.add_amphorae(2)
        self.driver.close_gate()
        self.publish(1)
        self.subject.run_once()
        late = self.records.add_amphora('192.0.2.9')
        self.driver.gate, gate = None, self.driver.gate
        self.addCleanup(gate.set)

        def has_it():
            self.subject.run_once()
            return late in self.driver.files

        waiting.wait_for(has_it, 'upload to it')

    def test_batches_with_those_that_hang_hold_up_no_others(self):
        ids = self.add_amphorae(30)
        self.driver.close_gate()
        self.driver.hanging = set(ids[::10])
        self.addCleanup(self.driver.gate.set)
        self.publish(1)
        subject = self.make(batch_size=3)
        subject.run_once()
        healthy = set(ids) - self.driver.hanging
        waiting.wait_for(lambda: set(self.driver.files) == healthy,
                         lambda: f'more than {self.driver.files}')
        self.driver.gate.set()
        self.run_until_idle(subject)
        self.assertEqual(set(ids), set(self.driver.files))

    def test_uploads_are_measured(self):
        ids = self.add_amphorae(3)
        self.driver.broken = {ids[0]}
        self.driver.hanging = {ids[1]}
        self.driver.close_gate()
        self.addCleanup(self.driver.gate.set)
        self.publish(1)
        measure = instruments.HouseKeepingInstruments()
        value = measure.registry.get_sample_value
        count = 'octavia_hmsync_upload_duration_seconds_count'
        subject = self.make(measure)
        subject.run_once()
        waiting.wait_for(
            lambda: value('octavia_hmsync_uploads_in_flight') == 1 and
            len(self.driver.uploads) == 3, 'upload alone in flight')
        self.driver.gate.set()
        self.run_until_idle(subject)
        self.assertEqual(0, value('octavia_hmsync_uploads_in_flight'))
        self.assertEqual(2, value(count, {'result': 'APPLIED'}))
        self.assertEqual(1, value(count, {'result': 'UNREACHABLE'}))
        self.assertEqual(0, value(count, {'result': 'REJECTED'}))

    def test_as_many_batches_as_are_allowed(self):
        ids = self.add_amphorae(10)
        self.driver.close_gate()
        self.addCleanup(self.driver.gate.set)
        self.publish(1)
        self.patch(synchronizer, 'PARALLEL_BATCHES', 2)
        subject = self.make(batch_size=2)
        subject.run_once()
        waiting.wait_for(lambda: len(self.driver.uploads) >= 4, 'uploads')
        subject.run_once()
        time.sleep(0.5)
        self.assertEqual(4, len(self.driver.uploads))
        self.driver.gate.set()
        self.run_until_idle(subject)
        self.assertEqual(set(ids), set(self.driver.files))

    def statements_of_a_sync(self, *numbers):
        """How many SQL statements a sync takes per amphora."""
        amphorae = 1000
        self.add_amphorae(amphorae)
        self.publish(*numbers)
        with self.count_statements() as statements:
            self.assertEqual({'APPLIED': amphorae}, self.run_until_idle())
        return len(statements) / amphorae

    def test_few_statements(self):
        self.assertLess(self.statements_of_a_sync(1, 2), 0.2)

    def test_few_statements_where_each_has_a_list_of_its_own(self):
        self.assertLess(self.statements_of_a_sync(*range(1, 21)), 0.2)

    def test_rest_takes_as_many_statements_whatever_the_size(self):
        counts = []
        for size in (10, 500):
            self.add_amphorae(size)
            self.publish(1)
            # The second time it finds that all is complete.
            for _ in range(2):
                self.run_until_idle()
            with self.count_statements() as statements:
                for _ in range(5):
                    self.run_until_idle()
            counts.append(len(statements))
        # At the end of its pages a census has one statement less to make.
        self.assertAlmostEqual(*counts, delta=3)

    def test_nothing_is_begun_where_nothing_is_due(self):
        """No flow, no engine and no thread."""
        ids = self.add_amphorae(3)
        self.driver.broken.add(ids[0])
        self.publish(1)
        self.run_until_idle()
        # One of them has failed, and waits for its next attempt.
        begun = []
        with (fixtures.MonkeyPatch('threading.Thread.start', begun.append),
              fixtures.MonkeyPatch('taskflow.engines.load', begun.append)):
            for _ in range(5):
                self.assertEqual({}, self.subject.run_once())
        self.assertEqual([], begun)

    def test_stop_begins_no_more(self):
        self.add_amphorae(60)
        self.publish(1)
        subject = self.make(upload_rate=1)
        subject.run_once()
        waiting.wait_for(lambda: self.driver.uploads, 'upload', 60, 0.01)
        subject.stop()
        self.assertLess(len(self.driver.uploads), 30)
        self.assertEqual({None}, {
            row.claim_owner for row in self.rows(models.Amphora)})

    def _fail(self, *args):
        raise ZeroDivisionError()

    def test_error_stays_until_a_batch_ends_well(self):
        """Or each other pass would say that all works again."""
        self.add_amphorae(1)
        self.publish(1)
        with fixtures.MonkeyPatch(CREATE_CLIENT, self._fail):
            self.assertRaises(ZeroDivisionError, self.run_until_idle)
            for _ in range(3):
                try:
                    self.subject.run_once()
                except ZeroDivisionError:
                    pass
                self.assertRaises(ZeroDivisionError, self.subject.check)
            # A batch from before the change may end only now.
            self.subject._batches.wait()
        try:
            self.subject.run_once()
        except ZeroDivisionError:
            pass
        self.run_until_idle()
        # The last batch may have been collected with one that failed.
        self.subject.run_once()
        self.subject.check()

    def test_error_is_over_when_others_have_done_it(self):
        self.add_amphorae(1)
        self.publish(1)
        with fixtures.MonkeyPatch(CREATE_CLIENT, self._fail):
            self.assertRaises(ZeroDivisionError, self.run_until_idle)
        self.assertRaises(ZeroDivisionError, self.subject.check)
        claim_repo.claim_due(self.engine, 1, 'another', 10, 60)
        self.subject.run_once()
        self.subject.check()

    def test_batch_that_fails_gives_its_claims_back(self):
        self.add_amphorae(2)
        self.publish(1)
        record = outcome_repo.record

        def fail(*args):
            outcome_repo.record = record
            raise ZeroDivisionError()

        self.patch(outcome_repo, 'record', fail)
        self.subject.run_once()
        self.assertTrue(self.woken.wait(60))
        self.assertRaises(ZeroDivisionError, self.subject.run_once)
        self.assertEqual([None, None], [
            row.claim_owner for row in self.rows(models.Amphora)])
        self.assertEqual({'APPLIED': 2}, self.run_until_idle())


LIST = ('192.0.2.101:5555',)


class TestCensus(sqlite.SqliteMixin, base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.subject = synchronizer.Census(self.engine)

    def known(self):
        return {row.amphora_id for row in self.rows(models.Amphora)}

    def apply(self):
        """Have all that are due acknowledge generation 1."""
        claim_repo.claim_due(self.engine, 1, 'batch', 1000, 60)
        outcome_repo.record(self.engine, 1, 'batch', [
            outcome_repo.Outcome(row.amphora_id, 'APPLIED', LIST)
            for row in self.rows(models.Amphora)
            if row.claim_owner == 'batch'])

    def test_all_at_the_start(self):
        ids = self.add_amphorae(250)
        self.subject.run_once()
        self.assertEqual(set(ids), self.known())
        for amphora_id in ids[1:]:
            self.records.set_status(amphora_id, 'DELETED')
        synchronizer.Census(self.engine).run_once()
        self.assertEqual({ids[0]}, self.known())

    def test_while_it_is_built(self):
        self.subject.run_once()
        self.add_amphorae(250)
        late = self.records.add_amphora(None, status='PENDING_CREATE',
                                        amphora_id='zz')
        self.subject.run_once()
        self.assertIn(late, self.known())
        # It is not due before it has an agent, and at once then.
        self.apply()
        self.assertIsNone(next(row for row in self.rows(models.Amphora)
                               if row.amphora_id == late).applied_at)

    def test_the_others_in_turn(self):
        self.subject.run_once()
        ids = self.add_amphorae(250)
        for known in (100, 200, 250):
            self.subject.run_once()
            self.assertEqual(known, len(self.known()))
        for amphora_id in ids[1:]:
            self.records.set_status(amphora_id, 'DELETED')
        # Twenty at a time, from anywhere on.
        for _ in range(250 // 20 + 2):
            self.subject.run_once()
        self.assertEqual({ids[0]}, self.known())
        # And again from the beginning.
        first = self.records.add_amphora('192.0.2.9', amphora_id='00')
        for _ in range(4):
            self.subject.run_once()
        self.assertIn(first, self.known())

    def test_complete(self):
        self.add_amphorae(3)
        self.subject.run_once()
        self.assertFalse(self.subject.has_all(1))
        self.apply()
        self.assertTrue(self.subject.has_all(1))
        self.assertFalse(self.subject.has_all(2))

    def test_one_that_is_not_known_is_behind(self):
        self.add_amphorae(3)
        self.subject.run_once()
        self.apply()
        self.records.add_amphora('192.0.2.9')
        self.assertFalse(self.subject.has_all(1))
        self.apply()
        self.assertTrue(self.subject.has_all(1))

    def test_one_without_an_agent_is_not(self):
        gone, *_ = self.add_amphorae(3)
        self.records.add_amphora(None, status='BOOTING')
        for _ in range(2):
            self.subject.run_once()
        self.records.set_status(gone, 'DELETED')
        self.apply()
        self.assertTrue(self.subject.has_all(1))
