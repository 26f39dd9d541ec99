# SPDX-License-Identifier: Apache-2.0

"""Who listens at an address, and how far a list is from the timeout."""

import dataclasses
import math

from hypothesis import given
from hypothesis import strategies as st

from octavia_hmsync.sync.rules import listening
from octavia_hmsync.sync.rules import member
from octavia_hmsync.sync.rules import plan
from octavia_hmsync.sync.rules import silence
from octavia_hmsync.sync.rules import subset
from octavia_hmsync.sync.rules import trial
from tests.unit import base
from tests.unit.sync.rules import cases

FINE, NEAR, LOST = listening.Level
KEY, OTHER_KEY = 'a' * 64, 'b' * 64


class TestListeners(base.TestCase):

    def answers(self, *members, pinned=(), number=1, **values):
        """Has listened, listens, may listen."""
        listeners = cases.listeners(members, cases.addresses(*pinned),
                                    **values)
        address = cases.address(number)
        return (listeners.has_listened(address), listeners.listens(address),
                listeners.may_listen(address))

    def test_alive(self):
        self.assertEqual((True, True, True),
                         self.answers(cases.make_member(1)))
        self.assertEqual((True, True, True), self.answers(
            cases.make_member(1, member.DRAINING)))

    def test_since_a_moment(self):
        self.assertEqual((False, True, True), self.answers(
            cases.make_member(1, online_for=59.0)))

    def test_overloaded(self):
        """It listens, but what it heard within the time-out is ignored."""
        for age, has_listened in ((0.0, False), (59.9, False), (60.0, True)):
            self.assertEqual((has_listened, True, True), self.answers(
                dataclasses.replace(cases.make_member(1), late_age=age)))

    def test_silent(self):
        self.assertEqual((False, False, False),
                         self.answers(cases.make_dead(1)))

    def test_silent_as_long_as_the_database(self):
        """Nobody can tell."""
        self.assertEqual((False, True, True), self.answers(
            cases.make_dead(1), reader_steady_for=5.0))

    def test_said_goodbye(self):
        for age, may in ((20.0, True), (20.1, False)):
            self.assertEqual((False, False, may), self.answers(
                cases.make_member(1, member.OFFLINE, age)))

    def test_starts(self):
        """Whatever became of the process before."""
        for status in (member.ONLINE, member.OFFLINE, member.DRAINING):
            for age, starting, may in ((45, 3, True), (45, 21, False),
                                       (61, 3, False)):
                self.assertEqual((False, False, may), self.answers(
                    dataclasses.replace(
                        cases.make_member(1, status, age),
                        starting_age=starting)))

    def test_restarts_take_long(self):
        for took, age, may in ((5, 21, False), (25, 49, True),
                               (25, 51, False), (50, 59, True),
                               (50, 61, False), (61, 21, False)):
            self.assertEqual((False, False, may), self.answers(
                dataclasses.replace(
                    cases.make_member(1, member.OFFLINE, age),
                    restart_took=took)))

    def test_starts_again_and_again(self):
        """Each time it says so, and it never listens; the clock went back."""
        for starting in (0, 3, -3600):
            self.assertEqual((False, False, False), self.answers(
                dataclasses.replace(
                    cases.make_member(1, member.OFFLINE, 61),
                    starting_age=starting)))

    def test_another_is_back(self):
        """What that took is what restarts take now, goodbye or none."""
        for status in (member.OFFLINE, member.ONLINE):
            gone = cases.make_member(1, status, 40)
            for took, online_for, may in (
                    (25, 15, True), (25, 39, True), (None, 15, False),
                    # It is not enough; or that was no restart.
                    (19, 15, False), (61, 15, False),
                    # It was before this one left.
                    (25, 41, False)):
                back = dataclasses.replace(
                    cases.make_member(2, online_for=online_for),
                    restart_took=took)
                self.assertEqual((False, False, may),
                                 self.answers(gone, back),
                                 (status, took, online_for))

    def test_what_its_own_took_says_nothing_of_a_death(self):
        """One that is silent, without a goodbye, is no restart by itself."""
        self.assertEqual((False, False, False), self.answers(
            dataclasses.replace(cases.make_dead(1), restart_took=25)))
        # Nor where it was there for a moment only.
        self.assertEqual((False, False, False), self.answers(
            dataclasses.replace(cases.make_member(
                1, age=30.0, online_for=30.0), restart_took=25)))

    def test_nothing_is_known_of_restarts(self):
        for age, may in ((19, True), (21, False)):
            self.assertEqual((False, False, may), self.answers(
                cases.make_member(1, member.OFFLINE, age),
                cases.make_member(2, online_for=5)))

    @given(st.lists(st.builds(
        lambda number, status, age, online_for, starting, took:
        dataclasses.replace(
            cases.make_member(number, status, age, online_for),
            starting_age=starting, restart_took=took),
        st.integers(1, 9),
        st.sampled_from([member.ONLINE, member.OFFLINE, member.DRAINING]),
        st.integers(-9, 200), st.integers(0, 200),
        st.none() | st.integers(-9, 200), st.none() | st.integers(-9, 200)),
        unique_by=lambda m: m.address))
    def test_each_wait_has_its_end(self, members):
        """And what said goodbye has restart_grace at least."""
        grace = cases.SETTINGS.restart_grace
        listeners = cases.listeners(members)
        for each in members:
            may = listeners.may_listen(each.address)
            if listeners.listens(each.address):
                self.assertTrue(may)
            elif each.status == member.OFFLINE:
                self.assertTrue(may or each.keepalive_age > grace)
            if each.keepalive_age > 3 * grace:
                self.assertFalse(may)

    def test_nobody_registered(self):
        self.assertEqual((False, False, False), self.answers())
        self.assertEqual((True, True, True), self.answers(pinned=(1,)))

    def test_pinned_and_registered(self):
        self.assertEqual((False, False, False), self.answers(
            cases.make_dead(1), pinned=(1,)))

    def test_pinned_and_left(self):
        self.assertEqual((False, False, False), self.answers(
            pinned=(1,), left=cases.addresses(1)))
        self.assertEqual((True, True, True), self.answers(
            cases.make_member(1), pinned=(1,), left=cases.addresses(1)))

    def test_another_key(self):
        deaf = dataclasses.replace(cases.make_member(1), key_digest=KEY)
        self.assertEqual((False, False, False), self.answers(
            deaf, key_digest=OTHER_KEY))
        for mine in (KEY, None):
            self.assertEqual((True, True, True), self.answers(
                deaf, key_digest=mine))
        self.assertEqual((True, True, True), self.answers(
            cases.make_member(1), key_digest=KEY))

    @given(cases.worlds())
    def test_each_answer_holds_in_the_next(self, world):
        for address in {*world.listeners.addresses, *world.published}:
            listeners = world.listeners
            if listeners.has_listened(address):
                self.assertTrue(listeners.listens(address))
            if listeners.listens(address):
                self.assertTrue(listeners.may_listen(address))


