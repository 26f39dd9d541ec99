# SPDX-License-Identifier: Apache-2.0

import collections
import random

from hypothesis import given
from hypothesis import strategies as st

from octavia_hmsync.sync.rules import canaries
from tests.unit import base
from tests.unit.sync.rules import cases


def _keep(items):
    """In place of a shuffle."""


def eligible(key, numbers=(1, 2), lb=None, **values):
    return canaries.Eligible(key, lb or f'lb of {key}',
                             cases.addresses(*numbers), **values)


class TestChoose(base.TestCase):

    def choose(self, candidates, fresh=(), size=1, asked=()):
        return canaries.choose(candidates, cases.addresses(*fresh), size,
                               asked, _keep)

    def test_as_many_as_wanted(self):
        self.assertEqual(['a', 'b'], self.choose(
            [eligible('a'), eligible('b'), eligible('c')], (2,), 2))

    def test_fewer_than_wanted(self):
        self.assertEqual(['a'], self.choose([eligible('a', (1,))], (1, 2), 3))

    def test_as_many_more_as_new_addresses_take(self):
        self.assertEqual(['a', 'c', 'd'], self.choose([
            eligible('a', (1, 2)), eligible('b', (1, 2)),
            eligible('c', (1, 3)), eligible('d', (4, 5)),
            eligible('e', (3, 5))], (2, 3, 4, 5)))

    def test_one_of_each_load_balancer(self):
        pairs = [eligible('a', lb='1', harm=1), eligible('b', lb='1'),
                 eligible('c', lb='2', harm=1), eligible('d', lb='2')]
        self.assertEqual(['b', 'd'], sorted(self.choose(pairs, size=2)))
        self.assertEqual(3, len(self.choose(pairs, size=3)))

    def test_load_balancers_that_were_not_asked(self):
        self.assertEqual(['c'], self.choose(
            [eligible('a', lb='1'), eligible('b', lb='1'),
             eligible('c', lb='2')], asked={'1'}))

    def test_image_that_never_follows_a_list_tells_nothing(self):
        self.assertEqual(['b'], self.choose(
            [eligible('a', is_mute=True), eligible('b')]))

    def test_who_fell_silent_comes_last(self):
        """And so does the other one of its load balancer."""
        self.assertEqual(['d', 'c', 'b', 'a'], self.choose([
            eligible('a', lb='1', fell_silent=True), eligible('b', lb='1'),
            eligible('c', is_mute=True), eligible('d')], size=4))

    def test_by_chance(self):
        """Each load balancer as often as any other, however many it has."""
        tenants = [eligible(f'x{n}', lb='1') for n in range(20)] + [
            eligible(f'y{n}', lb=f'{n + 2}', harm=2) for n in range(4)]
        generator = random.Random(1)
        first = collections.Counter(
            canaries.choose(tenants, (), 1, (), generator.shuffle)[0][0]
            for _ in range(1000))
        self.assertGreater(first['x'], 150)
        self.assertLess(first['x'], 250)

    _eligible = st.lists(st.builds(
        canaries.Eligible, st.uuids().map(str), st.sampled_from('abcdef'),
        cases.address_sets, st.integers(0, 3), st.booleans(),
        st.booleans()), max_size=12, unique_by=lambda e: e.amphora_id)

    @given(_eligible, cases.address_sets.map(set), st.integers(1, 5))
    def test_each_new_address_is_tried_if_it_can_be(self, candidates, fresh,
                                                    size):
        chosen = canaries.choose(candidates, fresh, size)
        parts = {e.amphora_id: set(e.addresses) for e in candidates}
        self.assertEqual(len(set(chosen)), len(chosen))
        self.assertGreaterEqual(len(chosen), min(size, len(candidates)))
        self.assertEqual(
            fresh & set().union(*parts.values()),
            fresh & set().union(*(parts[c] for c in chosen)))
        self.assertLessEqual(len(chosen), size + len(fresh))

    @given(_eligible, st.integers(1, 12), st.sets(st.sampled_from('abcdef')))
    def test_none_twice_before_others(self, candidates, size, asked):
        """Nobody is chosen in place of one that should come before."""
        chosen = canaries.choose(candidates, (), size, asked)
        rows = {e.amphora_id: e for e in candidates}
        silent = {e.load_balancer for e in candidates if e.fell_silent}
        others = {e.load_balancer for e in candidates if not e.is_mute
                  } - silent
        taken = [rows[c].load_balancer for c in chosen]
        if silent & set(taken):
            self.assertLessEqual(
                {e.amphora_id for e in candidates
                 if e.load_balancer not in silent}, set(chosen))
        if len(set(taken)) < len(taken) and not silent & set(taken) and (
                not any(rows[c].is_mute for c in chosen)):
            self.assertLessEqual(others - asked, set(taken))


class TestHowManyMore(base.TestCase):

    def test_until_one_is_tolerated(self):
        self.assertEqual([8, 7, 1, 1], [
            canaries.how_many_more(n, n - 1) for n in (2, 3, 9, 10)])

    def test_list_may_be_bad(self):
        self.assertEqual(2, canaries.how_many_more(1, 0))
