# SPDX-License-Identifier: Apache-2.0

"""Lists of zones: what an amphora reaches, and what is published."""

import dataclasses

from hypothesis import given
from hypothesis import strategies as st
from oslotest import base

from octavia_hmsync.sync.rules import canaries
from octavia_hmsync.sync.rules import member
from octavia_hmsync.sync.rules import plan
from octavia_hmsync.sync.rules import plan_by_zone
from octavia_hmsync.sync.rules import subset
from octavia_hmsync.sync.rules import trial
from octavia_hmsync.sync.rules import zones
from tests.unit.sync.rules import cases

EDGE = frozenset({'edge', 'nova-edge'})
ALL = cases.addresses(1, 2, 3, 4)
# 1 and 2 are reached by all.
ZONES = {cases.address(3): 'edge', cases.address(4): 'far'}


def in_zone(zone, *members):
    return [dataclasses.replace(m, zone=zone) for m in members]


def decide(members, last):
    return plan_by_zone.decide(
        cases.listeners(members), last, (), None,
        zones.assign({*last, *(m.address for m in members)}, members, {}))


class TestReachable(base.BaseTestCase):

    def test_its_own(self):
        self.assertEqual(cases.addresses(3),
                         zones.reachable(ALL, ZONES, EDGE))

    def test_none_of_its_own(self):
        self.assertEqual(cases.addresses(1, 2), zones.reachable(
            ALL, ZONES, frozenset({'elsewhere'})))

    def test_no_zone(self):
        self.assertEqual(cases.addresses(1, 2), zones.reachable(
            ALL, ZONES, zones.NOWHERE))

    def test_nothing_that_it_is_known_to_reach(self):
        self.assertEqual(ALL[2:], zones.reachable(ALL[2:], ZONES,
                                                  zones.NOWHERE))

    @given(st.sets(st.integers(1, 9), min_size=1), st.dictionaries(
        st.integers(1, 9), st.sampled_from(['edge', 'far'])),
        st.sampled_from([zones.NOWHERE, EDGE, frozenset({'far'})]))
    def test_never_empty_and_of_one_zone(self, numbers, of_each, names):
        addresses = cases.addresses(*sorted(numbers))
        known = {cases.address(n): zone for n, zone in of_each.items()}
        found = zones.reachable(addresses, known, names)
        self.assertTrue(found)
        self.assertLessEqual(set(found), set(addresses))
        if any(known.get(a) in names for a in addresses):
            self.assertTrue(all(known.get(a) in names for a in found))

    @given(st.text(), st.sets(st.integers(1, 20), min_size=1))
    def test_without_zones_nothing_changes(self, key, numbers):
        slots = {a: n for n, a in enumerate(cases.addresses(*numbers))}
        self.assertIs(slots, zones.slots_of(slots, {}, EDGE))
        self.assertEqual(subset.subset(key, slots, 5), subset.subset(
            key, zones.slots_of(slots, {}, zones.NOWHERE), 5))


class TestAway(base.BaseTestCase):
    """Nobody is left in a zone for now."""

    ZONES = {cases.address(n): 'edge (away)' for n in (7, 8, 9)}

    def part(self, numbers, length=5, names=EDGE):
        slots = {a: n for n, a in enumerate(cases.addresses(*numbers))}
        return zones.part('amphora', slots, self.ZONES, names, length)

    def test_others_beside_its_own(self):
        self.assertEqual(cases.addresses(1, 7), self.part((1, 7)))
        self.assertEqual(cases.addresses(1),
                         self.part((1, 7), names=zones.NOWHERE))

    def test_nobody_but_its_own(self):
        self.assertEqual(cases.addresses(7, 8), self.part((7, 8)))

    @given(st.sets(st.integers(1, 6), min_size=1),
           st.sets(st.sampled_from([7, 8, 9]), min_size=1),
           st.integers(1, 8))
    def test_some_of_each(self, others, own, length):
        part = self.part(sorted(others | own), length)
        self.assertLessEqual(len(part), length)
        of_zone = set(part) & set(self.ZONES)
        self.assertLessEqual(2 * len(of_zone), length)
        self.assertEqual(length > 1, bool(of_zone))
        self.assertLess(0, len(part) - len(of_zone))
        self.assertEqual(sorted(part), list(part))


