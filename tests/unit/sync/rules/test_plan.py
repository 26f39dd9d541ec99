# SPDX-License-Identifier: Apache-2.0

import dataclasses

from hypothesis import example
from hypothesis import given
from hypothesis import strategies as st

from octavia_hmsync import addresses as addr
from octavia_hmsync.sync.rules import listening
from octavia_hmsync.sync.rules import member
from octavia_hmsync.sync.rules import plan
from octavia_hmsync.sync.rules import subset
from tests.unit import base
from tests.unit.sync.rules import cases


worlds = given(cases.worlds())


class TestEveryDecision(base.TestCase):
    """What holds of whatever is published, in any world."""

    @worlds
    def test_well_formed_and_in_order(self, world):
        result = world.plan().addresses
        if result is not None:
            self.assertNotEqual((), result)
            self.assertEqual(addr.canonical(result), result)
            self.assertNotEqual(world.last, result)

    @given(cases.worlds(), st.sets(st.integers(0, 8)),
           st.floats(0.001, 10000))
    def test_keepalive_of_a_time_to_come_is_a_new_one(self, world, whose,
                                                      ahead):
        """The clock of another node of the database may be ahead."""
        def with_age(age):
            return [dataclasses.replace(m, keepalive_age=age) if n in whose
                    else m for n, m in enumerate(world.members)]

        self.assertEqual(world.plan(members=with_age(0.0)),
                         world.plan(members=with_age(-ahead)))

    @given(cases.worlds(), st.randoms(use_true_random=False))
    def test_order_of_members_does_not_matter(self, world, rng):
        members = rng.sample(world.members, len(world.members))
        self.assertEqual(world.plan(), world.plan(
            members=members, pinned=world.pinned[::-1]))

    def assertSettled(self, members, last):
        result = cases.plan_for(members, (), last, cases.SETTINGS).addresses
        self.assertIsNotNone(result)
        again = cases.plan_for(members, (), result, cases.SETTINGS)
        self.assertIsNone(again.addresses)

    def test_addition_that_brings_the_gap_near_is_one_change(self):
        """With six, some amphora has the three dead ones in a row."""
        members = [*map(cases.make_dead, (1, 3, 5)), *cases.alive(2, 4, 6)]
        self.assertSettled(members, cases.addresses(1, 2, 3, 4, 5))

    def test_drain_that_brings_the_gap_near_is_one_change(self):
        """Between the dead ones stood the draining one."""
        members = [*map(cases.make_dead, (1, 3, 5)), *cases.alive(4),
                   cases.make_member(2, member.DRAINING)]
        self.assertSettled(members, cases.addresses(1, 2, 3, 4, 5))

    @worlds
    def test_pinned_are_always_in(self, world):
        """Those that are new come next where others have to leave first."""
        result = world.plan().addresses
        if result is not None and set(result) - world.published:
            self.assertLessEqual(set(world.pinned), set(result))
        elif result is not None:
            self.assertLessEqual(set(world.pinned) & world.published,
                                 set(result))

    @worlds
    def test_only_members_pins_and_what_was_there(self, world):
        result = world.plan().addresses
        known = {m.address for m in world.members} | set(world.pinned)
        self.assertLessEqual(set(result or ()), known | world.published)

    @worlds
    def test_alive_are_in_or_settling(self, world):
        decision = world.plan()
        if not decision.held and '(too few' not in decision.reason:
            self.assertLessEqual(
                {m.address for m in world.members if m.address in world.alive
                 and m.online_for >= world.settings.settle_time},
                set(decision.addresses or world.published))

    @worlds
    def test_alive_never_leave(self, world):
        result = world.plan().addresses
        if result is not None:
            kept = world.alive | world.addresses(member.State.UNKNOWN)
            self.assertLessEqual(kept & world.published, set(result))

    @worlds
    def test_no_amphora_has_more_than_one_can_serve(self, world):
        result = world.plan().addresses
        length = world.settings.max_list_length
        for key in ('a', 'b', 'c') if result else ():
            chosen = subset.subset(
                key, subset.assign_slots({}, result), length)
            self.assertEqual(min(length, len(result)), len(chosen))
            self.assertLess(
                listening.longest_gap(chosen, set(chosen[1:])) *
                world.settings.heartbeat_interval,
                world.settings.heartbeat_timeout)

    @worlds
    def test_all_online_in_each_list_up_to_the_length(self, world):
        """Longer lists are not: a dead one that lingers has its place, too.

        Else each restart of one of six would be two changes for everybody.
        """
        result = world.plan().addresses
        length = world.settings.max_list_length
        online = world.alive & set(result or ())
        if result and len(result) <= length:
            slots = subset.assign_slots({}, result)
            for key in ('a', 'b', 'c'):
                self.assertLessEqual(
                    online, set(subset.subset(key, slots, length)))


