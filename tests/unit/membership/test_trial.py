#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""How a new list goes to the fleet, and when it is to blame."""

import dataclasses
import math

from hypothesis import given
from hypothesis import strategies as st

from octavia_hmsync.membership import plan
from octavia_hmsync.membership import trial
from tests.unit import base
from tests.unit.membership import cases

CANARY_WAIT = 60


class TestFirstStatus(base.TestCase):

    def first(self, old, new, unheard=(), canary_size=3, wave_size=0):
        return trial.first_status(
            cases.addresses(*old), cases.addresses(*new),
            set(cases.addresses(*unheard)), canary_size, wave_size,
            cases.SETTINGS)

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
        status = trial.first_status(old, new, set(unheard), canary_size,
                                    wave_size, cases.SETTINGS)
        if status in trial.TRIAL_STATUSES:
            self.assertTrue(set(new) - set(old))
            self.assertFalse(old and set(old) <= set(unheard))
            self.assertEqual(bool(canary_size), status == trial.CANARY)


class TestIsLost(base.TestCase):

    def is_lost(self, old, unheard):
        return trial.is_lost(cases.addresses(*old),
                             set(cases.addresses(*unheard)),
                             cases.SETTINGS)

    def test_all_are_dead(self):
        self.assertTrue(self.is_lost((1, 2), (1, 2)))

    def test_one_is_enough_for_a_short_list(self):
        self.assertFalse(self.is_lost((1, 2, 3, 4, 5), (1, 2, 3, 4)))
        self.assertFalse(self.is_lost((1,), ()))

    def test_some_amphora_has_none_but_dead_ones(self):
        self.assertTrue(self.is_lost(range(1, 21), range(1, 6)))
        self.assertFalse(self.is_lost(range(1, 21), range(1, 5)))


class TestSilence(base.TestCase):

    @given(st.just(cases.SETTINGS) | cases.settings(),
           st.lists(st.booleans(), min_size=1, max_size=12),
           st.floats(1, 1.099))
    def test_list_that_is_good_enough_is_not_to_blame(
            self, settings, is_dead, jitter):
        """Dead addresses stay published for removal_delay."""
        published = cases.addresses(*range(1, len(is_dead) + 1))
        dead = {a for a, here in zip(published, is_dead) if here}
        gap = plan.heartbeat_gap(published, dead, settings)
        if not plan.is_near_timeout(gap, settings):
            self.assertGreaterEqual(trial.silence_limit(settings),
                                    jitter * gap)

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
GOOD = trial.Admitted(True, True, 1.0, WATCH)
SILENT = trial.Admitted(True, True, LIMIT + 1, WATCH)
NEW = trial.Admitted(True, True, 1.0, 1.0)
UNREACHABLE = trial.Admitted(True, False, 0.0, 0.0)
UNTRIED = trial.Admitted(False, False, 0.0, 0.0)
VERDICT = trial.Verdict


class TestJudge(base.TestCase):

    def judge(self, *admitted):
        return trial.judge(list(admitted), WATCH, cases.SETTINGS)

    def test_good(self):
        self.assertIs(VERDICT.GOOD, self.judge(GOOD, GOOD, GOOD))

    def test_silent(self):
        self.assertIs(VERDICT.BAD, self.judge(GOOD, SILENT, GOOD))

    def test_silent_before_all_were_tried(self):
        """The one that has it must not wait."""
        self.assertIs(VERDICT.BAD, self.judge(SILENT, UNTRIED, UNREACHABLE))

    def test_not_silent_for_long(self):
        self.assertIs(VERDICT.GOOD, self.judge(
            dataclasses.replace(GOOD, silence=LIMIT)))

    def test_wait(self):
        self.assertIs(VERDICT.WAIT, self.judge(UNTRIED))
        self.assertIs(VERDICT.WAIT, self.judge(GOOD, UNTRIED))
        self.assertIs(VERDICT.WAIT, self.judge(GOOD, NEW))

    def test_unreachable_tells_nothing(self):
        self.assertIs(VERDICT.NO_ANSWER, self.judge(UNREACHABLE, UNREACHABLE))
        self.assertIs(VERDICT.WAIT, self.judge(UNREACHABLE, UNTRIED))
        self.assertIs(VERDICT.GOOD, self.judge(UNREACHABLE, GOOD))

    def test_of_many_some_fall_silent_for_reasons_of_their_own(self):
        self.assertIs(VERDICT.GOOD, self.judge(*[GOOD] * 9, SILENT))
        self.assertIs(VERDICT.BAD, self.judge(*[GOOD] * 8, SILENT))
        self.assertIs(VERDICT.BAD, self.judge(*[GOOD] * 17, SILENT, SILENT))

    _admitted = st.lists(st.builds(
        trial.Admitted, st.booleans(), st.booleans(), st.floats(0, 100),
        st.floats(0, 200)), max_size=25)

    @given(_admitted, st.integers(0, 120))
    def test_verdicts(self, admitted, watch):
        verdict = trial.judge(admitted, watch, cases.SETTINGS)
        applied = [a for a in admitted if a.is_applied]
        silent = [a for a in applied if a.silence > LIMIT]
        if verdict is VERDICT.GOOD:
            self.assertTrue(applied)
            self.assertTrue(all(a.is_tried for a in admitted))
            self.assertTrue(all(a.watched_for >= watch for a in applied))
        if verdict is VERDICT.NO_ANSWER:
            self.assertEqual([], applied)
        if applied and len(silent) == len(applied):
            self.assertIs(VERDICT.BAD, verdict)
        if not silent:
            self.assertIsNot(VERDICT.BAD, verdict)

    @given(_admitted)
    def test_one_more_silence_is_never_better(self, admitted):
        if self.judge(*admitted) is VERDICT.BAD:
            self.assertIs(VERDICT.BAD, self.judge(*admitted, SILENT))

    @given(_admitted)
    def test_comes_to_an_end(self, admitted):
        """When all were tried and time has passed there is a verdict."""
        later = [dataclasses.replace(a, is_tried=True, watched_for=math.inf)
                 for a in admitted]
        self.assertIsNot(VERDICT.WAIT, self.judge(*later))