class TestAssign(base.BaseTestCase):

    def test_of_whoever_is_there(self):
        self.assertEqual(
            {cases.address(2): 'edge'},
            zones.assign(cases.addresses(1, 2),
                         [*cases.alive(1), *in_zone('edge',
                                                    *cases.alive(2))],
                         {cases.address(1): 'far'}))

    def test_of_whoever_is_gone(self):
        self.assertEqual({cases.address(1): 'far'}, zones.assign(
            cases.addresses(1), [], {cases.address(1): 'far'}))

    def test_a_suspect_stays_where_it_was(self):
        members = in_zone('edge', *cases.alive(1))
        self.assertEqual({}, zones.assign(
            cases.addresses(1), members, {}, cases.addresses(1)))


NEW = '198.51.100.0/24'


def new(number):
    """Return the address of a health manager in the further network."""
    return f'198.51.100.{number}:5555'


def with_further(*members):
    """Return members, and those of their further addresses."""
    return [*members, *(dataclasses.replace(
        m, address=m.address.replace('192.0.2.', '198.51.100.'), zone=NEW,
        is_further=True) for m in members)]


class TestNetworks(base.BaseTestCase):

    IN_NEW = frozenset({NEW})

    def assign(self, members, last=None):
        return zones.assign({m.address for m in members}, members, last or {})

    def test_of_what_is_a_network(self):
        self.assertEqual(
            ['198.51.100.64/26', NEW, '10.0.0.0/8'],
            [str(n) for n in zones.find_networks(
                ['10.0.0.0/8', 'edge', None, '', 'edge/1',
                 f'{NEW} (away)', NEW, '198.51.100.64/26', '10.0.0.1/8'])])

    def test_all_that_is_in_it(self):
        """Also what has it as its own address by now, or is pinned."""
        moved = dataclasses.replace(cases.make_member(4), address=new(4))
        members = [moved, *with_further(*cases.alive(1, 2))]
        found = zones.assign({m.address for m in members} | {new(9)},
                             members, {}, kept={new(1)})
        self.assertEqual({new(n): NEW for n in (1, 2, 4, 9)}, found)
        # As soon as nothing is further, it is no network of its own.
        self.assertEqual({}, self.assign([moved]))

    def test_each_is_in_the_smallest(self):
        members = with_further(*cases.alive(1, 70))
        members.append(dataclasses.replace(
            members[-1], zone='198.51.100.64/26'))
        self.assertEqual({new(1): NEW, new(70): '198.51.100.64/26'},
                         self.assign(members))

    def test_an_availability_zone_beside_it(self):
        members = [*in_zone('edge', cases.make_member(3)),
                   *with_further(*cases.alive(1))]
        self.assertEqual({cases.address(3): 'edge', new(1): NEW},
                         self.assign(members))

    @given(st.sets(st.integers(1, 9), min_size=1),
           st.sets(st.integers(1, 9)), st.sets(st.integers(1, 9)))
    def test_each_gets_those_in_its_network(self, numbers, further, moved):
        """Whichever health managers have two addresses, or have moved."""
        members = []
        for n in numbers:
            member = cases.make_member(n)
            if n in moved:
                members.append(dataclasses.replace(member, address=new(n)))
            else:
                members += with_further(member)[:1 + (n in further)]
        addresses = [m.address for m in members]
        found = self.assign(members)
        inside = {a for a in addresses if a.startswith('198')}
        outside = set(addresses) - inside
        reached = set(zones.reachable(addresses, found, self.IN_NEW))
        others = set(zones.reachable(addresses, found, zones.NOWHERE))
        if not numbers & further - moved:
            self.assertEqual(({}, set(addresses)), (found, reached))
            self.assertEqual(set(addresses), others)
            return
        self.assertEqual(inside, reached)
        self.assertEqual(outside, others)

    def test_of_new_amphorae(self):
        """Every second address is one of its own, wherever it boots."""
        slots = {a: n for n, a in enumerate(
            [*cases.addresses(1, 2, 3), *map(new, (1, 2, 3))])}
        found = {new(n): NEW for n in (1, 2, 3)}
        self.assertEqual(
            (cases.address(1), new(1), cases.address(2), new(2),
             cases.address(3), new(3)),
            zones.boot_part('hk', slots, found, 6))
        part = zones.boot_part('hk', slots, found, 5)
        self.assertEqual(4, len(part))
        self.assertEqual([False, True] * 2, [a in found for a in part])
        self.assertEqual(2, len(zones.boot_part('hk', slots, found, 1)))

    @given(st.text(), st.sets(st.integers(1, 9), min_size=1),
           st.dictionaries(st.integers(1, 9), st.just('edge')),
           st.integers(1, 9))
    def test_of_new_amphorae_without_networks(self, key, numbers, of_each,
                                              length):
        slots = {a: n for n, a in enumerate(cases.addresses(*numbers))}
        found = {cases.address(n): zone for n, zone in of_each.items()}
        self.assertEqual(
            subset.subset(key, zones.slots_of(slots, found, zones.NOWHERE),
                          length),
            zones.boot_part(key, slots, found, length))


