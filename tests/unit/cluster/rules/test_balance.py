# SPDX-License-Identifier: Apache-2.0

import collections

import hypothesis
from hypothesis import strategies as st

from octavia_hmsync.cluster.rules import balance
from tests.unit import base
from tests.unit.cluster.rules import test_handover

NAMES = ('a', 'b', 'c')


def make(cluster_id, active, other, **values):
    return [test_handover.vip(name, active=name == active,
                              cluster_id=cluster_id,
                              **{'applied_version': 1, **values})
            for name in (active, other)]


class TestFirst(base.TestCase):

    def choose(self, *vips, **active):
        return balance.choose_first(vips, active)

    def test_fewest(self):
        a, b = make('one', 'a', 'b')
        self.assertEqual('b', self.choose(a, b, a=2, b=1))
        self.assertEqual('a', self.choose(b, a, a=1, b=1))
        self.assertEqual('b', self.choose(a, b, a=1))

    def test_who_answers(self):
        a, b = (test_handover.vip(name, status=status) for name, status
                in (('a', 'ONLINE'), ('b', 'OFFLINE')))
        self.assertEqual('a', self.choose(a, b, a=9))


class TestMove(base.TestCase):

    def find(self, vips, eligible=NAMES, recent=(), version=1):
        return balance.find_move(
            vips, {vip.cluster_id: version for vip in vips}, eligible, recent)

    def test_uneven(self):
        vips = make('one', 'a', 'b') + make('two', 'a', 'b')
        self.assertEqual(('two', 'b'), self.find(vips))
        self.assertEqual(('one', 'b'), self.find(vips, recent=('two',)))

    def test_even_enough(self):
        self.assertIsNone(self.find([]))
        self.assertIsNone(self.find(make('one', 'a', 'b')))
        self.assertIsNone(self.find(make('one', 'a', 'b') +
                                    make('two', 'a', 'b') +
                                    make('three', 'b', 'a')))

    def test_who_cannot_take_it(self):
        for values in ({'port_id': None}, {'applied_version': 0},
                       {'applied_version': None}):
            self.assertIsNone(self.find(make('one', 'a', 'b', **values) +
                                        make('two', 'a', 'b', **values)))
        vips = make('one', 'a', 'b') + make('two', 'a', 'b')
        self.assertIsNone(self.find(vips, eligible=('a',)))
        self.assertIsNone(self.find(vips, version=2))

    def test_nobody_answers_yet(self):
        vips = [vip for number in range(3) for vip in make(
            str(number), 'a', 'b')]
        hidden = [vip for vip in vips if not vip.active]
        self.assertIsNone(self.find(hidden))

    @hypothesis.given(st.lists(st.permutations(NAMES), max_size=30))
    def test_it_ends_and_all_is_even(self, placed):
        """Of two distributors of one cluster none has two more in the end."""
        clusters = {str(number): [active, other] for number, (
            active, other, _none) in enumerate(placed)}
        for _move in range(200):
            move = self.find([vip for cluster_id, names in clusters.items()
                              for vip in make(cluster_id, *names)])
            if move is None:
                break
            clusters[move[0]].reverse()
            self.assertEqual(move[1], clusters[move[0]][0])
        self.assertIsNone(move)
        active = collections.Counter(
            names[0] for names in clusters.values())
        for names in clusters.values():
            self.assertLess(active[names[0]] - active[names[1]], 2)
