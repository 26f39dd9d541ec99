# SPDX-License-Identifier: Apache-2.0

import dataclasses
import datetime

import hypothesis
from hypothesis import strategies as st

from octavia_hmsync.conf import windows
from octavia_hmsync.image.rollout import estimate
from octavia_hmsync.image.rollout import limits
from tests.unit import base
from tests.unit.image.rollout import test_rules

NOW = test_rules.NOW
MINUTE = datetime.timedelta(minutes=1)


def get_end(number=9, seconds=0, at_once=99, **settings):
    settings = test_rules.change(**settings)
    found = estimate.get_waves(
        settings, [test_rules.candidate(n) for n in range(number)])
    return estimate.get_end(settings, found, NOW, seconds, at_once)


class TestEstimate(base.TestCase):

    def test_no_limit(self):
        self.assertEqual(NOW, get_end())
        self.assertEqual(NOW, get_end(0, seconds=60))

    def test_time_of_each(self):
        """A canary, then four times two."""
        self.assertEqual(NOW + 5 * MINUTE, get_end(seconds=60))
        self.assertEqual(NOW + MINUTE, get_end(seconds=60, canaries=0,
                                               parallel=9))

    def test_no_more_than_housekeepers_do(self):
        """A canary, then eight in two turns of four."""
        self.assertEqual(NOW + 3 * MINUTE, get_end(seconds=60, parallel=8,
                                                   at_once=4))

    def test_each_wave_is_watched(self):
        self.assertEqual(NOW + 15 * MINUTE, get_end(seconds=60,
                                                    watch_time=120))

    def test_rate(self):
        self.assertEqual(NOW + 4 * 60 * MINUTE, get_end(rate_per_hour=2))
        self.assertEqual(NOW, get_end(rate_per_hour=9))

    def test_windows(self):
        """One an hour, in the three hours of a day."""
        wednesday = NOW + datetime.timedelta(days=2)
        self.assertEqual(
            wednesday.replace(hour=3),
            get_end(rate_per_hour=1, windows='01:00-04:00'))
        self.assertEqual(wednesday.replace(hour=1),
                         get_end(windows='Wed 01:00-01:30'))

    @hypothesis.given(
        st.integers(0, 30), st.integers(0, 5), st.integers(1, 5),
        st.integers(0, 4), st.sampled_from(['', '01:00-02:00',
                                            'Sat,Sun 22:00-04:00']),
        st.integers(0, 10000))
    def test_whatever_the_settings(self, number, canaries, parallel, rate,
                                   text, seconds):
        """It begins no earlier than it may, and more take no less."""
        ends = [get_end(n, seconds, canaries=canaries, parallel=parallel,
                        rate_per_hour=rate, windows=text)
                for n in (number, number + 1)]
        self.assertLessEqual(NOW, ends[0])
        self.assertLessEqual(ends[0], ends[1])
        self.assertTrue(windows.is_open(
            windows.parse(text),
            ends[1] - datetime.timedelta(seconds=seconds)))


class TestOutlook(base.TestCase):

    def look(self, number, replacements=(), seconds=60, age=7200, at_once=9,
             **settings):
        return estimate.get_outlook(limits.Situation(
            test_rules.change(**settings), NOW,
            [test_rules.candidate(n) for n in range(number)], replacements),
            age, seconds, at_once)

    def test_nothing_has_begun(self):
        """A canary, and then two at once."""
        self.assertEqual(
            estimate.Outlook(0, 5, 5, 0, NOW + 3 * MINUTE), self.look(5))

    def test_halfway(self):
        """It counts load balancers, however often each was tried."""
        fleet = [test_rules.candidate(n) for n in range(20)]
        done = [dataclasses.replace(
            test_rules.replacement(fleet[n], 'DONE', canary=not n),
            finished_at=NOW - n * 20 * MINUTE) for n in range(5)]
        rows = [*done, *(test_rules.replacement(fleet[n], state)
                         for n, state in enumerate((
                             'FAILED', 'REFUSED', 'SKIPPED', 'SKIPPED',
                             'RUNNING', 'CANCELLED'), 5))]
        # Those of the last hour: now, and 20, 40 and 60 minutes ago.
        self.assertEqual(
            estimate.Outlook(5, 11, 20, 4 / 3600, NOW + 6 * MINUTE),
            self.look(20, rows))
        # It began half an hour ago.
        self.assertEqual(2 / 1800, self.look(20, rows, age=1800).per_second)

    def test_end_is_unknown(self):
        self.assertIsNone(self.look(5, seconds=None).ends_at)
        self.assertIsNone(self.look(5, at_once=0).ends_at)

    def test_what_is_given_up(self):
        lb = test_rules.candidate(0)
        rows = [test_rules.replacement(lb, 'SKIPPED')] * limits.TRIES
        self.assertEqual((0, 0), (self.look(1, rows).left,
                                  self.look(1, rows).total))
