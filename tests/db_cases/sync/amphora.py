# SPDX-License-Identifier: Apache-2.0

"""Rows of hmsync_amphora."""

import sqlalchemy as sa

from octavia_hmsync import addresses as addr
from octavia_hmsync.db import api
from octavia_hmsync.db import models
from octavia_hmsync.sync.db import admission as admission_repo
from octavia_hmsync.sync.db import amphora as amphora_repo
from octavia_hmsync.sync.db import claim as claim_repo
from octavia_hmsync.sync.db import doubt as doubt_repo
from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.db import outcome as outcome_repo
from tests.db_cases import base

EXPIRY = 120
LIST = ('192.0.2.101:5555', '192.0.2.102:5555')


class AmphoraCases(base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.seen = {}

    def add(self, number=1, **values):
        ids = self.add_amphorae(number, **values)
        amphora_repo.add_missing(self.engine)
        return ids

    def claim(self, owner='batch1', number=1, limit=100, expiry=EXPIRY):
        claimed = claim_repo.claim_due(self.engine, number, owner, limit,
                                       expiry)
        self.seen.update((a.id, a) for a in claimed)
        return len(claimed)

    def claimed(self, owner='batch1'):
        """What a batch has, as it was when it was claimed."""
        return {row.amphora_id: self.seen.get(row.amphora_id)
                for row in self.rows(models.Amphora)
                if row.claim_owner == owner}

    def record(self, amphora_id, result='APPLIED', owner='batch1', number=1,
               **values):
        if result != 'APPLIED':
            values = {'error': 'it hangs', 'retry_after': 10, **values}
        return len(outcome_repo.record(
            self.engine, number, owner, [outcome_repo.Outcome(
                amphora_id, result, LIST, **values)]))

    def row(self, amphora_id):
        return next(r for r in self.rows(models.Amphora)
                    if r.amphora_id == amphora_id)

    def retry_now(self):
        self.make_older(models.Amphora, 'next_attempt_at', 1)


class MissingCases(AmphoraCases):

    def test_each_with_an_agent(self):
        expected = {
            self.records.add_amphora('192.0.2.1', status=status)
            for status in ('ALLOCATED', 'ERROR', 'FAILOVER_STOPPED',
                           'BOOTING', 'READY')}
        self.records.add_amphora('192.0.2.2', status='DELETED')
        self.records.add_amphora('192.0.2.3', status='PENDING_DELETE')
        self.records.add_amphora(None, status='PENDING_CREATE')
        self.assertEqual(5, amphora_repo.add_missing(self.engine))
        self.assertEqual(expected, {
            row.amphora_id for row in self.rows(models.Amphora)})

    def test_again(self):
        self.add(2)
        self.assertEqual(0, amphora_repo.add_missing(self.engine))
        self.records.add_amphora('192.0.2.9')
        self.assertEqual(1, amphora_repo.add_missing(self.engine))

    def test_several_housekeepers_at_once(self):
        self.add_amphorae(50)
        self.run_at_once([lambda: amphora_repo.add_missing(self.engine)] * 4)
        amphora_repo.add_missing(self.engine)
        self.assertEqual(50, len(self.rows(models.Amphora)))

    def test_delete_gone(self):
        deleted, purged, kept = self.add(3)
        self.records.set_status(deleted, 'DELETED')
        amphora = self.records.tables['amphora']
        with self.engine.begin() as connection:
            connection.execute(amphora.delete().where(
                amphora.c.id == purged))
        self.assertEqual(2, amphora_repo.delete_gone(self.engine))
        self.assertEqual([kept], [
            row.amphora_id for row in self.rows(models.Amphora)])
        self.assertEqual(0, amphora_repo.delete_gone(self.engine))


class ClaimCases(AmphoraCases):

    def test_what_is_claimed(self):
        lb = self.records.add_load_balancer('ACTIVE_STANDBY')
        with_lb = self.records.add_amphora('192.0.2.1', lb, 'MASTER')
        without = self.records.add_amphora('2001:db8::1', role=None)
        amphora_repo.add_missing(self.engine)
        self.assertEqual(2, self.claim())
        claimed = self.claimed()
        for amphora in claimed.values():
            self.assertLessEqual(amphora.claimed_for, EXPIRY)
            self.assertGreater(amphora.claimed_for, EXPIRY - 60)
        self.assertEqual({
            with_lb: claim_repo.ClaimedAmphora(
                with_lb, '192.0.2.1', 'ACTIVE_STANDBY', 'MASTER', None, None,
                0, claimed[with_lb].claimed_for, lb),
            without: claim_repo.ClaimedAmphora(
                without, '2001:db8::1', None, None, None, None, 0,
                claimed[without].claimed_for),
        }, claimed)

    def test_limit(self):
        self.add(5)
        self.assertEqual(2, self.claim('batch1', limit=2))
        self.assertEqual(3, self.claim('batch2', limit=3))
        self.assertEqual(0, self.claim('batch3'))

    def test_several_batches_at_once_claim_disjoint_sets(self):
        ids = set(self.add(40))
        owners = [f'batch{n}' for n in range(4)]
        for _ in range(20):
            counts = self.run_at_once(
                [lambda owner=o: self.claim(owner, limit=10)
                 for o in owners])
            sets = [set(self.claimed(owner)) for owner in owners]
            self.assertEqual(sum(map(len, sets)), len(set().union(*sets)))
            if len(set().union(*sets)) == len(ids):
                break
            self.assertGreater(sum(counts), 0)
        self.assertEqual(ids, set().union(*sets))

    def test_batches_at_once_do_not_take_each_others_work_away(self):
        """One that finds nothing ends, although there is enough for all."""
        self.add(40)
        counts = self.run_at_once(
            [lambda owner=f'batch{n}': self.claim(owner, limit=10)
             for n in range(4)])
        self.assertEqual([10, 10, 10, 10], counts)

    def test_not_those_that_are_there_already(self):
        self.add(1)
        self.claim()
        self.record(*self.claimed())
        self.assertEqual(0, self.claim('batch2', number=1))
        self.assertEqual(1, self.claim('batch3', number=2))

    def test_admitted_ones_only(self):
        """As long as a generation is on trial."""
        ids = self.add(5)
        admission_repo.admit(self.engine, 2, ids[:2])
        admission_repo.admit(self.engine, 1, ids[2:])

        def claim(number, owner, admitted_to):
            return len(claim_repo.claim_due(self.engine, number, owner, 100,
                                            EXPIRY, admitted_to))

        self.assertEqual(0, claim(3, 'batch1', 3))
        self.assertEqual(2, claim(2, 'batch2', 2))
        self.assertEqual(set(ids[:2]), set(self.claimed('batch2')))
        self.assertEqual(0, claim(2, 'batch3', 2))
        self.assertEqual(3, claim(2, 'batch4', None))

    def test_others_than_the_admitted_ones(self):
        """They get the last good list meanwhile."""
        ids = self.add(5)
        admission_repo.admit(self.engine, 2, ids[:2])
        admission_repo.admit(self.engine, 1, ids[2:3])
        self.assertEqual(3, len(claim_repo.claim_due(
            self.engine, 1, 'batch1', 100, EXPIRY, not_admitted_to=2)))
        self.assertEqual(set(ids[2:]), set(self.claimed('batch1')))

    def test_admitted_ones_that_failed_wait_as_well(self):
        amphora_id, = self.add(1)
        admission_repo.admit(self.engine, 1, [amphora_id])
        self.claim('batch1')
        self.record(amphora_id, 'UNREACHABLE', retry_after=60)
        for expected in (0, 1):
            self.assertEqual(expected, len(claim_repo.claim_due(
                self.engine, 1, 'batch2', 100, EXPIRY, 1)))
            self.retry_now()

    def test_not_those_that_are_gone_meanwhile(self):
        amphora_id, = self.add(1)
        self.records.set_status(amphora_id, 'DELETED')
        self.assertEqual(0, self.claim())

    def test_one_whose_agent_goes_while_it_is_claimed(self):
        """Nobody would give it back, nor upload to it, until it lapses."""
        ids = self.add(3)
        find_due = claim_repo._find_due

        def find(*args):
            due = find_due(*args)
            self.records.set_status(ids[0], 'DELETED')
            return due

        self.patch(claim_repo, '_find_due', find)
        self.assertEqual(2, self.claim('batch1'))
        self.assertEqual((None, None), (
            self.row(ids[0]).claim_owner, self.row(ids[0]).claim_expires_at))
        self.assertEqual({'batch1'}, {
            self.row(amphora_id).claim_owner for amphora_id in ids[1:]})

    def test_what_is_claimed_is_read_in_the_same_transaction(self):
        """Another connection may lead to a node that lags."""
        ids = self.add(3)
        self.patch(claim_repo, '_find_due', lambda *args: ids)
        transactions = []

        def note(connection, cursor, statement, *args):
            if models.Amphora.__tablename__ in statement:
                transactions.append(connection.get_transaction())

        sa.event.listen(self.engine, 'before_cursor_execute', note)
        self.assertEqual(3, self.claim('batch1'))
        self.assertEqual(2, len(transactions))
        self.assertEqual(1, len(set(transactions)))
        self.assertIsNotNone(transactions[0])

    def test_whether_any_is_due(self):
        ids = self.add(2)
        admission_repo.admit(self.engine, 2, ids[:1])

        def are_due(number, *args):
            return claim_repo.is_due(self.engine, number, *args)

        self.assertTrue(are_due(1))
        self.assertTrue(are_due(2, 2))
        self.assertTrue(are_due(1, None, 2))
        self.assertFalse(are_due(3, 3))
        self.claim('batch1')
        self.assertFalse(are_due(1))
        self.record(ids[0])
        self.record(ids[1], 'UNREACHABLE', retry_after=60)
        self.assertFalse(are_due(1))
        self.assertTrue(are_due(2))
        self.retry_now()
        self.assertTrue(are_due(1))

    def test_expiry(self):
        self.add(1)
        self.claim('batch1')
        self.assertEqual(0, self.claim('batch2'))
        self.make_older(models.Amphora, 'claim_expires_at', 0)
        self.assertEqual(1, self.claim('batch2'))
        self.assertEqual({}, self.claimed('batch1'))

    def test_count_due(self):
        """It counts what a claim would get."""
        ids = self.add(5)
        admission_repo.admit(self.engine, 2, ids[:2])
        for number, admissions, expected in (
                (1, {}, 5), (2, {'admitted_to': 2}, 2),
                (1, {'not_admitted_to': 2}, 3)):
            self.assertEqual(expected, claim_repo.count_due(
                self.engine, number, **admissions))
        self.claim('batch1', limit=2)
        self.assertEqual(3, claim_repo.count_due(self.engine, 1))
        self.record(next(iter(self.claimed('batch1'))), 'UNREACHABLE')
        self.assertEqual(3, claim_repo.count_due(self.engine, 1))
        self.retry_now()
        self.assertEqual(4, claim_repo.count_due(self.engine, 1))

    def test_release_all(self):
        """Of the batches of one job, whether their claims lapsed or not."""
        self.add(4)
        for owner in ('job_1-run1', 'job_1-run2', 'jobX1-run1', 'batch'):
            self.claim(owner, limit=1)
        self.make_older(models.Amphora, 'claim_expires_at', 1,
                        claim_owner='job_1-run1')
        self.assertEqual(2, claim_repo.release_all(self.engine, 'job_1-'))
        self.assertEqual(0, claim_repo.release_all(self.engine, 'job_1-'))
        self.assertEqual(2, self.claim('another'))
        self.assertEqual(1, len(self.claimed('jobX1-run1')))

    def test_result_is_void_after_a_claim_that_lapsed(self):
        """Its batch may have uploaded another list before it died."""
        amphora_id, = self.add(1)
        self.claim('batch1')
        self.record(amphora_id)
        self.claim('batch2', number=2)
        self.assertEqual('APPLIED', self.claimed('batch2')[amphora_id].result)
        self.make_older(models.Amphora, 'claim_expires_at', 0)
        self.claim('batch3', number=3)
        claimed = self.claimed('batch3')[amphora_id]
        self.assertIsNone(claimed.result)
        self.assertEqual(LIST, claimed.addresses)

    def test_failed_ones_wait(self):
        amphora_id, = self.add(1)
        self.claim('batch1')
        self.record(amphora_id, 'UNREACHABLE', retry_after=60)
        self.assertEqual(0, self.claim('batch2'))
        self.retry_now()
        self.assertEqual(1, self.claim('batch2'))

    def test_failed_ones_do_not_wait_with_a_new_generation(self):
        amphora_id, = self.add(1)
        self.claim('batch1')
        self.record(amphora_id, 'UNREACHABLE', retry_after=600)
        generation_repo.publish(self.engine, 2, dict.fromkeys(LIST, 0), '',
                                'here')
        self.assertEqual(1, self.claim('batch2', number=2))

    def test_failed_ones_come_last(self):
        ids = self.add(6)
        self.claim('batch1')
        for amphora_id in ids[:3]:
            self.record(amphora_id, 'UNREACHABLE')
        for amphora_id in ids[3:]:
            self.record(amphora_id)
        self.claim('batch2', number=2, limit=3)
        self.assertEqual(set(ids[3:]), set(self.claimed('batch2')))

    def test_release(self):
        released, other = self.add(2)
        self.claim('batch1', limit=1)
        self.claim('batch2')
        mine = set(self.claimed('batch1'))
        claim_repo.release(self.engine, 'batch1')
        self.assertEqual({}, self.claimed('batch1'))
        self.assertEqual(1, len(self.claimed('batch2')))
        self.claim('batch3')
        self.assertEqual(mine, set(self.claimed('batch3')))

    def test_give_back(self):
        """What was not begun leaves what is known as it is."""
        self.add(2)
        for owner, number in (('batch1', 1), ('batch2', 2)):
            self.claim(owner, number)
            if number == 1:
                for amphora_id in self.claimed(owner):
                    self.record(amphora_id)
        claim_repo.give_back(self.engine, 'batch2')
        self.assertEqual({(None, None, 'APPLIED')}, {
            (row.claim_owner, row.claim_expires_at, row.result)
            for row in self.rows(models.Amphora)})


class RecordCases(AmphoraCases):

    def test_applied(self):
        amphora_id, = self.add(1)
        self.claim()
        self.assertEqual(1, self.record(amphora_id))
        row = self.row(amphora_id)
        self.assertEqual(
            (1, 'APPLIED', None, 1, 1, None, None, None, LIST),
            (row.generation, row.result, row.error, row.attempts,
             row.attempted_generation, row.next_attempt_at, row.claim_owner,
             row.claim_expires_at,
             addr.split_list(row.controller_ip_port_list)))
        self.assertIsNotNone(row.applied_at)

    def test_failed(self):
        amphora_id, = self.add(1)
        self.claim()
        self.record(amphora_id, 'REJECTED')
        row = self.row(amphora_id)
        self.assertEqual(
            (None, 'REJECTED', 'it hangs', 1, 1, None, None, None),
            (row.generation, row.result, row.error, row.attempts,
             row.attempted_generation, row.applied_at, row.claim_owner,
             row.controller_ip_port_list))
        self.assertIsNotNone(row.next_attempt_at)

    def test_failure_keeps_what_the_agent_had_acknowledged(self):
        amphora_id, = self.add(1)
        self.claim()
        self.record(amphora_id)
        self.claim('batch2', number=2)
        self.record(amphora_id, 'UNREACHABLE', 'batch2', 2)
        row = self.row(amphora_id)
        self.assertEqual(1, row.generation)
        self.assertEqual(addr.join_list(LIST), row.controller_ip_port_list)
        self.assertIsNotNone(row.applied_at)

    def test_attempts_count_within_a_generation(self):
        amphora_id, = self.add(1)
        for attempts in (1, 2, 3):
            self.claim()
            self.record(amphora_id, 'UNREACHABLE')
            self.assertEqual(attempts, self.row(amphora_id).attempts)
            self.retry_now()
        self.claim(number=2)
        self.record(amphora_id, number=2)
        self.assertEqual(1, self.row(amphora_id).attempts)

    def test_not_concerned(self):
        amphora_id, = self.add(1)
        self.claim()
        self.record(amphora_id)
        self.make_older(models.Amphora, 'applied_at', 500)
        before = self.row(amphora_id)
        self.claim(number=2)
        self.record(amphora_id, number=2, uploaded=False)
        after = self.row(amphora_id)
        self.assertEqual(2, after.generation)
        for name in ('applied_at', 'attempts', 'attempted_generation',
                     'controller_ip_port_list', 'result'):
            self.assertEqual(getattr(before, name), getattr(after, name))

    def test_only_by_the_owner(self):
        amphora_id, = self.add(1)
        self.claim('batch1')
        self.make_older(models.Amphora, 'claim_expires_at', 0)
        self.claim('batch2')
        self.assertEqual(0, self.record(amphora_id, owner='batch1'))
        self.assertIsNone(self.row(amphora_id).result)
        self.assertEqual(1, self.record(amphora_id, owner='batch2'))

    def test_once_only(self):
        amphora_id, = self.add(1)
        self.claim()
        self.record(amphora_id)
        self.assertEqual(0, self.record(amphora_id, 'REJECTED'))
        self.assertEqual('APPLIED', self.row(amphora_id).result)

    def test_many_in_one_call(self):
        ids = self.add(30)
        self.claim()
        outcomes = [outcome_repo.Outcome(
            amphora_id, ('APPLIED', 'UNREACHABLE')[n % 2], LIST,
            error=f'error {n % 3}' if n % 2 else None,
            retry_after=n if n % 2 else None)
            for n, amphora_id in enumerate(ids)]
        self.assertEqual(set(ids), outcome_repo.record(
            self.engine, 1, 'batch1', outcomes))
        for outcome in outcomes:
            row = self.row(outcome.amphora_id)
            self.assertEqual((outcome.result, outcome.error),
                             (row.result, row.error))

    def test_one_of_several_was_taken_over(self):
        ids = self.add(3)
        self.claim()
        with self.engine.begin() as connection:
            connection.execute(
                sa.update(models.Amphora).values(claim_owner='batch2')
                .where(models.Amphora.amphora_id == ids[0]))
            connection.execute(sa.delete(models.Amphora).where(
                models.Amphora.amphora_id == ids[1]))
        self.assertEqual({ids[2]}, outcome_repo.record(
            self.engine, 1, 'batch1',
            [outcome_repo.Outcome(ids[0], 'APPLIED', LIST),
             outcome_repo.Outcome(ids[1], 'APPLIED', LIST),
             outcome_repo.Outcome(ids[2], 'REJECTED', LIST, 'no', 10)]))
        self.assertEqual([('batch2', None, 0), (None, 'REJECTED', 1)], [
            (row.claim_owner, row.result, row.attempts)
            for row in map(self.row, (ids[0], ids[2]))])

    def test_many_batches_share_few_connections(self):
        ids = self.add(32)
        owners = [f'batch{n}' for n in range(len(ids))]
        for owner in owners:
            self.claim(owner, limit=1)
        few = api.create_engine(self.conf, connections=2, patience=60)
        self.addCleanup(few.dispose)
        recorded = self.run_at_once([
            lambda o=owner: outcome_repo.record(few, 1, o, [
                outcome_repo.Outcome(next(iter(self.claimed(o))), 'APPLIED',
                                    LIST)]) for owner in owners])
        self.assertEqual(set(ids), set().union(*recorded))

    def test_a_list_for_each(self):
        """Few statements are enough, also for errors and times of their own.

        Two updates, what they may have been using, and what they may be.
        """
        ids = self.add(30)
        applied, failed = ids[:20], ids[20:]
        lists = {amphora_id: (f'192.0.2.{n}:5555', '192.0.2.200:5555')
                 for n, amphora_id in enumerate(applied)}
        self.claim()
        with self.count_statements() as statements:
            self.assertEqual(set(ids), outcome_repo.record(
                self.engine, 1, 'batch1',
                [outcome_repo.Outcome(amphora_id, 'APPLIED', addresses)
                 for amphora_id, addresses in lists.items()] +
                [outcome_repo.Outcome(amphora_id, 'UNREACHABLE', LIST,
                                      f'error {n}', 100 * n)
                 for n, amphora_id in enumerate(failed)]))
        self.assertEqual(4, len(statements), statements)
        for amphora_id, addresses in lists.items():
            self.assertEqual(addr.join_list(addresses),
                             self.row(amphora_id).controller_ip_port_list)
        retries = [self.row(amphora_id).next_attempt_at
                   for amphora_id in failed]
        self.assertEqual(sorted(retries), retries)
        self.assertEqual([f'error {n}' for n in range(10)],
                         [self.row(amphora_id).error
                          for amphora_id in failed])
        # The same lists again change nothing of what was proven, another
        # one does.
        kept, changed = applied[:2]
        doubt_repo.set_adopted(
            self.engine, doubt_repo.get_unproven(self.engine))
        self.claim('batch2', number=2)
        outcome_repo.record(self.engine, 2, 'batch2', [
            outcome_repo.Outcome(kept, 'APPLIED', lists[kept]),
            outcome_repo.Outcome(changed, 'APPLIED', lists[kept])])
        self.assertIsNotNone(self.row(kept).adopted_at)
        self.assertIsNone(self.row(changed).adopted_at)
        unproven, = doubt_repo.get_unproven(self.engine)
        self.assertEqual((changed, (lists[changed],)), (
            unproven.amphora_id, unproven.doubt.previous))

    def test_long_error(self):
        amphora_id, = self.add(1)
        self.claim()
        self.record(amphora_id, 'REJECTED', error='\U0001f4a5' * 100000)
        self.assertEqual('?', self.row(amphora_id).error[0])


class CountCases(AmphoraCases):

    def count(self, number):
        counts = amphora_repo.count(self.engine, number)
        return counts.amphorae, counts.due, counts.results

    def test_nothing(self):
        self.assertEqual((0, 0, {}), self.count(1))

    def test_whatever_is_behind_is_due(self):
        applied, failed, untried = self.add(3)
        self.claim()
        self.record(applied)
        self.record(failed, 'UNREACHABLE')
        # One without a row of ours, one that has no agent any more.
        self.records.add_amphora('192.0.2.9')
        self.records.add_amphora('192.0.2.8', status='DELETED')
        expected = {'APPLIED': 1, 'UNREACHABLE': 1}
        self.assertEqual((4, 3, expected), self.count(1))
        self.assertEqual((4, 4, expected), self.count(2))

    def test_rows(self):
        amphora_id, = self.add(1)
        without_row = self.records.add_amphora('192.0.2.9')
        self.claim()
        self.record(amphora_id)
        rows = {row.id: row for row in amphora_repo.get_rows(self.engine)}
        self.assertEqual({amphora_id, without_row}, set(rows))
        self.assertEqual(('192.0.2.1', 1, 'APPLIED'), (
            rows[amphora_id].lb_network_ip, rows[amphora_id].generation,
            rows[amphora_id].result))
        self.assertIsNone(rows[without_row].generation)
