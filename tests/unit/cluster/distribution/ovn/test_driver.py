# SPDX-License-Identifier: Apache-2.0

"""The subflows of Octavia's abstract class, where OVN distributes."""

import fixtures
from taskflow import engines
from taskflow.patterns import linear_flow

from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster.distribution import driver
from octavia_hmsync.cluster.distribution.ovn import backend
from octavia_hmsync import exceptions
from tests.unit.cluster.distribution.ovn import fakes


class TestDriver(fakes.OVNTestCase):

    def setUp(self):
        super().setUp()
        self.conf.set_override('distributor_driver', 'hmsync_ovn',
                               group='controller_worker')
        self.useFixture(fixtures.MockPatchObject(
            driver, '_get_driver',
            lambda: driver.Driver(self.engine, backend.OVNBackend(
                self.conf, self.engine, self.subject))))
        self.driver = driver.Distribution()
        self.cluster_id = self.add_cluster(members=0)

    def run_subflow(self, *names, members=()):
        cluster = cluster_repo.get(self.engine, self.cluster_id)
        flow = linear_flow.Flow('test')
        for name in names:
            flow.add(getattr(self.driver, f'get_{name}_subflow')())
        store = {
            'load_balancer': {'loadbalancer_id': cluster.load_balancer_id},
            'distributor_id': self.cluster_id, 'vip': {}, 'vip_alg': 'HASH',
            'vip_persistence': 'FLOW',
            'amphorae': [{'id': member.amphora_id} for member in members]}
        engine = engines.load(flow, store={
            key: value for key, value in store.items()
            if key in flow.requires})
        engine.run()

    def told(self):
        return self.get_vips(self.cluster_id)['192.0.2.5']

    def test_life(self):
        for _again in range(2):
            self.run_subflow('create_distributor', 'add_vip')
        self.assertEqual('', self.told())
        members = [self.add_member(self.cluster_id, member_repo.BUILDING)
                   for _number in range(3)]
        for _again in range(2):
            self.run_subflow('register_amphorae', members=members)
        self.assertEqual('192.0.2.10,192.0.2.11,192.0.2.12', self.told())
        for _again in range(2):
            self.run_subflow('drain_amphorae', members=members[1:2])
        self.assertEqual('192.0.2.10,192.0.2.12', self.told())
        for _again in range(2):
            self.run_subflow('unregister_amphorae', members=members[:2])
        self.assertEqual('192.0.2.12', self.told())
        for _again in range(2):
            self.run_subflow('remove_vip')
        self.run_subflow('delete_distributor')
        self.assertEqual(({}, {}), (self.northbound.balancers,
                                    self.ports.sources))

    def test_nobody_takes_it(self):
        self.run_subflow('add_vip')
        member = self.add_member(self.cluster_id, member_repo.BUILDING)
        self.northbound.error = self.unreachable()
        self.assertRaises(exceptions.NoDistributor, self.run_subflow,
                          'register_amphorae', members=[member])
        self.assertEqual(member_repo.BUILDING, member_repo.get(
            self.engine, member.id).state)

    def test_a_network_without_a_router(self):
        self.northbound.links.clear()
        e = self.assertRaises(exceptions.NotPossible, self.run_subflow,
                              'create_distributor', 'add_vip')
        self.assertIn('No router is in the subnet', str(e))
        self.assertEqual({}, self.ports.sources)
