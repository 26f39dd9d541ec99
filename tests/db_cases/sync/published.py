# SPDX-License-Identifier: Apache-2.0

"""Rows of hmsync_generation and hmsync_house_keeper; transactions."""

import datetime
import time

from oslo_db import exception as db_exc
import sqlalchemy as sa

from octavia_hmsync.db import models
from octavia_hmsync.sync.db import clocks
from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.db import house_keeper as keeper_repo
from octavia_hmsync.sync.rules import trial
from tests.db_cases import base

LIST = ('192.0.2.1:5555', '[2001:db8::1]:5555')
SLOTS = {'192.0.2.1:5555': 3, '[2001:db8::1]:5555': 0}


class GenerationCases(base.DatabaseTestCase):

    def publish(self, number, slots=SLOTS, host='controller1'):
        return generation_repo.publish(self.engine, number, slots,
                                       'because', host)

    def newest(self):
        return generation_repo.get_newest(self.engine)

    def test_none_yet(self):
        self.assertIsNone(self.newest())

    def test_publish(self):
        self.assertTrue(self.publish(1))
        newest = self.newest()
        self.assertEqual((1, SLOTS, LIST, 'because', None), (
            newest.number, newest.slots, newest.addresses, newest.reason,
            newest.completed_at))
        self.assertIsNotNone(newest.published_at)

    def test_newest(self):
        for number in (1, 2, 10):
            self.publish(number)
        self.assertEqual(10, self.newest().number)

    def test_number_that_is_taken(self):
        self.publish(1)
        self.assertFalse(self.publish(1, {LIST[0]: 0}))
        self.assertEqual(LIST, self.newest().addresses)

    def test_of_several_housekeepers_one_wins(self):
        for number in range(1, 6):
            results = self.run_at_once([
                lambda n=n: self.publish(number, host=f'controller{n}')
                for n in range(3)])
            self.assertEqual([False, False, True], sorted(results))
            row = self.rows(models.Generation)[-1]
            self.assertEqual(f'controller{results.index(True)}',
                             row.published_by)

    def test_long_list(self):
        slots = {f'[2001:db8:1111:2222:3333:4444:5555:{n:x}]:55555': n
                 for n in range(0x1000, 0x1000 + 1000)}
        self.publish(1, slots)
        self.assertEqual(slots, self.newest().slots)

    def test_completed_once(self):
        self.publish(1)
        self.assertTrue(generation_repo.set_completed(self.engine, 1))
        self.assertFalse(generation_repo.set_completed(self.engine, 1))
        self.assertFalse(generation_repo.set_completed(self.engine, 2))
        self.assertIsNotNone(self.newest().completed_at)

    def test_delete_old(self):
        generation_repo.delete_old(self.engine, 3)
        for number in range(1, 6):
            self.publish(number)
        generation_repo.delete_old(self.engine, 3)
        self.assertEqual([3, 4, 5], [
            row.number for row in self.rows(models.Generation)])
        generation_repo.delete_old(self.engine, 3)
        self.assertEqual(3, len(self.rows(models.Generation)))

    def publish_without_success(self, first, last):
        """Publish lists each of which is given up for the next one."""
        with self.engine.begin() as connection:
            connection.execute(sa.insert(models.Generation.__table__), [
                {'number': number, 'slots': '1', 'reason': 'because',
                 'controller_ip_port_list': '192.0.2.2:5555', 'wave': 1,
                 'status': trial.CANARY if number % 2 else trial.ROLLED_BACK,
                 'published_by': 'controller1',
                 'published_at': datetime.datetime(2026, 1, 1)}
                for number in range(first, last + 1)])

    def test_the_last_good_one_is_kept(self):
        for number in range(1, 4):
            self.publish(number)
        self.publish_without_success(4, 1204)
        good = generation_repo.get_last_good(self.engine)
        for _ in range(2):
            generation_repo.delete_old(self.engine, 1000)
            self.assertEqual([3, *range(205, 1205)], [
                row.number for row in self.rows(models.Generation)])
            self.assertEqual(good, generation_repo.get_last_good(self.engine))
        # Until there is a better one.
        self.publish(1205)
        generation_repo.delete_old(self.engine, 1000)
        self.assertEqual([*range(206, 1206)], [
            row.number for row in self.rows(models.Generation)])

    def test_none_is_good(self):
        self.publish_without_success(1, 5)
        generation_repo.delete_old(self.engine, 3)
        self.assertEqual([3, 4, 5], [
            row.number for row in self.rows(models.Generation)])


