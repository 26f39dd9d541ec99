# SPDX-License-Identifier: Apache-2.0

"""Canaries, waves and roll back, on the tables."""

import collections
import datetime

import fixtures
from oslo_utils import timeutils

from octavia_hmsync.db import models
from octavia_hmsync.sync.db import admission as admission_repo
from octavia_hmsync.sync.db import amphora as amphora_repo
from octavia_hmsync.sync.db import claim as claim_repo
from octavia_hmsync.sync.db import doubt as doubt_repo
from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.db import health_manager as hm_repo
from octavia_hmsync.sync.db import heartbeat as heartbeat_repo
from octavia_hmsync.sync.db import house_keeper as keeper_repo
from octavia_hmsync.sync.db import outcome as outcome_repo
from octavia_hmsync.sync import heartbeat_key
from octavia_hmsync.sync.house_keeping import examiner
from octavia_hmsync.sync.house_keeping import synchronizer
from octavia_hmsync.sync import payloads
from octavia_hmsync.sync.rules import subset
from octavia_hmsync.sync.rules import trial
from tests.db_cases import base
from tests.unit.db import sqlite
from tests.unit import fakes
from tests.unit.sync.house_keeping import passes
from tests.unit.sync.rules import cases

POLL_INTERVAL = 2
INTERVAL = 10
CANARIES = 3
# After which each verdict is there.
LONG = 150


