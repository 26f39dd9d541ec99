# SPDX-License-Identifier: Apache-2.0

"""Who has to come to the same amphora, by what pools remember."""

import types

import hypothesis
from hypothesis import strategies as st
from octavia.common import constants

from octavia_hmsync.cluster.rules import affinity
from octavia_hmsync.cluster.rules import sizes
from tests.unit import base

kinds = st.sampled_from([None, *constants.SUPPORTED_SP_TYPES])


def make_pools(found):
    return [types.SimpleNamespace(
        session_persistence=kind and types.SimpleNamespace(type=kind))
        for kind in found]


class TestChoose(base.TestCase):

    def test_kinds(self):
        self.assertEqual(
            {'SOURCE_IP': 'SOURCE_IP', 'APP_COOKIE': 'SOURCE_IP',
             'HTTP_COOKIE': 'FLOW'},
            {kind: affinity.choose(sizes.FLOW, make_pools([kind]))
             for kind in constants.SUPPORTED_SP_TYPES})

    @hypothesis.given(st.sampled_from(sizes.AFFINITIES), st.lists(kinds))
    def test_any_pools(self, before, found):
        chosen = affinity.choose(before, make_pools(found))
        self.assertEqual(
            before == sizes.SOURCE_IP or
            bool(affinity.KEPT_BY_AMPHORAE & set(found)),
            chosen == sizes.SOURCE_IP)
        # It stays.
        self.assertEqual(chosen, affinity.choose(chosen, make_pools(found)))
        self.assertEqual(chosen, affinity.choose(chosen, []))