class TrialCases(base.DatabaseTestCase):
    """Generations on trial."""

    GOOD = {'192.0.2.1:5555': 0}
    BAD = {'192.0.2.1:5555': 0, '192.0.2.2:5555': 1}

    def publish(self, number, status, slots=BAD):
        self.assertTrue(generation_repo.publish(
            self.engine, number, slots, 'because', 'controller1', status))

    def begin_wave(self, number=1, wave=0, status=trial.WAVES):
        return generation_repo.begin_wave(self.engine, number, wave, status)

    def roll_back(self, number=2, good_slots=GOOD, host='controller1'):
        return generation_repo.roll_back(
            self.engine, number, ('192.0.2.2:5555',), good_slots,
            'it is bad', host)

    def newest(self):
        return generation_repo.get_newest(self.engine)

    def suspects(self):
        return generation_repo.get_suspects(self.engine)

    def statuses(self):
        return [g.status for g in generation_repo.get_history(self.engine)]

    def test_every_amphora_gets_it_unless_told_otherwise(self):
        generation_repo.publish(self.engine, 1, SLOTS, '', 'here')
        self.assertEqual((trial.OPEN, 0), (self.newest().status,
                                           self.newest().wave))
        self.assertFalse(self.newest().is_on_trial)

    def test_on_trial(self):
        for number, (status, expected) in enumerate((
                (trial.CANARY, True), (trial.WAVES, True),
                (trial.OPEN, False), (trial.ROLLED_BACK, False)), 1):
            self.publish(number, status)
            self.assertEqual(expected, self.newest().is_on_trial)

    def test_last_good(self):
        self.assertIsNone(generation_repo.get_last_good(self.engine))
        self.publish(1, trial.CANARY)
        self.assertIsNone(generation_repo.get_last_good(self.engine))
        for number, status in enumerate((
                trial.OPEN, trial.OPEN, trial.ROLLED_BACK,
                trial.CANARY, trial.WAVES), 2):
            self.publish(number, status)
        self.assertEqual(3, generation_repo.get_last_good(
            self.engine).number)

    def test_doubtful(self):
        for number, status in enumerate((
                trial.OPEN, trial.ROLLED_BACK, trial.CANARY, trial.WAVES), 1):
            self.publish(number, status)
        for numbers, expected in (((), set()), ((None,), set()),
                                  ((None, 1, 2), {2}), ((7,), set()),
                                  (range(9), {2, 3, 4})):
            self.assertEqual(expected, generation_repo.find_doubtful(
                self.engine, numbers))

    def test_is_wanted(self):
        def wanted():
            return [number for number in range(1, newest + 1)
                    if generation_repo.is_wanted(self.engine, number)]

        for newest, (status, expected) in enumerate((
                (trial.CANARY, [1]), (trial.OPEN, [2]),
                (trial.OPEN, [3]), (trial.CANARY, [3, 4]),
                (trial.ROLLED_BACK, [3]), (trial.WAVES, [3, 6]),
                (trial.OPEN, [7])), 1):
            self.publish(newest, status)
            self.assertEqual(expected, wanted(), newest)

    def test_history(self):
        self.assertEqual([], generation_repo.get_history(self.engine))
        for number in (1, 2, 10):
            self.publish(number, trial.OPEN)
        self.assertEqual([1, 2, 10], [
            g.number for g in generation_repo.get_history(self.engine)])

    def test_begin_wave(self):
        self.publish(1, trial.CANARY)
        self.assertTrue(self.begin_wave())
        self.assertEqual((trial.WAVES, 1), (self.newest().status,
                                            self.newest().wave))
        # Whoever has not seen that is too late.
        self.assertFalse(self.begin_wave())
        self.assertTrue(self.begin_wave(wave=1))
        self.assertFalse(self.begin_wave(number=2))

    def test_of_several_housekeepers_one_begins_a_wave(self):
        self.publish(1, trial.CANARY)
        for wave in range(5):
            self.assertEqual([False, False, True], sorted(self.run_at_once(
                [lambda: self.begin_wave(wave=wave)] * 3)))

    def test_set_open(self):
        for number, status in enumerate(trial.TRIAL_STATUSES, 1):
            self.publish(number, status)
            self.assertTrue(generation_repo.set_open(self.engine, number))
            self.assertEqual(trial.OPEN, self.newest().status)
            self.assertFalse(generation_repo.set_open(self.engine, number))
            self.assertFalse(self.begin_wave(number))
        self.publish(3, trial.ROLLED_BACK)
        self.assertFalse(generation_repo.set_open(self.engine, 3))

    def test_roll_back(self):
        self.publish(1, trial.OPEN, self.GOOD)
        self.publish(2, trial.CANARY)
        self.assertTrue(self.roll_back())
        newest = self.newest()
        self.assertEqual((3, self.GOOD, 'it is bad', trial.OPEN, 0), (
            newest.number, newest.slots, newest.reason, newest.status,
            newest.wave))
        self.assertEqual([trial.OPEN, trial.ROLLED_BACK, trial.OPEN],
                         self.statuses())
        self.assertEqual({'192.0.2.2:5555'}, set(self.suspects()))
        self.assertLess(self.suspects()['192.0.2.2:5555'], 10)
        for _ in range(2):
            self.assertFalse(self.roll_back())
        self.assertFalse(generation_repo.set_open(self.engine, 2))
        self.assertEqual(3, self.newest().number)

    def test_nothing_to_roll_back_to(self):
        self.publish(1, trial.CANARY)
        self.assertTrue(self.roll_back(1, None))
        self.assertEqual([trial.ROLLED_BACK], self.statuses())
        self.assertEqual({'192.0.2.2:5555'}, set(self.suspects()))

    def test_not_what_every_amphora_may_have(self):
        self.publish(1, trial.OPEN)
        self.assertFalse(self.roll_back(1))
        self.assertEqual([trial.OPEN], self.statuses())
        self.assertEqual({}, self.suspects())

    def test_not_the_newest_any_more(self):
        """Then nothing is changed: the newest one is on its way."""
        self.publish(1, trial.OPEN, self.GOOD)
        self.publish(2, trial.CANARY)
        self.publish(3, trial.CANARY)
        self.assertFalse(self.roll_back())
        self.assertEqual([trial.OPEN, trial.CANARY, trial.CANARY],
                         self.statuses())
        self.assertEqual({}, self.suspects())

    def test_of_several_housekeepers_one_rolls_back(self):
        self.publish(1, trial.OPEN, self.GOOD)
        self.publish(2, trial.CANARY)
        results = self.run_at_once([
            lambda n=n: self.roll_back(host=f'controller{n}')
            for n in range(3)])
        self.assertEqual([False, False, True], sorted(results))
        self.assertEqual(f'controller{results.index(True)}',
                         self.rows(models.Generation)[-1].published_by)
        self.assertEqual(3, self.newest().number)

    def test_either_opened_or_rolled_back(self):
        self.publish(1, trial.OPEN, self.GOOD)
        self.publish(2, trial.CANARY)
        self.assertEqual([False, True], sorted(self.run_at_once([
            self.roll_back,
            lambda: generation_repo.set_open(self.engine, 2)])))
        self.assertIn(self.statuses(), (
            [trial.OPEN, trial.OPEN],
            [trial.OPEN, trial.ROLLED_BACK, trial.OPEN]))

    def test_suspects_of_several_roll_backs(self):
        self.publish(1, trial.OPEN, self.GOOD)
        began = time.monotonic()
        for number in (2, 4):
            self.publish(number, trial.CANARY)
            self.roll_back(number)
            self.make_older(models.Generation, 'rolled_back_at',
                            1000 / number, number=number)
        # The last time counts.
        age, = self.suspects().values()
        self.assertAge(250, age, began)

    def test_clear_suspects(self):
        self.assertEqual([], generation_repo.clear_suspects(self.engine))
        self.publish(1, trial.OPEN, self.GOOD)
        self.publish(2, trial.CANARY)
        self.roll_back()
        self.assertEqual(['192.0.2.2:5555'],
                         generation_repo.clear_suspects(self.engine))
        self.assertEqual({}, self.suspects())
        self.assertEqual(trial.ROLLED_BACK, self.statuses()[1])


