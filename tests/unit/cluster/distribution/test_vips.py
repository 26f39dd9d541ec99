# SPDX-License-Identifier: Apache-2.0

from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import distributor as distributor_repo
from octavia_hmsync import exceptions
from tests.unit.cluster import distributors


class TestAdd(distributors.DistributorTestCase):

    def names(self, cluster_id):
        return sorted(self.get_rows(cluster_id))

    def test_those_with_the_fewest(self):
        clusters = [self.add_cluster() for _number in range(6)]
        for cluster_id in clusters:
            self.vips.add(cluster_id)
            self.assertEqual(1, len(self.get_answering(cluster_id)))
        self.assertEqual([4, 4, 4], [
            row.vips for row in distributor_repo.get_all(self.engine)])

    def test_again(self):
        cluster_id = self.add_cluster()
        first = self.vips.add(cluster_id)
        self.assertEqual(first, self.vips.add(cluster_id))
        self.assertEqual(2, len(self.ports.is_on))

    def test_one_is_down(self):
        self.fakes['network1'].is_down = True
        cluster_id = self.add_cluster()
        self.assertEqual({}, self.vips.add(cluster_id).problems)
        self.assertEqual(['network2', 'network3'], self.names(cluster_id))

    def test_all_but_one_are_down(self):
        for name in distributors.NAMES[:2]:
            self.fakes[name].is_down = True
        cluster_id = self.add_cluster()
        self.assertEqual('network3', self.vips.add(cluster_id).active)
        self.assertEqual(['network3'], self.get_answering(cluster_id))

    def test_all_are_down(self):
        for fake in self.fakes.values():
            fake.is_down = True
        cluster_id = self.add_cluster()
        e = self.assertRaises(exceptions.NoDistributor, self.vips.add,
                              cluster_id)
        self.assertIn('is down', str(e))

    def test_those_chosen_have_died_a_moment_ago(self):
        self.vips.sync()
        for row in distributor_repo.get_all(self.engine):
            distributor_repo.set_status(self.engine, row.id,
                                        distributor_repo.ONLINE, '1')
        for name in distributors.NAMES[:2]:
            self.fakes[name].is_down = True
        cluster_id = self.add_cluster()
        self.assertEqual('network3', self.vips.add(cluster_id).active)
        self.assertEqual(['network3'], self.names(cluster_id))
        self.assertEqual(1, len(self.ports.is_on))

    def test_there_are_none(self):
        self.conf.set_override('distributors', [], group='hmsync_cluster')
        e = self.assertRaises(exceptions.NoDistributor, self.vips.add,
                              self.add_cluster())
        self.assertIn('[hmsync_cluster] distributors', str(e))

    def test_a_node_that_has_no_agent(self):
        self.ports.refused = {'network1'}
        cluster_id = self.add_cluster()
        self.vips.add(cluster_id)
        self.assertEqual(['network2', 'network3'], self.names(cluster_id))
        self.ports.refused = set(distributors.NAMES)
        other = self.add_cluster()
        e = self.assertRaises(exceptions.NoDistributor, self.vips.add, other)
        self.assertIn('no port at network3', str(e))
        self.assertEqual([], self.names(other))

    def test_neutron_is_down(self):
        self.ports.error = exceptions.CloudUnavailable('Neutron is down.')
        cluster_id = self.add_cluster()
        self.assertRaises(exceptions.CloudUnavailable, self.vips.add,
                          cluster_id)
        self.ports.error = None
        self.vips.add(cluster_id)
        self.assertEqual(1, len(self.get_answering(cluster_id)))

    def test_a_network_that_cannot_work(self):
        self.ports.network = {**self.ports.network, 'l2_adjacency': False}
        cluster_id = self.add_cluster()
        self.assertRaises(exceptions.NotPossible, self.vips.add, cluster_id)
        self.assertEqual([], self.names(cluster_id))

    def test_it_is_gone(self):
        self.assertRaises(exceptions.UnknownCluster, self.vips.add, 'gone')


class TestRemove(distributors.DistributorTestCase):

    def setUp(self):
        super().setUp()
        self.cluster_id = self.add_cluster()
        self.vips.add(self.cluster_id)

    def assertNothingLeft(self):
        self.assertEqual({}, self.get_rows(self.cluster_id))
        self.assertEqual({}, self.ports.is_on)
        for fake in self.fakes.values():
            self.assertEqual({}, fake.documents)

    def test_all_is_gone(self):
        other = self.add_cluster()
        self.vips.add(other)
        for _again in range(2):
            self.assertEqual({}, self.vips.remove(self.cluster_id))
        self.assertEqual({}, self.get_rows(self.cluster_id))
        self.assertEqual(1, len(self.get_answering(other)))
        self.vips.remove(other)
        self.assertNothingLeft()

    def test_and_made_again(self):
        self.vips.remove(self.cluster_id)
        self.vips.add(self.cluster_id)
        self.assertEqual(1, len(self.get_answering(self.cluster_id)))

    def test_one_is_down(self):
        self.fakes['network1'].is_down = True
        self.assertEqual(['network1'], list(self.vips.remove(
            self.cluster_id)))
        self.assertEqual({}, self.ports.is_on)
        self.delete_cluster(self.cluster_id)
        self.watch.run_once()
        self.assertEqual(['network1'], list(self.get_rows(self.cluster_id)))
        self.fakes['network1'].is_down = False
        # It is known to be there by the next one.
        self.watch.run_once()
        self.watch.run_once()
        self.assertNothingLeft()

    def test_one_never_comes_back(self):
        self.fakes['network1'].is_down = True
        self.vips.remove(self.cluster_id)
        self.delete_cluster(self.cluster_id)
        self.conf.set_override('distributors', ['https://network2:9444'],
                               group='hmsync_cluster')
        self.watch.run_once()
        self.watch.run_once()
        self.assertEqual(['network2'], [
            row.name for row in distributor_repo.get_all(self.engine)])

    def test_neutron_is_down(self):
        self.ports.error = exceptions.CloudUnavailable('Neutron is down.')
        self.assertRaises(exceptions.CloudUnavailable, self.vips.remove,
                          self.cluster_id)
        self.ports.error = None
        self.vips.remove(self.cluster_id)
        self.assertNothingLeft()

    def test_the_cluster_is_gone(self):
        self.delete_cluster(self.cluster_id)
        self.assertIsNone(cluster_repo.get(self.engine, self.cluster_id))
        self.vips.remove(self.cluster_id)
        self.assertNothingLeft()