class TestLongestGap(base.TestCase):

    def gap(self, dead, lost=0, published=(1, 2, 3, 4, 5)):
        return listening.longest_gap(cases.addresses(*published),
                                     set(cases.addresses(*dead)), lost)

    def test_dead_ones_in_a_row(self):
        for expected, dead in ((1, ()), (2, (1,)), (3, (1, 2)),
                               (2, (1, 3)), (3, (5, 1)), (4, (4, 5, 1)),
                               (5, (1, 2, 3, 4)),
                               (math.inf, (1, 2, 3, 4, 5))):
            self.assertEqual(expected, self.gap(dead), dead)

    def test_one_is_lost(self):
        for expected, dead in ((2, ()), (3, (1,)), (4, (1, 2)), (5, (1, 3, 4)),
                               (5, (4, 5, 1)), (10, (1, 2, 3, 4)),
                               (math.inf, (1, 2, 3, 4, 5))):
            self.assertEqual(expected, self.gap(dead, 1), dead)

    def test_nobody_to_send_to(self):
        self.assertEqual(math.inf, self.gap((), published=()))

    @given(cases.address_sets.filter(bool), st.sets(st.integers(1, 14)),
           st.integers(0, 3), st.integers(0, 39))
    def test_as_an_amphora_measures(self, published, dead, lost, when):
        dead = set(cases.addresses(*dead))
        heard = [n for n in range(200)
                 if published[n % len(published)] not in dead]
        if not heard:
            self.assertEqual(math.inf, listening.longest_gap(
                published, dead, lost))
            return
        del heard[when % 10:when % 10 + lost]
        self.assertGreaterEqual(
            listening.longest_gap(published, dead, lost),
            max(b - a for a, b in zip(heard, heard[1:])))


