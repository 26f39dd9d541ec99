# SPDX-License-Identifier: Apache-2.0

"""The failover guard, and what it writes into Octavia's tables and ours."""

import datetime
import itertools
import time

from oslo_utils import timeutils
import sqlalchemy as sa

from octavia_hmsync.db import models
from octavia_hmsync.db import types
from octavia_hmsync.image.db import claim as claims_repo
from octavia_hmsync.image.db import replacement as replace_repo
from octavia_hmsync.metrics import instruments
from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.db import health_manager as hm_repo
from octavia_hmsync.sync.db import outcome as outcome_repo
from octavia_hmsync.sync.db import uploader as uploader_repo
from octavia_hmsync.sync.health_manager import guard
from octavia_hmsync.sync import payloads
from tests.db_cases.sync import amphora
from tests.unit import fakes

TIMEOUT = 60


class HoldCases(amphora.AmphoraCases):

    def setUp(self):
        super().setUp()
        self.batches = itertools.count(1)
        self.notifier = fakes.Notifier()
        self.guard = self.make_guard()
        generation_repo.publish(self.engine, 1, dict(
            zip(amphora.LIST, range(2))), 'because', 'controller1')

    def make_guard(self, measure=None):
        # Each time it looks at all, as when some time has passed.
        return guard.FailoverGuard(self.conf, self.engine, self.notifier,
                                   measure, itertools.count(0, 10).__next__)

    def add_silent(self, number=1, age=TIMEOUT + 1, busy=False, **values):
        ids = self.add_amphorae(number, **values)
        for amphora_id in ids:
            self.records.set_health(amphora_id, age=age, busy=busy)
        return ids

    def age(self, amphora_id):
        return self.records.health_ages()[amphora_id]

    def apply(self, *amphora_ids, age=10000):
        """Have acknowledged LIST some time ago."""
        self.claim()
        for amphora_id in amphora_ids:
            self.record(amphora_id)
        self.make_older(models.Amphora, 'applied_at', age)

    def listen(self, number, seconds=10000):
        """Have a health manager at an address of LIST for some time."""
        host = f'hm{number}'
        hm_repo.register(self.engine, host, f'192.0.2.10{number}', 5555,
                         host, 20)
        self.make_older(models.HealthManager, 'online_since', seconds,
                        host=host)

    def test_nobody_listens(self):
        silent, = self.add_silent()
        self.add_silent(1, age=1)
        self.assertEqual({silent}, self.guard.run_once())
        self.assertLess(self.age(silent), TIMEOUT / 2)
        row = self.row(silent)
        self.assertIsNotNone(row.held_since)
        self.assertEqual(0, row.held_at.microsecond)
        # Held already; nobody else is silent.
        self.assertEqual(set(), self.guard.run_once())

    def test_replaced(self):
        """What a hold writes would look like a heartbeat of the new one."""
        new, = self.add_silent()
        replace_repo.add(self.engine, replace_repo.New(
            'replacement', 'lb', 'replace', 'image'))
        claims_repo.claim(self.engine, 'one', 1, 600)
        for phase, held in (('PROVE', set()), ('DELETE_OLD', {new})):
            claims_repo.set_phase(self.engine, 'replacement', 'one', 600,
                                  phase, new_amphora_id=new)
            self.assertEqual(held, self.guard.run_once())

    def test_really_dead(self):
        silent, = self.add_silent()
        amphora.amphora_repo.add_missing(self.engine)
        self.apply(silent)
        self.listen(1)
        self.assertEqual(set(), self.guard.run_once())
        self.assertGreater(self.age(silent), TIMEOUT)
        self.assertIsNone(self.row(silent).held_since)

    def try_in_vain(self, silent, uploader, **values):
        """Have an uploader find it unreachable, and nobody wait."""
        owner = f'batch{next(self.batches)}'
        uploader_repo.touch(self.engine, uploader, 20)
        self.claim(owner)
        outcome_repo.record(self.engine, 1, owner, [outcome_repo.Outcome(
            silent, 'UNREACHABLE', amphora.LIST, 'refused', 10,
            **{'is_unanswered': True, 'seconds': 1.0, **values})],
            uploader=uploader, max_age=20)
        self.records.set_health(silent, age=TIMEOUT + 1)
        self.retry_now()
        return self.guard.run_once()

    def test_unreachable_twice(self):
        silent, = self.add_silent()
        amphora.amphora_repo.add_missing(self.engine)
        self.assertEqual({silent}, self.try_in_vain(silent, 'hk1'))
        # It reaches another one; one failed upload may be bad luck.
        uploader_repo.set_reached(self.engine, 'hk1')
        self.assertEqual({silent}, self.guard_again(silent))
        self.assertEqual(set(), self.try_in_vain(silent, 'hk1'))

    def guard_again(self, silent):
        self.records.set_health(silent, age=TIMEOUT + 1)
        return self.guard.run_once()

    def test_unreachable_for_who_reaches_nobody(self):
        """It may be the controller that is cut off."""
        silent, = self.add_silent()
        amphora.amphora_repo.add_missing(self.engine)
        for _ in range(3):
            self.assertEqual({silent}, self.try_in_vain(silent, 'hk1'))

    def test_unreachable_for_one_of_two(self):
        silent, = self.add_silent()
        amphora.amphora_repo.add_missing(self.engine)
        uploader_repo.touch(self.engine, 'hk2', 20)
        for _ in range(2):
            held = self.try_in_vain(silent, 'hk1')
            uploader_repo.set_reached(self.engine, 'hk1')
        self.assertEqual({silent}, held)
        self.assertEqual(set(), self.try_in_vain(silent, 'hk2'))

    def test_something_answers_there(self):
        """A certificate that does not fit is no death."""
        silent, = self.add_silent()
        amphora.amphora_repo.add_missing(self.engine)
        for _ in range(3):
            held = self.try_in_vain(silent, 'hk1', is_unanswered=False)
            self.assertEqual({silent}, held)

    def test_what_an_older_release_found_is_no_proof(self):
        silent, = self.add_silent()
        amphora.amphora_repo.add_missing(self.engine)
        for attempts in (1, 2, 3):
            self.claim(f'batch{attempts}')
            self.record(silent, 'UNREACHABLE', f'batch{attempts}')
            self.assertEqual({silent}, self.guard_again(silent))
            self.retry_now()

    def test_those_that_octavia_would_not_fail_over(self):
        for values in ({'busy': True}, {'busy': True, 'role': 'IN_CLUSTER'},
                       {'status': 'ERROR'},
                       {'status': 'DELETED'}, {'status': 'PENDING_DELETE'}):
            self.add_silent(**values)
        self.assertEqual(set(), self.guard.run_once())
        stopped, = self.add_silent(status='FAILOVER_STOPPED')
        amphora.amphora_repo.add_missing(self.engine)
        self.assertEqual({stopped}, self.guard.run_once())

    def test_heard_again(self):
        silent, = self.add_silent()
        self.guard.run_once()
        since = self.row(silent).held_since
        # Held on: still the same hold.
        self.records.set_health(silent, age=TIMEOUT - 1)
        self.make_older(models.Amphora, 'held_at', TIMEOUT - 1)
        self.assertEqual({silent}, self.guard.run_once())
        self.assertEqual(since, self.row(silent).held_since)
        # A heartbeat: later than the guard's own refreshing.
        self.records.set_health(silent, age=-2)
        self.guard.run_once()
        self.assertIsNone(self.row(silent).held_since)

    def test_said_once(self):
        """Not each time that it is held for another while."""
        silent, = self.add_silent()
        with self.assertLogs(guard.LOG.logger) as logs:
            for _ in range(3):
                self.guard.run_once()
                self.records.set_health(silent, age=TIMEOUT - 1)
                self.make_older(models.Amphora, 'held_at', TIMEOUT - 1)
            self.make_older(models.Amphora, 'held_since', 300)
            for _ in range(3):
                self.guard.run_once()
        begun, ended = logs.output
        self.assertIn('Holding back the failover of 1 amphorae', begun)
        self.assertIn(f'not heard: {silent}', ended)

    def test_expiry(self):
        silent, = self.add_silent()
        self.guard.run_once()
        self.make_older(models.Amphora, 'held_since', 300 - TIMEOUT / 2 + 1)
        self.records.set_health(silent, age=TIMEOUT + 1)
        self.assertEqual(set(), self.guard.run_once())
        self.assertGreater(self.age(silent), TIMEOUT)

    def held_for(self, amphora_id):
        with self.engine.connect() as connection:
            now = connection.execute(sa.select(types.utcnow())).scalar()
        return (now - self.row(amphora_id).held_since).total_seconds()

    def test_since_when_a_hold_counts(self):
        """From half a heartbeat_timeout on, whenever the guard looks."""
        ids = self.add_amphorae(3)
        began = time.monotonic()
        for amphora_id, age in zip(ids, (TIMEOUT / 2 + 1, TIMEOUT - 10,
                                         100 * TIMEOUT)):
            self.records.set_health(amphora_id, age=age)
        self.assertEqual(set(ids), self.guard.run_once())
        for amphora_id, counted in zip(ids, (1, TIMEOUT / 2 - 10,
                                             TIMEOUT / 2)):
            self.assertAge(counted, self.held_for(amphora_id), began)

    def test_a_heartbeat_that_comes_first_stays(self):
        """last_update never goes back."""
        silent, = self.add_silent()
        amphora.amphora_repo.add_missing(self.engine)
        self.records.set_health(silent, age=0)
        written = self.records.rows('amphora_health')
        before = timeutils.utcnow() - datetime.timedelta(seconds=TIMEOUT)
        guard.hold_repo.hold(self.engine, [silent], before)
        self.assertEqual(written, self.records.rows('amphora_health'))

    def count_held(self):
        return guard.hold_repo.count_held(self.engine, TIMEOUT)

    def test_count_held(self):
        ids = self.add_silent(3)
        self.assertEqual(0, self.count_held())
        self.assertEqual(set(ids), self.guard.run_once())
        # What is held back is not silent any more, and still held back.
        self.assertEqual(set(), self.guard.run_once())
        self.assertEqual(3, self.count_held())
        self.records.set_health(ids[0], age=-1)
        self.records.set_status(ids[1], 'DELETED')
        self.assertEqual(1, self.count_held())
        # Hold over, and not held again: Octavia fails it over.
        self.records.set_health(ids[2], age=TIMEOUT + 1)
        self.assertEqual(0, self.count_held())

    def test_holds_begun(self):
        self.add_silent(3)
        measure = instruments.HealthManagerInstruments()
        subject = self.make_guard(measure)
        for _ in range(3):
            subject.run_once()
        self.assertEqual(3, measure.registry.get_sample_value(
            'octavia_hmsync_holds_total'))

    def test_list_on_trial(self):
        """It acknowledged a list that nobody has found good so far."""
        silent, = self.add_silent()
        amphora.amphora_repo.add_missing(self.engine)
        self.apply(silent, age=150)
        for number in (1, 2):
            self.listen(number)
        self.assertEqual(set(), self.guard.run_once())
        generations = models.Generation.__table__
        with self.engine.begin() as connection:
            connection.execute(generations.update().values(status='CANARY'))
        self.assertEqual({silent}, self.guard.run_once())

    def test_clocks_apart(self):
        """What a controller ahead of us wrote is no heartbeat."""
        silent, = self.add_silent()
        amphora.amphora_repo.add_missing(self.engine)
        now = timeutils.utcnow().replace(microsecond=0)
        for ahead in (3, 0):
            guard.hold_repo.hold(self.engine, [silent], now +
                                 datetime.timedelta(seconds=ahead))
        self.assertEqual([], guard.hold_repo.release_heard(self.engine))
        self.assertIsNotNone(self.row(silent).held_since)

    def test_two_guards_at_once(self):
        ids = self.add_silent(20)
        held = self.run_at_once([
            self.make_guard().run_once
            for _ in range(3)])
        self.assertEqual(set(ids), set().union(*held))
        self.assertEqual(20, len([r for r in self.rows(models.Amphora)
                                  if r.held_since]))

    def test_told(self):
        ids = self.add_silent(2)
        self.guard.run_once()
        self.assertEqual([payloads.FailoverGuardHolding(
            tuple(sorted(ids)), 300, None)], self.notifier.take())
        # Held on, by another one.
        self.records.set_health(*ids, age=TIMEOUT - 1)
        self.make_older(models.Amphora, 'held_at', TIMEOUT - 1)
        self.make_guard().run_once()
        self.assertEqual([], self.notifier.take())
        self.records.set_health(ids[0], age=-2)
        self.guard.run_once()
        self.assertEqual([payloads.FailoverGuardReleased((ids[0],))],
                         self.notifier.take())

    def test_timeout_that_is_longer_than_holds_usually_are(self):
        """The default of failover_hold_max follows."""
        self.conf = self.make_conf(
            DEFAULT={'host': 'controller1'},
            health_manager={'heartbeat_timeout': 400})
        self.guard = self.make_guard()
        silent, = self.add_silent(age=401)
        self.assertEqual({silent}, self.guard.run_once())
        self.assertEqual([payloads.FailoverGuardHolding(
            (silent,), 400, None)], self.notifier.take())

    def test_told_by_one_of_several(self):
        ids = self.add_silent(20)
        self.run_at_once([self.make_guard().run_once for _ in range(3)])
        self.assertEqual(sorted(ids), sorted(
            i for p in self.notifier.take() for i in p.amphora_ids))
        self.records.set_health(*ids, age=-2)
        self.run_at_once([self.make_guard().run_once for _ in range(3)])
        self.assertEqual(sorted(ids), sorted(
            i for p in self.notifier.take() for i in p.amphora_ids))
