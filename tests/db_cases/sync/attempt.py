# SPDX-License-Identifier: Apache-2.0

"""Who tries whom in vain, and what comes of it for whom."""

import datetime

from octavia_hmsync.db import models
from octavia_hmsync.sync.db import admission as admission_repo
from octavia_hmsync.sync.db import amphora as amphora_repo
from octavia_hmsync.sync.db import attempt as attempt_repo
from octavia_hmsync.sync.db import claim as claim_repo
from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.db import outcome as outcome_repo
from octavia_hmsync.sync.db import uploader as uploader_repo
from octavia_hmsync.sync.rules import trial
from tests.db_cases import base

LIST = ('192.0.2.101:5555',)
UP = 20
GOOD, BLIND = 'hk on good', 'hk on blind'


class AttemptCases(base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.batches = 0
        self.publish(1)
        for name in (GOOD, BLIND):
            uploader_repo.touch(self.engine, name, UP)

    def publish(self, number, status=trial.OPEN):
        generation_repo.publish(self.engine, number, dict.fromkeys(LIST, 0),
                                '', 'here', status)

    def add(self, number=1):
        ids = sorted(self.add_amphorae(number))
        amphora_repo.add_missing(self.engine)
        return ids

    def claim(self, name, number=1, limit=100):
        self.batches += 1
        owner = f'batch{self.batches}'
        return owner, {a.id: a for a in claim_repo.claim_due(
            self.engine, number, owner, limit, 60, uploader=name)}

    def try_(self, name, results='UNREACHABLE', number=1, limit=100, wait=60,
             is_unanswered=True, seconds=1.0):
        """Have an uploader try what is due for it.

        :param results: of all, or by amphora id.
        :param seconds: how long each failure took.
        :returns: the ids of what it has tried, a set.
        """
        owner, claimed = self.claim(name, number, limit)
        outcomes = []
        for amphora_id in claimed:
            result = (results if isinstance(results, str)
                      else results[amphora_id])
            outcomes.append(
                outcome_repo.Outcome(amphora_id, 'APPLIED', LIST)
                if result == 'APPLIED' else outcome_repo.Outcome(
                    amphora_id, result, LIST, 'refused', wait,
                    is_unanswered=is_unanswered, seconds=seconds))
        claimed = set(claimed)
        self.assertEqual(claimed, outcome_repo.record(
            self.engine, number, owner, outcomes, uploader=name,
            max_age=UP))
        return claimed

    def is_due(self, name, number=1):
        return claim_repo.is_due(self.engine, number, uploader=name)

    def uploaders(self):
        return {u.name: u for u in uploader_repo.get_all(self.engine)}

    def next(self, amphora_id):
        return next(r.next_attempt_at for r in self.rows(models.Amphora)
                    if r.amphora_id == amphora_id)

    def wait(self, name=None):
        where = {'uploader': name} if name else {}
        self.make_older(models.Attempt, 'next_attempt_at', 1, **where)
        self.make_older(models.Amphora, 'next_attempt_at', 1)

    def test_each_waits_for_its_own(self):
        """What the blind one finds holds up nobody else."""
        ids = set(self.add(5))
        self.assertEqual(ids, self.try_(BLIND))
        self.assertFalse(self.is_due(BLIND))
        self.assertEqual(set(), self.try_(BLIND))
        self.assertEqual(ids, self.try_(GOOD, 'APPLIED'))
        self.assertEqual([], self.rows(models.Attempt))

    def test_dead_for_everybody(self):
        """At rest, an index tells that nobody has anything to do."""
        amphora_id, = self.add()
        self.try_(BLIND, wait=60)
        self.assertIsNone(self.next(amphora_id))
        self.try_(GOOD, wait=600)
        self.assertFalse(self.is_due(GOOD))
        times = {r.uploader: r.next_attempt_at
                 for r in self.rows(models.Attempt)}
        # The first of them is the one that looks.
        self.assertEqual(times[BLIND], self.next(amphora_id))
        self.wait(BLIND)
        self.assertFalse(self.is_due(GOOD))
        self.assertEqual({amphora_id}, self.try_(BLIND, wait=1200))
        self.assertEqual(times[GOOD], self.next(amphora_id))

    def test_one_that_is_down_is_waited_for_by_nobody(self):
        self.make_older(models.Uploader, 'keepalive_at', UP + 1, name=GOOD)
        amphora_id, = self.add()
        self.try_(BLIND)
        self.assertIsNotNone(self.next(amphora_id))
        # When it is back it does not wait for what the other found.
        uploader_repo.touch(self.engine, GOOD, UP)
        self.assertIsNone(self.next(amphora_id))
        self.assertEqual({amphora_id}, self.try_(GOOD))

    def test_back_again_it_waits_for_its_own(self):
        amphora_id, = self.add()
        self.try_(BLIND)
        self.try_(GOOD)
        self.make_older(models.Uploader, 'keepalive_at', UP + 1, name=GOOD)
        uploader_repo.touch(self.engine, GOOD, UP)
        self.assertIsNotNone(self.next(amphora_id))

    def test_attempts_of_each(self):
        amphora_id, = self.add()
        begun = set()
        for attempts in (1, 2, 3):
            self.try_(BLIND, seconds=600.0)
            self.wait()
            attempt, = attempt_repo.get_attempts(
                self.engine, 1, [amphora_id])[amphora_id]
            self.assertEqual((BLIND, attempts, True),
                             (attempt.uploader, attempt.attempts,
                              attempt.is_unanswered))
            begun.add((attempt.first_tried_at,
                       self.uploaders()[BLIND].failing_since))
        # Both tell when the first of them began.
        (first_tried_at, failing_since), = begun
        self.assertLess(abs(first_tried_at - failing_since),
                        datetime.timedelta(seconds=60))
        for name, attempts in ((BLIND, 3), (GOOD, 0)):
            owner, claimed = self.claim(name)
            self.assertEqual(attempts, claimed[amphora_id].attempts)
            claim_repo.give_back(self.engine, owner)
        self.assertEqual({}, attempt_repo.get_attempts(
            self.engine, 2, [amphora_id]))

    def test_one_answer_is_enough(self):
        amphora_id, = self.add()
        for is_unanswered in (False, True):
            self.try_(GOOD, is_unanswered=is_unanswered)
            self.wait()
        attempt, = attempt_repo.get_attempts(
            self.engine, 1, [amphora_id])[amphora_id]
        self.assertFalse(attempt.is_unanswered)

    def test_who_reaches_whom(self):
        ids = self.add(4)
        self.try_(BLIND)
        blind = self.uploaders()[BLIND]
        self.assertEqual((4, 0, None),
                         (blind.failures, blind.overtaken, blind.reached_at))
        self.assertIsNotNone(blind.failing_since)
        self.try_(GOOD, {ids[0]: 'UNREACHABLE', ids[1]: 'REJECTED',
                         ids[2]: 'APPLIED', ids[3]: 'APPLIED'},
                  is_unanswered=False)
        blind, good = self.uploaders()[BLIND], self.uploaders()[GOOD]
        self.assertEqual(4, blind.overtaken)
        self.assertEqual((0, 0, None), (good.failures, good.overtaken,
                                        good.failing_since))
        self.assertIsNotNone(good.reached_at)
        # What answers with an error proves nothing against who tried it.
        self.assertEqual({ids[0], ids[1]}, {
            row.amphora_id for row in self.rows(models.Attempt)})
        self.assertEqual({GOOD}, {
            row.uploader for row in self.rows(models.Attempt)})

    def test_found_long_ago(self):
        """Those amphorae have come back, that is all."""
        self.add(4)
        for _ in range(3):
            self.try_(BLIND)
            self.wait()
        self.try_(GOOD, 'APPLIED')
        self.assertEqual(0, self.uploaders()[BLIND].overtaken)

    def test_works_again(self):
        ids = self.add(4)
        self.try_(BLIND)
        self.try_(GOOD, {ids[0]: 'UNREACHABLE',
                         **dict.fromkeys(ids[1:], 'APPLIED')})
        self.assertIsNotNone(self.next(ids[0]))
        uploader_repo.set_reached(self.engine, BLIND)
        blind = self.uploaders()[BLIND]
        self.assertEqual((0, 0, None), (blind.failures, blind.overtaken,
                                        blind.failing_since))
        # The others' failures are not its own.
        self.assertEqual({ids[0]}, self.try_(BLIND))
        self.assertFalse(self.is_due(GOOD))

    def test_blind_ones_are_waited_for_by_nobody(self):
        ids = self.add(4)
        self.try_(BLIND)
        self.try_(GOOD, {ids[0]: 'UNREACHABLE',
                         **dict.fromkeys(ids[1:], 'APPLIED')}, wait=600)
        own, = [r for r in self.rows(models.Attempt) if r.uploader == GOOD]
        self.assertEqual(own.next_attempt_at, self.next(ids[0]))

    def test_where_there_is_a_way(self):
        ids = self.add(5)
        self.try_(BLIND, limit=1)
        self.assertEqual({}, uploader_repo.get_reachable(self.engine, BLIND))
        self.try_(GOOD, 'APPLIED')
        reachable = uploader_repo.get_reachable(self.engine, BLIND)
        self.assertEqual(3, len(reachable))
        self.assertLess(set(reachable), {
            f'192.0.2.{n}' for n in range(1, len(ids) + 1)})

    def test_a_new_list_is_tried_at_once(self):
        ids = set(self.add(2))
        self.try_(GOOD)
        self.try_(BLIND)
        self.assertFalse(self.is_due(GOOD))
        self.publish(2)
        self.assertEqual(ids, self.try_(BLIND, number=2))
        self.assertEqual(ids, self.try_(GOOD, number=2))
        self.assertEqual({1}, {r.attempts for r in self.rows(models.Attempt)})

    def test_published_while_an_upload_was_under_way(self):
        amphora_id, = self.add()
        self.try_(GOOD)
        self.wait()
        owner, _ids = self.claim(BLIND)
        self.publish(2)
        outcome_repo.record(self.engine, 1, owner, [outcome_repo.Outcome(
            amphora_id, 'UNREACHABLE', LIST, 'refused', 60,
            is_unanswered=True)], uploader=BLIND, max_age=UP)
        self.assertTrue(self.is_due(BLIND, 2))
        self.assertTrue(self.is_due(GOOD, 2))

    def test_admitted_is_tried_at_once(self):
        ids = self.add(2)
        self.try_(GOOD)
        self.try_(BLIND)
        self.publish(2, trial.CANARY)
        self.try_(GOOD)
        admission_repo.admit(self.engine, 2, ids[:1])
        self.assertTrue(claim_repo.is_due(self.engine, 2, admitted_to=2,
                                          uploader=GOOD))
        generation_repo.set_open(self.engine, 2)
        self.assertEqual(set(ids), self.try_(GOOD, number=2))

    def test_retry_now(self):
        ids = set(self.add(3))
        self.try_(GOOD)
        self.try_(BLIND)
        self.assertEqual(ids, attempt_repo.get_waiting(self.engine))
        self.assertEqual(3, claim_repo.retry_now(self.engine))
        self.assertEqual(set(), attempt_repo.get_waiting(self.engine))
        for name in (GOOD, BLIND):
            self.assertEqual(ids, self.try_(name))

    def test_upload_again(self):
        ids = self.add(3)
        self.try_(GOOD)
        self.try_(BLIND)
        claim_repo.upload_again(self.engine, ids[:1])
        for name in (GOOD, BLIND):
            self.assertEqual({ids[0]}, self.try_(name))

    def test_gone(self):
        ids = self.add(2)
        self.try_(GOOD)
        self.records.set_status(ids[0], 'DELETED')
        amphora_repo.delete_gone(self.engine)
        self.assertEqual([ids[1]], [r.amphora_id for r in
                                    self.rows(models.Attempt)])

    def test_uploaders_that_are_gone(self):
        self.add(2)
        self.try_(GOOD)
        self.try_(BLIND)
        self.make_older(models.Uploader, 'keepalive_at', 100, name=BLIND)
        uploader_repo.delete_expired(self.engine, 99)
        self.assertEqual([GOOD], list(self.uploaders()))
        self.assertEqual({GOOD}, {r.uploader for r in
                                  self.rows(models.Attempt)})

    def test_counts_for_those_who_offer_jobs(self):
        def count(*names, ask=attempt_repo.somebody_may_try):
            return claim_repo.count_due(
                self.engine, 1, condition=lambda number: ask(number, names))

        self.add(3)
        self.try_(BLIND)
        self.assertEqual((0, 3, 3), (count(BLIND), count(GOOD),
                                     count(GOOD, BLIND)))
        nobody = attempt_repo.nobody_waits
        self.assertEqual((0, 3, 0, 3), tuple(
            count(*names, ask=nobody) for names in
            ([BLIND], [GOOD], [BLIND, GOOD], [])))
        self.try_(GOOD)
        self.assertEqual(0, count(GOOD, BLIND))
