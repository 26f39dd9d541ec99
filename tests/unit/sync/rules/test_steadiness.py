# SPDX-License-Identifier: Apache-2.0

"""Gaps of a reader, and jumps of the database's clock."""

import datetime
import math

from hypothesis import given
from hypothesis import strategies as st

from octavia_hmsync.sync.rules import steadiness
from tests.unit import base

LONGEST = 5
TOLERANCE = 6
BEGINNING = datetime.datetime(2026, 11, 22)


class TestSteadiness(base.TestCase):

    def setUp(self):
        super().setUp()
        self.subject = steadiness.Steadiness()

    def note(self, now, database=None, took=0.0):
        """Look, and return for how long that has gone on steadily."""
        return self.subject.note(
            now - took, now, LONGEST, database is not None and
            BEGINNING + datetime.timedelta(seconds=database) or None,
            TOLERANCE)

    def test_gap(self):
        self.assertEqual(0, self.note(100))
        self.assertEqual(5, self.note(105))
        self.assertEqual(0, self.note(110.1))

    def test_no_jump_known(self):
        self.note(100, 0)
        self.assertEqual(math.inf, self.subject.clock_for)

    def test_jumps(self):
        for jump in (10, -10, 1e6):
            self.subject = steadiness.Steadiness()
            self.note(100, 1e7)
            self.assertEqual(0, self.note(102, 1e7 + 2 + jump))
            self.assertAlmostEqual(jump, self.subject.jump, 3)
            self.assertEqual(2, self.note(104, 1e7 + 4 + jump))
            self.assertEqual((0, 2), (self.subject.jump,
                                      self.subject.clock_for))

    def test_no_look_at_the_clock_in_between(self):
        self.note(100, 0)
        self.note(102)
        self.assertEqual(0, self.note(104, 3600))

    @given(st.lists(st.tuples(st.floats(0.1, LONGEST), st.floats(0, 1),
                              st.floats(0, 1)), min_size=1))
    def test_what_the_time_of_an_answer_explains_is_no_jump(self, looks):
        """Whenever the clock was read while the answer was on its way."""
        now = 100.0
        self.subject = steadiness.Steadiness()
        for passed, share, moment in looks:
            now += passed
            took = share * passed
            self.note(now, now - moment * took, took)
            self.assertEqual(0, self.subject.jump)

    @given(st.floats(0.1, LONGEST), st.floats(0, LONGEST),
           st.floats(2 * LONGEST + TOLERANCE + 0.1, 1e6),
           st.sampled_from([1, -1]))
    def test_what_nothing_explains_is_one(self, passed, took, jump, way):
        self.subject = steadiness.Steadiness()
        self.note(100, 1e7, took)
        self.assertEqual(0, self.note(
            100 + passed, 1e7 + passed + way * jump, min(took, passed)))
