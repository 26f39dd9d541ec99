# SPDX-License-Identifier: Apache-2.0

"""The subflows of Octavia's abstract class, run as a worker does."""

import fixtures
from taskflow import engines
from taskflow.patterns import linear_flow
from taskflow import task

from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster.distribution import driver
from octavia_hmsync.cluster.distribution.ovs import backend
from octavia_hmsync.cluster import work
from octavia_hmsync.compat import distributor as compat_distributor
from octavia_hmsync import exceptions
from tests.unit.cluster import distributors

SUBFLOWS = ('create_distributor', 'delete_distributor', 'add_vip',
            'remove_vip', 'register_amphorae', 'drain_amphorae',
            'unregister_amphorae')


class Stumble(task.Task):
    """What comes afterwards goes wrong.

    :param before: called before that.
    """

    def __init__(self, before):
        super().__init__()
        self._before = before

    def execute(self):
        self._before()
        raise RuntimeError('it stumbled')


class TestDriver(distributors.DistributorTestCase):

    def setUp(self):
        super().setUp()
        self.useFixture(fixtures.MockPatchObject(
            driver, '_get_driver',
            lambda: driver.Driver(self.engine, backend.OVSBackend(
                self.conf, self.engine, self.subject))))
        self.driver = driver.Distribution()
        self.cluster_id = self.add_cluster(members=0)
        self.cluster = cluster_repo.get(self.engine, self.cluster_id)
        self.store = {
            'load_balancer': {
                'loadbalancer_id': self.cluster.load_balancer_id},
            'distributor_id': self.cluster_id,
            'vip': {'ip_address': distributors.ADDRESS},
            'vip_alg': 'HASH', 'vip_persistence': 'FLOW', 'amphorae': []}

    def run_subflow(self, *names, members=(), stumbles=False,
                    before=lambda: None):
        flow = linear_flow.Flow('test')
        for name in names:
            flow.add(getattr(self.driver, f'get_{name}_subflow')())
        if stumbles:
            flow.add(Stumble(before))
        store = {**self.store, 'amphorae': [
            {'id': member.amphora_id} for member in members]}
        engine = engines.load(flow, store={
            key: value for key, value in store.items()
            if key in flow.requires or key == 'owner'})
        engine.run()
        return engine.storage.fetch_all()

    def told(self):
        """(slot, state) of the members that distributors know."""
        found = {tuple((m.slot, m.state) for m in
                       fake.documents[self.cluster_id].members)
                 for fake in self.fakes.values() if fake.documents}
        self.assertEqual(1, len(found))
        return list(found.pop())

    def test_whole_interface(self):
        for name in compat_distributor.DistributorDriver.__abstractmethods__:
            self.assertIn(name, {f'get_{one}_subflow' for one in SUBFLOWS})
        flows = [getattr(self.driver, f'get_{name}_subflow')()
                 for name in SUBFLOWS]
        self.assertEqual(len(SUBFLOWS), len({flow.name for flow in flows}))

    def test_life(self):
        found = self.run_subflow('create_distributor', 'add_vip')
        self.assertEqual(self.cluster_id, found['distributor_id'])
        self.assertEqual([], self.told())
        members = [self.add_member(self.cluster_id, member_repo.BUILDING)
                   for _number in range(3)]
        self.run_subflow('register_amphorae', members=members)
        self.assertEqual([(n, 'ACTIVE') for n in range(3)], self.told())
        self.run_subflow('drain_amphorae', members=members[1:2])
        self.assertEqual([(0, 'ACTIVE'), (1, 'DRAINING'), (2, 'ACTIVE')],
                         self.told())
        self.run_subflow('unregister_amphorae', members=members[1:2])
        self.assertEqual([(0, 'ACTIVE'), (2, 'ACTIVE')], self.told())
        self.run_subflow('remove_vip', 'delete_distributor')
        self.assertEqual({}, self.ports.is_on)
        for fake in self.fakes.values():
            self.assertEqual({}, fake.documents)

    def test_each_again(self):
        members = [self.add_member(self.cluster_id, member_repo.BUILDING)]
        for name, told in (
                ('create_distributor', None), ('add_vip', []),
                ('register_amphorae', [(0, 'ACTIVE')]),
                ('drain_amphorae', [(0, 'DRAINING')]),
                ('unregister_amphorae', [])):
            for _again in range(2):
                self.run_subflow(name, members=members)
                if told is not None:
                    self.assertEqual(told, self.told())
        for _again in range(2):
            self.run_subflow('remove_vip')
            self.assertEqual({}, self.ports.is_on)
            for fake in self.fakes.values():
                self.assertEqual({}, fake.documents)

    def test_affinity(self):
        self.store['vip_persistence'] = 'SOURCE_IP'
        self.run_subflow('add_vip')
        self.assertEqual('SOURCE_IP', self.fakes['network1'].documents[
            self.cluster_id].affinity)

    def test_new_vip_is_taken_back(self):
        self.assertRaises(RuntimeError, self.run_subflow,
                          'create_distributor', 'add_vip', stumbles=True)
        self.assertEqual({}, self.ports.is_on)
        self.assertEqual({}, self.get_rows(self.cluster_id))

    def test_vip_that_could_not_be_added_is_taken_back(self):
        for fake in self.fakes.values():
            fake.error = exceptions.DistributorRejected('no')
        self.assertRaises(exceptions.NoDistributor, self.run_subflow,
                          'add_vip')
        self.assertEqual({}, self.ports.is_on)

    def test_vip_that_was_there_stays(self):
        self.run_subflow('add_vip')
        self.assertRaises(RuntimeError, self.run_subflow, 'add_vip',
                          stumbles=True)
        self.assertEqual(1, len(self.get_answering(self.cluster_id)))

    def test_registration_is_taken_back(self):
        self.run_subflow('add_vip')
        old, new = (self.add_member(self.cluster_id, state) for state in
                    (member_repo.ACTIVE, member_repo.BUILDING))
        self.assertRaises(RuntimeError, self.run_subflow,
                          'register_amphorae', members=[old, new],
                          stumbles=True)
        self.assertEqual([(0, 'ACTIVE')], self.told())
        self.assertEqual(member_repo.BUILDING, member_repo.get(
            self.engine, new.id).state)

    def begin_work(self):
        """Have the cluster be claimed by whoever runs subflows.

        :returns: what has him lose it.
        """
        context = work.Context(self.conf, self.engine)
        self.useFixture(fixtures.MockPatchObject(
            work, 'get_context', lambda: context))
        self.addCleanup(context.claims.end)
        held = context.claims.claim(self.cluster_id)
        self.store['owner'] = held.owner
        return held.release

    def test_who_has_the_cluster_takes_back(self):
        self.begin_work()
        new = self.add_member(self.cluster_id, member_repo.BUILDING)
        self.assertRaises(RuntimeError, self.run_subflow, 'add_vip',
                          'register_amphorae', members=[new], stumbles=True)
        self.assertEqual({}, self.get_rows(self.cluster_id))
        self.assertEqual(member_repo.BUILDING, member_repo.get(
            self.engine, new.id).state)

    def test_who_hung_takes_nothing_back(self):
        lose = self.begin_work()
        new = self.add_member(self.cluster_id, member_repo.BUILDING)
        self.assertRaises(RuntimeError, self.run_subflow, 'add_vip',
                          'register_amphorae', members=[new], stumbles=True,
                          before=lose)
        self.assertEqual([(0, 'ACTIVE')], self.told())
        self.assertEqual(1, len(self.get_answering(self.cluster_id)))

    def test_who_hung_at_distributors_takes_nothing_back(self):
        lose = self.begin_work()
        for fake in self.fakes.values():
            fake.error = exceptions.DistributorRejected('no')
        lose()
        self.assertRaises(exceptions.NoDistributor, self.run_subflow,
                          'add_vip')
        self.assertNotEqual({}, self.get_rows(self.cluster_id))
        new = self.add_member(self.cluster_id, member_repo.BUILDING)
        self.assertRaises(exceptions.NoDistributor, self.run_subflow,
                          'register_amphorae', members=[new])
        self.assertEqual(member_repo.ACTIVE, member_repo.get(
            self.engine, new.id).state)

    def test_nobody_takes_a_registration(self):
        self.run_subflow('add_vip')
        new = self.add_member(self.cluster_id, member_repo.BUILDING)
        for fake in self.fakes.values():
            fake.is_down = True
        self.assertRaises(exceptions.NoDistributor, self.run_subflow,
                          'register_amphorae', members=[new])
        self.assertEqual(member_repo.BUILDING, member_repo.get(
            self.engine, new.id).state)

    def test_nobody_takes_a_drain(self):
        """It is what is wanted all the same, and told later."""
        self.run_subflow('add_vip')
        member = self.add_member(self.cluster_id)
        self.run_subflow('register_amphorae', members=[member])
        for fake in self.fakes.values():
            fake.is_down = True
        self.assertRaises(exceptions.NoDistributor, self.run_subflow,
                          'drain_amphorae', members=[member])
        for fake in self.fakes.values():
            fake.is_down = False
        self.watch.run_once()
        self.assertEqual([(0, 'DRAINING')], self.told())

    def test_who_is_no_member(self):
        self.run_subflow('add_vip')
        other = self.add_member(self.add_cluster(0))
        e = self.assertRaises(exceptions.NotPossible, self.run_subflow,
                              'register_amphorae', members=[other])
        self.assertIn('is no member of the cluster', str(e))

    def test_who_has_no_slot(self):
        self.run_subflow('add_vip')
        member = self.add_member(self.cluster_id)
        member_repo.release_slot(self.engine, member.id)
        e = self.assertRaises(exceptions.NotPossible, self.run_subflow,
                              'register_amphorae', members=[member])
        self.assertIn('has no slot', str(e))

    def test_no_cluster(self):
        self.store['load_balancer'] = {'loadbalancer_id': 'nobody'}
        self.assertRaises(exceptions.UnknownCluster, self.run_subflow,
                          'create_distributor')