class TestAddition(base.TestCase):

    @worlds
    def test_only_after_settle_time(self, world):
        result = world.plan().addresses
        settle = world.settings.settle_time
        added = set(result or ()) - world.published - set(world.pinned)
        waited = [m.online_for for m in world.members if m.address in added]
        if waited:
            longest = 3 if world.is_urgent() else 10
            self.assertTrue(min(waited) >= settle or
                            max(waited) >= longest * settle)

    @worlds
    def test_never_put_off_for_ever(self, world):
        waited = [m.online_for for m in world.members
                  if m.address in world.alive - world.published -
                  set(world.pinned)]
        if max(waited, default=-1) >= 10 * world.settings.settle_time:
            self.assertNotIn('settle', world.plan().held or '')

    def test_pinned_ones_keep_nobody_waiting(self):
        """They are published at once, and that is one change."""
        starting = [cases.make_member(1, online_for=1.5),
                    cases.make_member(2, online_for=2)]
        self.assertEqual(cases.addresses(1, 2), cases.plan_for(
            starting, cases.addresses(1), None, cases.SETTINGS).addresses)

    def test_several_that_start_together_are_one_change(self):
        starting = [cases.make_member(n, online_for=n) for n in (4, 5, 6)]
        old = cases.alive(1, 2, 3)
        last = cases.addresses(1, 2, 3)
        self.assertIsNone(cases.plan_for(
            [*old, dataclasses.replace(starting[0], online_for=1.9),
             *starting[1:]], (), last, cases.SETTINGS).addresses)
        self.assertEqual(
            cases.addresses(1, 2, 3, 4, 5, 6),
            cases.plan_for([*old, *starting], (), last).addresses)

    def test_first_list(self):
        decision = cases.plan_for(cases.alive(1, 2), (), None, cases.SETTINGS)
        self.assertEqual(cases.addresses(1, 2), decision.addresses)
        self.assertEqual('added 192.0.2.1:5555, 192.0.2.2:5555',
                         decision.reason)

    def test_nobody_there_yet(self):
        self.assertEqual(plan.Decision(),
                         cases.plan_for([], (), None, cases.SETTINGS))

    def test_waited_for_when_nobody_else_is_alive(self):
        """What starts together is one change; but not for long."""
        for waited, expected in (((0.1,), None), ((2,), (4,)),
                                 ((2, 0.1), None), ((6, 0.1), (4, 5))):
            new = [cases.make_member(n, online_for=online_for)
                   for n, online_for in enumerate(waited, 4)]
            decision = cases.plan_for([cases.make_dead(1), *new], (),
                                      cases.addresses(1))
            self.assertEqual(expected and cases.addresses(*expected),
                             decision.addresses, waited)

    def test_waited_for_when_intervals_are_wide(self):
        """Nothing is urgent where nobody is dead."""
        settings = dataclasses.replace(cases.SETTINGS, heartbeat_timeout=15)
        decision = cases.plan_for([*cases.alive(1),
                                  cases.make_member(2, online_for=0.1)], (),
                                  cases.addresses(1), settings)
        self.assertIsNone(decision.addresses)


