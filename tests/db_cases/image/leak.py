# SPDX-License-Identifier: Apache-2.0

"""What the search for what leaked knows, and deleting an amphora."""

from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import distributor as distributor_repo
from octavia_hmsync.cluster.db import distributor_vip as vip_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.db import models
from octavia_hmsync.image.db import claim as claims_repo
from octavia_hmsync.image.db import leak as leak_repo
from octavia_hmsync.image.db import replacement as replace_repo
from octavia_hmsync.image.db import rollout as rollout_repo
from tests.cloud import records
from tests.db_cases import base
from tests.db_cases.cluster import calls as cluster_calls
from tests.db_cases.image import calls as image_calls


class LeakCases(base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.lb = self.records.add_load_balancer()
        self.left, = self.add_amphorae(1, load_balancer_id=self.lb,
                                       status='BOOTING')

    def get(self):
        return leak_repo.get(self.engine)

    def replace(self):
        """Have a replacement that names the amphora."""
        rollout_repo.add(self.engine, 'rollout', image_calls.SETTINGS)
        claims_repo.begin(
            self.engine, 'rollout', rollout_repo.get_active(
                self.engine).version,
            [replace_repo.New('replacement', self.lb, 'replace', 'image')],
            'owner', 60)
        claims_repo.set_phase(self.engine, 'replacement', 'owner', 60,
                              'BUILD', new_amphora_id=self.left)

    def test_read(self):
        gone, = self.add_amphorae(1, status='DELETED')
        found = self.get()
        self.assertEqual({self.left, gone}, set(found.amphorae))
        left = found.amphorae[self.left]
        self.assertEqual(('BOOTING', self.lb, 'ACTIVE'), (
            left.status, left.load_balancer_id, left.load_balancer_status))
        self.assertTrue(-2 < left.unchanged_for < 60, left)
        self.assertEqual(('DELETED', None, None), (
            found.amphorae[gone].status,
            found.amphorae[gone].load_balancer_id,
            found.amphorae[gone].load_balancer_status))
        self.assertEqual({left.compute_id}, found.compute_ids)
        self.assertEqual({left.vrrp_port_id}, found.port_ids)
        self.assertEqual(frozenset(), found.replaced)
        self.assertEqual({gone}, set(
            leak_repo.get(self.engine, gone).amphorae))

    def test_a_constant_number_of_statements(self):
        self.add_amphorae(20, load_balancer_id=self.lb)
        with self.count_statements() as statements:
            self.get()
        self.assertEqual(4, len([each for each in statements
                                 if each.startswith('SELECT')]), statements)

    def test_replaced(self):
        self.replace()
        self.assertEqual({self.left}, self.get().replaced)

    def delete(self, amphora):
        return leak_repo.begin_delete(self.engine, amphora)

    def status(self):
        return self.get().amphorae[self.left].status

    def test_member_of_a_cluster(self):
        """Whatever it is, the cluster's keeper sees to it."""
        cluster_repo.add(self.engine, cluster_calls.new())
        member_repo.add(self.engine, 'cluster1', 'member', 2)
        self.assertEqual(frozenset(), self.get().replaced)
        amphora = self.get().amphorae[self.left]
        member_repo.assign_amphora(self.engine, 'member', self.left)
        self.assertEqual({self.left}, self.get().replaced)
        self.assertEqual({'cluster1'}, self.get().clusters)
        self.assertFalse(leak_repo.begin_delete(self.engine, amphora))
        one, = distributor_repo.sync(self.engine, cluster_calls.DRIVER,
                                     {'network1': 'https://network1:9444'})
        vip = vip_repo.add(self.engine, 'cluster1', one.id)
        cluster_repo.delete(self.engine, 'cluster1')
        self.assertEqual(frozenset(), self.get().replaced)
        # A distributor still has it.
        self.assertEqual({'cluster1'}, self.get().clusters)
        vip_repo.delete(self.engine, vip.id)
        self.assertEqual(frozenset(), self.get().clusters)

    def test_deleted(self):
        self.records.set_health(self.left)
        self.assertTrue(self.delete(self.get().amphorae[self.left]))
        self.assertEqual('PENDING_DELETE', self.status())
        leak_repo.end_delete(self.engine, self.left)
        self.assertEqual('DELETED', self.status())
        self.assertEqual([], self.records.rows('amphora_health'))

    def test_what_is_not_pending_delete_is_not_deleted(self):
        leak_repo.end_delete(self.engine, self.left)
        self.assertEqual('BOOTING', self.status())

    def test_nothing_is_done_after_a_change(self):
        changes = (
            lambda: self.records.set_status(self.left, 'ALLOCATED'),
            lambda: self.records.change('amphora', self.left,
                                        updated_at=records.utcnow()),
            lambda: self.records.change('load_balancer', self.lb,
                                        provisioning_status='PENDING_UPDATE'),
            self.replace)
        for change in changes:
            self.records.change('load_balancer', self.lb,
                                provisioning_status='ACTIVE')
            self.records.change('amphora', self.left, status='BOOTING',
                                updated_at=None)
            amphora = self.get().amphorae[self.left]
            change()
            before = self.status()
            self.assertFalse(self.delete(amphora))
            self.assertEqual(before, self.status())
        self.assertEqual(1, len(self.rows(models.ImageReplacement)))
