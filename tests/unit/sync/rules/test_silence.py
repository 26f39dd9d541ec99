# SPDX-License-Identifier: Apache-2.0

"""Whose failover is held back."""

import dataclasses

from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from octavia_hmsync.sync.rules import member
from octavia_hmsync.sync.rules import silence
from tests.unit import base
from tests.unit.sync.rules import cases

HOLD_MAX = 300
LISTENED = cases.SETTINGS.heartbeat_timeout
LONG_AGO = 10000.0
POLL_INTERVAL = 2


class TestMustHold(base.TestCase):

    def must_hold(self, members, addresses=(1, 2), applied_age=LONG_AGO,
                  is_gone=False, held_for=None, pinned=(), others=(),
                  hold_max=HOLD_MAX, is_on_trial=False, left=()):
        return silence.must_hold(
            silence.SilentAmphora(
                None if addresses is None else cases.addresses(*addresses),
                tuple(cases.addresses(*other) for other in others),
                applied_age, is_gone, held_for, is_on_trial),
            cases.listeners(members, cases.addresses(*pinned),
                            left=cases.addresses(*left)), hold_max)

    def test_nobody_listens_with_its_key(self):
        """Nor with that with which it may go on."""
        def must_hold(key, previous, others, **keys):
            members = [dataclasses.replace(self.alive(n), key_digest=digest)
                       for n, digest in enumerate(keys.values(), 1)]
            return silence.must_hold(
                silence.SilentAmphora(
                    cases.addresses(1), others, LONG_AGO, False, None,
                    key_digest=key, previous_key_digest=previous),
                cases.listeners(members), HOLD_MAX)

        old = (cases.addresses(2),)
        self.assertFalse(must_hold('new', None, (), hm1='new', hm2='old'))
        self.assertTrue(must_hold('old', None, (), hm1='new', hm2='old'))
        self.assertFalse(must_hold(None, None, (), hm1='new', hm2='old'))
        # It may not have adopted, or have adopted the key and not the list.
        self.assertTrue(must_hold('new', 'old', old, hm1='new', hm2='old'))
        self.assertTrue(must_hold('new', 'old', old, hm1='new', hm2='new'))
        # The same list with another key.
        self.assertTrue(must_hold('new', 'old', (cases.addresses(1),),
                                  hm1='new'))

    def alive(self, number, online_for=LISTENED):
        return cases.make_member(number, online_for=online_for)

    def test_really_dead(self):
        """Somebody listened at its addresses all the time."""
        self.assertFalse(self.must_hold([self.alive(1), self.alive(2)]))

    def test_one_that_listens_is_enough_for_a_short_list(self):
        self.assertFalse(self.must_hold([self.alive(1)]))

    def test_nobody_listens(self):
        self.assertTrue(self.must_hold([]))
        self.assertTrue(self.must_hold([self.alive(7)]))
        self.assertTrue(self.must_hold([cases.make_dead(1),
                                        cases.make_dead(2)]))

    def test_too_few_listen(self):
        """One of seven hears an amphora every 70 s; one of three every 30.

        Then one lost heartbeat would be enough.
        """
        self.assertTrue(self.must_hold([self.alive(1)], range(1, 8)))
        self.assertTrue(self.must_hold([self.alive(1)], range(1, 4)))
        self.assertFalse(self.must_hold([self.alive(1)], range(1, 3)))
        self.assertFalse(self.must_hold([self.alive(1), self.alive(3)],
                                        range(1, 6)))

    def test_listens_for_too_short_a_time(self):
        """As after a restart of all of them at their addresses."""
        members = [self.alive(n, LISTENED - 1) for n in (1, 2)]
        self.assertTrue(self.must_hold(members))

    def test_draining_listens(self):
        self.assertFalse(self.must_hold([cases.make_member(
            1, member.DRAINING, online_for=LISTENED)]))

    def test_nobody_knows_when_it_acknowledged(self):
        members = [self.alive(1), self.alive(2)]
        self.assertFalse(self.must_hold(members, applied_age=None))
        self.assertTrue(self.must_hold([], applied_age=None))

    def test_acknowledged_lately(self):
        """It lives, and has a whole timeout to be heard where it sends."""
        members = [self.alive(1), self.alive(2)]
        self.assertTrue(self.must_hold(members, applied_age=1))
        self.assertTrue(self.must_hold(members, applied_age=LISTENED))
        self.assertFalse(self.must_hold(members, applied_age=LISTENED + 21))

    def test_list_that_nobody_found_good(self):
        """Others are asked what they say of it."""
        members = [self.alive(1), self.alive(2)]
        for age in (LISTENED + 21, 3 * LISTENED):
            self.assertTrue(self.must_hold(members, applied_age=age,
                                           is_on_trial=True))
        self.assertFalse(self.must_hold(members, applied_age=5 * LISTENED,
                                        is_on_trial=True))
        self.assertFalse(self.must_hold(
            members, applied_age=LISTENED + 21, is_gone=True,
            is_on_trial=True))

    def test_may_be_using_a_dead_list(self):
        """It acknowledged a list that is alive, and was never seen there."""
        members = [self.alive(3)]
        self.assertFalse(self.must_hold(members, (3,)))
        self.assertTrue(self.must_hold(members, (3,), others=[(1, 2)]))
        self.assertFalse(self.must_hold(members, (3,), others=[(2, 3)]))
        self.assertTrue(self.must_hold(members, (3,),
                                       others=[(2, 3), (1, 2)]))

    def test_tried_in_vain(self):
        self.assertTrue(self.must_hold([]))
        self.assertFalse(self.must_hold([], is_gone=True))
        self.assertFalse(self.must_hold([], None, None, is_gone=True))

    def test_never_acknowledged(self):
        self.assertTrue(self.must_hold([self.alive(1)], None, None))

    def test_pinned_listen_for_all_we_know(self):
        self.assertFalse(self.must_hold([], pinned=(1,)))

    def test_pinned_ones_that_had_registered_are_dead(self):
        self.assertTrue(self.must_hold([cases.make_dead(1)], (1,),
                                       pinned=(1,)))
        self.assertTrue(self.must_hold([], (1,), pinned=(1,), left=(1,)))

    @given(st.lists(st.integers(1, 9), unique=True),
           st.one_of(st.none(), st.lists(st.integers(1, 9), min_size=1,
                                         unique=True)),
           st.floats(0, LONG_AGO), st.booleans())
    def test_never_longer_than_stated(self, alive, addresses, age, is_gone):
        self.assertFalse(self.must_hold(
            [self.alive(n) for n in alive], addresses,
            None if addresses is None else age, is_gone,
            held_for=HOLD_MAX - LISTENED / 2 + 0.1))

    def failover(self, looks, start, gap, hold_max):
        """Tell when Octavia fails over an amphora that died at 0.

        It looks all the time from one heartbeat_timeout after its start on,
        except while neither it nor a guard can see the database.

        :param looks: when guards look.
        :param start: of the health manager, and so of its guard.
        :param gap: (begin, end) of what the database does not answer.
        """
        last_update, held_since = 0.0, None
        for look in [*(t for t in looks if t >= start and
                       not gap[0] <= t < gap[1]), float('inf')]:
            failover = max(last_update, start) + LISTENED
            if gap[0] <= failover < gap[1]:
                failover = gap[1]
            if failover < look:
                return failover
            silent_for = look - last_update
            if silent_for > LISTENED / 2 and self.must_hold(
                    [], held_for=None if held_since is None
                    else look - held_since, hold_max=hold_max):
                if held_since is None:
                    held_since = look - silence.begun_before(
                        silent_for, cases.SETTINGS)
                last_update = look

    @settings(max_examples=500)
    @given(st.integers(LISTENED, HOLD_MAX),
           st.lists(st.floats(0.5, POLL_INTERVAL), min_size=20, max_size=20),
           st.one_of(st.just(0.0), st.floats(0, 500)),
           st.floats(0, 500), st.one_of(st.just(0.0), st.floats(0, 300)))
    def test_no_failover_is_later_than_stated(self, hold_max, waits, start,
                                              gap_begin, gap_length):
        """However late the guard comes to look for the first time."""
        looks, now = [], 0.0
        while now < 2000:
            for wait in waits:
                looks.append(now)
                now += wait
        gap = gap_begin, gap_begin + gap_length
        without = self.failover([], start, gap, hold_max)
        late = self.failover(looks, start, gap, hold_max) - without
        if without < gap_begin:
            # What the database does to a hold is not the guard's.
            late -= gap_length
        self.assertLessEqual(late, hold_max)
        if start == gap_length == 0:
            self.assertGreaterEqual(
                late, hold_max - LISTENED / 2 - POLL_INTERVAL)