class HouseKeeperCases(base.DatabaseTestCase):

    def touch(self, host, *pinned):
        keeper_repo.touch(self.engine, host, pinned)

    def pinned(self, max_age=80):
        return keeper_repo.get_pinned(self.engine, max_age)

    def silence(self, host, seconds):
        self.make_older(models.HouseKeeper, 'keepalive_at', seconds,
                        host=host)

    def test_age_future(self):
        self.touch('controller1', '192.0.2.1:5555')
        self.silence('controller1', -300)
        clocks.age_future(self.engine, models.HouseKeeper, 80)
        self.assertLess(
            79, keeper_repo.get_pins(self.engine)['192.0.2.1:5555'])

    def test_up(self):
        self.touch('controller2')
        self.touch('controller1')
        keeper_repo.touch(self.engine, 'controller2', (),
                          problem='no\U0001f600')
        self.assertEqual([('controller1', None), ('controller2', 'no?')],
                         list(keeper_repo.get_up(self.engine, 20).items()))
        self.silence('controller1', 21)
        self.assertEqual(['controller2'],
                         list(keeper_repo.get_up(self.engine, 20)))

    def test_nobody_pins(self):
        self.assertEqual((), self.pinned())
        self.touch('controller1')
        self.assertEqual((), self.pinned())

    def test_union_in_order(self):
        self.touch('controller1', '192.0.2.10:5555', '192.0.2.9:5555')
        self.touch('controller2', '192.0.2.9:5555', '192.0.2.1:5555')
        self.assertEqual(('192.0.2.1:5555', '192.0.2.9:5555',
                          '192.0.2.10:5555'), self.pinned())

    def test_last_word(self):
        self.touch('controller1', '192.0.2.1:5555')
        self.silence('controller1', 40)
        self.assertEqual(('192.0.2.1:5555',), self.pinned())
        self.touch('controller1')
        self.assertEqual((), self.pinned())

    def test_word_lapses(self):
        self.touch('controller1', '192.0.2.1:5555')
        self.silence('controller1', 81)
        self.assertEqual((), self.pinned())
        self.touch('controller1', '192.0.2.1:5555')
        self.assertEqual(('192.0.2.1:5555',), self.pinned())

    def test_same_host_twice_at_once(self):
        self.run_at_once([lambda: self.touch('controller1', *LIST)] * 4)
        self.assertEqual(1, len(self.rows(models.HouseKeeper)))

    def test_delete_expired(self):
        self.touch('controller1')
        self.touch('controller2')
        self.silence('controller1', 4000)
        keeper_repo.delete_expired(self.engine, 3600)
        self.assertEqual(['controller2'], [
            row.host for row in self.rows(models.HouseKeeper)])


