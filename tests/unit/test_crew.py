# SPDX-License-Identifier: Apache-2.0

"""Threads that each work for one key."""

import threading

from octavia_hmsync import crew
from tests.unit import base


class TestCrew(base.TestCase):

    def test_end(self):
        """A key is free before that is told."""
        ended = []
        subject = crew.Crew('name', lambda result: ended.append(
            (result, subject.keys())))
        may_end = threading.Event()
        self.addCleanup(may_end.set)

        def work(result):
            may_end.wait(60)
            return result, threading.current_thread().name

        subject.begin('a', work, 7)
        subject.begin('b', work, 8)
        self.assertEqual({'a', 'b'}, subject.keys())
        self.assertEqual({'a', 'b'}, subject.join(0))
        may_end.set()
        self.assertEqual(set(), subject.join(60))
        self.assertEqual([(7, 'name-a'), (8, 'name-b')],
                         sorted(result for result, _keys in ended))
        self.assertNotIn({'a', 'b'}, [keys for _result, keys in ended])


class TestPauses(base.TestCase):

    def test_each_is_longer(self):
        now = 0.0
        pauses = crew.Pauses(5, 20, lambda: now)
        for pause in (5, 10, 20, 20):
            self.assertTrue(pauses.is_over('a'))
            pauses.note('a', False)
            now += pause - 1
            self.assertFalse(pauses.is_over('a'))
            self.assertTrue(pauses.is_over('b'))
            now += 1
        pauses.note('a', True)
        self.assertTrue(pauses.is_over('a'))
        pauses.note('a', False)
        pauses.note('b', False)
        pauses.keep(lambda key: key == 'b')
        self.assertTrue(pauses.is_over('a'))
        self.assertFalse(pauses.is_over('b'))
