# SPDX-License-Identifier: Apache-2.0

"""How a new list goes to the fleet, and when it is to blame."""

import dataclasses
import itertools
import math

from hypothesis import given
from hypothesis import strategies as st

from octavia_hmsync.sync.rules import canaries
from octavia_hmsync.sync.rules import listening
from octavia_hmsync.sync.rules import member
from octavia_hmsync.sync.rules import trial
from tests.unit import base
from tests.unit.sync.rules import cases

CANARY_WAIT = 60


class TestFirstStatus(base.TestCase):

    def first(self, old, new, unheard=(), canary_size=3, wave_size=0,
              restarting=(), pinned=()):
        members = [
            *(cases.make_member(n, member.OFFLINE, 5.0) for n in restarting),
            *map(cases.make_dead, unheard),
            *cases.alive(*({*old, *new} - {*unheard, *restarting}))]
        return trial.first_status(
            cases.addresses(*old), cases.addresses(*new),
            cases.listeners(members, cases.addresses(*pinned)), canary_size,
            wave_size)

    def test_new_address(self):
        self.assertEqual(trial.CANARY, self.first((1, 2), (1, 2, 3)))
        self.assertEqual(trial.CANARY, self.first((1, 2), (1, 2, 3),
                                                  wave_size=5))

    def test_first_list(self):
        """Who has what is not known, and the addresses may be wrong."""
        self.assertEqual(trial.CANARY, self.first((), (1, 2)))

    def test_addresses_are_only_dropped(self):
        for wave_size in (0, 5):
            self.assertEqual(trial.OPEN, self.first(
                (1, 2, 3), (1, 2), wave_size=wave_size))
            self.assertEqual(trial.OPEN, self.first(
                (1, 2), (1, 2), wave_size=wave_size))

    def test_nothing_to_lose(self):
        self.assertEqual(trial.OPEN,
                         self.first((1, 2), (1, 2, 3), unheard=(1, 2)))
        self.assertEqual(trial.CANARY,
                         self.first((1, 2), (1, 2, 3), unheard=(1,)))

    def test_without_canaries(self):
        self.assertEqual(trial.OPEN,
                         self.first((1,), (1, 2), canary_size=0))
        self.assertEqual(trial.WAVES, self.first(
            (1,), (1, 2), canary_size=0, wave_size=5))
        self.assertEqual(trial.OPEN, self.first((), (1,), canary_size=0))

    @given(cases.address_sets, cases.address_sets.filter(bool),
           cases.address_sets, st.integers(0, 3), st.integers(0, 3))
    def test_on_trial_only_with_something_to_try(self, old, new, unheard,
                                                 canary_size, wave_size):
        members = [cases.make_dead(n) if cases.address(n) in unheard else
                   cases.make_member(n) for n in range(1, 15)]
        status = trial.first_status(old, new, cases.listeners(members),
                                    canary_size, wave_size)
        if status in trial.TRIAL_STATUSES:
            self.assertTrue(set(new) - set(old))
            self.assertFalse(old and set(old) <= set(unheard))
            self.assertEqual(bool(canary_size), status == trial.CANARY)

    def test_all_said_goodbye(self):
        """They are replaced in good order, or restart; both can be borne."""
        self.assertEqual(trial.OPEN, self.first(
            (1, 2), (1, 2, 3), restarting=(1, 2)))
        self.assertEqual(trial.CANARY, self.first(
            (1, 2), (2, 3), restarting=(1, 2)))

    def test_four_of_five_are_dead(self):
        """What adds goes on trial, whatever else is dead."""
        self.assertEqual(trial.CANARY, self.first(
            range(1, 6), (1, 7), unheard=(2, 3, 4, 5)))

    def test_pinned_ones_that_were_registered_are_dead(self):
        self.assertEqual(trial.OPEN, self.first(
            (1, 2, 3), range(1, 7), unheard=(1, 2, 3), pinned=(1, 2, 3)))


class TestSilence(base.TestCase):

    @given(st.just(cases.SETTINGS) | cases.settings(),
           st.lists(st.booleans(), min_size=1, max_size=12),
           st.floats(1, 1.099))
    def test_list_that_is_good_enough_is_not_to_blame(
            self, settings, is_dead, jitter):
        """Dead addresses stay published for removal_delay."""
        published = cases.addresses(*range(1, len(is_dead) + 1))
        dead = {a for a, here in zip(published, is_dead) if here}
        if dead and listening.list_level(published, dead, settings) is (
                listening.Level.FINE):
            self.assertGreaterEqual(
                trial.silence_limit(settings), jitter *
                listening.longest_gap(published, dead) *
                settings.heartbeat_interval)

    @given(st.just(cases.SETTINGS) | cases.settings())
    def test_rolled_back_before_a_failover(self, settings):
        """The failover guard holds those that acknowledged a list."""
        held_for = settings.heartbeat_timeout + 2 * settings.heartbeat_interval
        self.assertLess(trial.silence_limit(settings), held_for)

    @given(st.integers(0, 600), st.integers(1, 30),
           st.just(cases.SETTINGS) | cases.settings())
    def test_watched_long_enough(self, canary_wait, length, settings):
        """To notice silence; one more heartbeat goes to the old list."""
        watch = trial.time_to_watch(canary_wait, length, settings)
        self.assertGreaterEqual(watch, canary_wait)
        self.assertGreater(watch, trial.silence_limit(settings) +
                           2.2 * settings.heartbeat_interval)
        # Each address has had its turn.
        turns = min(length, settings.max_list_length)
        self.assertGreater(watch, (2 + turns) * settings.heartbeat_interval)


