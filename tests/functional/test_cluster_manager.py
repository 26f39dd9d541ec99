# SPDX-License-Identifier: Apache-2.0

"""octavia-hmsync-cluster-manager as real processes, on a real database."""


from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import distributor as distributor_repo
from octavia_hmsync.cluster.db import distributor_vip as vip_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster.db import member_probe as probe_repo
from octavia_hmsync.sync.db import health_manager as hm_repo
from tests.cloud import controllers
from tests.cloud import database
from tests.db_cases.cluster import calls as cluster_calls
from tests.functional import base

CLUSTER = 'cluster1'


class TestClusterManager(base.FunctionalTestCase):

    make_database = database.MariaDBDatabase

    def setUp(self):
        super().setUp()
        self.make_cloud(options={'hmsync_cluster': {
            'keep_in_housekeeping': False, 'keeper_interval': 1}})
        self.make_cluster()

    def make_cluster(self):
        """Have a cluster with two members and a standby, seen by all."""
        records = self.cloud.records
        lb = records.add_load_balancer('ACTIVE_ACTIVE')
        records.change('load_balancer', lb, provisioning_status='ACTIVE',
                       provider='amphora_cluster')
        cluster_repo.add(self.engine, cluster_calls.new(
            load_balancer_id=lb, desired_size=2, min_size=1, standby=1))
        cluster_repo.set_status(self.engine, CLUSTER, 'ACTIVE', 'OFFLINE')
        for member_id, size, state in (('a', 2, 'ACTIVE'), ('b', 2, 'ACTIVE'),
                                       ('c', 0, 'STANDBY')):
            member_repo.add(self.engine, CLUSTER, member_id, size)
            member_repo.set_state(self.engine, member_id, ('BUILDING',),
                                  state, config_digest='1')
        hm_repo.register(self.engine, 'controller9', '192.0.2.9', 5555,
                         'instance', 1000)
        self.distributor = distributor_repo.sync(
            self.engine, cluster_calls.DRIVER,
            cluster_calls.DISTRIBUTORS)[0]
        vip_repo.add(self.engine, CLUSTER, self.distributor.id)
        vip_repo.set_active(self.engine, CLUSTER, self.distributor.id)

    def start_managers(self, number):
        found = [self.cloud.add_service(
            controllers.ClusterManager, f'manager{n}')
            for n in range(number)]
        self.cloud.wait_until_ready()
        return found

    def keep_alive(self):
        """Have those who see members, and hear them, be there."""
        distributor_repo.set_status(self.engine, self.distributor.id,
                                    'ONLINE')
        hm_repo.touch(self.engine, 'controller9', 'instance', '192.0.2.9',
                      5555, 1000)

    def die(self, member_id):
        """Have nobody see anything of a member."""
        self.keep_alive()
        for who in (self.distributor.id, probe_repo.HEARTBEATS):
            probe_repo.record(self.engine, who, {
                each: probe_repo.Result('DOWN' if each == member_id else 'UP')
                for each in 'ab'})

    def states(self):
        return {member.id: (member.slot, member.state)
                for member in member_repo.get_of_cluster(self.engine,
                                                         CLUSTER)}

    def test_processes(self):
        """Two look after it at once; one is killed, and one is told to."""
        one, two = self.start_managers(2)
        self.wait_for(lambda: cluster_repo.get(
            self.engine, CLUSTER).operating_status == 'ONLINE',
            lambda: f'status: {one.log()[-2000:]}')
        one.kill()
        self.die('a')
        self.wait_for(lambda: self.keep_alive() or
                      self.states().get('c') == (0, 'ACTIVE'),
                      lambda: f'slot: {self.states()} {two.log()[-2000:]}')
        self.assertNotEqual('ACTIVE', self.states().get('a', ('', ''))[1])
        self.assertEqual((1, 'ACTIVE'), self.states()['b'])
        # Its slot may be given away before its heartbeats are missed, too.
        self.wait_for(lambda: 'Member a of cluster cluster1 is DEAD' in
                      two.log(), lambda: f'death: {two.log()[-2000:]}')
        self.assertTrue(two.stop(timeout=30))
        self.assertIn('Ended', two.log())