class TransactionCases(base.DatabaseTestCase):
    """A transaction that lost a race runs again, whole."""

    def fail(self, message, times, error=None):
        """Have the next statements that change something fail."""
        failures = iter(range(times))

        def before_execute(conn, element, multiparams, params, options):
            if element.is_dml and next(failures, None) is not None:
                raise error or db_exc.DBDeadlock(message)

        sa.event.listen(self.engine, 'before_execute', before_execute)

    def publish(self):
        return generation_repo.publish(self.engine, 1, SLOTS, '', 'here')

    def test_deadlock_is_retried(self):
        self.fail('deadlock', times=2)
        self.assertTrue(self.publish())

    def test_locked_database_is_retried(self):
        self.fail('', 2, db_exc.DBError('database is locked'))
        self.assertTrue(self.publish())

    def test_deadlock_for_ever_is_raised(self):
        self.fail('deadlock', times=1000)
        self.assertRaises(db_exc.DBDeadlock, self.publish)
        self.assertIsNone(generation_repo.get_newest(self.engine))

    def test_lost_connection_is_raised_at_once(self):
        self.fail('', 1, db_exc.DBConnectionError('gone away'))
        self.assertRaises(db_exc.DBConnectionError, self.publish)
        self.assertTrue(self.publish())

    def test_part_of_the_callers(self):
        """The caller retries it, or takes it back."""
        generation_repo.publish(self.engine, 1, SLOTS, '', 'here',
                                trial.CANARY)
        with self.engine.connect() as connection:
            self.assertTrue(generation_repo.set_open(connection, 1))
            connection.rollback()
        self.assertEqual(trial.CANARY, generation_repo.get_newest(
            self.engine).status)
        self.fail('deadlock', times=1)
        with self.engine.connect() as connection:
            self.assertRaises(db_exc.DBDeadlock, generation_repo.set_open,
                              connection, 1)
        self.assertTrue(generation_repo.set_open(self.engine, 1))
