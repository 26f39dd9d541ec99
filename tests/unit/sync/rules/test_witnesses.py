# SPDX-License-Identifier: Apache-2.0

import dataclasses

from hypothesis import given
from hypothesis import strategies as st

from octavia_hmsync.sync.rules import witnesses
from tests.unit import base
from tests.unit.sync.rules import cases

WORD = witnesses.Word
FRESH = cases.address(4)
OLD = frozenset(cases.addresses(1, 2, 3))
NEW = frozenset(cases.addresses(1, 2, 4))
WATCH = 80.0


class TestUnheard(base.TestCase):

    def unheard(self, numbers, *members):
        return witnesses.find_unheard(cases.addresses(*numbers), members,
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


class WitnessCase(base.TestCase):
    """Amphorae on trial had 1, 2 and 3, and get 4 in the place of 3."""

    def witness(self, *noted, **values):
        self.count = getattr(self, 'count', 0) + 1
        return witnesses.Witness(**{
            'load_balancer': f'lb{self.count}', 'addresses': NEW,
            'others': (OLD,), 'age': WATCH + 10,
            'noted': frozenset(cases.addresses(*noted)), **values})

    def judge(self, *found, is_heard=True, can_ask=False):
        return witnesses.judge(FRESH, is_heard, found, can_ask)


class TestJudge(WitnessCase):

    def test_heard_elsewhere_only(self):
        for can_ask in (False, True):
            self.assertIs(WORD.MISSED, self.judge(
                self.witness(1), self.witness(2), self.witness(),
                can_ask=can_ask))

    def test_one_is_heard_there(self):
        self.assertIs(WORD.FINE, self.judge(self.witness(1),
                                            self.witness(2, 4)))
        self.assertIs(WORD.FINE, self.judge(
            self.witness(1), self.witness(2), self.witness(has_adopted=True)))

    def test_those_that_cannot_tell(self):
        # Without listeners; with an image that goes on with the old list;
        # after a list that had it; without it; after any list.
        self.assertIs(WORD.FINE, self.judge(
            self.witness(), self.witness(1, 3),
            self.witness(1, others=(OLD | {FRESH},)),
            self.witness(1, addresses=OLD),
            self.witness(1, can_tell=False), can_ask=True))
        self.assertIs(WORD.FINE, self.judge(can_ask=True))

    def test_one_alone_is_not_believed(self):
        one = self.witness(1)
        both = [one, self.witness(2, load_balancer=one.load_balancer)]
        for found in ([one], both):
            self.assertIs(WORD.ASK, self.judge(*found, can_ask=True))
        self.assertIs(WORD.FINE, self.judge(*both, self.witness()))

    def test_one_is_all_that_there_is(self):
        self.assertIs(WORD.MISSED, self.judge(self.witness(1)))
        self.assertIs(WORD.MISSED, self.judge(self.witness(),
                                              is_heard=False))

    def test_nobody_is_heard_there(self):
        """Then it does not matter what they could tell."""
        self.assertIs(WORD.MISSED, self.judge(
            self.witness(), self.witness(can_tell=False), is_heard=False))
        self.assertIs(WORD.ASK, self.judge(
            self.witness(), self.witness(addresses=OLD), is_heard=False,
            can_ask=True))
        # Nobody tried it.
        self.assertIs(WORD.FINE, self.judge(
            self.witness(addresses=OLD), is_heard=False))

    def test_time_to_be_noted(self):
        def may(*found):
            return witnesses.may_yet_be_noted(FRESH, found, WATCH,
                                              cases.SETTINGS)

        self.assertTrue(may(self.witness()))
        self.assertFalse(may(self.witness(age=WATCH + 31)))
        self.assertFalse(may(self.witness(1)))
        self.assertFalse(may(self.witness(), self.witness(has_adopted=True)))
        self.assertFalse(may(self.witness(addresses=OLD)))

    _load_balancers = st.sampled_from(['a', 'b', 'c', 'd'])

    @staticmethod
    def _witnesses(load_balancers):
        return st.lists(st.builds(
            witnesses.Witness, load_balancers, st.sampled_from([NEW, OLD]),
            st.just((OLD,)), st.floats(0, 1000), st.booleans(),
            st.frozensets(st.sampled_from(sorted(OLD | NEW))),
            st.booleans()), max_size=6)

    @given(_witnesses(_load_balancers))
    def test_what_works_is_never_missed(self, found):
        """Wherever it is noted, or has proven itself, it is not to blame."""
        works = any((w.has_adopted and FRESH in w.addresses) or
                    FRESH in w.noted
                    for w in found if w.noted <= w.addresses and w.can_tell)
        for can_ask in (False, True):
            if works:
                self.assertIs(WORD.FINE, self.judge(*found, can_ask=can_ask))

    @given(_witnesses(_load_balancers), _witnesses(st.just('hostile')))
    def test_one_load_balancer_alone_turns_nobody_against(self, others,
                                                          hostile):
        """What is fine for others, and nobody else says otherwise, is so."""
        others = [*others, self.witness(4, load_balancer='honest')]
        self.assertIs(WORD.FINE, self.judge(*others, *hostile))

    @given(_witnesses(st.just('hostile')), st.booleans())
    def test_load_balancer_alone_is_not_believed(self, hostile, is_heard):
        self.assertIsNot(WORD.MISSED, self.judge(
            *hostile, is_heard=is_heard, can_ask=True))
        # Nor where another one tried it, and cannot tell.
        self.assertIsNot(WORD.MISSED, self.judge(*hostile, self.witness()))

    @given(_witnesses(_load_balancers), st.booleans())
    def test_asking_comes_to_an_end(self, found, is_heard):
        self.assertIsNot(WORD.ASK, self.judge(*found, is_heard=is_heard))


class TestSuspects(WitnessCase):

    def suspects(self, fresh, silent, unheard=(), found=()):
        return witnesses.find_suspects(
            cases.addresses(*fresh),
            {str(n): cases.addresses(*part) for n, part in enumerate(silent)},
            cases.addresses(*unheard), found)

    def test_what_two_load_balancers_had(self):
        self.assertEqual(set(cases.addresses(3)), self.suspects(
            (3, 4, 5), [(3, 4), (3, 5)]))

    def test_one_is_all_that_there_is(self):
        self.assertEqual(set(cases.addresses(3, 4)), self.suspects(
            (3, 4, 5), [(3, 4)]))

    def test_nobody_was_ever_heard(self):
        self.assertEqual(set(cases.addresses(4)), self.suspects(
            (3, 4, 5), [(3, 4, 5), (3, 4, 5)], unheard=(4,)))

    def test_not_where_others_are_heard(self):
        self.assertEqual(set(cases.addresses(3)), self.suspects(
            (3, 4), [(3, 4), (3, 4)], found=[self.witness(4)]))

    def test_part_of_the_amphorae(self):
        """Or else the same list would come again and again."""
        self.assertEqual(set(cases.addresses(4)), self.suspects(
            (4,), [(4,), (4,)], found=[self.witness(4)]))

    def test_nothing_in_common(self):
        self.assertEqual(set(cases.addresses(3, 4)), self.suspects(
            (3, 4), [(3,), (4,)]))

    @given(cases.address_sets.filter(bool),
           st.lists(cases.address_sets, min_size=1, max_size=5),
           cases.address_sets)
    def test_never_none_and_never_others(self, fresh, silent, unheard):
        found = witnesses.find_suspects(
            fresh, dict(enumerate(silent)), unheard, [self.witness(4)])
        self.assertTrue(found)
        self.assertLessEqual(found, set(fresh))
