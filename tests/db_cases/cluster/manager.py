# SPDX-License-Identifier: Apache-2.0

"""What a cluster manager goes by: sizes, orders, and what somebody sees."""

import functools

from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import distributor as distributor_repo
from octavia_hmsync.cluster.db import distributor_vip as vip_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster.db import member_probe as probe_repo
from octavia_hmsync.db import models
from tests.db_cases import base
from tests.db_cases.cluster import calls as cluster_calls

CLUSTER = 'cluster1'
UP = probe_repo.Result('UP')
DOWN = probe_repo.Result('DOWN', 'no answer')


class _Cases(base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        for number in (1, 2):
            cluster_repo.add(self.engine, cluster_calls.new(
                number, cooldown=60))
        for member_id in 'ab':
            member_repo.add(self.engine, CLUSTER, member_id, 4)

    def get(self):
        return cluster_repo.get(self.engine, CLUSTER)

    def member(self, member_id='a'):
        return member_repo.get(self.engine, member_id)


class SizeCases(_Cases):

    def set(self, **values):
        return cluster_repo.set_sizes(self.engine, CLUSTER, **values)

    def resize(self, size):
        return cluster_repo.resize(self.engine, CLUSTER, size)

    def test_set(self):
        self.assertTrue(self.set(desired_size=6))
        found = self.get()
        self.assertEqual((6, 4, 2, None), (
            found.desired_size, found.size, found.min_size,
            found.resized_at))
        self.assertTrue(self.set(min_size=6, cooldown=5, standby=1))
        found = self.get()
        self.assertEqual((6, 6, 5, 1), (
            found.desired_size, found.min_size, found.cooldown,
            found.standby))
        self.assertEqual(4, cluster_repo.get(self.engine,
                                             'cluster2').desired_size)

    def test_refused(self):
        """Whoever sets the other one at the same time."""
        for values in ({'desired_size': 1}, {'min_size': 5},
                       {'desired_size': 3, 'min_size': 4}):
            self.assertFalse(self.set(standby=3, **values))
        self.assertEqual((4, 2, 0), (
            self.get().desired_size, self.get().min_size,
            self.get().standby))
        self.assertFalse(cluster_repo.set_sizes(self.engine, 'nobody', 3))

    def test_resize(self):
        self.assertFalse(self.resize(4))
        self.set(desired_size=6)
        self.assertFalse(self.resize(5))
        self.assertEqual([False, False, False, True], sorted(
            self.run_at_once([functools.partial(self.resize, 6)] * 4)))
        found = self.get()
        self.assertEqual((6, True), (found.size,
                                     found.resized_at <= found.now))
        # Once within the cooldown.
        self.set(desired_size=3)
        self.assertFalse(self.resize(3))
        self.make_older(models.Cluster, 'resized_at', 61)
        self.assertTrue(self.resize(3))
        self.set(desired_size=4, cooldown=0)
        self.assertTrue(self.resize(4))

    def test_asked_for(self):
        """By a manager: after the cooldown, and never what was changed."""
        def ask(size, before=4):
            return cluster_repo.ask_for_size(self.engine, CLUSTER, before,
                                             size)

        for size, before in ((4, 4), (6, 5), (1, 4)):
            self.assertFalse(ask(size, before))
        self.assertEqual(4, self.get().desired_size)
        self.assertEqual([False, False, True], sorted(self.run_at_once(
            [functools.partial(ask, 6)] * 3)))
        self.assertEqual((6, 4), (self.get().desired_size, self.get().size))
        # Before it has begun.
        self.assertFalse(ask(7, 6))
        self.assertTrue(self.resize(6))
        self.assertFalse(ask(7, 6))
        self.make_older(models.Cluster, 'resized_at', 61)
        self.assertTrue(ask(2, 6))
        self.assertFalse(cluster_repo.ask_for_size(self.engine, 'nobody', 4,
                                                   5))

    def test_builds_are_held(self):
        self.assertFalse(cluster_repo.end_hold(self.engine, CLUSTER))
        self.assertTrue(cluster_repo.hold_builds(self.engine, CLUSTER, 60.0))
        found = self.get()
        self.assertEqual(60, found.build_hold)
        self.assertIsNotNone(found.member_died_at)
        self.assertTrue(cluster_repo.end_hold(self.engine, CLUSTER))
        self.assertFalse(cluster_repo.end_hold(self.engine, CLUSTER))
        found = self.get()
        self.assertEqual((None, None), (found.build_hold,
                                        found.member_died_at))
        self.assertFalse(cluster_repo.hold_builds(self.engine, 'nobody', 60))

    def test_operating_status(self):
        def set_status(status):
            return cluster_repo.set_operating_status(self.engine, CLUSTER,
                                                     status)

        version = self.get().version
        self.assertEqual([False, False, True], sorted(self.run_at_once(
            [functools.partial(set_status, 'DEGRADED')] * 3)))
        self.assertEqual(('DEGRADED', version), (
            self.get().operating_status, self.get().version))
        self.assertFalse(cluster_repo.set_operating_status(
            self.engine, 'nobody', 'ONLINE'))


class OrderCases(_Cases):

    def test_order(self):
        version = self.get().version
        for order, is_new in (('DRAIN', True), ('DRAIN', False),
                              ('REPLACE', True), (None, True), (None, False)):
            self.assertEqual(is_new, member_repo.set_order(self.engine, 'a',
                                                           order))
            self.assertEqual(order, self.member().ordered)
        self.assertIsNone(self.member('b').ordered)
        self.assertFalse(member_repo.set_order(self.engine, 'nobody', 'DRAIN'))
        self.assertEqual(version, self.get().version)

    def test_health(self):
        version = self.get().version
        for health, error, is_new in (
                ('SUSPECT', 'silent', True), ('SUSPECT', 'other', False),
                ('HEALTHY', None, True), ('HEALTHY', None, False)):
            self.assertEqual(is_new, member_repo.set_health(
                self.engine, 'a', health, error))
        self.assertEqual(('HEALTHY', None), (self.member().health,
                                             self.member().error))
        self.assertFalse(member_repo.set_health(self.engine, 'nobody', 'DEAD'))
        self.assertEqual(version, self.get().version)

    def test_details_are_no_change_of_state(self):
        """A member that drains does so since it began to."""
        self.make_older(models.ClusterMember, 'updated_at', 100)
        before = self.member().updated_at
        member_repo.record(self.engine, 'a', connections=7, zone='nova')
        member_repo.set_order(self.engine, 'a', 'DRAIN')
        member_repo.set_health(self.engine, 'a', 'SUSPECT')
        found = self.member()
        self.assertEqual((before, 7, 'nova'), (
            found.updated_at, found.connections, found.zone))
        member_repo.set_state(self.engine, 'a', ('BUILDING',), 'ACTIVE')
        self.assertLess(before, self.member().updated_at)

    def test_resume(self):
        """One that drains, has a slot, and may have missed nothing."""
        def resume(version=None):
            return member_repo.resume(self.engine, 'a', version)

        member_repo.set_state(self.engine, 'a', ('BUILDING',), 'ACTIVE')
        self.assertFalse(resume())
        self.assertTrue(member_repo.drain(self.engine, 'a'))
        self.assertFalse(resume())
        member_repo.record(self.engine, 'a', config_digest='digest')
        member_repo.set_order(self.engine, 'a', 'DRAIN')
        self.assertFalse(resume())
        member_repo.set_order(self.engine, 'a', None)
        version = self.get().version
        self.assertFalse(resume(version - 1))
        self.assertTrue(resume(version))
        self.assertEqual(('ACTIVE', version + 1), (self.member().state,
                                                   self.get().version))
        self.assertFalse(member_repo.resume(self.engine, 'nobody'))

    def test_dead_one_is_replaced(self):
        """Distributors are told of both at once."""
        member_repo.set_state(self.engine, 'a', ('BUILDING',), 'ACTIVE')
        member_repo.add(self.engine, CLUSTER, 'spare', 0)
        self.assertTrue(member_repo.take_over_slot(
            self.engine, 'spare', 'a', old_state='FAILED'))
        self.assertEqual(('FAILED', None, 'ACTIVE', 0), (
            self.member().state, self.member().slot,
            self.member('spare').state, self.member('spare').slot))


class ProbeCases(_Cases):

    def setUp(self):
        super().setUp()
        self.one, self.two = distributor_repo.sync(
            self.engine, cluster_calls.DRIVER, cluster_calls.DISTRIBUTORS)

    def see(self, who=None, **looks):
        return probe_repo.record(self.engine, who or self.one.id, looks)

    def probes(self):
        return [(s.member_id, s.distributor_id, s.state, s.error)
                for s in probe_repo.get_of_cluster(self.engine, CLUSTER)]

    def test_record(self):
        self.assertEqual(['b'], self.see(a=UP, b=DOWN, nobody=DOWN))
        self.assertEqual([('a', self.one.id, 'UP', None),
                          ('b', self.one.id, 'DOWN', 'no answer')],
                         self.probes())
        self.assertEqual([], self.see(a=UP, b=DOWN))
        self.make_older(models.MemberProbe, 'changed_at', 50)
        # Another reason is no other state.
        self.assertEqual([], self.see(
            b=probe_repo.Result('DOWN', 'wrong MAC')))
        self.assertEqual(['a'], self.see(a=DOWN))
        ages = [(s.now - s.changed_at).total_seconds() > 49 for s in
                probe_repo.get_of_cluster(self.engine, CLUSTER)]
        self.assertEqual([False, True], ages)
        self.assertEqual({'a': DOWN, 'b': probe_repo.Result('DOWN',
                                                            'wrong MAC')},
                         probe_repo.get_of_observer(self.engine, self.one.id))

    def test_recorded_at_once(self):
        changed = self.run_at_once([functools.partial(
            self.see, a=DOWN, b=UP)] * 4)
        self.assertEqual(1, sum(map(len, changed)))
        self.assertEqual(2, len(self.probes()))
        # A change of what is there is told once, too.
        for state in (UP, DOWN, UP, DOWN):
            changed = self.run_at_once([functools.partial(
                self.see, a=state)] * 4)
            self.assertEqual(['a'], sum(changed, []))

    def test_who_sees(self):
        for distributor in (self.one, self.two):
            vip_repo.add(self.engine, CLUSTER, distributor.id)
        vip_repo.add(self.engine, 'cluster2', self.two.id)
        vip_repo.set_active(self.engine, CLUSTER, self.two.id)
        distributor_repo.set_status(self.engine, self.one.id, 'ONLINE')
        self.see(a=DOWN)
        self.see(self.two.id, a=UP)
        self.see(probe_repo.HEARTBEATS, a=DOWN)
        self.assertEqual(
            {(self.one.id, False, True), (self.two.id, True, False),
             ('heartbeats', False, False)},
            {(s.distributor_id, s.is_active, s.is_online) for s in
             probe_repo.get_of_cluster(self.engine, CLUSTER)})
        # Nobody has asked it since.
        for seconds, expected in ((40, True), (61, False)):
            self.make_older(models.Distributor, 'last_seen', seconds)
            self.assertEqual({expected, False}, {
                s.is_online for s in
                probe_repo.get_of_cluster(self.engine, CLUSTER)})
        self.assertEqual([], probe_repo.get_of_cluster(self.engine,
                                                       'cluster2'))

    def test_forget(self):
        self.see(a=DOWN, b=UP)
        self.see(self.two.id, a=UP)
        self.assertEqual(2, probe_repo.forget(self.engine, self.one.id))
        self.assertEqual(0, probe_repo.forget(self.engine, self.one.id))
        self.assertEqual([('a', self.two.id, 'UP', None)], self.probes())

    def test_deleted_with_its_member(self):
        self.see(a=DOWN, b=UP)
        self.assertTrue(member_repo.delete(self.engine, 'a'))
        self.assertEqual({'b': UP}, probe_repo.get_of_observer(
            self.engine, self.one.id))
        cluster_repo.delete(self.engine, CLUSTER)
        self.assertEqual({}, probe_repo.get_of_observer(self.engine,
                                                        self.one.id))

    def test_deleted_with_its_distributor(self):
        vip = vip_repo.add(self.engine, CLUSTER, self.one.id)
        self.see(a=DOWN)
        self.see(self.two.id, a=UP)
        distributor_repo.sync(self.engine, cluster_calls.DRIVER, {
            'network1': 'https://network1:9444'})
        self.assertEqual([('a', self.one.id, 'DOWN', 'no answer')],
                         self.probes())
        self.assertTrue(vip_repo.delete(self.engine, vip.id))
        self.assertFalse(vip_repo.delete(self.engine, vip.id))
        self.assertEqual([], self.probes())
