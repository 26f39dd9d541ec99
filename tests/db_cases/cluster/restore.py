# SPDX-License-Identifier: Apache-2.0

"""Giving back a load balancer whose change ended half-way."""

from octavia_hmsync.cluster.db import claim as claim_repo
from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster.db import restore as restore_repo
from octavia_hmsync.db import models
from octavia_hmsync.image.db import restore as snapshot_repo
from tests.db_cases import base
from tests.db_cases.cluster import calls as cluster_calls

CLUSTER = 'cluster1'


class ClusterRestoreCases(base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.lb_id = self.records.add_load_balancer('ACTIVE_ACTIVE')
        self.listener = self.records.add_listener(self.lb_id)
        cluster_repo.add(self.engine, cluster_calls.new(
            load_balancer_id=self.lb_id))
        cluster_repo.set_status(self.engine, CLUSTER, 'ACTIVE')
        for name, size in (('one', 4), ('two', 4), ('spare', 0)):
            member_repo.add(self.engine, CLUSTER, name, size)
            member_repo.record(self.engine, name, config_digest='new')
        claim_repo.claim(self.engine, CLUSTER, 'me', 60)
        self.be('PENDING_UPDATE')
        self.records.change('listener', self.listener,
                            provisioning_status='PENDING_UPDATE')

    def be(self, status, of_cluster='ACTIVE'):
        self.records.change('load_balancer', self.lb_id,
                            provisioning_status=status)
        cluster_repo.set_status(self.engine, CLUSTER, of_cluster)

    def get(self):
        return snapshot_repo.get(self.engine, self.lb_id)

    def restore(self, snapshot=None, owner='me', status='ACTIVE'):
        snapshot = snapshot or self.get()
        return restore_repo.restore(
            self.engine, CLUSTER, owner, 60, snapshot, status,
            {each: 'ACTIVE' for each in snapshot.objects})

    def state(self):
        """What restore() may change."""
        return (self.get().status,
                cluster_repo.get(self.engine, CLUSTER).provisioning_status,
                [each.status for each in self.get().listeners],
                [each.config_digest for each in member_repo.get_of_cluster(
                    self.engine, CLUSTER)])

    def test_restored(self):
        for status in ('PENDING_UPDATE', 'ERROR'):
            self.be(status, 'ERROR' if status == 'ERROR' else 'ACTIVE')
            self.assertTrue(self.restore())
            # One that stands by is told when it takes a slot.
            self.assertEqual(('ACTIVE', 'ACTIVE', ['ACTIVE'],
                              [None, None, 'new']), self.state())

    def test_of_no_use(self):
        self.assertTrue(self.restore(status='ERROR'))
        self.assertEqual(('ERROR', 'ERROR', ['ACTIVE'], [None, None, 'new']),
                         self.state())

    def check_left(self, snapshot=None, owner='me'):
        before = self.state()
        self.assertFalse(self.restore(snapshot, owner))
        self.assertEqual(before, self.state())

    def test_changed_meanwhile(self):
        snapshot = self.get()
        self.records.change('load_balancer', self.lb_id,
                            provisioning_status='ACTIVE')
        self.check_left(snapshot)

    def test_listener_that_changed_meanwhile(self):
        snapshot = self.get()
        self.records.change('listener', self.listener,
                            provisioning_status='ERROR')
        self.check_left(snapshot)

    def test_somebody_works_on_it(self):
        for status in ('PENDING_CREATE', 'PENDING_UPDATE', 'PENDING_DELETE'):
            cluster_repo.set_status(self.engine, CLUSTER, status)
            self.check_left()

    def test_lost(self):
        self.make_older(models.Cluster, 'claim_expires_at', 1)
        claim_repo.claim(self.engine, CLUSTER, 'another', 60)
        self.check_left()
        self.check_left(owner='nobody')

    def test_twice_at_once(self):
        snapshot = self.get()
        self.assertEqual([False, True], sorted(self.run_at_once(
            [lambda: self.restore(snapshot)] * 2)))
