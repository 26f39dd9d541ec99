# SPDX-License-Identifier: Apache-2.0

"""What is told of clusters and distributors, by whom, and that it is once."""

import functools

from octavia_hmsync.cluster.db import claim as claim_repo
from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import distributor as distributor_repo
from octavia_hmsync.cluster.db import distributor_vip as vip_repo
from octavia_hmsync.cluster.db import lock as lock_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster.db import news as news_repo
from octavia_hmsync.cluster import payloads
from octavia_hmsync.db import models
from octavia_hmsync.db import news
from octavia_hmsync.services import announcer
from tests.db_cases import base
from tests.db_cases.cluster import calls as cluster_calls
from tests.unit import fakes

CLUSTER = 'cluster1'


class ClusterNewsCases(base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.notifier = fakes.Notifier()
        self.subject = announcer.Announcer(self.engine, self.notifier)
        self.lb_id = self.records.add_load_balancer('ACTIVE_ACTIVE')
        cluster_repo.add(self.engine, cluster_calls.new(
            load_balancer_id=self.lb_id, desired_size=2, min_size=1))

    def make(self, *states):
        """Have members, and tell nothing of that."""
        for number, state in enumerate(states):
            member_id = f'member{number}'
            member_repo.add(self.engine, CLUSTER, member_id,
                            0 if state == 'STANDBY' else 9)
            member_repo.assign_amphora(self.engine, member_id,
                                       f'amp{number}')
            if state != 'BUILDING':
                self.set_state(number, 'BUILDING', state)
        cluster_repo.set_status(self.engine, CLUSTER, 'ACTIVE', 'ONLINE')
        self.assertEqual([], self.look())

    def set_state(self, number, old, new, **details):
        self.assertTrue(member_repo.set_state(
            self.engine, f'member{number}', (old,), new, **details))

    def look(self):
        """Have a housekeeper look; returns what it tells."""
        self.subject.run_once()
        return self.notifier.take()

    def member(self, number, slot):
        return (CLUSTER, self.lb_id, f'member{number}', f'amp{number}', slot)

    def test_created(self):
        """Once; its first members are told with it."""
        self.records.change('load_balancer', self.lb_id,
                            provisioning_status='PENDING_CREATE')
        member_repo.add(self.engine, CLUSTER, 'member0', 2)
        self.set_state(0, 'BUILDING', 'ACTIVE')
        claim_repo.claim(self.engine, CLUSTER, 'me', 60)
        for _again in range(2):
            lock_repo.unlock(self.engine, CLUSTER, 'me', 60)
        self.assertEqual([payloads.ClusterCreated(
            CLUSTER, self.lb_id, 'OFFLINE', 2, 1, 1)], self.look())
        self.assertEqual([], self.look())

    def test_not_created(self):
        claim_repo.claim(self.engine, CLUSTER, 'me', 60)
        lock_repo.unlock(self.engine, CLUSTER, 'me', 60, 'ERROR')
        lock_repo.unlock(self.engine, CLUSTER, 'me', 60, 'ACTIVE')
        self.assertEqual([], self.look())

    def test_status(self):
        self.make('ACTIVE', 'ACTIVE')
        self.set_state(0, 'ACTIVE', 'DRAINING')
        self.look()
        self.assertFalse(cluster_repo.set_operating_status(
            self.engine, CLUSTER, 'ONLINE'))
        self.assertEqual([], self.look())
        for status, kind in (('DEGRADED', payloads.ClusterDegraded),
                             ('ERROR', payloads.ClusterError),
                             ('OFFLINE', payloads.ClusterOffline),
                             ('ONLINE', payloads.ClusterOnline)):
            self.assertTrue(cluster_repo.set_operating_status(
                self.engine, CLUSTER, status))
            self.assertEqual([kind(CLUSTER, self.lb_id, status, 2, 1, 1)],
                             self.look())

    def test_status_seen_by_several(self):
        self.make('ACTIVE', 'ACTIVE')
        self.run_at_once([functools.partial(
            cluster_repo.set_operating_status, self.engine, CLUSTER,
            'DEGRADED')] * 4)
        self.assertEqual(1, len(self.look()))

    def test_members(self):
        self.make('BUILDING', 'ACTIVE')
        self.set_state(0, 'BUILDING', 'ACTIVE')
        self.assertEqual([payloads.ClusterMemberAdded(
            *self.member(0, 0), 'BUILDING')], self.look())
        member_repo.set_order(self.engine, 'member1', 'DRAIN')
        self.set_state(1, 'ACTIVE', 'DRAINING')
        self.set_state(0, 'ACTIVE', 'DRAINING', error='It is old.')
        self.assertEqual([
            payloads.ClusterMemberDrained(*self.member(1, 1), 'DRAIN', None),
            payloads.ClusterMemberDrained(*self.member(0, 0), None,
                                          'It is old.')], self.look())
        self.set_state(0, 'DRAINING', 'ACTIVE')
        self.assertEqual([payloads.ClusterMemberAdded(
            *self.member(0, 0), 'DRAINING')], self.look())
        # What changes nothing of that, or cannot be.
        member_repo.set_mac(self.engine, 'member0', 'fa:1')
        self.assertFalse(member_repo.set_state(
            self.engine, 'member0', ('BUILDING',), 'ACTIVE'))
        self.set_state(1, 'DRAINING', 'FAILED')
        self.assertEqual([], self.look())

    def test_dead_and_replaced(self):
        self.make('ACTIVE', 'STANDBY')
        for _again in range(2):
            member_repo.set_health(self.engine, 'member0', 'DEAD', 'silent')
        member_repo.set_health(self.engine, 'member1', 'SUSPECT')
        self.assertEqual([payloads.ClusterMemberDead(
            *self.member(0, 0), 'silent')], self.look())
        self.assertTrue(member_repo.take_over_slot(self.engine, 'member1',
                                                   'member0'))
        self.assertEqual([payloads.ClusterMemberReplaced(
            *self.member(0, 0), 'member1', 'amp1')], self.look())

    def test_free_slot(self):
        """One that has waited takes it."""
        self.make('FAILED', 'STANDBY')
        member_repo.release_slot(self.engine, 'member0')
        member_repo.release_slot(self.engine, 'member1')
        self.look()
        self.assertTrue(member_repo.take_slot(self.engine, 'member1', 0,
                                              state='ACTIVE'))
        self.assertEqual([payloads.ClusterMemberAdded(
            *self.member(1, 0), 'STANDBY')], self.look())

    def test_deleted(self):
        """Of members that go with all of it nothing is told."""
        self.make('ACTIVE', 'ACTIVE')
        cluster_repo.set_status(self.engine, CLUSTER, 'PENDING_DELETE')
        self.set_state(0, 'ACTIVE', 'DRAINING')
        cluster_repo.delete(self.engine, CLUSTER)
        self.assertEqual([], self.look())

    def test_vip(self):
        self.make('ACTIVE')
        one, two = distributor_repo.sync(
            self.engine, cluster_calls.DRIVER, cluster_calls.DISTRIBUTORS)
        for each in (one, two):
            vip_repo.add(self.engine, CLUSTER, each.id)
        self.assertTrue(vip_repo.set_active(self.engine, CLUSTER, one.id))
        self.assertEqual([], self.look())
        vip_repo.record_error(self.engine, vip_repo.get_of_cluster(
            self.engine, CLUSTER)[0].id, 'It is down.')
        self.assertTrue(vip_repo.set_active(self.engine, CLUSTER, two.id))
        self.assertFalse(vip_repo.set_active(self.engine, CLUSTER, two.id))
        self.assertEqual([payloads.ClusterVIPMoved(
            CLUSTER, self.lb_id, 'network2', 'network1', 'It is down.')],
            self.look())

    def test_distributors(self):
        one, _two = distributor_repo.sync(
            self.engine, cluster_calls.DRIVER, cluster_calls.DISTRIBUTORS)
        self.assertTrue(distributor_repo.set_status(self.engine, one.id,
                                                    'OFFLINE'))
        self.assertEqual([], self.look())
        url = cluster_calls.DISTRIBUTORS['network1']
        for status, kind in (('ONLINE', payloads.DistributorUp),
                             ('OFFLINE', payloads.DistributorDown),
                             ('ONLINE', payloads.DistributorUp)):
            self.run_at_once([functools.partial(
                distributor_repo.set_status, self.engine, one.id,
                status)] * 3)
            self.assertEqual([kind('network1', url, 0)], self.look())
        self.assertFalse(distributor_repo.set_status(self.engine, 'nobody',
                                                     'ONLINE'))

    def test_several_housekeepers(self):
        """Each is told once; and nothing is left."""
        self.make(*['ACTIVE'] * 2)
        for _ in range(3):
            self.set_state(0, 'ACTIVE', 'DRAINING')
            self.set_state(0, 'DRAINING', 'ACTIVE')
        others = [fakes.Notifier() for _ in range(3)]
        self.run_at_once([announcer.Announcer(
            self.engine, each).run_once for each in others])
        self.assertEqual(6, sum(len(each.take()) for each in others))
        self.assertEqual([], self.look())

    def test_many(self):
        """All of it at once, the oldest first."""
        self.make('ACTIVE')
        for _ in range(announcer.LIMIT // 2 + 1):
            self.set_state(0, 'ACTIVE', 'DRAINING')
            self.set_state(0, 'DRAINING', 'ACTIVE')
        told = self.look()
        self.assertEqual(announcer.LIMIT + 2, len(told))
        self.assertEqual(
            [payloads.ClusterMemberDrained, payloads.ClusterMemberAdded],
            [type(each) for each in told[:2]])

    def test_off(self):
        """Nothing is told later of what happened meanwhile."""
        self.notifier.is_on = False
        self.make('ACTIVE')
        self.set_state(0, 'ACTIVE', 'DRAINING')
        self.assertEqual([], self.look())
        self.make_older(models.News, 'created_at',
                        announcer.NEWS_FOR + 1)
        self.look()
        self.notifier.is_on = True
        self.assertEqual([], self.look())

    def test_of_another_release(self):
        """What is not known here is passed over."""
        with self.engine.begin() as connection:
            news.add(connection, 'cluster.painted', colour='red')
            news.add(connection, news_repo.DISTRIBUTOR_UP, vips=1,
                     distributor='a', url='https://a', colour='red')
        self.assertEqual([payloads.DistributorUp('a', 'https://a', 1)],
                         self.look())