class TestDecide(base.BaseTestCase):

    @given(cases.worlds())
    def test_without_zones_it_is_the_plan(self, world):
        known = world.listeners.addresses.union(world.last or ())
        found = zones.assign(known, world.members, {})
        self.assertEqual({}, found)
        self.assertEqual(world.plan(), plan_by_zone.decide(
            world.listeners, world.last, (), world.good, found))
        self.assertEqual([zones.NOWHERE], zones.views(found, found))

    def test_each_zone_is_published(self):
        members = cases.alive(1) + in_zone('edge', *cases.alive(2))
        self.assertEqual(cases.addresses(1, 2),
                         decide(members, ()).addresses)

    def test_what_one_zone_cannot_bear(self):
        """One of two of a zone is dead: of five in all, nobody's worry."""
        members = (cases.alive(1, 2, 3) +
                   in_zone('edge', cases.make_member(4), *[
                       cases.make_dead(5)]))
        last = cases.addresses(1, 2, 3, 4, 5)
        settings = dataclasses.replace(cases.SETTINGS, heartbeat_timeout=30)
        found = plan_by_zone.decide(
            cases.listeners(members, settings=settings), last, (), None,
            {cases.address(4): 'edge', cases.address(5): 'edge'})
        self.assertEqual(cases.addresses(1, 2, 3, 4), found.addresses)
        self.assertIn('[zone edge]', found.reason)

    def test_nobody_is_left_in_a_zone(self):
        members = cases.alive(1, 2) + in_zone('edge', cases.make_dead(3))
        last = cases.addresses(1, 2, 3)
        found = decide(members, last)
        self.assertEqual((None, None), (found.addresses, found.held))
        self.assertEqual(
            {cases.address(3): 'edge (away)'}, plan_by_zone.mark_away(
                cases.listeners(members), last,
                {cases.address(3): 'edge'}, {}))

    def test_it_may_be_back_in_a_moment(self):
        members = cases.alive(1, 2) + in_zone('edge', cases.make_member(
            3, status=member.OFFLINE, age=5))
        self.assertIsNone(decide(members,
                                 cases.addresses(1, 2, 3)).addresses)

    def test_nobody_is_left_and_nobody_else_is_reached(self):
        members = (in_zone('far', *cases.alive(1, 2)) +
                   in_zone('edge', cases.make_dead(3, age=100)))
        found = decide(members, cases.addresses(1, 2, 3))
        self.assertIsNone(found.addresses)
        self.assertIn('no health manager is alive', found.held)

    def test_a_zone_that_comes_back_settles(self):
        members = cases.alive(1) + in_zone(
            'edge', cases.make_member(3, online_for=1))
        found = decide(members, cases.addresses(1))
        self.assertEqual((None, plan.SETTLING),
                         (found.addresses, found.held))

    @given(st.lists(st.tuples(
        st.sampled_from([None, 'edge', 'far']),
        st.sampled_from(['alive', 'dead', 'draining', 'new'])),
        min_size=1, max_size=8), st.data())
    def test_each_zone_keeps_whom_it_hears(self, what, data):
        made = {'alive': lambda n: cases.make_member(n),
                'dead': lambda n: cases.make_dead(n, age=100),
                'draining': lambda n: cases.make_member(
                    n, status=member.DRAINING),
                'new': lambda n: cases.make_member(n, online_for=1)}
        members = [dataclasses.replace(made[kind](n), zone=zone)
                   for n, (zone, kind) in enumerate(what, 1)]
        last = tuple(m.address for m in members
                     if data.draw(st.booleans()))
        found = decide(members, last)
        target = found.addresses or last
        listeners = cases.listeners(members)
        now = zones.assign(target, members, {})
        for names in zones.views(now, zones.assign(last, members, {})):
            before = zones.reachable(last, zones.assign(last, members, {}),
                                     names)
            if any(listeners.state(a) is member.State.ALIVE for a in before):
                self.assertTrue(any(map(
                    listeners.listens, zones.reachable(target, now, names))))
        if last:
            self.assertTrue(target)