WATCH = trial.time_to_watch(CANARY_WAIT, 3, cases.SETTINGS)
LIMIT = trial.silence_limit(cases.SETTINGS)
VERDICT = trial.Verdict
_names = itertools.count()


def admitted(lb=None, **values):
    """One that got the list and was heard all the time; others by values."""
    return trial.Admitted(**{
        'load_balancer': lb or f'lb{next(_names)}', 'is_tried': True,
        'is_applied': True, 'fell_silent': False, 'silence': 1.0,
        'watched_for': WATCH, **values})


def good(number=1):
    return [admitted() for _ in range(number)]


def silent(number=1, lb=None):
    return [admitted(lb, fell_silent=True, silence=LIMIT + 1)
            for _ in range(number)]


def resumed(lb=None):
    return [admitted(lb, fell_silent=True)]


def new(**values):
    return [admitted(**{'watched_for': 1.0, **values})]


def unreachable():
    return [admitted(is_applied=False, silence=0.0, watched_for=0.0)]


def untried():
    return [admitted(is_tried=False, is_applied=False, silence=0.0,
                     watched_for=0.0)]


class TestJudge(base.TestCase):

    def judge(self, *groups, can_ask=True):
        return trial.judge([a for group in groups for a in group], WATCH,
                           cases.SETTINGS, can_ask)

    def test_good(self):
        self.assertIs(VERDICT.GOOD, self.judge(good(3)))

    def test_two_fell_silent(self):
        """At once, also while others have it only now."""
        for can_ask in (False, True):
            self.assertIs(VERDICT.BAD, self.judge(
                good(), silent(2), untried(), new(), can_ask=can_ask))

    def test_one_fell_silent(self):
        """It is not believed before others were asked."""
        for one in (silent(), resumed(), silent(2, 'lb')):
            self.assertIs(VERDICT.ASK_OTHERS, self.judge(good(2), one))
            self.assertIs(VERDICT.ASK_OTHERS, self.judge(one))
            self.assertIs(VERDICT.WAIT, self.judge(
                good(2), one, *[untried() for _ in range(7)]))
            self.assertIs(VERDICT.WAIT, self.judge(
                good(2), one, *[new() for _ in range(7)]))
            self.assertIs(VERDICT.GOOD, self.judge(good(9), one))

    def test_others_that_are_asked_cannot_be_reached(self):
        self.assertIs(VERDICT.ASK_OTHERS, self.judge(
            good(2), silent(), *[unreachable() for _ in range(7)]))

    def test_others_are_about_to_fall_silent_too(self):
        """Nobody else gets what nobody hears; so it is put back in time."""
        self.assertIs(VERDICT.WAIT, self.judge(
            silent(), new(silence=LIMIT - 10), new(silence=LIMIT - 5)))
        self.assertIs(VERDICT.WAIT, self.judge(
            silent(), good(), new(watched_for=LIMIT)))
        self.assertIs(VERDICT.WAIT, self.judge(silent(), untried()))

    def test_few(self):
        """One heard all the time speaks for the list, none against it."""
        self.assertIs(VERDICT.GOOD, self.judge(good(), silent(),
                                               can_ask=False))
        self.assertIs(VERDICT.WAIT, self.judge(new(), silent(),
                                               can_ask=False))
        self.assertIs(VERDICT.WAIT, self.judge(untried(), silent(),
                                               can_ask=False))

    def test_one_is_all_that_there_is(self):
        for one in (silent(), silent(2, 'lb'), resumed(),
                    silent(1, 'lb') + [admitted('lb')]):
            self.assertIs(VERDICT.BAD, self.judge(one, can_ask=False))
            self.assertIs(VERDICT.BAD, self.judge(one, unreachable(),
                                                  can_ask=False))

    def test_wait(self):
        self.assertIs(VERDICT.WAIT, self.judge(untried()))
        self.assertIs(VERDICT.WAIT, self.judge(good(), untried()))
        self.assertIs(VERDICT.WAIT, self.judge(good(), new()))

    def test_unreachable_tells_nothing(self):
        self.assertIs(VERDICT.NO_ANSWER, self.judge(unreachable(),
                                                    unreachable()))
        self.assertIs(VERDICT.WAIT, self.judge(unreachable(), untried()))
        self.assertIs(VERDICT.GOOD, self.judge(unreachable(), good()))

    def test_of_many_some_fall_silent_for_reasons_of_their_own(self):
        self.assertIs(VERDICT.GOOD, self.judge(good(9), silent()))
        self.assertIs(VERDICT.BAD, self.judge(good(17), silent(2)))
        self.assertIs(VERDICT.GOOD, self.judge(good(18), silent(2)))

    @staticmethod
    def _admitted(load_balancers):
        return st.lists(st.builds(
            trial.Admitted, load_balancers, st.booleans(), st.booleans(),
            st.booleans(), st.floats(0, 100), st.floats(0, 200)),
            max_size=25)

    _any = _admitted(st.integers(1, 30).map(str))

    @given(_any, st.integers(0, 120), st.booleans())
    def test_verdicts(self, found, watch, can_ask):
        verdict = trial.judge(found, watch, cases.SETTINGS, can_ask)
        applied = [a for a in found if a.is_applied]
        fell_silent = {a.load_balancer for a in applied if a.fell_silent}
        others = [a for a in applied if a.load_balancer not in fell_silent]
        if verdict is VERDICT.GOOD:
            self.assertTrue(others)
            self.assertTrue(all(a.is_tried for a in found))
            self.assertTrue(all(a.watched_for >= watch for a in others))
        if verdict is VERDICT.NO_ANSWER:
            self.assertEqual([], applied)
        if verdict is VERDICT.ASK_OTHERS:
            self.assertTrue(can_ask and fell_silent)
        if applied and not others and (
                len(fell_silent) > 1 or all(a.is_tried for a in found)):
            self.assertIs(VERDICT.ASK_OTHERS if can_ask and
                          len(fell_silent) == 1 else VERDICT.BAD, verdict)
        if not fell_silent:
            self.assertIsNot(VERDICT.BAD, verdict)

    @given(_any)
    def test_one_more_silence_is_never_better(self, found):
        if len(found) < 2:
            return
        verdicts = [self.judge(found, can_ask=False),
                    self.judge(found, silent(), can_ask=False)]
        if VERDICT.BAD in verdicts[:1] and len(
                {a.load_balancer for a in found
                 if a.is_applied and a.fell_silent}) > 1:
            self.assertIs(VERDICT.BAD, verdicts[1])

    @given(_any, st.booleans())
    def test_comes_to_an_end(self, found, can_ask):
        """When all were tried and time has passed there is a verdict."""
        later = [dataclasses.replace(
            a, is_tried=True, watched_for=math.inf, silence=math.inf
            if a.fell_silent else 1.0) for a in found]
        self.assertIsNot(VERDICT.WAIT, self.judge(later, can_ask=can_ask))

    @given(_admitted(st.integers(1, 9).map(str)),
           _admitted(st.just('hostile')), st.booleans())
    def test_one_load_balancer_vetoes_nothing(self, others, hostile,
                                              can_ask):
        """Whatever its amphorae do; the others decide, if there are any."""
        others = [dataclasses.replace(a, fell_silent=False) for a in others]
        others += good()
        verdict = self.judge(others, hostile, can_ask=can_ask)
        self.assertIsNot(VERDICT.BAD, verdict)

    @given(st.integers(2, 20), _admitted(st.just('hostile')), st.booleans())
    def test_one_load_balancer_saves_nothing(self, number, hostile, can_ask):
        """A list that nobody else is heard with is a bad one."""
        self.assertIs(VERDICT.BAD, self.judge(
            silent(number), hostile, can_ask=can_ask))

    def test_part_of_the_fleet_is_cut_off(self):
        """A third cannot reach what is new: it is found as often as before.

        Of one canary that falls silent more is made by those asked next.
        """
        share = 1 / 3

        def chance(number, of):
            return (math.comb(of, number) * share ** number *
                    (1 - share) ** (of - number))

        def found(size):
            more = canaries.how_many_more(size, size - 1)
            return (1 - chance(0, size) - chance(1, size) +
                    chance(1, size) * (1 - chance(0, more)))

        noticed = 1 - (1 - share) ** 3
        self.assertGreater(found(3) / noticed, 0.95)
        self.assertGreater(found(10), 0.89)


class TestSuspects(base.TestCase):

    def suspects(self, found, *members):
        return trial.get_suspects(
            {cases.address(n): age for n, age in found.items()}, members)

    def test_until_it_registers_anew(self):
        found = {1: 100.0, 2: 100.0}
        members = [cases.make_member(1, online_for=101),
                   cases.make_member(2, online_for=99)]
        self.assertEqual({cases.address(1)}, self.suspects(found, *members))

    def test_not_registered(self):
        self.assertEqual({cases.address(1)}, self.suspects({1: 5.0}))

    def test_nothing_found(self):
        self.assertEqual(set(), self.suspects({}, *cases.alive(1, 2)))
