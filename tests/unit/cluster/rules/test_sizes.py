# SPDX-License-Identifier: Apache-2.0

"""No flavor and no option makes a cluster that contradicts itself."""

import types

import hypothesis
from hypothesis import strategies as st
from octavia.common import constants

from octavia_hmsync.cluster.rules import sizes
from tests.unit import base

DEFAULTS = sizes.Defaults(desired_size=4, min_size=2, size_limit=8,
                          affinity=sizes.FLOW)

small = st.integers(min_value=-3, max_value=20)
anything = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(),
    st.lists(st.integers(), max_size=2))
defaults = st.builds(
    sizes.Defaults, desired_size=small, min_size=small, size_limit=small,
    affinity=st.sampled_from([*sizes.AFFINITIES, 'RANDOM']))
right_defaults = st.builds(
    lambda minimum, more, most, affinity: sizes.Defaults(
        minimum + more, minimum, minimum + more + most, affinity),
    st.integers(1, 6), st.integers(0, 6), st.integers(0, 6),
    st.sampled_from(sizes.AFFINITIES))
flavors = st.fixed_dictionaries({}, optional={
    sizes.DESIRED_SIZE: st.one_of(small, anything),
    sizes.MIN_SIZE: st.one_of(small, anything),
    sizes.AFFINITY: st.one_of(st.sampled_from(sizes.AFFINITIES), anything),
    'compute_flavor': st.text()})

kinds = st.sampled_from([None, *constants.SUPPORTED_SP_TYPES])


def resolve(**flavor):
    return sizes.resolve(
        {f'cluster_{key}': value for key, value in flavor.items()}, DEFAULTS)


class TestAnyWorld(base.TestCase):

    @hypothesis.given(flavors, defaults)
    def test_what_is_made_holds(self, flavor, options):
        try:
            found = sizes.resolve(flavor, options)
        except sizes.Refused as e:
            self.assertNotIn('\n', e.operator)
            return
        self.assertTrue(
            1 <= found.minimum <= found.desired <= options.size_limit)
        self.assertIs(int, type(found.desired))
        self.assertIs(int, type(found.minimum))
        self.assertIn(found.affinity, sizes.AFFINITIES)
        # What was asked for is what is made.
        for key, value in found.to_flavor().items():
            if key in flavor:
                self.assertEqual(flavor[key], value)

    @hypothesis.given(flavors, right_defaults)
    def test_decided_once(self, flavor, options):
        """A worker that decides again comes to the same."""
        try:
            found = sizes.resolve(flavor, options)
        except sizes.Refused as e:
            self.assertIsNotNone(e.user)
            return
        self.assertEqual(
            found, sizes.resolve({**flavor, **found.to_flavor()}, options))

    @hypothesis.given(right_defaults)
    def test_options_that_agree(self, options):
        self.assertEqual(
            sizes.Sizes(options.desired_size, options.min_size,
                        options.affinity), sizes.resolve({}, options))

    @hypothesis.given(right_defaults, st.data())
    def test_each_possible_size(self, options, data):
        """Of a flavor with both, no default is in the way."""
        desired = data.draw(st.integers(1, options.size_limit))
        minimum = data.draw(st.integers(1, desired))
        found = sizes.resolve({sizes.DESIRED_SIZE: desired,
                               sizes.MIN_SIZE: minimum}, options)
        self.assertEqual((desired, minimum), (found.desired, found.minimum))

    @hypothesis.given(right_defaults, st.data())
    def test_each_size_alone(self, options, data):
        desired = data.draw(st.integers(1, options.size_limit))
        found = sizes.resolve({sizes.DESIRED_SIZE: desired}, options)
        self.assertEqual(desired, found.desired)
        self.assertEqual(min(desired, options.min_size), found.minimum)


class TestRefused(base.TestCase):

    def assertRefused(self, words, **flavor):
        e = self.assertRaises(sizes.Refused, resolve, **flavor)
        for word in words:
            self.assertIn(word, e.user)
        self.assertNotIn('hmsync', e.user)
        return e

    def test_above_the_limit(self):
        e = self.assertRefused(['cluster_desired_size is 9', '8 amphorae at'],
                               desired_size=9)
        self.assertIn('[hmsync_cluster] size_limit', e.operator)

    def test_minimum_above_the_size(self):
        self.assertRefused(['cluster_min_size is 4', 'cluster_desired_size',
                            '3'], desired_size=3, min_size=4)

    def test_minimum_above_the_size_of_others(self):
        e = self.assertRefused(
            ['cluster_min_size is 5', 'has 4 amphorae',
             'add cluster_desired_size'], min_size=5)
        self.assertIn('[hmsync_cluster] desired_size', e.operator)

    def test_no_number(self):
        for value in (0, -1, 1.5, True, None, '3', float('nan'),
                      float('inf'), [3]):
            self.assertRefused(['cluster_desired_size is', 'from 1 on'],
                               desired_size=value)
            self.assertRefused(['cluster_min_size is', 'from 1 on'],
                               min_size=value)

    def test_affinity(self):
        for value in ('flow', '', None, ['FLOW']):
            self.assertRefused(['cluster_affinity is', 'FLOW, SOURCE_IP'],
                               affinity=value)

    def test_options(self):
        for options, word in (
                (sizes.Defaults(4, 2, 0, 'FLOW'), 'size_limit'),
                (sizes.Defaults(0, 0, 8, 'FLOW'), 'desired_size is 0'),
                (sizes.Defaults(9, 2, 8, 'FLOW'), 'desired_size is 9'),
                (sizes.Defaults(4, 5, 8, 'FLOW'), 'min_size is 5'),
                (sizes.Defaults(4, 0, 8, 'FLOW'), 'min_size is 0'),
                (sizes.Defaults(4, 2, 8, 'flow'), 'affinity is flow')):
            e = self.assertRaises(sizes.Refused, sizes.check_defaults, options)
            self.assertIn(word, e.operator)
            # Who asks for a load balancer can do nothing about it.
            self.assertIsNone(e.user)


class TestMade(base.TestCase):

    def test_all(self):
        self.assertEqual(
            sizes.Sizes(6, 3, sizes.SOURCE_IP),
            resolve(desired_size=6, min_size=3, affinity='SOURCE_IP'))

    def test_whole_number_of_json(self):
        self.assertEqual(3, resolve(desired_size=3.0).desired)

    def test_no_larger_cluster_for_a_minimum(self):
        self.assertEqual(sizes.Sizes(4, 3, sizes.FLOW), resolve(min_size=3))


def make_pools(found):
    return [types.SimpleNamespace(
        session_persistence=kind and types.SimpleNamespace(type=kind))
        for kind in found]


class TestChoose(base.TestCase):

    def test_kinds(self):
        self.assertEqual(
            {'SOURCE_IP': 'SOURCE_IP', 'APP_COOKIE': 'SOURCE_IP',
             'HTTP_COOKIE': 'FLOW'},
            {kind: sizes.choose_affinity(sizes.FLOW, make_pools([kind]))
             for kind in constants.SUPPORTED_SP_TYPES})

    @hypothesis.given(st.sampled_from(sizes.AFFINITIES), st.lists(kinds))
    def test_any_pools(self, before, found):
        chosen = sizes.choose_affinity(before, make_pools(found))
        self.assertEqual(
            before == sizes.SOURCE_IP or
            bool(sizes.KEPT_BY_AMPHORAE & set(found)),
            chosen == sizes.SOURCE_IP)
        # It stays.
        self.assertEqual(
            chosen, sizes.choose_affinity(chosen, make_pools(found)))
        self.assertEqual(chosen, sizes.choose_affinity(chosen, []))
