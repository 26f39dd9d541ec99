# SPDX-License-Identifier: Apache-2.0

import signal
import threading

import fixtures

from octavia_hmsync import periodic
from octavia_hmsync.sync.house_keeping import synchronizer
from tests.cloud import waiting
from tests.unit import base

TIMEOUT = 60


class Work:
    """A batch that does what the test has it do, step by step."""

    def __init__(self, results):
        self._results = results
        self.may_feed = threading.Event()
        self.may_end = threading.Event()

    def run(self, on_all_begun):
        self.may_feed.wait(TIMEOUT)
        on_all_begun()
        self.may_end.wait(TIMEOUT)
        if isinstance(self._results, Exception):
            raise self._results
        return self._results

    def finish(self):
        self.may_feed.set()
        self.may_end.set()


class TestBatches(base.TestCase):

    def setUp(self):
        super().setUp()
        self.woken = threading.Event()
        self.works = []
        self.begun = []
        self.signals = None
        self.subject = synchronizer.Batches(self._run, 2, self.woken.set)
        self.addCleanup(self._end)

    def _end(self):
        for work in (*self.works, *self.begun):
            work.finish()
        self.subject.stop()

    def _run(self, on_all_begun):
        self.signals = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        if not self.works:
            return {}
        work = self.works.pop(0)
        self.begun.append(work)
        return work.run(on_all_begun)

    def plan(self, *results):
        """Have the next batches end so, each in its turn."""
        self.works += map(Work, results)

    def wait_for_begun(self, number):
        waiting.wait_for(lambda: len(self.begun) == number, 'batches')

    def finish(self, *numbers):
        for number in numbers:
            self.begun[number].finish()
        self.subject.wait()

    def test_nothing_to_do(self):
        self.subject.begin()
        self.subject.wait()
        self.assertEqual({}, self.subject.reap())
        self.assertFalse(self.woken.is_set())

    def test_one_feeds_at_a_time(self):
        """The next one would only wait for the same places."""
        self.plan({'APPLIED': 1}, {'APPLIED': 2})
        for _ in range(3):
            self.subject.begin()
        self.wait_for_begun(1)
        self.begun[0].may_feed.set()
        # The first one begins the second.
        self.wait_for_begun(2)
        self.finish(0, 1)
        self.assertTrue(self.woken.wait(TIMEOUT))
        self.assertEqual({'APPLIED': 3}, self.subject.reap())
        self.assertEqual({}, self.subject.reap())

    def test_no_more_than_the_limit(self):
        self.plan({'APPLIED': 1}, {'APPLIED': 2}, {'APPLIED': 4})
        self.subject.begin()
        for number in (1, 2):
            self.wait_for_begun(number)
            self.begun[-1].may_feed.set()
        # One that is over counts until it is collected.
        self.begun[0].may_end.set()
        self.assertTrue(self.woken.wait(TIMEOUT))
        self.subject.begin()
        self.assertEqual(2, len(self.begun))
        self.assertEqual({'APPLIED': 1}, self.subject.reap())
        self.subject.begin()
        self.wait_for_begun(3)

    def test_error(self):
        """It stays until a batch has ended well."""
        self.plan(ZeroDivisionError())
        self.subject.begin()
        self.wait_for_begun(1)
        self.finish(0)
        self.assertTrue(self.woken.wait(TIMEOUT))
        # Not before it is collected.
        self.subject.check()
        self.assertRaises(ZeroDivisionError, self.subject.reap)
        for _ in range(2):
            self.assertEqual({}, self.subject.reap())
            self.assertRaises(ZeroDivisionError, self.subject.check)
        self.plan({'APPLIED': 1})
        self.subject.begin()
        self.wait_for_begun(2)
        self.finish(1)
        self.subject.reap()
        self.subject.check()

    def test_error_is_forgotten_when_nothing_is_left_to_do(self):
        self.plan(ZeroDivisionError(), ZeroDivisionError())
        self.subject.begin()
        self.wait_for_begun(1)
        self.begun[0].may_feed.set()
        self.wait_for_begun(2)
        self.begun[0].may_end.set()
        self.assertTrue(self.woken.wait(TIMEOUT))
        self.assertRaises(ZeroDivisionError, self.subject.reap)
        # The other one has all there is to do, and may fail as well.
        self.subject.forget_error()
        self.assertRaises(ZeroDivisionError, self.subject.check)
        self.finish(1)
        self.assertRaises(ZeroDivisionError, self.subject.reap)
        self.subject.forget_error()
        self.subject.check()

    def test_no_thread_is_to_be_had(self):
        self.plan({'APPLIED': 1}, {'APPLIED': 2})
        self.subject.begin()
        self.wait_for_begun(1)
        with fixtures.MonkeyPatch('threading.Thread.start', self._fail):
            self.begun[0].may_feed.set()
            # Whoever is woken meets the same.
            self.assertTrue(self.woken.wait(TIMEOUT))
            self.assertRaises(RuntimeError, self.subject.begin)
        self.subject.begin()
        self.wait_for_begun(2)

    def _fail(self, thread):
        raise RuntimeError("can't start new thread")

    def test_stop(self):
        self.plan({'APPLIED': 1}, {'APPLIED': 2})
        self.subject.begin()
        self.wait_for_begun(1)
        stop = threading.Thread(target=self.subject.stop)
        stop.start()
        waiting.wait_for(lambda: self.subject._is_stopping, 'stop')
        self.begun[0].may_feed.set()
        self.assertTrue(stop.is_alive())
        self.begun[0].may_end.set()
        stop.join(TIMEOUT)
        self.assertFalse(stop.is_alive())
        self.subject.begin()
        self.assertEqual(1, len(self.begun))

    def test_signals_are_left_to_the_main_thread(self):
        def begin():
            periodic.leave_signals_to_main_thread()
            self.subject.begin()

        thread = threading.Thread(target=begin)
        thread.start()
        thread.join()
        self.subject.wait()
        self.assertLessEqual({signal.SIGTERM, signal.SIGHUP}, self.signals)
