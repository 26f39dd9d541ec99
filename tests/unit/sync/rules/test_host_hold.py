# SPDX-License-Identifier: Apache-2.0

"""Whose failover waits while an operator holds a host."""

from hypothesis import given
from hypothesis import strategies as st

from octavia_hmsync.sync.rules import host_hold
from tests.unit import base

Amphora = host_hold.Amphora


class TestFindWaiting(base.TestCase):

    def find(self, *amphorae):
        return host_hold.find_waiting(
            Amphora(str(number), *each)
            for number, each in enumerate(amphorae))

    def test_pair(self):
        for other in (('lb', None, True), ('lb', 'host2', True)):
            self.assertEqual({'0': 'host1'}, self.find(
                ('lb', 'host1', False), other))

    def test_not_served_from_elsewhere(self):
        silent = 'lb', 'host1', False
        for others in ((), (('lb', None, False),), (('other', None, True),),
                       (('lb', 'host1', True),)):
            self.assertEqual({}, self.find(silent, *others))

    def test_neither_without_a_hold_nor_while_it_is_heard(self):
        other = 'lb', None, True
        self.assertEqual({}, self.find(('lb', None, False), other))
        self.assertEqual({}, self.find(('lb', 'host1', True), other))

    def test_without_a_load_balancer(self):
        self.assertEqual({}, self.find((None, 'host1', False),
                                       (None, None, True)))

    @given(st.lists(st.builds(
        Amphora, st.uuids().map(str), st.sampled_from(['a', 'b', None]),
        st.sampled_from(['host1', 'host2', None]), st.booleans()),
        max_size=8, unique_by=lambda amphora: amphora.id))
    def test_any(self, amphorae):
        """Each that waits has a substitute, which does not wait itself."""
        waiting = host_hold.find_waiting(amphorae)
        for amphora in amphorae:
            has_substitute = any(
                other.is_heard and other.load_balancer_id is not None and
                other.load_balancer_id == amphora.load_balancer_id and
                other.host != amphora.host and other.id not in waiting
                for other in amphorae)
            self.assertEqual(
                not amphora.is_heard and amphora.host is not None and
                has_substitute, amphora.id in waiting)
            if amphora.id in waiting:
                self.assertEqual(amphora.host, waiting[amphora.id])
