# SPDX-License-Identifier: Apache-2.0

"""Which lists each amphora may be using."""

import time

from octavia_hmsync.db import models
from octavia_hmsync.sync.db import amphora as amphora_repo
from octavia_hmsync.sync.db import claim as claim_repo
from octavia_hmsync.sync.db import doubt as doubt_repo
from octavia_hmsync.sync.db import health_manager as hm_repo
from octavia_hmsync.sync.db import heartbeat as heartbeat_repo
from octavia_hmsync.sync.db import outcome as outcome_repo
from octavia_hmsync.sync.db import previous_list as previous_repo
from octavia_hmsync.sync.rules import adoption
from tests.db_cases.sync import amphora
from tests.unit.sync.rules import cases

HERE, THERE = '192.0.2.101:5555', '192.0.2.102:5555'
A, B, C = (HERE,), (THERE,), (HERE, THERE)
TIMEOUT = 60
UNKNOWN = adoption.Unknown


class AdoptionCases(amphora.AmphoraCases):
    """Uploads to one amphora, and what is known of it after each."""

    def setUp(self):
        super().setUp()
        self.amphora_id, = self.add(1)
        self.number = 0

    def begin(self):
        """Claim it for the next generation."""
        self.number += 1
        self.owner = f'batch{self.number}'
        self.assertEqual(1, self.claim(self.owner, self.number))

    def end(self, addresses, result='APPLIED', uploaded=True):
        failed = {} if result == 'APPLIED' else {'error': 'it hangs',
                                                 'retry_after': 0}
        self.assertEqual({self.amphora_id}, outcome_repo.record(
            self.engine, self.number, self.owner, [outcome_repo.Outcome(
                self.amphora_id, result, addresses, uploaded=uploaded,
                **failed)]))

    def upload(self, *lists, result='APPLIED'):
        for addresses in lists:
            self.begin()
            self.end(addresses, result)

    def unproven(self):
        """Return it as long as it is in doubt."""
        return next(iter(doubt_repo.get_unproven(self.engine)), None)

    def adopt(self, address=None):
        return doubt_repo.set_adopted(
            self.engine, doubt_repo.get_unproven(self.engine), address)

    def assertPrevious(self, *previous):
        """Check which other lists it may be using."""
        self.assertEqual(set(previous), set(self.unproven().doubt.previous))