class TestRollout(sqlite.SqliteMixin, base.DatabaseTestCase):
    """Generation 1 is good; 2, with one address more, is on trial."""

    def setUp(self):
        super().setUp()
        self.stop_clock()
        self.log = self.useFixture(fixtures.FakeLogger('octavia_hmsync'))
        self.now = 1000.0
        self.beats = 0
        self.begun = timeutils.utcnow() - datetime.timedelta(seconds=500)
        self.silent = set()
        self.unreachable = set()
        self.notifier = fakes.Notifier()
        self.subject = self.make()
        self.listen(1, 2)

    def make(self, host='controller1', **hmsync):
        return examiner.Examiner(
            self.make_conf(DEFAULT={'host': host}, hmsync=hmsync),
            self.engine, clock=lambda: self.now, notifier=self.notifier)

    def listen(self, *numbers, is_observing=False):
        for n in numbers:
            hm_repo.register(self.engine, f'hm{n}', f'192.0.2.{n}', 5555,
                             f'instance-{n}', 20, is_observing=is_observing)

    def stop_listening(self, *numbers):
        for n in numbers:
            hm_repo.set_offline(self.engine, f'hm{n}', f'instance-{n}')

    def add(self, number=5, **values):
        ids = self.add_amphorae(number, **values)
        for amphora_id in ids:
            self.records.set_health(amphora_id, age=500)
        amphora_repo.add_missing(self.engine)
        return ids

    def beat(self, *amphora_ids):
        """Have amphorae heard; what counts is that the value changes."""
        self.beats += 1
        health = self.records.tables['amphora_health']
        with self.engine.begin() as connection:
            connection.execute(
                health.update().where(health.c.amphora_id.in_(amphora_ids))
                .values(last_update=self.begun + datetime.timedelta(
                    seconds=self.beats)))

    def publish(self, *numbers, status=trial.OPEN):
        newest = self.newest
        slots = subset.assign_slots(
            newest.slots if newest else {}, cases.addresses(*numbers))
        self.assertTrue(generation_repo.publish(
            self.engine, newest.number + 1 if newest else 1, slots,
            'because', 'controller1', status))

    def begin(self, number=5, good=(1,), new=(1, 2), status=trial.CANARY,
              **values):
        """Have amphorae with a good list, and another one on trial."""
        ids = self.add(number, **values)
        self.publish(*good)
        self.upload()
        self.publish(*new, status=status)
        return ids

    def upload(self):
        """Bring those that are due to the newest generation.

        :returns: the ids of those that acknowledged.
        """
        newest = self.newest
        if newest.status == trial.ROLLED_BACK:
            return set()
        owner = f'batch{self.now}'
        claimed = {a.id for a in claim_repo.claim_due(
            self.engine, newest.number, owner, 1000, 120,
            newest.number if newest.is_on_trial else None)}
        outcome_repo.record(self.engine, newest.number, owner, [
            outcome_repo.Outcome(
                amphora_id, *(('UNREACHABLE', (), 'it hangs', 600.0)
                              if amphora_id in self.unreachable else
                              ('APPLIED', subset.subset(
                                  amphora_id, newest.slots, 5))))
            for amphora_id in claimed])
        return claimed - self.unreachable

    def look(self, *subjects, seconds=POLL_INTERVAL):
        self.now += seconds
        newest = self.newest
        for subject in subjects or (self.subject,):
            subject.run_once(newest)

    def run_for(self, seconds, *subjects, upload=True):
        """Look again and again; amphorae send heartbeats all the time."""
        until, next_beat = self.now + seconds, self.now
        while self.now < until:
            if self.now >= next_beat:
                next_beat += INTERVAL
                self.beat(*(row['id'] for row in self.records.rows('amphora')
                            if row['id'] not in self.silent and
                            row['status'] != 'DELETED'))
            self.look(*subjects)
            if upload:
                self.upload()

    @property
    def newest(self):
        return generation_repo.get_newest(self.engine)

    def admitted(self, number=2):
        return {a.amphora_id for a in admission_repo.get_admitted(
            self.engine, number)}

    def reached(self, number=2):
        """Amphorae that acknowledged a generation."""
        return {row.amphora_id for row in self.rows(models.Amphora)
                if row.generation == number}

    def statuses(self):
        return [g.status for g in generation_repo.get_history(self.engine)]

    def suspects(self):
        return set(generation_repo.get_suspects(self.engine))

    # Who is chosen

    def test_every_amphora_may_have_it(self):
        self.begin(status=trial.OPEN)
        self.look()
        self.assertEqual(set(), self.admitted())

    def test_canaries(self):
        ids = self.begin()
        self.look()
        admitted = self.admitted()
        self.assertEqual(CANARIES, len(admitted))
        self.assertLess(admitted, set(ids))
        self.assertEqual(admitted, self.upload())
        self.run_for(50)
        self.assertEqual(admitted, self.admitted())
        self.assertEqual(admitted, self.reached())
        self.assertEqual(trial.CANARY, self.newest.status)

    def add_pair(self):
        """Add a load balancer; returns its MASTER and its BACKUP."""
        lb = self.records.add_load_balancer('ACTIVE_STANDBY')
        pair = [self.records.add_amphora('192.0.2.1', lb, role)
                for role in ('MASTER', 'BACKUP')]
        self.records.set_health(*pair, age=500)
        return pair

    def test_one_of_each_load_balancer(self):
        """That one whose failover hurts least."""
        pairs = [self.add_pair() for _ in range(3)]
        self.begin(0)
        self.look()
        self.assertEqual({backup for _master, backup in pairs},
                         self.admitted())

    def test_by_chance(self):
        """Not by what an amphora brings about.

        When it was heard, or whether it was seen to change its list.
        """
        ids = self.begin(60)
        favorite, *_others = ids
        with self.engine.begin() as connection:
            connection.execute(
                models.Amphora.__table__.update()
                .where(models.Amphora.amphora_id == favorite)
                .values(has_changed_list=True))
        self.beat(favorite)
        seen = set()
        for _ in range(4):
            subject = self.make(canary_size=15)
            with self.engine.begin() as connection:
                connection.execute(models.Amphora.__table__.update().values(
                    admitted_generation=None))
            self.look(subject)
            seen.add(frozenset(self.admitted()))
        self.assertEqual(4, len(seen))
        # By chance it is in all of them once in 256 times.
        self.assertGreater(len(set().union(*seen)), 20)

    def test_those_that_fell_silent_before_come_last(self):
        ids = self.begin(10)
        self.make_older(models.Amphora, 'fell_silent_at', 86400)
        for amphora_id in ids[4:7]:
            with self.engine.begin() as connection:
                connection.execute(
                    models.Amphora.__table__.update()
                    .where(models.Amphora.amphora_id == amphora_id)
                    .values(fell_silent_at=None))
        self.look()
        self.assertEqual(set(ids[4:7]), self.admitted())

    def test_not_those_that_are_busy_or_gone(self):
        ids = self.begin(5)
        self.records.set_health(ids[0], busy=True)
        self.records.set_status(ids[1], 'DELETED')
        self.look()
        self.assertEqual(set(ids[2:]), self.admitted())

    def test_not_those_that_are_silent_anyhow(self):
        """The roll back would never end."""
        ids = self.add(2)
        for amphora_id in ids:
            self.records.set_health(amphora_id, age=86400)
            self.records.set_status(amphora_id, 'ERROR')
        self.silent = set(ids)
        self.begin(2)
        self.run_for(LONG)
        self.assertEqual([trial.OPEN, trial.OPEN], self.statuses())

    def test_not_those_that_are_held_back_from_failover(self):
        """They are silent already, for whatever reason."""
        ids = self.begin(5)
        for amphora_id in ids[2:]:
            self.make_older(models.Amphora, 'held_since', 30,
                            amphora_id=amphora_id)
        self.look()
        self.assertEqual(set(ids[:2]), self.admitted())

    def test_only_those_that_the_change_concerns(self):
        """Of a long list each amphora has a subset."""
        ids = self.begin(40, good=range(1, 11), new=(*range(1, 10), 30))
        concerned = {
            amphora_id for amphora_id in ids if cases.address(30) in
            subset.subset(amphora_id, self.newest.slots, 5)}
        self.assertNotIn(len(concerned), (0, 40))
        self.listen(*range(3, 11), 30)
        self.look()
        self.assertEqual(CANARIES, len(self.admitted()))
        self.assertLess(self.admitted(), concerned)

    def test_as_many_more_as_new_addresses_take(self):
        self.begin(40, good=range(1, 11), new=(1, *range(31, 40)))
        self.listen(*range(3, 11), *range(31, 40))
        self.look()
        tried = {address for amphora_id in self.admitted()
                 for address in subset.subset(
                     amphora_id, self.newest.slots, 5)}
        self.assertLessEqual(set(cases.addresses(*range(31, 40))), tried)

    def test_nobody_is_concerned(self):
        self.begin(0)
        self.look()
        self.assertEqual(trial.OPEN, self.newest.status)

    def test_fewer_than_wanted(self):
        ids = self.begin(2)
        self.look()
        self.assertEqual(set(ids), self.admitted())

    def test_one_canary(self):
        self.subject = self.make(canary_size=1)
        self.begin()
        self.look()
        self.assertEqual(1, len(self.admitted()))

    # How they fare

    def test_good(self):
        self.begin()
        self.run_for(LONG)
        self.assertEqual(trial.OPEN, self.newest.status)
        self.assertEqual(5, len(self.reached()))
        self.assertEqual({}, generation_repo.get_suspects(self.engine))

    def test_not_before_they_were_watched(self):
        self.begin()
        self.run_for(58)
        self.assertEqual(trial.CANARY, self.newest.status)

    def test_silent(self):
        ids = self.begin()
        self.run_for(10)
        canaries = self.reached()
        self.silent = set(sorted(canaries)[:2])
        self.run_for(LONG)
        self.assertEqual([trial.OPEN, trial.ROLLED_BACK, trial.OPEN],
                         self.statuses())
        self.assertEqual((3, cases.addresses(1)),
                         (self.newest.number, self.newest.addresses))
        self.assertEqual(set(ids), self.reached(3))
        self.assertEqual({cases.address(2)}, self.suspects())
        self.assertIn('Generation 2 is ROLLED_BACK', self.log.output)
        self.assertIn(cases.address(2), self.log.output)
        self.assertIn('octavia-hmsync sync retry', self.log.output)
        for amphora_id in self.silent:
            self.assertIn(amphora_id, self.rolled_back_because())

    def rolled_back_because(self):
        line, = (line for line in self.log.output.splitlines()
                 if 'is ROLLED_BACK' in line)
        return line

    # One that is hostile

    def fall_silent_for_a_while(self, amphora_ids, seconds=55):
        self.silent = set(amphora_ids)
        self.run_for(seconds)
        self.silent = set()

    def test_one_vetoes_nothing(self):
        """It answers 202, is silent for a while, and resumes."""
        ids = self.begin(30)
        self.run_for(10)
        hostile = min(self.reached())
        self.fall_silent_for_a_while([hostile])
        # Meanwhile others were asked.
        self.assertEqual(10, len(self.admitted()))
        self.run_for(LONG)
        self.assertEqual([trial.OPEN, trial.OPEN], self.statuses())
        self.assertEqual(set(ids), self.reached())
        self.assertEqual(set(), self.suspects())
        warning, = (line for line in self.log.output.splitlines()
                    if 'goes on' in line)
        self.assertIn(hostile, warning)

    def test_of_two_housekeepers_one_names_it(self):
        subjects = [self.make(host, wave_size=2)
                    for host in ('controller1', 'controller2')]
        self.begin(14)
        self.run_for(10, *subjects)
        hostile = min(self.reached())
        self.silent = {hostile}
        self.run_for(56, *subjects)
        self.silent = set()
        while self.newest.is_on_trial:
            self.run_for(POLL_INTERVAL, *subjects)
        # When it leaves the canaries, and when it goes to all.
        self.assertEqual(2, self.log.output.count('Generation 2 goes on'))
        self.assertEqual(set(), self.suspects())

    def test_one_vetoes_nothing_where_others_are_few(self):
        for seconds in (45, LONG):
            ids = self.begin(2)
            number = self.newest.number
            self.run_for(10)
            hostile = min(self.reached(number))
            self.fall_silent_for_a_while([hostile], seconds)
            self.run_for(LONG)
            self.assertEqual((number, trial.OPEN),
                             (self.newest.number, self.newest.status))
            for amphora_id in ids:
                self.records.set_status(amphora_id, 'DELETED')
            self.beats += 10

    def test_twice_is_not_possible(self):
        self.begin(10)
        self.run_for(10)
        hostile = min(self.reached())
        self.fall_silent_for_a_while([hostile])
        self.run_for(LONG)
        for number in (3, 4, 5, 6):
            self.listen(number)
            self.publish(*range(1, number + 1), status=trial.CANARY)
            self.run_for(10)
            self.assertNotIn(hostile, self.admitted(self.newest.number))
            self.run_for(LONG)
            self.assertEqual(trial.OPEN, self.newest.status)

    def test_load_balancer_vetoes_nothing(self):
        """Both of its amphorae are canaries, where there are few."""
        hostile = self.add_pair()
        self.begin(1)
        self.run_for(10)
        self.fall_silent_for_a_while(hostile)
        self.run_for(LONG)
        self.assertEqual([trial.OPEN, trial.OPEN], self.statuses())

    def test_only_amphora_rolls_back_its_own_list(self):
        self.begin(1)
        self.run_for(10)
        self.silent = self.reached()
        self.run_for(60)
        self.assertEqual([trial.OPEN, trial.ROLLED_BACK, trial.OPEN],
                         self.statuses())

    def test_others_cannot_be_reached(self):
        """Nobody says anything else than the one that fell silent."""
        ids = self.begin(4)
        self.look()
        speaker = min(self.admitted())
        self.unreachable = set(ids) - {speaker}
        self.run_for(10)
        self.silent = {speaker}
        self.run_for(70)
        self.assertEqual(trial.ROLLED_BACK, self.statuses()[1])

    def test_truly_bad_list_goes_to_no_others(self):
        """They do not all fall silent in the same second."""
        self.begin(30)
        self.run_for(10)
        canaries = sorted(self.reached())
        self.silent = set(canaries[:1])
        self.run_for(12)
        self.silent = set(canaries)
        self.run_for(60)
        self.assertEqual(trial.ROLLED_BACK, self.statuses()[1])
        self.assertEqual(set(canaries), self.admitted())

    def test_another_one_falls_silent_too(self):
        """A part of the amphorae cannot reach the new address."""
        self.begin(30)
        self.run_for(10)
        self.silent = {min(self.reached())}
        while len(self.admitted()) == CANARIES:
            self.run_for(POLL_INTERVAL)
        self.run_for(4)
        first = set(self.silent)
        self.silent |= {max(self.reached() - first)}
        self.run_for(80)
        self.assertEqual(trial.ROLLED_BACK, self.statuses()[1])

    def test_one_is_not_heard_at_a_new_address(self):
        """It alone tries it, and sends its heartbeats elsewhere."""
        self.listen(*range(3, 11), 30, is_observing=True)
        self.make_older(models.HealthManager, 'online_since', 500)
        self.begin(40, good=range(1, 11), new=(*range(1, 10), 30))
        self.subject = self.make(canary_size=1)
        self.look()
        hostile, = self.admitted()
        self.run_for(POLL_INTERVAL)
        while len(self.admitted()) == 1:
            self.run_for(POLL_INTERVAL)
        self.assertEqual(2, len(self.admitted()))
        hm_repo.set_heard(self.engine, 'hm30', 'instance-30')
        self.make_older(models.Amphora, 'applied_at', 500)
        self.run_for(LONG)
        self.assertEqual(trial.OPEN, self.newest.status)
        self.assertEqual(set(), self.suspects())

    def test_nobody_else_gets_it(self):
        self.begin()
        self.run_for(10)
        canaries = self.reached()
        self.silent = set(canaries)
        while self.newest.number == 2:
            self.assertEqual(canaries, self.reached())
            self.run_for(POLL_INTERVAL)
        self.assertEqual(set(), self.reached())

    def test_rolled_back_before_a_failover(self):
        self.begin()
        self.run_for(10)
        self.silent = self.reached()
        # The failover guard holds them for as long.
        self.run_for(60 + 2 * INTERVAL - 10)
        self.assertEqual(3, self.newest.number)

    def test_slots_of_the_good_list(self):
        self.begin(40, good=range(1, 11), new=(*range(2, 11), 30))
        self.listen(*range(3, 11), 30)
        good = generation_repo.get_last_good(self.engine).slots
        self.run_for(10)
        self.silent = self.reached()
        self.run_for(60)
        self.assertEqual(good, self.newest.slots)

    def test_first_list_is_bad(self):
        self.add(5)
        self.publish(1, status=trial.CANARY)
        self.run_for(10)
        self.silent = self.reached(1)
        self.run_for(60)
        self.assertEqual([trial.ROLLED_BACK], self.statuses())
        self.assertEqual({cases.address(1)}, self.suspects())
        # And that is that.
        self.run_for(LONG)
        self.assertEqual([trial.ROLLED_BACK], self.statuses())
        self.assertEqual(CANARIES, len(self.reached(1)))
        # Nothing takes its place.
        rolled_back, = self.notifier.sent
        self.assertIsNone(rolled_back.replaced_by)

    def test_first_list_is_good(self):
        self.add(5)
        self.publish(1, status=trial.CANARY)
        self.run_for(LONG)
        self.assertEqual([trial.OPEN], self.statuses())
        self.assertEqual(5, len(self.reached(1)))

    def test_held_back_from_failover_is_silent(self):
        """What the guard writes is no heartbeat."""
        self.begin()
        self.run_for(10)
        canaries = self.reached()
        self.make_older(models.Amphora, 'held_at', -1000)
        self.silent = canaries
        until = self.now + 70
        while self.now < until:
            self.beat(*canaries)
            self.look()
        self.assertEqual(trial.ROLLED_BACK, self.statuses()[1])

    def test_silent_for_less(self):
        """One lost heartbeat is none to blame a list for."""
        self.begin()
        self.run_for(10)
        canaries = self.silent = self.reached()
        for _ in range(6):
            self.run_for(28)
            self.beat(*canaries)
        self.assertEqual([trial.OPEN, trial.OPEN], self.statuses())

    def test_two_dead_addresses_are_still_published(self):
        """Their turn leaves a gap, which the plan takes for good enough."""
        self.begin(good=(1, 2, 3), new=(1, 2, 3, 4))
        self.listen(4)
        self.look()
        canaries = self.upload()
        pauses = [1.08 * INTERVAL, 3 * 1.08 * INTERVAL] * 3
        heard_at = [self.now + sum(pauses[:n]) for n in range(6)]
        while heard_at:
            if self.now >= heard_at[0]:
                self.beat(*canaries)
                del heard_at[0]
            self.look(seconds=1)
        self.assertNotIn(trial.ROLLED_BACK, self.statuses())

    def test_database_was_away(self):
        """Nobody could write what was heard, and nobody could look."""
        self.begin()
        self.run_for(30)
        self.now += 120
        self.look()
        self.upload()
        self.run_for(LONG)
        self.assertEqual([trial.OPEN, trial.OPEN], self.statuses())

    def test_a_failover_deletes_the_health_row(self):
        """That is no heartbeat."""
        self.begin()
        self.run_for(10)
        canaries = self.silent = self.reached()
        self.run_for(20)
        health = self.records.tables['amphora_health']
        with self.engine.begin() as connection:
            connection.execute(health.delete().where(
                health.c.amphora_id.in_(canaries)))
        self.run_for(20)
        self.assertEqual(trial.ROLLED_BACK, self.statuses()[1])

    # No heartbeat comes to a new address

    def test_new_address_is_not_heard(self):
        """Those that have it are heard at the others."""
        self.listen(2, is_observing=True)
        self.make_older(models.HealthManager, 'online_since', 500)
        self.begin()
        self.run_for(LONG)
        self.assertEqual([trial.OPEN, trial.ROLLED_BACK, trial.OPEN],
                         self.statuses())
        self.assertEqual({cases.address(2)}, self.suspects())

    def test_new_address_is_heard(self):
        self.listen(2, is_observing=True)
        self.make_older(models.HealthManager, 'online_since', 500)
        self.begin()
        self.run_for(10)
        hm_repo.set_heard(self.engine, 'hm2', 'instance-2')
        self.run_for(LONG)
        self.assertEqual([trial.OPEN, trial.OPEN], self.statuses())

    def test_only_the_one_that_is_not_heard_is_to_blame(self):
        self.listen(2, 3, is_observing=True)
        self.make_older(models.HealthManager, 'online_since', 500)
        hm_repo.set_heard(self.engine, 'hm2', 'instance-2')
        self.begin(new=(1, 2, 3))
        self.run_for(LONG)
        self.assertEqual({cases.address(3)}, self.suspects())

    def begin_with_moved(self):
        """2 is new, and its health manager heard already; returns canaries."""
        self.listen(2, is_observing=True)
        self.make_older(models.HealthManager, 'online_since', 500)
        hm_repo.set_heard(self.engine, 'hm2', 'instance-2')
        self.add()
        self.publish(1)
        self.upload()
        doubt_repo.set_adopted(
            self.engine, doubt_repo.get_unproven(self.engine),
            cases.address(1))
        self.publish(1, 2, status=trial.CANARY)
        self.run_for(10)
        return sorted(self.reached())

    def note(self, amphora_id, number):
        heartbeat_repo.note_heartbeat(self.engine, amphora_id,
                                      cases.address(number), 0.0)

    def test_moved_one_is_heard_at_its_old_address_only(self):
        """All others still send there; the canaries are not among them."""
        canaries = self.begin_with_moved()
        self.make_older(models.Amphora, 'applied_at', 500)
        for canary in canaries:
            self.note(canary, 1)
        self.run_for(LONG)
        self.assertEqual([trial.OPEN, trial.ROLLED_BACK, trial.OPEN],
                         self.statuses())
        self.assertEqual({cases.address(2)}, self.suspects())

    def test_moved_one_is_heard_by_canaries(self):
        first, *others = self.begin_with_moved()
        self.make_older(models.Amphora, 'applied_at', 500)
        for canary in others:
            self.note(canary, 1)
        doubt_repo.set_adopted(
            self.engine, doubt_repo.get_unproven(
                self.engine, amphora_id=first), cases.address(2))
        self.run_for(LONG)
        self.assertEqual([trial.OPEN, trial.OPEN], self.statuses())

    def test_moved_one_of_which_nobody_can_tell(self):
        self.begin_with_moved()
        self.run_for(LONG)
        # What they show may be noted any moment.
        self.assertEqual(trial.CANARY, self.newest.status)
        self.make_older(models.Amphora, 'applied_at', 500)
        self.run_for(LONG)
        self.assertEqual([trial.OPEN, trial.OPEN], self.statuses())

    def test_new_health_manager_starts_again_meanwhile(self):
        """It gets its time."""
        self.listen(2, is_observing=True)
        self.begin()
        self.run_for(LONG)
        self.assertEqual(trial.CANARY, self.newest.status)
        self.make_older(models.HealthManager, 'online_since', 500)
        self.look()
        self.assertEqual(trial.ROLLED_BACK, self.statuses()[1])

    # Those that cannot be reached

    def test_unreachable_ones_tell_nothing(self):
        ids = self.begin(6)
        self.unreachable = set(ids)
        self.look()
        first = self.admitted()
        self.upload()
        self.unreachable = set(first)
        self.run_for(10)
        self.assertEqual(first, self.admitted() & first)
        self.assertEqual(6, len(self.admitted()))
        self.assertEqual(trial.CANARY, self.newest.status)
        self.run_for(LONG)
        self.assertEqual(trial.OPEN, self.newest.status)

    def test_some_can_be_reached(self):
        self.begin(6)
        self.look()
        self.unreachable = set(sorted(self.admitted())[1:])
        self.upload()
        self.run_for(10)
        self.assertEqual(CANARIES, len(self.admitted()))
        self.run_for(LONG)
        self.assertEqual(trial.OPEN, self.newest.status)

    def test_nobody_can_be_reached(self):
        self.unreachable = set(self.begin(7))
        self.run_for(30)
        self.assertEqual(7, len(self.admitted()))
        self.assertEqual(trial.OPEN, self.newest.status)

    def test_all_are_deleted_meanwhile(self):
        self.begin()
        self.look()
        first = self.admitted()
        for amphora_id in first:
            self.records.set_status(amphora_id, 'DELETED')
        self.run_for(LONG)
        self.assertEqual(2, len(self.admitted()))
        self.assertEqual(trial.OPEN, self.newest.status)

    def test_has_this_very_list_already(self):
        """A batch of another generation, with the same list, was late."""
        ids = self.begin()
        self.look()
        late = min(self.admitted())
        claimed, = claim_repo.claim_due(self.engine, 2, 'late', 1, 120, 2)
        outcome_repo.record(self.engine, 2, 'late', [outcome_repo.Outcome(
            claimed.id, 'APPLIED', cases.addresses(1, 2), uploaded=False)])
        self.assertIn(late, ids)
        self.run_for(LONG)
        self.assertEqual(trial.OPEN, self.newest.status)

    # Waves

    def test_waves(self):
        self.subject = self.make(wave_size=4)
        self.begin(10)
        sizes = []
        while self.newest.is_on_trial:
            self.run_for(POLL_INTERVAL)
            if len(self.admitted()) not in sizes:
                sizes.append(len(self.admitted()))
                self.assertEqual(
                    trial.CANARY if len(sizes) == 1 else trial.WAVES,
                    self.newest.status)
        self.assertEqual([3, 7, 10], sizes)
        self.assertEqual(trial.OPEN, self.newest.status)
        self.assertEqual(10, len(self.reached()))

    def test_each_wave_is_watched(self):
        self.subject = self.make(wave_size=4)
        self.begin(10)
        while self.newest.status == trial.CANARY:
            self.run_for(POLL_INTERVAL)
        self.run_for(50)
        self.assertEqual(7, len(self.admitted()))

    def test_wave_falls_silent(self):
        self.subject = self.make(wave_size=4)
        self.begin(10)
        while self.newest.status == trial.CANARY:
            self.run_for(POLL_INTERVAL)
        self.run_for(10)
        self.assertEqual(7, len(self.reached()))
        self.silent = set(sorted(self.reached())[:2])
        self.run_for(60)
        self.assertEqual([trial.OPEN, trial.ROLLED_BACK, trial.OPEN],
                         self.statuses())
        self.assertEqual(10, len(self.reached(3)))

    def test_waves_without_canaries(self):
        self.subject = self.make(canary_size=0, wave_size=2)
        self.begin(5, status=trial.WAVES)
        self.look()
        self.assertEqual((2, trial.WAVES),
                         (len(self.admitted()), self.newest.status))

    # Nothing to lose

    def test_old_addresses_die_meanwhile(self):
        self.begin(new=(2,))
        self.run_for(20)
        self.stop_listening(1)
        self.look()
        # It may just be restarting.
        self.assertEqual(trial.CANARY, self.newest.status)
        self.make_older(models.HealthManager, 'keepalive_at', 21, host='hm1')
        self.look()
        self.assertEqual(trial.OPEN, self.newest.status)
        self.upload()
        self.assertEqual(5, len(self.reached()))

    def test_some_old_addresses_die_meanwhile(self):
        self.begin(good=(1, 3), new=(1, 2, 3))
        self.listen(3)
        self.run_for(20)
        self.stop_listening(1)
        self.look()
        self.assertEqual(trial.CANARY, self.newest.status)

    def test_old_addresses_may_be_back(self):
        """They are in the new list as well: it can do no harm."""
        self.begin()
        self.run_for(20)
        self.stop_listening(1)
        self.look()
        self.assertEqual(trial.OPEN, self.newest.status)

    def test_old_address_is_pinned(self):
        """Somebody may listen there without the plugin."""
        keeper_repo.touch(self.engine, 'controller1', cases.addresses(7))
        self.begin(good=(7,), new=(2, 7))
        self.look()
        self.assertEqual(trial.CANARY, self.newest.status)

    def test_old_address_is_pinned_and_its_health_manager_dead(self):
        keeper_repo.touch(self.engine, 'controller1', cases.addresses(1))
        self.begin()
        self.stop_listening(1)
        self.make_older(models.HealthManager, 'keepalive_at', 21, host='hm1')
        self.look()
        self.assertEqual(trial.OPEN, self.newest.status)

    # Several housekeepers

    def test_of_two_housekeepers_one_admits(self):
        self.begin(10)
        newest = self.newest
        self.run_at_once([lambda host=h: self.make(host).run_once(newest)
                          for h in ('controller1', 'controller2')])
        self.assertEqual(CANARIES, len(self.admitted()))
        self.assertEqual(1, self.newest.wave)

    def test_of_two_housekeepers_one_rolls_back(self):
        self.begin()
        subjects = [self.subject, self.make('controller2')]
        self.run_for(10, *subjects)
        self.silent = self.reached()
        self.run_for(80, *subjects)
        self.assertEqual([trial.OPEN, trial.ROLLED_BACK, trial.OPEN],
                         self.statuses())
        self.assertEqual(1, self.log.output.count('is ROLLED_BACK'))
        rolled_back, published = self.notifier.sent
        self.assertIsInstance(rolled_back, payloads.GenerationRolledBack)
        self.assertEqual((2, 3, (cases.address(2),)), (
            rolled_back.number, rolled_back.replaced_by,
            rolled_back.suspect_ip_port_list))
        self.assertEqual(payloads.GenerationPublished(
            3, cases.addresses(1), trial.OPEN, self.newest.reason,
            rolled_back.rolled_back_by), published)

    def test_two_housekeepers_and_waves(self):
        subjects = [self.make(host, wave_size=2)
                    for host in ('controller1', 'controller2')]
        self.begin(7)
        sizes = set()
        while self.newest.is_on_trial:
            self.run_for(POLL_INTERVAL, *subjects)
            sizes.add(len(self.admitted()))
        self.assertEqual({3, 5, 7}, sizes)

    def test_winner_dies_before_it_has_admitted_any(self):
        self.begin()
        self.assertTrue(generation_repo.begin_wave(
            self.engine, 2, 0, trial.CANARY))
        self.run_for(10)
        self.assertEqual(CANARIES, len(self.admitted()))

    def test_housekeeper_starts_anew(self):
        """It watches from the beginning."""
        self.begin()
        self.run_for(50)
        self.subject = self.make()
        self.run_for(50)
        self.assertEqual(trial.CANARY, self.newest.status)
        self.run_for(LONG)
        self.assertEqual(trial.OPEN, self.newest.status)

    # Another list comes before the verdict

    def test_canaries_of_the_list_before_are_still_canaries(self):
        """They have addresses that nobody found good."""
        self.begin(10, new=(1, 2))
        self.run_for(20)
        self.silent = self.reached()
        self.run_for(20)
        self.check_that_they_are_found_out()

    def test_canaries_of_the_list_before_are_held_back_from_failover(self):
        self.begin(10)
        self.run_for(20)
        self.silent = self.reached()
        for amphora_id in self.silent:
            self.make_older(models.Amphora, 'held_since', 1,
                            amphora_id=amphora_id)
        self.check_that_they_are_found_out()

    def check_that_they_are_found_out(self):
        self.listen(3)
        self.publish(1, 2, 3, status=trial.CANARY)
        self.run_for(50)
        self.assertEqual(trial.ROLLED_BACK, self.statuses()[2])
        self.assertEqual(10, len(self.reached(4)))