class TestLevel(base.TestCase):

    def level(self, dead, published=(1, 2, 3, 4, 5), settings=cases.SETTINGS):
        return listening.list_level(cases.addresses(*published),
                                    set(cases.addresses(*dead)), settings)

    def test_by_what_one_lost_heartbeat_does(self):
        """Or two rounds, of two lists."""
        for level, dead in (
                (FINE, ()), (FINE, (1,)), (FINE, (1, 2)), (FINE, (1, 2, 4)),
                (NEAR, (1, 2, 3)), (NEAR, (1, 2, 3, 4)),
                (LOST, (1, 2, 3, 4, 5))):
            self.assertIs(level, self.level(dead), dead)
        self.assertIs(NEAR, self.level((1, 2), (1, 2, 3)))
        self.assertIs(FINE, self.level((1,), (1, 2)))
        self.assertIs(LOST, self.level((1, 2, 3, 4, 5, 6), range(1, 8)))

    def test_options_alone_are_nobodys_loss(self):
        tight = dataclasses.replace(cases.SETTINGS, heartbeat_timeout=15)
        self.assertIs(FINE, self.level((), (1,), tight))

    def published(self, dead, length=20):
        return listening.published_level(
            cases.addresses(*range(1, length + 1)),
            set(cases.addresses(*dead)), cases.SETTINGS)

    def test_of_subsets(self):
        self.assertIs(FINE, self.published(range(1, 6)))
        self.assertIs(FINE, self.published((1, 5, 9, 13, 17)))
        self.assertIs(NEAR, self.published(range(1, 11)))
        self.assertIs(NEAR, self.published(range(1, 20)))
        self.assertIs(LOST, self.published(range(1, 21)))

    @given(st.integers(6, 20), st.sets(st.integers(1, 20)))
    def test_share_of_subsets_that_amphorae_have(self, length, dead):
        addresses = cases.addresses(*range(1, length + 1))
        unheard = set(cases.addresses(*dead)) & set(addresses)
        slots = subset.assign_slots({}, addresses)
        near = sum(listening.list_level(
            subset.subset(f'amphora-{n}', slots, 5), unheard,
            cases.SETTINGS) > FINE for n in range(400))
        level = listening.published_level(addresses, unheard, cases.SETTINGS)
        if near > 400 * 0.17:
            self.assertGreater(level, FINE)
        if near < 400 * 0.05:
            self.assertIs(FINE, level)

    @given(cases.address_sets.filter(bool), cases.address_sets,
           st.sampled_from(range(1, 15)),
           st.just(cases.SETTINGS) | cases.settings())
    def test_one_more_dead_is_never_better(self, addresses, dead, one,
                                           settings):
        more = {*dead, cases.address(one)}
        for level in (listening.list_level, listening.published_level):
            self.assertLessEqual(level(addresses, set(dead), settings),
                                 level(addresses, more, settings))


class TestOneAnswer(base.TestCase):
    """Plan, trial and guard never contradict each other."""

    def levels(self, world):
        """Of the published list: for the past, now, and soon."""
        return [listening.published_level(
            world.last, listening.find_unheard(world.last, answer),
            world.settings) for answer in (
                world.listeners.has_listened, world.listeners.listens,
                world.listeners.may_listen)]

    @given(cases.worlds().filter(lambda world: world.last))
    def test_levels(self, world):
        past, now, soon = self.levels(world)
        self.assertTrue(past >= now >= soon)

    @given(cases.worlds().filter(lambda world: world.last))
    def test_whoever_the_plan_cannot_wait_for_is_held(self, world):
        decision = world.plan()
        if not (decision.reason.endswith('to wait)') and
                len(world.last) <= world.settings.max_list_length):
            return
        if self.levels(world)[1] is FINE:
            # What is left after the change would not do.
            return
        silent = silence.SilentAmphora(world.last, (), 1e6, 0, None)
        self.assertTrue(silence.must_hold(silent, world.listeners, 1e6))

    @given(cases.worlds().filter(lambda world: world.last))
    def test_what_goes_to_all_without_a_trial_can_do_no_harm(self, world):
        result = world.plan().addresses
        if result is None or trial.first_status(
                world.last, result, world.listeners, 3, 0) != trial.OPEN:
            return
        if set(result) - world.published:
            past, now, _soon = self.levels(world)
            self.assertIs(LOST, now)
            self.assertIs(LOST, past)
            self.assertLessEqual(
                set(filter(world.listeners.may_listen, world.published)),
                set(result))

    @given(cases.worlds())
    def test_what_leaves_early_does_not_listen(self, world):
        result = world.plan().addresses
        for address in world.published - set(result or world.published):
            if world.listeners.may_listen(address):
                self.assertIs(member.State.DRAINING,
                              world.listeners.state(address))

    def test_all_three_agree_on_pinned_ones_that_are_dead(self):
        members = [*map(cases.make_dead, (1, 2, 3)), *cases.alive(4, 5, 6)]
        old = cases.addresses(1, 2, 3)
        listeners = cases.listeners(members, pinned=old)
        result = plan.plan(listeners, old).addresses
        self.assertEqual(cases.addresses(*range(1, 7)), result)
        self.assertEqual(trial.OPEN, trial.first_status(
            old, result, listeners, 3, 0))
        self.assertTrue(silence.must_hold(
            silence.SilentAmphora(old, (), 1e6, 0, None), listeners, 300))