class PreviousCases(AdoptionCases):

    def test_never_reached(self):
        self.assertIsNone(self.unproven())
        self.upload(A, result='UNREACHABLE')
        self.assertIsNone(self.unproven())

    def test_first_contact(self):
        """What it booted with nobody knows."""
        self.upload(A)
        unproven = self.unproven()
        self.assertEqual((self.amphora_id, A),
                         (unproven.amphora_id, unproven.doubt.addresses))
        self.assertPrevious(UNKNOWN(1))
        self.assertGreaterEqual(unproven.doubt.age, 0)
        self.assertAge(0, unproven.doubt.age)

    def test_adopted(self):
        self.upload(A)
        self.assertEqual(1, self.adopt(HERE))
        self.assertIsNone(self.unproven())
        row = self.row(self.amphora_id)
        self.assertEqual(HERE, row.adopted_via)
        self.assertEqual([], self.rows(models.PreviousList))
        self.assertIsNotNone(row.adopted_at)
        self.upload(B)
        self.assertPrevious(A)
        row = self.row(self.amphora_id)
        self.assertEqual((None, None), (row.adopted_via, row.adopted_at))

    def test_not_seen_to_use_either(self):
        self.upload(A)
        self.adopt()
        self.upload(B, C)
        self.assertPrevious(A, B)
        self.upload(A)
        self.assertPrevious(A, B, C)

    def test_not_seen_to_use_either_from_the_beginning(self):
        self.upload(A, B, C)
        self.assertPrevious(UNKNOWN(1), A, B)

    def test_flapping(self):
        self.upload(A)
        self.adopt()
        self.upload(B, A, B, A)
        self.assertEqual((A, B), tuple(sorted(
            self.unproven().doubt.previous)))

    def test_same_list_again(self):
        self.upload(A)
        self.adopt()
        before = self.row(self.amphora_id)
        self.upload(A)
        after = self.row(self.amphora_id)
        self.assertEqual(before.adopted_at, after.adopted_at)
        self.assertIsNone(self.unproven())

    def test_same_list_again_before_it_was_adopted(self):
        self.upload(A)
        self.adopt()
        self.upload(B, B)
        self.assertPrevious(A)

    def test_not_concerned(self):
        self.upload(A)
        self.adopt()
        self.begin()
        self.end(A, uploaded=False)
        self.assertIsNone(self.unproven())
        self.assertEqual(2, self.row(self.amphora_id).generation)

    def test_failed_attempt_may_have_arrived(self):
        for result in ('UNREACHABLE', 'REJECTED', 'UNSUPPORTED'):
            self.upload(A)
            self.adopt()
            self.upload(B, result=result)
            self.upload(C)
            self.assertPrevious(A, UNKNOWN(self.number))
            self.adopt()

    def test_failed_attempt_before_it_was_adopted(self):
        self.upload(A)
        self.adopt()
        self.upload(B)
        self.upload(C, result='UNREACHABLE')
        self.upload(C)
        self.assertPrevious(A, B, UNKNOWN(4))

    def test_same_list_after_a_failed_attempt(self):
        """Another one may have come in between."""
        self.upload(A)
        self.adopt()
        self.upload(B, result='UNREACHABLE')
        self.upload(A)
        self.assertPrevious(A, UNKNOWN(3))

    def test_failed_attempt_at_first(self):
        self.upload(A, result='UNREACHABLE')
        self.upload(B)
        self.assertPrevious(UNKNOWN(2))

    def test_claim_that_lapsed(self):
        """Its batch may have uploaded another list before it died."""
        self.upload(A)
        self.adopt()
        self.begin()
        self.make_older(models.Amphora, 'claim_expires_at', 0)
        self.upload(C)
        self.assertPrevious(A, UNKNOWN(3))

    def test_claim_that_was_given_back(self):
        self.upload(A)
        self.adopt()
        self.begin()
        claim_repo.release(self.engine, self.owner)
        self.upload(C)
        self.assertPrevious(A, UNKNOWN(3))

    def test_too_many(self):
        """Then nothing is known any more."""
        self.upload(A)
        self.adopt()
        lists = [(f'192.0.2.{n}:5555',) for n in range(1, 20)]
        self.upload(*lists)
        self.assertPrevious(A, *lists[:-1])
        # One that is among them is no other one.
        self.upload(lists[0], B)
        self.assertPrevious(A, *lists)
        self.upload(A)
        self.assertPrevious(UNKNOWN(self.number))
        self.assertEqual(1, len(self.rows(models.PreviousList)))
        self.upload(C)
        self.assertPrevious(UNKNOWN(self.number - 1), A)

    def test_longest_lists(self):
        """Their length does not matter."""
        longest = tuple(f'[2001:db8:1111:2222:3333:4444:5555:{n:x}]:55555'
                        for n in range(0x1000, 0x1000 + 1000))
        self.upload(A)
        self.adopt()
        self.upload(longest, longest[1:], B)
        self.assertPrevious(A, longest, longest[1:])

    def test_from_before_adoption(self):
        """A release without it left no word of it."""
        self.upload(A)
        self.forget_previous()
        self.assertPrevious(UNKNOWN())
        self.upload(B)
        self.assertPrevious(UNKNOWN(2), A)

    def forget_previous(self):
        with self.engine.begin() as connection:
            connection.execute(models.PreviousList.__table__.delete())

    def test_some_are_ruled_out(self):
        self.upload(A)
        self.adopt()
        self.upload(B, C)
        doubt_repo.set_previous(self.engine, self.unproven(), (B,))
        self.assertPrevious(B)
        doubt_repo.set_previous(self.engine, self.unproven(),
                                (UNKNOWN(2), UNKNOWN(), A))
        self.assertPrevious(UNKNOWN(2), UNKNOWN(), A)

    def test_some_are_ruled_out_of_an_earlier_upload(self):
        self.upload(A, B)
        seen = self.unproven()
        self.upload(C)
        doubt_repo.set_previous(self.engine, seen, (A,))
        self.assertPrevious(UNKNOWN(1), A, B)

    def previous(self):
        """Return what it may be using, from its row."""
        return previous_repo.get_all(
            self.engine, amphora_repo.get_rows(self.engine)).get(
                self.amphora_id)

    def test_from_a_row(self):
        self.assertIsNone(self.previous())
        self.upload(A, B)
        self.assertEqual((UNKNOWN(1), A), self.previous())
        self.adopt()
        self.assertIsNone(self.previous())

    def test_known_ones_for_the_failover_guard(self):
        self.upload(A, B)
        rows = amphora_repo.get_rows(self.engine)
        self.assertEqual({self.amphora_id: (A,)}, previous_repo.get_known(
            self.engine, rows))
        self.adopt()
        self.assertEqual({}, previous_repo.get_known(
            self.engine, amphora_repo.get_rows(self.engine)))

    def test_many_in_few_statements(self):
        """Each has its own lists, and not a statement of its own."""
        lists = {amphora_id: [(f'192.0.2.{n}:{port}',) for port in (1, 2, 3)]
                 for n, amphora_id in enumerate(
                     [self.amphora_id, *self.add(30)], 1)}
        for number in (1, 2, 3):
            owner = f'many{number}'
            self.assertEqual(31, self.claim(owner, number))
            with self.count_statements() as statements:
                self.assertEqual(31, len(outcome_repo.record(
                    self.engine, number, owner, [
                        outcome_repo.Outcome(a, 'APPLIED', of_it[number - 1])
                        for a, of_it in lists.items()])))
            self.assertEqual(3, len(statements), statements)
        with self.count_statements() as statements:
            unproven = doubt_repo.get_unproven(self.engine)
        self.assertEqual(1, len(statements), statements)
        self.assertEqual(
            {a: {UNKNOWN(1), *of_it[:2]} for a, of_it in lists.items()},
            {row.amphora_id: set(row.doubt.previous) for row in unproven})

    def test_batches_and_observers_at_once(self):
        """Rows of different amphorae lie side by side."""
        ids = [self.amphora_id, *self.add(39)]
        lists = [(f'192.0.2.{n}:5555',) for n in range(6)]
        for number, addresses in enumerate(lists, 1):
            owners = [f'batch{number}-{n}' for n in range(4)]
            for owner in owners:
                self.assertEqual(10, self.claim(owner, number, limit=10))
            self.run_at_once([
                lambda o=owner: outcome_repo.record(self.engine, number, o, [
                    outcome_repo.Outcome(a, 'APPLIED', addresses)
                    for a in self.claimed(o)]) for owner in owners])
            unproven = {row.amphora_id: row
                        for row in doubt_repo.get_unproven(self.engine)}
            self.run_at_once([
                lambda a=a: doubt_repo.set_adopted(self.engine, [unproven[a]])
                for a in ids[:10]])
        self.assertEqual(
            dict.fromkeys(ids[10:], {UNKNOWN(1), *lists[:-1]}),
            {row.amphora_id: set(row.doubt.previous)
             for row in doubt_repo.get_unproven(self.engine)})
        self.assertEqual(30 * 6, len(self.rows(models.PreviousList)))

    def test_nothing_is_left_of_one_that_has_adopted(self):
        self.upload(A, B)
        other, = self.add(1)
        self.claim('another', 2)
        self.record(other, owner='another', number=2)
        doubt_repo.set_adopted(self.engine, [self.unproven_of(
            self.amphora_id)])
        self.assertEqual([other], [
            row.amphora_id for row in self.rows(models.PreviousList)])

    def unproven_of(self, amphora_id):
        row, = doubt_repo.get_unproven(self.engine, amphora_id=amphora_id)
        return row

    def test_nothing_is_left_of_one_that_is_gone(self):
        kept, = self.add(1)
        self.claim('all', 1)
        outcome_repo.record(self.engine, 1, 'all', [
            outcome_repo.Outcome(a, 'APPLIED', A)
            for a in (self.amphora_id, kept)])
        self.records.set_status(self.amphora_id, 'DELETED')
        self.assertEqual(1, amphora_repo.delete_gone(self.engine))
        self.assertEqual([kept], [
            row.amphora_id for row in self.rows(models.PreviousList)])

    def test_whoever_takes_it_over_records(self):
        """The first one's batch has not changed what the second one knows."""
        self.upload(A)
        self.adopt()
        self.begin()
        first = self.owner
        self.make_older(models.Amphora, 'claim_expires_at', 0)
        self.begin()
        self.assertEqual(set(), outcome_repo.record(
            self.engine, 2, first,
            [outcome_repo.Outcome(self.amphora_id, 'APPLIED', B)]))
        self.assertEqual([], self.rows(models.PreviousList))
        self.end(C)
        self.assertPrevious(A, UNKNOWN(3))

    def test_claimed_row_was_not_seen(self):
        """A node of a cluster that lags: then nothing is known."""
        self.upload(A, B)
        self.begin()
        self.patch(previous_repo, 'get_claimed', lambda *args: {})
        self.end(C)
        self.assertPrevious(UNKNOWN(3))


