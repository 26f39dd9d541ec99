# SPDX-License-Identifier: Apache-2.0

import signal
import threading
import time

import fixtures
from oslo_db import exception as db_exc

from octavia_hmsync.db import api
from octavia_hmsync.db import schema
from octavia_hmsync import exceptions
from octavia_hmsync import periodic
from tests.cloud import waiting
from tests.unit import base
from tests.unit.db import sqlite


class TestPeriodicThread(base.TestCase):

    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger(
            'octavia_hmsync', format='%(levelname)s %(message)s'))
        # Other tests of this process may have left some.
        self.patch(periodic, '_PROBLEMS', periodic._Problems())
        self.database = self.useFixture(sqlite.SqliteMixin.make_database())
        self.engine = api.create_engine(self.make_conf(
            database={'connection': self.database.connection}))
        self.errors = []
        self.calls = 0
        self.called = threading.Condition()
        self.now = 0
        # How long the next calls take.
        self.durations = []

    def function(self):
        with self.called:
            self.calls += 1
            self.called.notify_all()
        self.now += self.durations.pop(0) if self.durations else 0
        error = self.errors.pop(0) if self.errors else None
        if error:
            raise error

    def start(self, interval=0.01, upgrade=True):
        if upgrade:
            schema.upgrade(self.engine)
        self.thread = periodic.PeriodicThread('test', self.function,
                                              interval, self.engine,
                                              clock=lambda: self.now)
        self.addCleanup(self.thread.stop, 5)
        self.thread.start()

    def wait_for_calls(self, number):
        with self.called:
            self.assertTrue(self.called.wait_for(
                lambda: self.calls >= number))

    def lines(self, level):
        return [line for line in self.log.output.splitlines()
                if line.startswith(level)]

    def test_called_again_and_again(self):
        self.start()
        self.wait_for_calls(5)
        self.assertEqual([], self.lines('WARNING'))

    def test_wake(self):
        self.start(interval=600)
        self.wait_for_calls(1)
        self.thread.wake()
        self.wait_for_calls(2)

    def assert_no_more_calls(self):
        calls = self.calls
        with self.called:
            self.assertFalse(self.called.wait_for(
                lambda: self.calls > calls, timeout=0.5))

    def test_call_that_hung_is_followed_by_another_at_once(self):
        """The failover guard must not come after Octavia's health check."""
        self.durations = [30, 20, 10]
        self.errors = [db_exc.DBConnectionError('gone')] * 2
        self.start(interval=9)
        # The third one is the first that succeeds.
        self.wait_for_calls(4)
        self.assert_no_more_calls()

    def test_slow_server_is_not_asked_all_the_time(self):
        self.durations = [10] * 5
        self.start(interval=9)
        self.wait_for_calls(2)
        self.assert_no_more_calls()

    def test_failure_at_once_waits(self):
        self.errors = [db_exc.DBConnectionError('gone')] * 5
        self.start(interval=600)
        self.wait_for_calls(1)
        self.assert_no_more_calls()

    def test_signals_are_left_to_the_main_thread(self):
        """By what it starts, too: the batches, what sends notifications."""
        blocked, note_call = [], self.function

        def look():
            blocked.append(signal.pthread_sigmask(signal.SIG_BLOCK, ()))

        def function():
            look()
            other = threading.Thread(target=look)
            other.start()
            other.join()
            note_call()

        self.function = function
        self.start(interval=600)
        self.wait_for_calls(1)
        for signals in blocked:
            self.assertLessEqual({signal.SIGTERM, signal.SIGHUP}, signals)
        self.assertEqual(2, len(blocked))
        self.assertNotIn(signal.SIGTERM,
                         signal.pthread_sigmask(signal.SIG_BLOCK, ()))

    def test_stop_does_not_wait_for_the_interval(self):
        self.start(interval=600)
        self.wait_for_calls(1)
        self.thread.stop(5)
        self.assertTrue(self.thread.stopping.is_set())
        self.assertNotIn('hmsync-test',
                         [t.name for t in threading.enumerate()])
        self.assertEqual(1, self.calls)

    def test_database_that_is_down_is_said_once(self):
        self.errors = [db_exc.DBConnectionError('gone')] * 4
        self.start()
        self.wait_for_calls(6)
        warning, = self.lines('WARNING')
        self.assertIn('The database cannot be used: gone', warning)
        self.assertEqual(1, len(self.lines('INFO octavia-hmsync works '
                                           'again')))

    def test_what_we_raise_is_one_line(self):
        self.errors = [exceptions.InvalidAddress('wrong address')] * 3
        self.start()
        self.wait_for_calls(5)
        self.assertEqual(['WARNING octavia-hmsync: wrong address'],
                         self.lines('WARNING'))
        self.assertNotIn('Traceback', self.log.output)

    def test_how_it_fares(self):
        self.errors = [exceptions.InvalidAddress('wrong address')] * 2
        self.start(interval=600)
        self.assertEqual(0, self.thread.succeeded_at)
        self.wait_for_calls(1)
        self.thread.wake()
        self.wait_for_calls(2)
        self.assertEqual(0, self.thread.succeeded_at)
        before = time.time()
        self.thread.wake()
        self.wait_for_calls(3)
        self.thread.stop(5)
        self.assertEqual(2, self.thread.failures)
        self.assertLessEqual(before, self.thread.succeeded_at)

    def test_another_problem_is_another_line(self):
        self.errors = [exceptions.InvalidAddress('one'),
                       exceptions.InvalidAddress('two'), None,
                       exceptions.InvalidAddress('two')]
        self.start()
        self.wait_for_calls(6)
        self.assertEqual(['one', 'two', 'two'], [
            line.split(': ')[1] for line in self.lines('WARNING')])

    def test_two_threads_with_one_problem_say_it_once(self):
        self.errors = [exceptions.InvalidAddress('wrong address')] * 10
        self.start()
        self.start(upgrade=False)
        self.wait_for_calls(14)
        self.assertEqual(['WARNING octavia-hmsync: wrong address'],
                         self.lines('WARNING'))
        self.assertEqual(1, len(self.lines('INFO octavia-hmsync works')))

    def test_unexpected_has_its_traceback_and_kills_nothing(self):
        self.errors = [KeyError('surprise')]
        self.start()
        self.wait_for_calls(3)
        self.assertIn('Traceback', self.log.output)
        self.assertIn('surprise', self.log.output)

    def test_unexpected_while_it_ends(self):
        """Python starts no threads any more, and says so by a RuntimeError."""
        ends, has_ended = threading.Event(), threading.Event()

        def function():
            ends.set()
            has_ended.wait(60)
            raise RuntimeError('cannot schedule new futures')
        self.function = function
        self.start()
        self.assertTrue(ends.wait(60))
        self.thread.stop(0)
        has_ended.set()
        self.thread.stop(60)
        self.assertEqual([], self.lines('ERROR') + self.lines('WARNING'))
        self.assertNotIn('Traceback', self.log.output)
        self.assertEqual(1, len(self.lines('INFO')), self.log.output)

    def test_unexpected_before_it_is_told_to_end(self):
        self.errors = [RuntimeError(
            'cannot schedule new futures after interpreter shutdown')]
        self.start()
        self.wait_for_calls(2)
        self.assertEqual([], self.lines('ERROR') + self.lines('WARNING'))
        self.assertNotIn('Traceback', self.log.output)
        self.assertIn('did not end before the service', self.log.output)

    def test_no_call_before_the_tables_are_there(self):
        self.start(upgrade=False)
        self.wait_until_logged('octavia-hmsync db upgrade')
        self.assertEqual(0, self.calls)
        schema.upgrade(self.engine)
        self.wait_for_calls(1)
        self.assertEqual(1, len([line for line in self.lines('WARNING')
                                 if 'not in the database' in line]))

    def wait_until_logged(self, text):
        waiting.wait_for(lambda: text in self.log.output,
                         lambda: f'"{text}" in {self.log.output}', 60, 0.01)

    def test_one_that_takes_long_is_called_rarely(self):
        times = []

        def work():
            times.append(time.monotonic())
            begun = time.thread_time()
            while time.thread_time() - begun < 0.05:
                pass

        subject = periodic.PeriodicThread('work', work, 0.01, self.engine)
        schema.upgrade(self.engine)
        subject.start()
        self.addCleanup(subject.stop, 5)
        while len(times) < 3:
            time.sleep(0.05)
        self.assertGreater(times[2] - times[1], 9 * 0.05)

    def test_newer_tables_are_worked_with(self):
        schema.upgrade(self.engine)
        self.patch(schema, 'current', lambda connection: 'ffff')
        # A lost connection has it look again.
        self.errors = [db_exc.DBConnectionError('gone')]
        self.start(upgrade=False)
        other = periodic.PeriodicThread('other', self.function, 0.01,
                                        self.engine)
        self.addCleanup(other.stop, 5)
        other.start()
        self.wait_for_calls(6)
        newer = [line for line in self.lines('WARNING') if 'newer' in line]
        self.assertEqual(1, len(newer), newer)
