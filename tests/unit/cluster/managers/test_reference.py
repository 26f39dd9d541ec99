# SPDX-License-Identifier: Apache-2.0

"""What is to be done for a cluster, in any world."""

import dataclasses

import hypothesis
from hypothesis import strategies as st

from octavia_hmsync.cluster.managers import base as rules
from octavia_hmsync.cluster.managers import reference
from tests.unit import base

MANAGER = reference.ReferenceManager()
LIMITS = rules.Limits(drain_timeout=300, creation_timeout=1800)
LB_STATUSES = (None, 'DELETED', 'ACTIVE', 'ERROR', 'PENDING_CREATE',
               'PENDING_UPDATE', 'PENDING_DELETE')
STATES = ('BUILDING', 'STANDBY', 'ACTIVE', 'DRAINING', 'FAILED')

clusters = st.builds(
    rules.Cluster, st.sampled_from(LB_STATUSES[2:]),
    st.sampled_from(LB_STATUSES), desired_size=st.integers(1, 4),
    min_size=st.integers(1, 4), age=st.floats(0, 4000))
all_members = st.lists(st.builds(
    rules.Member, st.uuids().map(str),
    st.one_of(st.none(), st.integers(0, 3)), st.sampled_from(STATES),
    st.floats(0, 1000), st.sampled_from((None, 'ALLOCATED', 'ERROR'))),
    max_size=6, unique_by=lambda member: (
        member.id if member.slot is None else member.slot))


def decide(cluster, *members):
    return [(action.kind, action.member_id)
            for action in MANAGER.decide(cluster, members, LIMITS)]


def make(status='ACTIVE', load_balancer_status='ACTIVE', size=2, current=None,
         **values):
    return rules.Cluster(status, load_balancer_status, size, 1, size=current,
                         **values)


def member(member_id, slot, state='ACTIVE', age=0.0, status='ALLOCATED',
           **values):
    return rules.Member(member_id, slot, state, age, status, **values)