class AdoptedCases(AdoptionCases):

    def test_another_upload_came_in_between(self):
        self.upload(A)
        seen = self.unproven()
        self.upload(B)
        self.make_older(models.Amphora, 'applied_at', 100)
        heartbeat_repo.note_heartbeat(self.engine, self.amphora_id, THERE)
        self.assertEqual(0, doubt_repo.set_adopted(
            self.engine, [seen], HERE))
        self.assertIsNotNone(self.unproven())
        # And what was noted since stays.
        self.assertEqual([self.amphora_id],
                         list(heartbeat_repo.get_heartbeats(self.engine)))

    def test_same_list_was_uploaded_in_between(self):
        """What was heard before may have been meant for another one."""
        self.upload(A)
        self.make_older(models.Amphora, 'applied_at', 100)
        seen = self.unproven()
        self.upload(A)
        self.assertEqual(0, doubt_repo.set_adopted(
            self.engine, [seen], HERE))

    def test_while_another_upload_is_under_way(self):
        """It may be using that one's list already."""
        self.upload(A)
        seen = self.unproven()
        self.begin()
        self.assertEqual(0, doubt_repo.set_adopted(
            self.engine, [seen], HERE))
        self.assertIsNotNone(self.unproven())

    def test_another_upload_may_have_arrived(self):
        self.upload(A)
        seen = self.unproven()
        self.upload(B, result='UNREACHABLE')
        self.assertEqual(0, doubt_repo.set_adopted(
            self.engine, [seen], HERE))

    def test_once(self):
        self.upload(A)
        seen = self.unproven()
        self.assertEqual([0, 1], sorted(self.run_at_once(
            [lambda a=a: doubt_repo.set_adopted(self.engine, [seen], a)
             for a in (HERE, THERE)])))

    def test_many(self):
        self.upload(A)
        more = self.add_amphorae(30)
        amphora_repo.add_missing(self.engine)
        self.claim('batch9')
        outcome_repo.record(self.engine, 1, 'batch9', [
            outcome_repo.Outcome(amphora_id, 'APPLIED', A)
            for amphora_id in more])
        self.assertEqual(31, self.adopt())
        self.assertEqual([], doubt_repo.get_unproven(self.engine))

    def test_age(self):
        self.upload(A)
        began = time.monotonic()
        self.make_older(models.Amphora, 'applied_at', 100)
        self.assertAge(100, self.unproven().doubt.age, began)
        self.assertEqual(1, len(doubt_repo.get_unproven(
            self.engine, max_age=600)))
        self.assertEqual([], doubt_repo.get_unproven(
            self.engine, max_age=90))

    def test_last_update(self):
        self.upload(A)
        self.assertIsNone(self.unproven().last_update)
        self.assertFalse(self.unproven().is_held)
        self.records.set_health(self.amphora_id, age=10)
        self.assertIsNotNone(self.unproven().last_update)
        self.assertFalse(self.unproven().is_held)
        # As the failover guard writes it.
        self.make_older(models.Amphora, 'held_at', 5)
        self.assertTrue(self.unproven().is_held)
        self.records.set_health(self.amphora_id, age=0)
        self.assertFalse(self.unproven().is_held)

    def judged(self):
        return doubt_repo.judge_all(
            self.engine, hm_repo.get_all(self.engine), cases.SETTINGS).get(
                self.amphora_id)

    def test_judged(self):
        self.assertIsNone(self.judged())
        self.upload(A)
        self.assertIs(adoption.Adoption.PENDING, self.judged())
        self.make_older(models.Amphora, 'applied_at', 3 * TIMEOUT + 5)
        self.assertIs(adoption.Adoption.UNPROVEN, self.judged())
        heartbeat_repo.note_heartbeat(self.engine, self.amphora_id, THERE)
        # It could not be seen: nobody observes there.
        self.assertIs(adoption.Adoption.UNPROVEN, self.judged())
        hm_repo.register(self.engine, 'hm1', '192.0.2.101', 5555, 'one', 20,
                         is_observing=True)
        hm_repo.set_heard(self.engine, 'hm1', 'one')
        self.assertIs(adoption.Adoption.NOT_ADOPTED, self.judged())
        self.adopt()
        self.assertIs(adoption.Adoption.ADOPTED, self.judged())