class TestTrial(base.BaseTestCase):

    def status(self, old, old_zones, new, new_zones, members):
        return trial.first_status_by_zone(
            old, old_zones, new, new_zones, cases.listeners(members), 3, 10)

    def test_old_addresses_that_are_new_to_a_zone(self):
        """All of a zone drain: its amphorae get what others have."""
        members = cases.alive(1, 2, 3)
        self.assertEqual(trial.CANARY, self.status(
            cases.addresses(1, 2, 3), {cases.address(3): 'edge'},
            cases.addresses(1, 2), {}, members))
        self.assertEqual(
            set(cases.addresses(1, 2)),
            zones.find_fresh(cases.addresses(1, 2, 3),
                             {cases.address(3): 'edge'},
                             cases.addresses(1, 2), {}))

    def test_nobody_is_left_there(self):
        members = cases.alive(1, 2) + [cases.make_dead(3)]
        old, before = cases.addresses(1, 2, 3), {cases.address(3): 'edge'}
        new = cases.addresses(1, 2)
        self.assertEqual(trial.OPEN,
                         self.status(old, before, new, {}, members))
        self.assertTrue(trial.has_nothing_to_lose(
            old, before, new, {}, cases.listeners(members)))

    def test_another_zone_has_something_to_lose(self):
        members = cases.alive(1, 2, 4) + [cases.make_dead(3)]
        old, before = cases.addresses(1, 2, 3), {cases.address(3): 'edge'}
        new = cases.addresses(1, 2, 4)
        self.assertEqual(trial.CANARY,
                         self.status(old, before, new, {}, members))
        self.assertFalse(trial.has_nothing_to_lose(
            old, before, new, {}, cases.listeners(members)))

    def test_canaries_of_each_zone(self):
        fresh = cases.addresses(1)
        eligible = [canaries.Eligible(
            f'amphora{n}', f'lb{n}', fresh, zone=zone,
            fresh=frozenset(fresh)) for n, zone in enumerate(
                [zones.NOWHERE] * 5 + [EDGE] + [frozenset({'far'})])]
        chosen = canaries.choose(eligible, fresh, 1, shuffle=lambda x: None)
        self.assertEqual(['amphora0', 'amphora5', 'amphora6'], chosen)

    def test_one_to_whom_it_is_not_new_tells_nothing(self):
        addresses = cases.addresses(1)
        eligible = [
            canaries.Eligible('old', 'lb1', addresses, fresh=frozenset()),
            canaries.Eligible('new', 'lb2', addresses, zone=EDGE,
                              fresh=frozenset(addresses))]
        self.assertEqual(['old', 'new'], canaries.choose(
            eligible, addresses, 1, shuffle=lambda x: None))