class TestUnheard(base.TestCase):

    def unheard(self, numbers, *members):
        return trial.find_unheard(cases.addresses(*numbers), members,
                                  cases.SETTINGS)

    def member(self, number, is_heard, **values):
        return dataclasses.replace(cases.make_member(number, **values),
                                   is_heard=is_heard)

    def test_those_that_tell(self):
        members = [self.member(1, False, online_for=70.0),
                   self.member(2, True), self.member(3, None)]
        self.assertEqual({cases.address(1): 70.0},
                         self.unheard((1, 2, 3), *members))

    def test_only_among_the_given_ones(self):
        self.assertEqual({}, self.unheard((2,), self.member(1, False)))

    def test_nobody_listens_there(self):
        self.assertEqual({}, self.unheard(
            (1, 2), self.member(1, False, age=30.0)))


class TestMissed(base.TestCase):
    """Amphorae on trial had 1, 2 and 3, and get 4 in the place of 3."""

    OLD = frozenset(cases.addresses(1, 2, 3))
    NEW = frozenset(cases.addresses(1, 2, 4))
    WATCH = 80.0

    def witness(self, *noted, **values):
        return trial.Witness(**{
            'addresses': self.NEW, 'others': (self.OLD,),
            'age': self.WATCH + 10,
            'noted': frozenset(cases.addresses(*noted)), **values})

    def missed(self, *witnesses, numbers=(4,)):
        return trial.find_missed(cases.addresses(*numbers), witnesses)

    def test_heard_elsewhere_only(self):
        self.assertEqual({cases.address(4)}, self.missed(self.witness(1)))
        self.assertEqual({cases.address(4)}, self.missed(
            self.witness(1), self.witness(2), self.witness()))

    def test_one_is_heard_there(self):
        self.assertEqual(set(), self.missed(self.witness(1),
                                            self.witness(2, 4)))
        self.assertEqual(set(), self.missed(
            self.witness(1), self.witness(has_adopted=True)))

    def test_those_that_cannot_tell(self):
        # Without listeners; with an image that goes on with the old list;
        # after a list that had it; without it.
        self.assertEqual(set(), self.missed(
            self.witness(), self.witness(1, 3),
            self.witness(1, others=(self.OLD | {cases.address(4)},)),
            self.witness(1, addresses=self.OLD)))
        self.assertEqual(set(), self.missed())

    def test_time_to_be_noted(self):
        def may(*witnesses):
            return trial.may_yet_be_noted(
                cases.addresses(4), witnesses, self.WATCH, cases.SETTINGS)

        self.assertTrue(may(self.witness()))
        self.assertFalse(may(self.witness(age=self.WATCH + 31)))
        self.assertFalse(may(self.witness(1)))
        self.assertFalse(may(self.witness(), self.witness(has_adopted=True)))
        self.assertFalse(may(self.witness(addresses=self.OLD)))

    @given(st.lists(st.builds(
        trial.Witness, st.just(NEW), st.just((OLD,)),
        st.floats(0, 1000), st.booleans(),
        st.frozensets(st.sampled_from(sorted(OLD | NEW))))))
    def test_what_works_is_never_missed(self, witnesses):
        """Wherever it is noted, or has proven itself, it is not to blame."""
        works = any(w.has_adopted or cases.address(4) in w.noted
                    for w in witnesses if w.noted <= w.addresses)
        if works:
            self.assertEqual(set(), self.missed(*witnesses))
        self.assertLessEqual(self.missed(*witnesses, numbers=(1, 2, 3, 4)),
                             {cases.address(4)})


class TestChoose(base.TestCase):

    def choose(self, concerned, fresh, size):
        return trial.choose(
            {key: cases.addresses(*numbers) for key, numbers in concerned},
            set(cases.addresses(*fresh)), size)

    def test_first_ones(self):
        self.assertEqual(['a', 'b'], self.choose(
            [('a', (1, 2)), ('b', (1, 2)), ('c', (1, 2))], (2,), 2))

    def test_fewer_than_wanted(self):
        self.assertEqual(['a'], self.choose([('a', (1,))], (1, 2), 3))

    def test_as_many_more_as_new_addresses_take(self):
        self.assertEqual(['a', 'c', 'd'], self.choose(
            [('a', (1, 2)), ('b', (1, 2)), ('c', (1, 3)), ('d', (4, 5)),
             ('e', (3, 5))], (2, 3, 4, 5), 1))

    @given(st.dictionaries(st.integers(), cases.address_sets, max_size=12),
           cases.address_sets.map(set), st.integers(1, 5))
    def test_each_new_address_is_tried_if_it_can_be(self, concerned, fresh,
                                                    size):
        chosen = trial.choose(concerned, fresh, size)
        self.assertEqual(len(set(chosen)), len(chosen))
        self.assertEqual(list(concerned)[:size], chosen[:size])
        self.assertEqual(
            fresh & set().union(*concerned.values()),
            fresh & set().union(*(concerned[c] for c in chosen)))
        self.assertLessEqual(len(chosen), size + len(fresh))


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