class TestDecide(base.TestCase):

    def test_well(self):
        self.assertEqual([], decide(make(), member('a', 0), member('b', 1)))

    def test_died(self):
        """What was begun, and by whom it is not gone on with."""
        for status, kind in (('PENDING_CREATE', rules.Kind.CREATE),
                             ('PENDING_DELETE', rules.Kind.DELETE),
                             ('DELETED', rules.Kind.FORGET),
                             (None, rules.Kind.FORGET)):
            with self.subTest(status):
                self.assertEqual([(kind, None)], decide(
                    make('PENDING_CREATE', status), member('a', 0)))
        self.assertEqual([(rules.Kind.TAKE_BACK, None)], decide(
            make('PENDING_CREATE', 'PENDING_CREATE', age=1801.0)))
        for status in ('ACTIVE', 'ERROR', 'PENDING_UPDATE'):
            self.assertEqual([(rules.Kind.UNLOCK, None)], decide(
                make('PENDING_UPDATE', status), member('a', 0)))

    def test_octavia_changes_it(self):
        """While somebody has the lock, only what is left over goes."""
        self.assertEqual([(rules.Kind.REMOVE, 'b')], decide(
            make(load_balancer_status='PENDING_UPDATE'),
            member('a', 0, 'DRAINING'), member('b', None, 'BUILDING')))

    def test_left(self):
        self.assertEqual(
            [(rules.Kind.REMOVE, each) for each in 'cde'],
            decide(make(standby=1), member('a', 0), member('b', 1),
                   member('c', None, 'BUILDING'), member('d', None, 'FAILED'),
                   member('e', None, 'DRAINING', 301.0),
                   member('f', None, 'DRAINING', 299.0),
                   member('g', None, 'STANDBY')))

    def test_missing(self):
        self.assertEqual([(rules.Kind.ADD, None)] * 2,
                         decide(make(size=3), member('a', 1)))
        # One that is built has its slot.
        self.assertEqual([(rules.Kind.REMOVE, 'b')], decide(
            make(size=2), member('a', 0), member('b', 1, 'BUILDING')))

    def test_missing_while_each_one_dies(self):
        """Nothing is built for a while; what is ordered is done."""
        self.assertEqual([(rules.Kind.REPLACE, 'a')], decide(
            make(size=3, standby=1, may_build=False),
            member('a', 1, ordered='REPLACE')))

    def test_unconfigured(self):
        self.assertEqual([(rules.Kind.CONFIGURE, 'b')], decide(
            make(), member('a', 0), member('b', 1, 'DRAINING')))

    def test_ordered(self):
        for status in ('ACTIVE', 'ERROR'):
            self.assertEqual([(rules.Kind.REPLACE, 'b')], decide(
                make(load_balancer_status=status), member('a', 0),
                member('b', 1, ordered='REPLACE')))
        self.assertEqual([(rules.Kind.REPLACE, 'b')], decide(
            make(), member('a', 0), member('b', 1, status='ERROR')))

    def test_octavia_was_asked(self):
        """Whomever it was to fail over, it leaves the ERROR of both."""
        cluster = make(load_balancer_status='ERROR', standby=1)
        take = (rules.Kind.TAKE_ORDERS, None)
        wrong = {'status': 'ERROR'}
        for others in (
                [member('b', 1, **wrong)],
                [member('b', 1), member('c', None, 'STANDBY', **wrong)],
                [member('b', 1), member('c', None, 'DRAINING', **wrong)]):
            self.assertEqual([take], decide(cluster, member('a', 0),
                                            *others))
        self.assertEqual([take, (rules.Kind.REMOVE, 'c')], decide(
            cluster, member('a', 0), member('b', 1),
            member('c', None, 'FAILED', **wrong)))
        # One that stands by is to be another one then.
        self.assertEqual([(rules.Kind.BUILD_STANDBY, None)], decide(
            make(standby=1), member('a', 0), member('b', 1),
            member('c', None, 'STANDBY', ordered='REPLACE')))
        # It is an ERROR of another kind.
        self.assertEqual([], decide(cluster, member('a', 0), member('b', 1)))

    def test_all_in_error(self):
        """What is undone of a flow of Octavia's, and replaces nobody."""
        both = member('a', 0, status='ERROR'), member('b', 1, status='ERROR')
        self.assertEqual([(rules.Kind.TAKE_ORDERS, None)], decide(
            make(load_balancer_status='ERROR'), *both))
        self.assertEqual([(rules.Kind.REPLACE, 'a')], decide(make(), *(
            dataclasses.replace(one, ordered='REPLACE') for one in both)))
        self.assertEqual([(rules.Kind.CONFIGURE, 'a'),
                          (rules.Kind.CONFIGURE, 'b')],
                         decide(make(), *both))

    def test_taken_back(self):
        self.assertEqual([], decide(make('ERROR', 'ERROR')))

    def test_dead(self):
        """First nobody sends anything to it, then it is deleted."""
        both = rules.Signs('silent', 'no answer')
        one = member('a', 0, signs=both)
        self.assertEqual([(rules.Kind.UNREGISTER, 'a')],
                         decide(make(), one, member('b', 1)))
        self.assertEqual(
            [rules.Action(rules.Kind.PROMOTE, 'c', 'a', 'silent; no answer'),
             rules.Action(rules.Kind.BUILD_STANDBY)],
            list(MANAGER.decide(make(standby=2), [
                one, member('b', 1), member('c', None, 'STANDBY')],
                LIMITS)))
        self.assertEqual([(rules.Kind.REMOVE, 'a'), (rules.Kind.ADD, None)],
                         decide(make(), member('a', None, 'FAILED'),
                                member('b', 1)))

    def test_one_sign(self):
        """New connections go elsewhere, while enough are left for them."""
        one = member('a', 0, signs=rules.Signs(down='no answer'))
        self.assertEqual([(rules.Kind.DRAIN, 'a')],
                         decide(make(), one, member('b', 1)))
        self.assertEqual([], decide(make(size=1), one))
        self.assertEqual([(rules.Kind.PROMOTE, 'b')],
                         decide(make(size=1, standby=1), one,
                                member('b', None, 'STANDBY')))

    def test_failed(self):
        """What died leaves it; who has one sign goes on."""
        both = rules.Signs('silent', 'no answer')
        self.assertEqual(
            [(rules.Kind.UNREGISTER, 'a')],
            decide(make('ERROR', 'ERROR', size=4), member('a', 0, signs=both),
                   member('b', 1, signs=rules.Signs(down='no answer')),
                   member('c', 2, ordered='DRAIN'), member('d', 3)))

    def test_all_have_a_sign(self):
        """Fewer would serve no better."""
        for sign in (rules.Signs(down='no answer'),
                     rules.Signs(silent='no heartbeat')):
            all_of_them = [member(name, slot, signs=sign)
                           for slot, name in enumerate('abcd')]
            self.assertEqual([], decide(make(size=4), *all_of_them))
            # Nor does one that is to have no connections count.
            self.assertEqual(
                [(rules.Kind.DRAIN, 'e')],
                decide(make(size=5), *all_of_them,
                       member('e', 4, ordered='DRAIN')))
            self.assertEqual(
                [(rules.Kind.DRAIN, name) for name in 'abcd'],
                decide(make(size=5), *all_of_them, member('e', 4)))

    def test_overload(self):
        """Looks that miss in turn: who is there goes on."""
        load = {'may_be_load': True, 'down': 'no answer'}

        def drained(seconds, **values):
            return member('a', 0, 'DRAINING', seconds, is_current=True,
                          signs=rules.Signs(**values))

        def late(member_id, slot, since, **values):
            return member(member_id, slot, signs=rules.Signs(
                since=since, **{**load, **values}))

        others = member('c', 2), member('d', 3)
        drain = [(rules.Kind.DRAIN, 'b')]
        for one in (drained(5.0, well_for=2.0), drained(5.0, **load)):
            for other, expected in (
                    (late('b', 1, 0.0), []),
                    # At the same time, as of one cause.
                    (late('b', 1, 4.0), drain),
                    # It goes on.
                    (late('b', 1, 11.0), drain),
                    # It says that it is not there, or is silent.
                    (late('b', 1, 0.0, may_be_load=False), drain)):
                self.assertEqual(expected, [
                    each for each in decide(make(size=4), one, other, *others)
                    if each[0] is rules.Kind.DRAIN])
        # Two of four that die at once, not three.
        died = [late(name, slot, 0.5) for slot, name in enumerate('abc')]
        self.assertEqual(
            [(rules.Kind.DRAIN, 'a'), (rules.Kind.DRAIN, 'b')],
            decide(make(size=4), *died, others[1]))
        # One that was drained for the load stays away, no second one goes.
        self.assertEqual([], decide(
            make(size=4), drained(29.0, **load),
            late('b', 1, 9.0), *others))

    def test_well_again(self):
        for seconds, expected in ((29, []), (31, [(rules.Kind.CONFIGURE,
                                                   'a')])):
            self.assertEqual(expected, decide(
                make(), member('a', 0, 'DRAINING',
                               signs=rules.Signs(well_for=seconds)),
                member('b', 1)))

    def test_well_again_while_somebody_changes_it(self):
        """Without the lock, if it has missed nothing."""
        def drained(seconds, **values):
            return member('a', 0, 'DRAINING', 1000.0, signs=rules.Signs(
                well_for=seconds), **{'is_current': True, **values})

        back = [(rules.Kind.RETURN, 'a')]
        for statuses in (('ACTIVE', 'PENDING_UPDATE'), ('ACTIVE', 'ERROR'),
                         ('ERROR', 'ERROR')):
            cluster = make(*statuses)
            self.assertEqual(back, decide(cluster, drained(31.0),
                                          member('b', 1)))
            for one in (drained(29.0), drained(31.0, is_current=False),
                        drained(31.0, ordered='DRAIN')):
                self.assertNotIn(back[0], decide(cluster, one,
                                                 member('b', 1)))
        self.assertEqual([*back, (rules.Kind.UNLOCK, None)], decide(
            make('PENDING_UPDATE', 'PENDING_UPDATE'), drained(31.0),
            member('b', 1)))
        # It was well all the time: somebody drains it for another reason.
        self.assertNotIn(back[0], decide(
            make('ACTIVE', 'PENDING_UPDATE'),
            member('a', 0, 'DRAINING', 29.0, is_current=True),
            member('b', 1)))
        # Whoever can looks at its agent first; it may be busy with others.
        self.assertEqual([(rules.Kind.CONFIGURE, 'a')], decide(
            make(), drained(59.0), member('b', 1)))
        self.assertIn(back[0], decide(make(), drained(61.0), member('b', 1)))

    def test_does_not_take_its_configuration(self):
        """What stands by takes its slot; without, it is tried for ever."""
        late = member('a', 0, 'DRAINING', age=1000.0)
        self.assertEqual([(rules.Kind.CONFIGURE, 'a')],
                         decide(make(), late, member('b', 1)))
        self.assertIn((rules.Kind.PROMOTE, 'c'), decide(
            make(standby=1), late, member('b', 1),
            member('c', None, 'STANDBY')))

    def test_resized(self):
        """At most once within the cooldown; a replacement waits for none."""
        larger = make(size=3, current=2)
        self.assertEqual([(rules.Kind.RESIZE, None)],
                         decide(larger, member('a', 0), member('b', 1)))
        waiting = make(size=3, current=2, may_resize=False)
        self.assertEqual([], decide(waiting, member('a', 0), member('b', 1)))
        self.assertEqual([(rules.Kind.ADD, None)],
                         decide(waiting, member('a', 0)))

    def test_smaller(self):
        """The highest slot drains, and is deleted once it has drained."""
        self.assertEqual([(rules.Kind.DRAIN, 'b')],
                         decide(make(size=1), member('b', 1), member('a', 0)))
        for values, expected in (
                ({'age': 299.0}, []), ({'age': 301.0}, ['b']),
                ({'age': 3.0, 'connections': 2}, []),
                ({'age': 3.0, 'connections': 0}, ['b'])):
            self.assertEqual(
                [(rules.Kind.REMOVE, each) for each in expected],
                decide(make(size=1), member('a', 0),
                       member('b', 1, 'DRAINING', **values)))

    def test_drain_is_ordered(self):
        self.assertEqual([(rules.Kind.DRAIN, 'a')], decide(
            make(), member('a', 0, ordered='DRAIN'), member('b', 1)))
        drained = member('a', 0, 'DRAINING', ordered='DRAIN')
        self.assertEqual([], decide(make(), drained, member('b', 1)))
        # Below the minimum it is said, and not done.
        self.assertEqual([], decide(make(size=1),
                                    member('a', 0, ordered='DRAIN')))

    def test_all_are_ordered(self):
        """One after the other, each when the one before is gone."""
        old = [member(each, slot, ordered='REPLACE')
               for slot, each in enumerate('ab')]
        self.assertEqual([(rules.Kind.REPLACE, 'a')], decide(make(), *old))
        gone = member('a', None, 'DRAINING', ordered='REPLACE')
        self.assertEqual([], decide(make(), old[1], member('c', 0), gone))
        standby = member('d', None, 'STANDBY', ordered='REPLACE')
        well = member('a', 0), member('b', 1)
        self.assertEqual([(rules.Kind.BUILD_STANDBY, None)],
                         decide(make(standby=1), *well, standby))
        self.assertEqual([(rules.Kind.REMOVE, 'd')], decide(
            make(standby=1), *well, standby, member('e', None, 'STANDBY')))

    def test_moved(self):
        self.assertEqual([(rules.Kind.MOVE_VIP, None)], decide(
            make(is_misdirected=True), member('a', 0), member('b', 1)))

    def test_silent_standby(self):
        """It takes no slot, and is given up once it was silent for long."""
        for since, expected in ((599.0, []), (601.0, ['b'])):
            standby = member('b', None, 'STANDBY', signs=rules.Signs(
                silent='silent', since=since))
            self.assertEqual(
                [(rules.Kind.REMOVE, each) for each in expected],
                [each for each in decide(
                    make(size=1, standby=1), member('a', 0), standby)
                 if each[0] is rules.Kind.REMOVE])

    def test_worked_on(self):
        """Whoever has the load balancer holds up nothing that is urgent."""
        both = rules.Signs('silent', 'no answer')
        self.assertEqual(
            [rules.Kind.UNREGISTER, rules.Kind.UNLOCK],
            [kind for kind, _ in decide(
                make('PENDING_UPDATE', 'PENDING_UPDATE'),
                member('a', 0, signs=both), member('b', 1))])

    @hypothesis.given(clusters, all_members)
    def test_any_world(self, cluster, members):
        found = MANAGER.decide(cluster, members, LIMITS)
        # Nothing that a distributor sends new connections to is deleted.
        by_id = {each.id: each for each in members}
        for action in found:
            if action.kind is rules.Kind.REMOVE:
                self.assertNotEqual('ACTIVE', by_id[action.member_id].state)
        # Nobody is changed whom somebody else may be changing.
        if cluster.load_balancer_status not in ('ACTIVE', 'ERROR'):
            self.assertFalse({action.kind for action in found} & {
                rules.Kind.ADD, rules.Kind.CONFIGURE, rules.Kind.REPLACE,
                rules.Kind.STAND_BY, rules.Kind.BUILD_STANDBY})
        # Never two for one slot, nor more than are wanted.
        slots = [each.slot for each in members if each.slot is not None]
        self.assertLessEqual(
            len(slots) + sum(action.kind is rules.Kind.ADD
                             for action in found),
            max(len(slots), cluster.desired_size))
        # What is urgent comes first, and one thing for each member.
        are_urgent = [action.kind in rules.URGENT for action in found]
        self.assertEqual(sorted(are_urgent, reverse=True), are_urgent)

    def get_status(self, cluster, *members):
        return MANAGER.get_status(cluster, members, LIMITS)

    def test_status(self):
        one, two = member('a', 0), member('b', 1)
        suspect = member('b', 1, signs=rules.Signs(silent='silent'))
        dead = member('b', 1, signs=rules.Signs('silent', 'no answer'))
        gone = member('b', 1, 'DRAINING')
        both = rules.Cluster('ACTIVE', 'ACTIVE', 2, 2)
        for cluster, members, expected in (
                (make(), (one, two), 'ONLINE'),
                (make(), (one, suspect), 'DEGRADED'),
                (make(), (one, gone), 'DEGRADED'),
                (make(), (one,), 'DEGRADED'), (make(), (dead,), 'ERROR'),
                (make(), (), 'ERROR'), (both, (one, suspect), 'DEGRADED'),
                (both, (one, dead), 'ERROR'), (both, (one,), 'ERROR'),
                # What waits for the cooldown is not missing.
                (make(size=3, current=2), (one, two), 'ONLINE'),
                (make(enabled=False), (one,), 'OFFLINE')):
            self.assertEqual(expected, self.get_status(cluster, *members))

    @hypothesis.given(clusters, all_members)
    def test_settle(self, cluster, members):
        """One that was never made is not ACTIVE with too few."""
        serving = sum(each.state == 'ACTIVE' and each.slot is not None
                      for each in members)
        self.assertEqual('ACTIVE', MANAGER.settle(cluster, members))
        cluster = dataclasses.replace(cluster, is_distributed=False)
        self.assertEqual(
            'ACTIVE' if serving >= cluster.min_size else 'ERROR',
            MANAGER.settle(cluster, members))