class TestRemoval(base.TestCase):

    @worlds
    def test_lost_leaves_after_the_delay(self, world):
        """Or at once: for the gap, or where a new one takes its place."""
        decision = world.plan()
        result = set(decision.addresses or world.published)
        dead = world.addresses(member.State.DEAD)
        early = [m.address for m in world.members
                 if m.address in dead & world.published - result and
                 m.keepalive_age < world.settings.removal_delay]
        if '(too few' not in decision.reason:
            added = result - world.published
            self.assertLessEqual(len(early), len(added))
            if len(world.published) <= world.settings.max_list_length:
                self.assertEqual([], early)

    @worlds
    def test_none_stays_when_the_gap_is_near_the_timeout(self, world):
        decision = world.plan()
        if decision.addresses is not None and not decision.held:
            after = dataclasses.replace(world, last=decision.addresses)
            if after.is_urgent():
                self.assertLessEqual(world.unheard(decision.addresses),
                                     set(world.pinned))

    @worlds
    def test_nobody_is_lost_until_the_reader_saw_one_full_period(self, world):
        result = world.plan(steady=world.settings.offline_after).addresses
        if result is not None:
            online = {m.address for m in world.members
                      if m.status == member.ONLINE}
            self.assertLessEqual(online & world.published, set(result))

    @worlds
    def test_implausible_shrinkage(self, world):
        result = world.plan().addresses
        removed = world.published - set(result or world.published)
        if (len(world.published) >= 3 and
                2 * len(removed) > len(world.published)):
            self.assertNotEqual(set(), world.proven_alive & set(result))

    @worlds
    def test_draining_leaves_at_once(self, world):
        """Whatever else goes on, as long as somebody else may hear."""
        result = world.plan().addresses or world.published
        draining = world.addresses(member.State.DRAINING) - set(world.pinned)
        if world.proven_alive & world.published:
            self.assertEqual(set(), draining & set(result))

    def test_draining_stays_where_nobody_would_be_left(self):
        draining = cases.make_member(1, member.DRAINING)
        for others in ([], [cases.make_dead(2)]):
            decision = cases.plan_for([draining, *others], (),
                                      cases.addresses(1, 2), cases.SETTINGS)
            self.assertNotIn(decision.addresses, (cases.addresses(2), ()))

    def test_all_dead_keep_the_list(self):
        members = [cases.make_dead(n, age=500) for n in (1, 2, 3)]
        decision = cases.plan_for(members, (), cases.addresses(1, 2, 3),
                                  cases.SETTINGS)
        self.assertIsNone(decision.addresses)
        self.assertIn('no health manager is alive', decision.held)

    def test_shrinkage_held_for_want_of_a_fresh_sign_of_life(self):
        members = [cases.make_member(1, age=15),
                   *(cases.make_dead(n, 500) for n in (2, 3, 4))]
        last = cases.addresses(1, 2, 3, 4)
        decision = cases.plan_for(members, (), last, cases.SETTINGS)
        self.assertIsNone(decision.addresses)
        self.assertIn('3 of 4', decision.held)
        members[0] = cases.make_member(1, age=5)
        self.assertEqual(cases.addresses(1), cases.plan_for(
            members, (), last, cases.SETTINGS).addresses)

    def test_shrinkage_that_is_held_does_not_hold_an_addition(self):
        """All are dead, and the operator pins one without the plugin."""
        members = [cases.make_dead(n, 500) for n in (1, 2, 3)]
        decision = cases.plan_for(members, cases.addresses(10),
                                  cases.addresses(1, 2, 3), cases.SETTINGS)
        self.assertIn(cases.address(10), decision.addresses or ())


_suspects = st.sets(st.integers(1, 31), max_size=6).map(
    lambda numbers: set(cases.addresses(*numbers)))