class TestSynchronizer(sqlite.SqliteMixin, base.DatabaseTestCase):
    """What amphorae get while a generation is on trial."""

    def setUp(self):
        super().setUp()
        self.stop_clock()
        self.driver = fakes.install_driver(self)
        conf = self.make_conf(
            controller_worker={'amphora_driver': fakes.DRIVER},
            health_manager={'heartbeat_key': 'the key'})
        self.subject = synchronizer.Synchronizer(
            conf, self.engine, self.engine, lambda: None)
        self.addCleanup(self.subject.stop)
        hm_repo.register(self.engine, 'hm1', '192.0.2.1', 5555, 'one', 20,
                         heartbeat_key.digest('the key'))

    def add(self, number):
        ids = self.add_amphorae(number)
        for amphora_id in ids:
            self.records.set_health(amphora_id)
        return ids

    def publish(self, number, addresses, status):
        generation_repo.publish(
            self.engine, number, subset.assign_slots(
                {}, cases.addresses(*addresses)), 'because', 'controller1',
            status)

    def run_until_idle(self):
        passes.run_until_idle(self.subject)

    def lists(self):
        """How many amphorae have each list, by its length."""
        return collections.Counter(
            len(text.split(', ')) for text in self.driver.lists().values())

    def test_canaries_only(self):
        self.add(5)
        self.publish(1, (1,), trial.OPEN)
        self.run_until_idle()
        self.publish(2, (1, 2), trial.CANARY)
        self.run_until_idle()
        self.assertEqual({1: 5 - CANARIES, 2: CANARIES}, self.lists())
        self.assertIsNone(
            generation_repo.get_newest(self.engine).completed_at)

    def test_first_list(self):
        self.add(5)
        self.publish(1, (1,), trial.CANARY)
        self.run_until_idle()
        self.assertEqual({1: CANARIES}, self.lists())

    def test_who_missed_the_good_list_gets_it(self):
        """It may know nobody any more that is alive."""
        ids = self.add(5)
        self.publish(1, (1,), trial.OPEN)
        self.driver.broken.update(ids)
        self.run_until_idle()
        self.publish(2, (1, 2), trial.OPEN)
        self.publish(3, (1, 2, 3), trial.CANARY)
        self.driver.broken.clear()
        self.run_until_idle()
        self.assertEqual({2: 5 - CANARIES, 3: CANARIES}, self.lists())

    def test_opened(self):
        self.add(5)
        self.publish(1, (1,), trial.OPEN)
        self.run_until_idle()
        self.publish(2, (1, 2), trial.CANARY)
        self.run_until_idle()
        generation_repo.set_open(self.engine, 2)
        self.run_until_idle()
        self.assertEqual({2: 5}, self.lists())
        self.assertIsNotNone(
            generation_repo.get_newest(self.engine).completed_at)

    def test_rolled_back(self):
        self.add(5)
        self.publish(1, (1,), trial.OPEN)
        self.run_until_idle()
        self.publish(2, (1, 2), trial.CANARY)
        self.run_until_idle()
        good = generation_repo.get_last_good(self.engine)
        generation_repo.roll_back(self.engine, 2, (), good.slots, 'bad',
                                  'controller1')
        self.run_until_idle()
        self.assertEqual({1: 5}, self.lists())

    def test_rolled_back_and_nothing_better(self):
        self.add(5)
        self.publish(1, (1,), trial.CANARY)
        self.run_until_idle()
        generation_repo.roll_back(self.engine, 1, (), None, 'bad',
                                  'controller1')
        self.records.add_amphora('192.0.2.99')
        self.run_until_idle()
        self.assertEqual(CANARIES, len(self.driver.uploads))
