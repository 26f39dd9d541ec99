# SPDX-License-Identifier: Apache-2.0

"""What can be told of heartbeats from a value that each one changes."""

import math

from hypothesis import given
from hypothesis import strategies as st

from octavia_hmsync.sync.rules import heartbeats
from tests.unit import base

SAMPLING = 2.0
KEY = 'amphora'


class TestHeartbeatWatch(base.TestCase):

    def setUp(self):
        super().setUp()
        self.watch = heartbeats.HeartbeatWatch()
        self.now = 1000.0

    def sample(self, value, listening=(), key=KEY, after=SAMPLING):
        self.now += after
        self.watch.sample(self.now, {key: value}, listening)

    def told(self, key=KEY):
        return (self.watch.was_heard(key), self.watch.watched_for(key),
                self.watch.silence(key), self.watch.longest_gap(key))

    def test_first_look(self):
        """When the value came, nobody knows."""
        self.sample('a')
        self.assertEqual((False, 0, 0, math.inf), self.told())

    def test_silence(self):
        for _ in range(4):
            self.sample('a')
        self.assertEqual((False, 6, 6, math.inf), self.told())

    def test_heartbeat(self):
        for value in 'aaab':
            self.sample(value)
        self.assertEqual((True, 6, 0, 6), self.told())
        # It may have come just after the look before.
        self.sample('b')
        self.assertEqual((True, 8, 2, 6), self.told())

    def test_gap_between_two(self):
        for value in 'abbbbc':
            self.sample(value)
        # One after the first look, the other before the last one.
        self.assertEqual((True, 10, 0, 10), self.told())

    def test_gap_that_goes_on(self):
        for value in 'abbbb':
            self.sample(value)
        self.assertEqual((True, 8, 6, 8), self.told())

    def test_value_that_goes_back(self):
        """Controllers' clocks may be minutes apart."""
        for value in (100, 90, 300, 95):
            self.sample(value)
        self.assertEqual((True, 6, 0, 4), self.told())

    def test_no_news(self):
        """As the failover guard writes it: no heartbeat."""
        for value in ('a', heartbeats.NO_NEWS, heartbeats.NO_NEWS):
            self.sample(value)
        self.assertEqual((False, 4, 4, math.inf), self.told())
        self.sample('b')
        self.assertEqual((True, 6, 0, 6), self.told())

    def test_same_value_after_no_news(self):
        for value in ('a', heartbeats.NO_NEWS, 'a'):
            self.sample(value)
        self.assertFalse(self.watch.was_heard(KEY))

    def test_no_news_from_the_beginning(self):
        """What comes then was not there before."""
        self.sample(heartbeats.NO_NEWS)
        self.assertEqual((False, 0, 0, math.inf), self.told())
        self.sample('a')
        self.assertTrue(self.watch.was_heard(KEY))

    def test_another_key_is_another_watch(self):
        for value in 'ab':
            self.sample(value, ['x'])
        self.sample('c', ['y'], key='other')
        self.assertEqual((False, 0, 0, math.inf), self.told('other'))
        self.assertEqual({'y'}, self.watch.listened('other'))
        self.assertRaises(KeyError, self.watch.silence, KEY)

    def test_again_after_a_while(self):
        for value in 'ab':
            self.sample(value, ['x'])
        self.sample('b', key='other')
        self.sample('c')
        self.assertEqual((False, 0, 0, math.inf), self.told())
        self.assertEqual(set(), self.watch.listened(KEY))

    def test_several(self):
        for values in ({'a': 1, 'b': 1}, {'a': 2, 'b': 1}):
            self.now += SAMPLING
            self.watch.sample(self.now, values)
        self.assertTrue(self.watch.was_heard('a'))
        self.assertFalse(self.watch.was_heard('b'))

    def test_listened_to_all_who_are_watched(self):
        watch = heartbeats.HeartbeatWatch()
        watch.sample(1.0, {'one': 1, 'other': 1}, iter(['x', 'y']))
        self.assertEqual({'x', 'y'}, watch.listened('one'))
        self.assertEqual({'x', 'y'}, watch.listened('other'))

    def test_listened(self):
        """Whoever did at any look may have, all the time."""
        for listening in (['x'], ['y'], []):
            self.sample('a', listening)
        self.assertEqual({'x', 'y'}, self.watch.listened(KEY))


class TestBounds(base.TestCase):

    @given(st.lists(st.floats(0.05, 40), max_size=30),
           st.lists(st.floats(0.1, 5), min_size=1, max_size=60),
           st.floats(0, 30))
    def test_bounds(self, pauses, looks, first_look):
        """What is said is right, however heartbeats and looks fall."""
        sent, now = [], 0.0
        for pause in pauses:
            now += pause
            sent.append(now)
        watch, at = heartbeats.HeartbeatWatch(), first_look
        watch.sample(at, {KEY: self.last(sent, at)})
        for look in looks:
            at += look
            watch.sample(at, {KEY: self.last(sent, at)})
        arrived = [t for t in sent if first_look < t <= at]
        marks = [first_look, *arrived, at]
        self.assertEqual(bool(arrived), watch.was_heard(KEY))
        self.assertAlmostEqual(at - first_look, watch.watched_for(KEY))
        sampling, tiny = max(looks), 1e-6
        silence = at - marks[-2]
        self.assertLessEqual(watch.silence(KEY), silence + tiny)
        self.assertGreaterEqual(watch.silence(KEY) + sampling + tiny,
                                silence)
        longest = max(b - a for a, b in zip(marks, marks[1:]))
        self.assertGreaterEqual(watch.longest_gap(KEY) + tiny, longest)
        if arrived:
            self.assertLessEqual(watch.longest_gap(KEY),
                                 longest + 2 * sampling + tiny)

    def last(self, sent, at):
        return max((t for t in sent if t <= at), default=None)