class TestSuspects(base.TestCase):
    """Addresses with which amphorae fell silent."""

    def plan(self, world, suspects, **changes):
        return world.plan(suspects, **changes)

    @given(cases.worlds(), _suspects)
    def test_not_added_as_long_as_there_are_others(self, world, suspects):
        result = set(self.plan(world, suspects).addresses or ())
        others = world.published | (world.alive | set(world.pinned)) - suspects
        if others - world.unheard(others):
            self.assertEqual(set(), (result - world.published) & suspects)

    @given(cases.worlds(), _suspects)
    @example(cases.World(
        (*cases.alive(1), cases.make_dead(2)), cases.addresses(2, 30),
        cases.addresses(1, 2, 20), cases.SETTINGS, steady=1000.0), set())
    def test_all_others_are_added_as_ever(self, world, suspects):
        """Those that are new come next where others have to leave first."""
        result = set(self.plan(world, suspects).addresses or
                     world.published)
        without = set(world.plan().addresses or world.published)
        due = set(world.pinned) - suspects
        if result < world.published:
            due &= world.published
        self.assertLessEqual(due, result or set(world.pinned))
        if not suspects & (world.alive | set(world.pinned)):
            self.assertEqual(without, result)

    @given(cases.worlds(), _suspects)
    def test_planning_again_comes_to_rest(self, world, suspects):
        """At once, or after lists that leave too few alive to wait."""
        result, urgent = world.last, False
        for _ in range(3):
            decision = self.plan(world, suspects, last=result)
            if decision.addresses is None:
                return
            result, urgent = decision.addresses, 'to wait' in decision.reason
        if not urgent:
            self.fail('planning again changes something')
        self.assertIsNone(self.plan(world, suspects, last=result).addresses)

    def test_left_out(self):
        for pinned in ((), cases.addresses(2)):
            self.assertEqual(plan.Decision(), cases.plan_for(
                cases.alive(1, 2), pinned, cases.addresses(1),
                cases.SETTINGS, suspects=cases.addresses(2)))

    def test_another_one_comes(self):
        self.assertEqual(cases.addresses(1, 3), cases.plan_for(
            cases.alive(1, 2, 3), (), cases.addresses(1), cases.SETTINGS,
            suspects=cases.addresses(2)).addresses)

    def test_published_one_stays(self):
        """It was published again for want of others."""
        self.assertIsNone(cases.plan_for(
            cases.alive(1, 2), (), cases.addresses(1, 2), cases.SETTINGS,
            suspects=cases.addresses(2)).addresses)

    def test_nobody_else_is_alive(self):
        self.assertEqual(cases.addresses(2), cases.plan_for(
            [cases.make_dead(1, 500), *cases.alive(2)], (),
            cases.addresses(1), cases.SETTINGS,
            suspects=cases.addresses(2)).addresses)

    def test_first_list_was_rolled_back(self):
        """Not again and again, with other amphorae each time."""
        self.assertEqual(plan.Decision(), cases.plan_for(
            cases.alive(2), (), None, cases.SETTINGS,
            suspects=cases.addresses(2)))
        self.assertEqual(cases.addresses(1), cases.plan_for(
            cases.alive(1, 2), (), None, cases.SETTINGS,
            suspects=cases.addresses(2)).addresses)

    def test_nobody_waits_for_one_to_settle(self):
        new = cases.make_member(2, online_for=0.1)
        self.assertEqual(plan.Decision(), cases.plan_for(
            [*cases.alive(1), new], (), cases.addresses(1), cases.SETTINGS,
            suspects=cases.addresses(2)))


class TestReplacement(base.TestCase):

    def test_new_address_of_the_same_host(self):
        moved = cases.make_member(4, online_for=2, host='hm1')
        decision = cases.plan_for([moved, *cases.alive(2, 3)], (),
                                  cases.addresses(1, 2, 3), cases.SETTINGS)
        self.assertEqual(cases.addresses(2, 3, 4), decision.addresses)
        self.assertEqual('added 192.0.2.4:5555; removed 192.0.2.1:5555',
                         decision.reason)

    def test_all_hosts_at_new_addresses(self):
        """One change, as soon as they have settled."""
        for online_for, expected in ((0.5, None), (2, (4, 5, 6))):
            moved = [cases.make_member(n + 3, host=f'hm{n}',
                                       online_for=online_for)
                     for n in (1, 2, 3)]
            self.assertEqual(
                expected and cases.addresses(*expected), cases.plan_for(
                    moved, (), cases.addresses(1, 2, 3)).addresses)

    def test_pinned_stays_though_its_member_is_dead(self):
        members = [cases.make_dead(1, 500), *cases.alive(2, 3)]
        self.assertEqual(plan.Decision(), cases.plan_for(
            members, cases.addresses(1), cases.addresses(1, 2, 3),
            cases.SETTINGS))


