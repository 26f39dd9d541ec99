# SPDX-License-Identifier: Apache-2.0

import collections
import functools
import uuid

from hypothesis import given
from hypothesis import strategies as st

from octavia_hmsync import addresses as addr
from octavia_hmsync.sync.rules import listening
from octavia_hmsync.sync.rules import subset
from tests.unit import base
from tests.unit.sync.rules import cases

# 20 health managers, default intervals, a large fleet.
LENGTH = 5
PUBLISHED = cases.addresses(*range(1, 21))
NEW = cases.address(200)
FLEET = [str(uuid.UUID(int=(n * 2654435761) ** 3 % 2 ** 128))
         for n in range(1, 10001)]


class TestMaxListLength(base.TestCase):

    def test_defaults_of_octavia(self):
        self.assertEqual(5, subset.max_list_length(60, 10))

    def test_at_least_one(self):
        for timeout, interval in ((10, 10), (15, 10), (20, 10), (2, 1)):
            self.assertEqual(1, subset.max_list_length(timeout, interval))

    @given(cases.settings())
    def test_one_live_address_is_enough(self, settings):
        """A list of that length with one live address is heard in time."""
        gap = settings.max_list_length * settings.heartbeat_interval
        self.assertLess(gap, settings.heartbeat_timeout)

    @given(cases.settings())
    def test_it_leaves_one_interval_and_no_more(self, settings):
        length, interval = settings.max_list_length, (
            settings.heartbeat_interval)
        if length > 1:
            self.assertLessEqual((length + 1) * interval,
                                 settings.heartbeat_timeout)
        self.assertGreater((length + 2) * interval,
                           settings.heartbeat_timeout)


class TestAssignSlots(base.TestCase):

    @given(cases.address_sets, cases.address_sets)
    def test_one_slot_each(self, before, after):
        first = subset.assign_slots({}, before)
        second = subset.assign_slots(first, after)
        for slots, published in ((first, before), (second, after)):
            self.assertEqual(published, tuple(slots))
            self.assertEqual(len(slots), len(set(slots.values())))

    @given(cases.address_sets, cases.address_sets)
    def test_who_stays_keeps_it(self, before, after):
        first = subset.assign_slots({}, before)
        second = subset.assign_slots(first, after)
        for address in set(before) & set(after):
            self.assertEqual(first[address], second[address])
        self.assertEqual(second, subset.assign_slots(second, after))

    @given(cases.address_sets, cases.address_sets)
    def test_new_ones_take_what_was_freed(self, before, after):
        first = subset.assign_slots({}, before)
        second = subset.assign_slots(first, after)
        new = {second[a] for a in set(after) - set(before)}
        freed = {first[a] for a in set(before) - set(after)}
        if len(new) <= len(freed):
            self.assertLessEqual(new, freed)
        else:
            self.assertLessEqual(freed, new)

    def test_no_more_slots_than_needed(self):
        slots = {}
        for n in range(1, 40):
            slots = subset.assign_slots(slots, cases.addresses(n, n + 1))
            self.assertLessEqual(max(slots.values()), 2)


class TestSubset(base.TestCase):

    @given(st.uuids().map(str), cases.address_sets.filter(bool),
           st.integers(1, 8))
    def test_invariants(self, key, published, length):
        slots = subset.assign_slots({}, published)
        chosen = subset.subset(key, slots, length)
        self.assertEqual(min(length, len(published)), len(chosen))
        self.assertLessEqual(set(chosen), set(published))
        self.assertEqual(addr.canonical(chosen), chosen)
        turned = dict(reversed(slots.items()))
        self.assertEqual(chosen, subset.subset(key, turned, length))

    @given(st.uuids().map(str), cases.address_sets, cases.address_sets,
           st.integers(1, 8))
    def test_a_change_concerns_only_what_it_must(self, key, before, after,
                                                 length):
        """No place is given up but to a new one, or for a lost one."""
        first = subset.assign_slots({}, before)
        second = subset.assign_slots(first, after)
        had = subset.subset(key, first, length)
        has = subset.subset(key, second, length)
        left = {a for a in had if a in after and a not in has}
        came = {a for a in has if a in before and a not in had}
        self.assertLessEqual(len(left), len(set(has) - set(before)))
        self.assertLessEqual(len(came), len(set(had) - set(after)))

    def test_a_short_list_is_whole(self):
        published = cases.addresses(1, 2, 3, 4, 5)
        slots = subset.assign_slots({}, published)
        for key in FLEET[:50]:
            self.assertEqual(published, subset.subset(key, slots, LENGTH))

    def test_the_same_on_each_controller(self):
        """A hash that changed with the release would move the whole fleet."""
        self.assertEqual(
            cases.addresses(11, 12, 13, 17, 18),
            subset.subset('11111111-2222-3333-4444-555555555555',
                          subset.assign_slots({}, PUBLISHED), LENGTH))


@functools.cache
def subsets(published):
    """Return the list of each amphora of the fleet.

    Those slots are kept that the health managers had at the beginning.
    """
    slots = subset.assign_slots(subset.assign_slots({}, PUBLISHED),
                                published)
    return [subset.subset(key, slots, LENGTH) for key in FLEET]


class TestFleet(base.TestCase):
    """20 health managers and 10000 amphorae."""

    def touched(self, published):
        pairs = list(zip(subsets(PUBLISHED), subsets(published)))
        return sum(before != after for before, after in pairs) / len(pairs)

    def assertEven(self, published):
        load = collections.Counter(
            a for chosen in subsets(published) for a in chosen)
        even = len(FLEET) * LENGTH / len(published)
        self.assertEqual(set(published), set(load))
        for address, amphorae in load.items():
            self.assertAlmostEqual(even, amphorae, delta=even / 10,
                                   msg=address)

    def test_load_is_even(self):
        self.assertEven(PUBLISHED)

    def test_load_is_even_after_a_replacement(self):
        self.assertEven((*PUBLISHED[1:], NEW))

    def test_one_lost(self):
        """Only those that had it: length / health managers."""
        self.assertAlmostEqual(0.25, self.touched(PUBLISHED[1:]), delta=0.02)

    def test_one_added(self):
        """Only those that now get it: length / (health managers + 1)."""
        self.assertAlmostEqual(5 / 21, self.touched((*PUBLISHED, NEW)),
                               delta=0.02)

    def test_one_replaced(self):
        """Only those that had it: a quarter, not half of them."""
        self.assertAlmostEqual(0.25, self.touched((*PUBLISHED[1:], NEW)),
                               delta=0.02)

    def test_nobody_is_near_the_timeout_in_between(self):
        """Whichever of the two lists it has, and before NEW is up, too."""
        settings = cases.SETTINGS
        for published in (PUBLISHED, (*PUBLISHED[1:], NEW)):
            for addresses in subsets(published):
                self.assertIs(listening.Level.FINE, listening.list_level(
                    addresses, {PUBLISHED[0], NEW}, settings))
