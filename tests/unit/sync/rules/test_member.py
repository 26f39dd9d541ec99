# SPDX-License-Identifier: Apache-2.0

import dataclasses

from hypothesis import given
from hypothesis import strategies as st

from octavia_hmsync.sync.rules import member
from tests.unit import base
from tests.unit.sync.rules import cases

STEADY = 1000
STATUSES = st.sampled_from([member.ONLINE, member.DRAINING, member.OFFLINE])
AGES = st.floats(0, 1000, allow_nan=False)


class TestStateOf(base.TestCase):

    def state(self, status=member.ONLINE, age=1.0, steady=STEADY):
        return member.state_of(cases.make_member(1, status, age), 20, steady)

    def test_fresh_keepalive(self):
        self.assertIs(member.State.ALIVE, self.state())

    def test_draining_is_not_dead(self):
        self.assertIs(member.State.DRAINING, self.state(member.DRAINING))

    def test_goodbye_counts_at_once(self):
        self.assertIs(member.State.DEAD, self.state(member.OFFLINE, age=0))

    def test_goodbye_counts_after_a_gap_of_the_reader_too(self):
        self.assertIs(member.State.DEAD,
                      self.state(member.OFFLINE, age=0, steady=0))

    def test_silence(self):
        self.assertIs(member.State.ALIVE, self.state(age=20))
        self.assertIs(member.State.DEAD, self.state(age=20.01))

    def test_silent_while_draining(self):
        self.assertIs(member.State.DEAD, self.state(member.DRAINING, 21))

    def test_silence_proves_nothing_until_one_full_period_has_passed(self):
        for steady in (0, 10, 20):
            self.assertIs(member.State.UNKNOWN,
                          self.state(age=100, steady=steady))
        self.assertIs(member.State.DEAD, self.state(age=100, steady=20.1))

    def test_what_was_written_before_the_clock_jumped_proves_nothing(self):
        for age in (11, 19, -3, -1000):
            self.assertIs(member.State.UNKNOWN, member.state_of(
                cases.make_member(1, age=age), 20, 10, 10))
        for age in (-2, 0, 10):
            self.assertIs(member.State.ALIVE, member.state_of(
                cases.make_member(1, age=age), 20, 10, 10))

    def test_a_clock_that_is_ahead_is_no_jump(self):
        self.assertIs(member.State.ALIVE, self.state(age=-60))

    @given(STATUSES, AGES, st.floats(0, 20))
    def test_nobody_is_declared_dead_after_a_gap(self, status, age, steady):
        dead = self.state(status, age, steady) is member.State.DEAD
        self.assertEqual(status == member.OFFLINE, dead)

    @given(STATUSES, AGES, AGES)
    def test_one_definition_of_silent(self, status, age, steady):
        state = self.state(status, age, steady)
        self.assertEqual(
            state in (member.State.ALIVE, member.State.DRAINING),
            member.effective_status(status, age, 20) != member.OFFLINE)


class TestEffectiveStatus(base.TestCase):

    def test_what_it_said_last(self):
        for status in (member.ONLINE, member.DRAINING, member.OFFLINE):
            self.assertEqual(status,
                             member.effective_status(status, 20, 20))

    def test_silent_since(self):
        for status in (member.ONLINE, member.DRAINING, member.OFFLINE):
            self.assertEqual(member.OFFLINE,
                             member.effective_status(status, 21, 20))


class TestKeepSome(base.TestCase):

    def keep(self, *members):
        return [(m.status, m.is_zone_drained) for m in member.keep_some(
            members, lambda m: member.state_of(m, 20, STEADY))]

    def test_others_are_alive(self):
        drained = dataclasses.replace(
            cases.make_member(1, member.DRAINING), is_zone_drained=True)
        others = [cases.make_member(2), cases.make_member(2, age=21),
                  cases.make_member(2, member.DRAINING)]
        self.assertEqual([(member.DRAINING, True), (member.ONLINE, False)],
                         self.keep(drained, others[0]))
        for other in others[1:]:
            self.assertEqual((member.ONLINE, False),
                             self.keep(drained, other)[0])
