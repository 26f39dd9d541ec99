# SPDX-License-Identifier: Apache-2.0

"""Octavia's lock of a load balancer that has a cluster, and its addresses."""

import functools

from octavia_hmsync.cluster.db import claim as claim_repo
from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import lock as lock_repo
from octavia_hmsync.cluster.db import vip as address_repo
from octavia_hmsync.db import models
from octavia_hmsync import exceptions
from tests.cloud import records
from tests.db_cases import base
from tests.db_cases.cluster import calls as cluster_calls

CLUSTER = 'cluster1'


class ClusterLockCases(base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.lb_id = self.records.add_load_balancer('ACTIVE_ACTIVE')
        cluster_repo.add(self.engine, cluster_calls.new(
            load_balancer_id=self.lb_id))
        claim_repo.claim(self.engine, CLUSTER, 'me', 60)
        cluster_repo.set_status(self.engine, CLUSTER, 'ACTIVE')

    def be(self, status, of_cluster='ACTIVE'):
        self.records.change('load_balancer', self.lb_id,
                            provisioning_status=status)
        cluster_repo.set_status(self.engine, CLUSTER, of_cluster)

    def lock(self, owner='me'):
        return lock_repo.lock(self.engine, CLUSTER, owner, 60)

    def unlock(self, status='ACTIVE', owner='me'):
        lock_repo.unlock(self.engine, CLUSTER, owner, 60, status)

    def assertStatus(self, load_balancer, cluster):
        self.assertEqual(
            (load_balancer, cluster),
            (lock_repo.get_status(self.engine, CLUSTER),
             cluster_repo.get(self.engine, CLUSTER).provisioning_status))

    def test_lock(self):
        self.assertTrue(self.lock())
        self.assertStatus('PENDING_UPDATE', 'PENDING_UPDATE')
        self.assertFalse(self.lock())
        self.unlock()
        self.assertStatus('ACTIVE', 'ACTIVE')
        self.lock()
        self.unlock('ERROR')
        self.assertStatus('ERROR', 'ERROR')

    def test_changes_are_dated(self):
        """By that a command tells for how long it has been locked."""
        for change in (self.lock, self.unlock):
            self.records.change('load_balancer', self.lb_id,
                                updated_at=records.utcnow() -
                                records.datetime.timedelta(days=30))
            change()
            row, = self.records.rows('load_balancer')
            self.assertGreater(
                row['updated_at'], records.utcnow() -
                records.datetime.timedelta(days=1))

    def test_lock_of_another_load_balancer(self):
        other = self.records.add_load_balancer()
        self.lock()
        self.assertEqual({self.lb_id: 'PENDING_UPDATE', other: 'ACTIVE'}, {
            row['id']: row['provisioning_status']
            for row in self.records.rows('load_balancer')})

    def test_locked_by_others(self):
        """Then nothing says that the lock is ours."""
        for status in ('PENDING_UPDATE', 'PENDING_DELETE', 'ERROR'):
            self.be(status)
            self.assertFalse(self.lock())
            self.assertStatus(status, 'ACTIVE')

    def test_one_that_is_to_be_deleted(self):
        """Neither is locked, nor given back."""
        self.be('ACTIVE', 'PENDING_DELETE')
        self.assertFalse(self.lock())
        self.be('PENDING_DELETE', 'PENDING_DELETE')
        self.unlock()
        self.assertStatus('PENDING_DELETE', 'PENDING_DELETE')

    def test_lost(self):
        """Whoever has lost the claim neither locks nor unlocks."""
        self.make_older(models.Cluster, 'claim_expires_at', 1)
        claim_repo.claim(self.engine, CLUSTER, 'another', 60)
        self.assertRaises(exceptions.Lost, self.lock)
        self.assertStatus('ACTIVE', 'ACTIVE')
        self.lock('another')
        self.assertRaises(exceptions.Lost, self.unlock)
        self.assertRaises(exceptions.Lost, lock_repo.fail_deletion,
                          self.engine, CLUSTER, 'me', 60)
        self.assertStatus('PENDING_UPDATE', 'PENDING_UPDATE')

    def test_locked_twice_at_once(self):
        self.assertEqual([False, True], sorted(self.run_at_once(
            [functools.partial(self.lock)] * 2)))

    def test_deletion_that_fails(self):
        self.be('PENDING_DELETE', 'PENDING_DELETE')
        lock_repo.fail_deletion(self.engine, CLUSTER, 'me', 60)
        self.assertStatus('ERROR', 'ERROR')

    def test_fails(self):
        """Only one that nobody works on."""
        for before, after in (('ACTIVE', 'ERROR'),
                              ('PENDING_UPDATE', 'PENDING_UPDATE')):
            self.be(before, 'ACTIVE')
            lock_repo.fail(self.engine, CLUSTER, 'me', 60)
            self.assertStatus(after, 'ACTIVE')
        self.assertRaises(exceptions.Lost, lock_repo.fail, self.engine,
                          CLUSTER, 'another', 60)

    def test_no_load_balancer(self):
        self.assertIsNone(lock_repo.get_status(self.engine, 'nobody'))

    def test_addresses(self):
        self.assertIsNone(address_repo.get(self.engine, 'nobody'))
        found = address_repo.get(self.engine, self.lb_id)
        vip, = self.records.rows('vip')
        self.assertEqual(
            (self.lb_id, vip['network_id'], vip['port_id'],
             {vip['ip_address']: vip['subnet_id']}),
            (found.load_balancer_id, found.network_id, found.port_id,
             found.subnets))
        self.records.insert_all({'additional_vip': [
            {'load_balancer_id': self.lb_id, 'ip_address': '2001:db8::5',
             'port_id': vip['port_id'], 'subnet_id': vip['subnet_id'],
             'network_id': vip['network_id']}]})
        self.assertEqual([vip['ip_address'], '2001:db8::5'], list(
            address_repo.get(self.engine, self.lb_id).subnets))