class TestTwoDecisions(base.TestCase):
    """What cannot wait leaves first; what comes is another decision."""

    def test_four_of_five_are_replaced(self):
        members = [*map(cases.make_dead, (2, 3, 4, 5)),
                   *cases.alive(1, 12, 13, 14, 15)]
        last = cases.addresses(1, 2, 3, 4, 5)
        first = cases.plan_for(members, (), last)
        self.assertEqual(cases.addresses(1), first.addresses)
        self.assertEqual(
            cases.addresses(1, 12, 13, 14, 15),
            cases.plan_for(members, (), first.addresses).addresses)

    def test_from_what_amphorae_have_and_not_from_what_is_on_trial(self):
        members = [*map(cases.make_dead, (2, 3, 4)), *cases.alive(1, 9)]
        self.assertEqual(cases.addresses(1), cases.plan_for(
            members, (), cases.addresses(1, 2, 3, 4, 9),
            good=cases.addresses(1, 2, 3, 4)).addresses)

    @example(cases.World(
        # One may be back, and a new one is needed; one is nobody's any more.
        (cases.make_member(1, age=1.0, online_for=1000.0),
         cases.make_member(2, member.OFFLINE, 1.0),
         cases.make_member(3, age=1.0, online_for=5.0)),
        (), cases.addresses(1, 2, 20), cases.SETTINGS, 1000.0))
    @worlds
    def test_what_cannot_wait_adds_nothing(self, world):
        decision = world.plan()
        has_listeners = any(map(world.listeners.listens, world.published))
        if '(too few' in decision.reason and has_listeners:
            added = set(decision.addresses) - world.published
            # Those that are due to leave need no hurry.
            left = {address for address in
                    world.published - set(decision.addresses)
                    if not world.listeners.is_gone(address)}
            # Alone they could not leave; with a fresh sign of life they can.
            self.assertFalse(
                added and left & world.unheard(world.published) and
                not plan.why_implausible(world.listeners, world.published,
                                         world.unheard(world.published)))


class TestRestart(base.TestCase):
    """Said goodbye, and may be back at the same address."""

    def restarting(self, number, age=10.0):
        return cases.make_member(number, member.OFFLINE, age)

    def test_four_of_five(self):
        members = [*cases.alive(1), *map(self.restarting, (2, 3, 4, 5))]
        self.assertEqual(plan.Decision(), cases.plan_for(
            members, (), cases.addresses(1, 2, 3, 4, 5)))

    def test_all(self):
        members = list(map(self.restarting, (1, 2, 3, 4, 5)))
        self.assertIsNone(cases.plan_for(
            members, (), cases.addresses(1, 2, 3, 4, 5)).addresses)

    def test_not_back_in_time(self):
        grace = cases.SETTINGS.restart_grace
        members = [*cases.alive(1), *(self.restarting(n, grace + 0.1)
                                      for n in (2, 3, 4, 5))]
        self.assertEqual(cases.addresses(1), cases.plan_for(
            members, (), cases.addresses(1, 2, 3, 4, 5)).addresses)

    def test_others_come_meanwhile(self):
        """At once, for nobody listens; and those may be back."""
        members = [*map(self.restarting, (1, 2)),
                   cases.make_member(3, online_for=2)]
        self.assertEqual(cases.addresses(1, 2, 3), cases.plan_for(
            members, (), cases.addresses(1, 2)).addresses)


class TestTwenty(base.TestCase):
    """Each amphora has five of twenty addresses."""

    LAST = cases.addresses(*range(1, 21))

    def plan(self, dead, age=30.0):
        members = [cases.make_member(n, age=age if n in dead else 1.0)
                   for n in range(1, 21)]
        return cases.plan_for(members, (), self.LAST)

    @given(st.sets(st.integers(1, 20), min_size=3, max_size=5))
    def test_any_five_are_gone(self, dead):
        """One amphora of 15 504 has none but these."""
        self.assertEqual(plan.Decision(), self.plan(dead))
        self.assertEqual(set(self.LAST) - set(cases.addresses(*dead)),
                         set(self.plan(dead, age=61.0).addresses))

    def test_half_are_gone(self):
        """One in seven amphorae hears of one at most."""
        self.assertEqual(cases.addresses(*range(11, 21)),
                         self.plan(range(1, 11)).addresses)
