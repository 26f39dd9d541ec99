# SPDX-License-Identifier: Apache-2.0

"""When the port of a node may be deleted."""

from hypothesis import given
from hypothesis import strategies as st

from octavia_hmsync.network import retention as port_retention
from octavia_hmsync.sync.rules import member as mem
from tests.unit import base
from tests.unit.sync.rules import cases

RETENTION = 3600
OFFLINE_AFTER = cases.SETTINGS.offline_after
STEADY = 1000.0
IP = '192.0.2.1'

_numbers = st.lists(st.integers(1, 5), max_size=4, unique=True)
_lists = _numbers.map(lambda numbers: cases.addresses(*numbers))


class TestIsLeft(base.TestCase):

    def is_left(self, member=None, is_registered=True, plugged_age=10000.0,
                retention=RETENTION, steady_for=STEADY):
        return port_retention.is_left(is_registered, plugged_age, member,
                                      retention, OFFLINE_AFTER, steady_for)

    def test_alive(self):
        self.assertFalse(self.is_left(cases.make_member(1)))
        self.assertFalse(self.is_left(
            cases.make_member(1, status=mem.DRAINING)))

    def test_gone(self):
        self.assertFalse(self.is_left(cases.make_dead(1, RETENTION - 1)))
        self.assertTrue(self.is_left(cases.make_dead(1, RETENTION + 1)))

    def test_gone_while_the_node_goes_on_plugging(self):
        """A worker may use the port."""
        self.assertFalse(self.is_left(cases.make_dead(1, RETENTION + 1),
                                      plugged_age=50))

    def test_deleted(self):
        """A node that goes on, with a worker, has time to plug again."""
        for retention in (RETENTION, 0):
            for age in (299, 301):
                self.assertEqual(age > 300, self.is_left(
                    plugged_age=age, retention=retention))
        self.assertTrue(self.is_left(plugged_age=50, retention=49))

    def test_never_registered(self):
        self.assertFalse(self.is_left(is_registered=False, plugged_age=50))
        self.assertTrue(self.is_left(is_registered=False,
                                     plugged_age=RETENTION + 1))

    def test_plugged_by_another_tool(self):
        """Only its health manager tells that it is gone."""
        self.assertFalse(self.is_left(is_registered=False, plugged_age=None))
        self.assertTrue(self.is_left(plugged_age=None))
        for age in (RETENTION - 1, RETENTION + 1):
            self.assertEqual(age > RETENTION, self.is_left(
                cases.make_dead(1, age), plugged_age=None))

    def test_without_retention(self):
        self.assertFalse(self.is_left(cases.make_dead(1, 1e9), retention=0))
        self.assertFalse(self.is_left(is_registered=False, plugged_age=1e9,
                                      retention=0))
        self.assertTrue(self.is_left(retention=0))

    def test_database_was_away(self):
        """All look dead until they had time to write again."""
        dead = cases.make_dead(1, RETENTION + 1)
        self.assertFalse(self.is_left(dead, steady_for=OFFLINE_AFTER))
        self.assertTrue(self.is_left(dead, steady_for=OFFLINE_AFTER + 1))

    @given(st.sampled_from([mem.ONLINE, mem.DRAINING]),
           st.floats(0, OFFLINE_AFTER), st.booleans(),
           st.floats(0, 1e9), st.integers(0, 10**6), st.floats(0, 1e9))
    def test_never_that_of_a_living_one(self, status, age, is_registered,
                                        plugged_age, retention, steady_for):
        self.assertFalse(self.is_left(
            cases.make_member(1, status, age), is_registered, plugged_age,
            retention, steady_for))


class TestMaySend(base.TestCase):

    def may_send(self, addresses, others=(), is_unknown=False):
        return port_retention.may_send((IP,), port_retention.UsedLists(
            addresses, others, is_unknown))

    def test_port_number_does_not_matter(self):
        self.assertTrue(self.may_send((f'{IP}:6666',)))
        self.assertFalse(self.may_send(('192.0.2.10:5555',)))

    def test_ipv6(self):
        sender = port_retention.UsedLists(('[2001:db8::1]:5555',))
        self.assertTrue(port_retention.may_send(('2001:db8::1',), sender))
        self.assertFalse(port_retention.may_send(('2001:db8::10',), sender))

    @given(_lists, st.lists(_lists, max_size=3))
    def test_each_list_counts(self, addresses, others):
        lists = [addresses, *others]
        expected = any(cases.address(1) in one for one in lists)
        self.assertEqual(expected, self.may_send(addresses, tuple(others)))

    @given(st.none() | _lists, st.lists(_lists, max_size=3), _lists,
           st.booleans())
    def test_more_doubt_never_frees(self, addresses, others, one_more,
                                    is_unknown):
        if self.may_send(addresses, tuple(others), is_unknown):
            self.assertTrue(self.may_send(addresses, (*others, one_more),
                                          is_unknown))
        self.assertTrue(self.may_send(addresses, tuple(others), True))
        self.assertTrue(self.may_send(None, tuple(others), is_unknown))
