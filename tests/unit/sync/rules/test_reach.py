# SPDX-License-Identifier: Apache-2.0

"""Whom which service can reach, and what that says."""

import datetime

from hypothesis import given
from hypothesis import strategies as st

from octavia_hmsync.sync.rules import reach
from tests.unit import base

UP = 20
NOW = datetime.datetime(2026, 1, 1)
NAMES = ('a', 'b', 'c')


def at(seconds):
    return NOW + datetime.timedelta(seconds=seconds)


def make(name='a', age=0, reached_at=None, failures=0, overtaken=0):
    return reach.Uploader(name, age,
                          None if reached_at is None else at(reached_at),
                          NOW if failures else None, failures, overtaken)


def tried(uploader='a', attempts=2, is_unanswered=True, since=0):
    return reach.Attempt(uploader, attempts, is_unanswered, at(since))


some = st.builds(make, st.just('a'), st.floats(0, 2 * UP),
                 st.none() | st.integers(-9, 9), st.integers(0, 200),
                 st.integers(0, 6))
fleets = st.tuples(*(
    st.builds(lambda u, name=name: reach.Uploader(
        name, u.keepalive_age, u.reached_at, u.failing_since, u.failures,
        u.overtaken), some) for name in NAMES))
attempts_of_some = st.lists(
    st.builds(tried, st.sampled_from(NAMES), st.integers(1, 3),
              st.booleans(), st.integers(-9, 9)),
    unique_by=lambda attempt: attempt.uploader)


class TestBlind(base.TestCase):

    def names(self, *uploaders):
        return [u.name for u in reach.get_blind(uploaders, UP)]

    def test_others_reach_what_one_does_not(self):
        self.assertEqual(['a'], self.names(
            make('a', failures=9, overtaken=3), make('b', reached_at=1)))
        self.assertEqual([], self.names(
            make('a', failures=9, overtaken=2), make('b', reached_at=1)))

    def test_nobody_reaches_anybody(self):
        self.assertEqual([], self.names(make('a', failures=900),
                                        make('b', failures=900)))

    def test_only_dead_ones_to_try(self):
        """At rest nobody tries any other."""
        self.assertEqual([], self.names(make('a', failures=100),
                                        make('b', reached_at=100)))

    def test_the_others_are_down(self):
        self.assertEqual([], self.names(
            make('a', failures=9, overtaken=9),
            make('b', reached_at=1, age=UP + 1)))

    @given(fleets)
    def test_somebody_is_left(self, fleet):
        blind = reach.get_blind(fleet, UP)
        active = reach.get_active(fleet, UP)
        up = [u for u in fleet if reach.is_up(u, UP)]
        self.assertCountEqual(up, [*blind, *active])
        self.assertEqual(bool(up), bool(active))

    @given(fleets, st.integers(1, 2000), st.booleans())
    def test_who_may_claim(self, fleet, limit, has_reached):
        own, *others = fleet
        own = make(own.name, 0, None, own.failures, own.overtaken)
        allowed = reach.batch_limit(own, others, UP, limit, has_reached)
        self.assertLessEqual(allowed, limit)
        # The blind claim nothing, and nobody else is kept from work.
        blind = own in reach.get_blind([own, *others], UP)
        self.assertEqual(blind, allowed == 0)
        if not reach.get_able(others, UP):
            self.assertEqual(limit, allowed)


class TestBatchLimit(base.TestCase):

    def limit(self, failures=0, has_reached=False, others=(make('b'),)):
        own = make(failures=failures)
        return (reach.batch_limit(own, others, UP, 200, has_reached),
                reach.is_slow_start(own, others, UP, has_reached))

    def test_alone(self):
        self.assertEqual((200, False), self.limit(failures=500, others=()))

    def test_slow_start(self):
        """It doubles, until somebody answers."""
        seen, failures = [], 0
        while not seen or seen[-1] < 200:
            limit, is_slow = self.limit(failures)
            self.assertTrue(is_slow)
            seen.append(limit)
            failures += limit
        self.assertEqual([8, 8, 16, 32, 64, 128, 200], seen)

    def test_somebody_answered(self):
        self.assertEqual((200, False), self.limit(has_reached=True))
        self.assertEqual((200, False), self.limit(2, has_reached=True))
        self.assertEqual((8, True), self.limit(3, has_reached=True))


class TestNextLook(base.TestCase):

    @given(st.dictionaries(st.sampled_from(NAMES), st.integers(0, 9)
                           .map(at)), st.sets(st.sampled_from(NAMES)))
    def test_nobody_waits_for_another(self, times, active):
        """Whoever is active finds it due as soon as it waits no longer."""
        look = reach.next_look(times, active)
        for name in active:
            if name not in times:
                self.assertIsNone(look)
            elif look is not None:
                self.assertLessEqual(look, times[name])
        if active and active <= set(times):
            # And none looks as long as all of them wait.
            self.assertIn(look, [times[name] for name in active])


class TestIsBelieved(base.TestCase):

    def is_believed(self, attempts, *uploaders):
        return reach.is_believed(attempts, uploaders, UP)

    def test_one_that_reaches_others(self):
        self.assertTrue(self.is_believed([tried()], make(reached_at=0)))
        self.assertFalse(self.is_believed([tried()], make(reached_at=-1)))
        self.assertFalse(self.is_believed([tried()], make()))

    def test_one_failed_upload_may_be_bad_luck(self):
        self.assertFalse(self.is_believed([tried(attempts=1)],
                                          make(reached_at=1)))

    def test_two(self):
        attempts = [tried('a', 1), tried('b', 1)]
        self.assertTrue(self.is_believed(attempts, make('a', reached_at=1),
                                         make('b')))
        # What keeps the one from everybody may keep the other as well.
        self.assertFalse(self.is_believed(attempts, make('a'), make('b')))

    def test_something_answers_there(self):
        self.assertFalse(self.is_believed(
            [tried(), tried('b', is_unanswered=False)],
            make(reached_at=1), make('b', reached_at=1)))

    def test_another_has_not_tried_yet(self):
        self.assertFalse(self.is_believed(
            [tried()], make(reached_at=1), make('b')))
        for other in (make('b', age=UP + 1), make('b', overtaken=3)):
            self.assertTrue(self.is_believed([tried()], make(reached_at=1),
                                             other))

    def test_a_blind_one_proves_nothing(self):
        self.assertFalse(self.is_believed(
            [tried()], make(reached_at=1, overtaken=3), make('b', age=UP + 1)))

    @given(attempts_of_some, fleets)
    def test_never_by_whom_others_overtake(self, attempts, fleet):
        """Nor by whoever has reached nobody since."""
        if not self.is_believed(attempts, *fleet):
            return
        trusted = {u.name: u for u in fleet if not reach.is_suspect(u)}
        self.assertTrue(all(a.is_unanswered for a in attempts))
        self.assertTrue([
            a for a in attempts if a.uploader in trusted and
            (trusted[a.uploader].reached_at or at(-99)) >= a.first_tried_at])
        self.assertLessEqual(
            {u.name for u in reach.get_able(fleet, UP)},
            {a.uploader for a in attempts})

    @given(attempts_of_some, fleets, attempts_of_some)
    def test_an_answer_ends_it(self, attempts, fleet, others):
        answered = [*attempts, tried('z', is_unanswered=False)]
        self.assertFalse(self.is_believed(answered, *fleet))
