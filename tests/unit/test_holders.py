# SPDX-License-Identifier: Apache-2.0

"""Who held a VIP, made of what ip tells."""

import datetime

import hypothesis
from hypothesis import strategies as st

from tests.cloud import holders
from tests.unit import base

VIP = '10.1.0.5'


def changes(*words):
    """Each is a time, what happened, and to whom: "3+a"."""
    return [holders.Change(int(word[0]), word[2], word[1] == '+')
            for word in words]


class TestCount(base.TestCase):

    def test_one_after_the_other(self):
        self.assertEqual({1: 6, 0: 2}, holders.count(
            changes('1+a', '3-a', '4+b'), 0, 8))

    def test_two_at_once(self):
        self.assertEqual({1: 3, 2: 2}, holders.count(
            changes('1+a', '5-a', '3+b'), 1, 6))

    def test_what_is_told_twice(self):
        self.assertEqual({1: 2, 0: 2}, holders.count(
            changes('1+a', '2+a', '3-a', '4-a'), 1, 5))

    def test_nobody_ever(self):
        self.assertEqual({0: 4}, holders.count([], 1, 5))

    def test_only_what_is_asked_for(self):
        self.assertEqual({1: 3}, holders.count(
            changes('1+a', '9-a'), 4, 7))

    @hypothesis.given(
        st.lists(st.builds(holders.Change, st.integers(0, 20),
                           st.sampled_from('abc'), st.booleans())),
        st.integers(0, 20), st.integers(0, 20))
    def test_each_moment_counts_once(self, found, since, lasts):
        held = holders.count(found, since, since + lasts)
        self.assertEqual(lasts, sum(held.values()))
        self.assertLessEqual(set(held), {0, 1, 2, 3})


class TestRead(base.TestCase):

    def read(self, line):
        return holders.read(line, VIP, 7.5)

    def test_what_is_there(self):
        self.assertEqual((7.5, True), self.read(
            f'3: eth1    inet {VIP}/32 scope global eth1\\       valid_lft'))

    def test_what_changes(self):
        time = datetime.datetime(2026, 11, 23, 3, 15, 2, 500000,
                                 datetime.UTC).timestamp()
        line = f'3: eth1    inet {VIP}/32 scope global eth1'
        self.assertEqual((time, True), self.read(
            f'[2026-11-23T03:15:02.500000] {line}'))
        self.assertEqual((time, False), self.read(
            f'[2026-11-23T03:15:02.500000] Deleted {line}'))

    def test_others(self):
        for line in ('3: eth1    inet 10.1.0.50/24 scope global eth1',
                     '1: lo    inet6 ::1/128 scope host ', ''):
            self.assertIsNone(self.read(line))
