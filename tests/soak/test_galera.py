# SPDX-License-Identifier: Apache-2.0

"""Each controller writes to another node of a Galera cluster.

All health managers are replaced at new addresses while a node is killed, and
while one lags behind the others for longer than heartbeat_timeout.
"""

import threading
import time

import fixtures

from tests.cloud import database
from tests.cloud import galera
from tests.cloud import waiting
from tests.functional import base

# In the proportions of Octavia's defaults. The cluster takes some 6 s to
# notice that a node is gone, and nothing is written meanwhile.
HEARTBEAT_INTERVAL = 4
HEARTBEAT_TIMEOUT = 20
LAG = 30


class TestGalera(base.FunctionalTestCase):

    def setUp(self):
        super().setUp()
        self.cluster = self.useFixture(galera.GaleraCluster(
            self.useFixture(fixtures.TempDir()).path))

    def make_database(self, directory):
        # What the test itself looks at; this node stays.
        return database.MariaDBDatabase(directory,
                                        server=self.cluster.nodes[0])

    def at_node(self, number):
        """Options of a controller that uses node 1, 2 or 3."""
        node = self.cluster.nodes[number - 1]
        return {'database': {'connection': node.url(self.cloud.database.name)}}

    def start_at(self, nodes):
        """Start health managers.

        :param nodes: {number of the address: number of the node}.
        """
        managers = [self.cloud.add_health_manager(
            self.cloud.address(number), options=self.at_node(node))
            for number, node in nodes.items()]
        self.cloud.wait_until_ready()
        return managers

    def start_cloud(self):
        self.make_cloud(amphorae=4, options={
            'hmsync': {'poll_interval': 1},
            'health_manager': {
                'heartbeat_interval': HEARTBEAT_INTERVAL,
                'heartbeat_timeout': HEARTBEAT_TIMEOUT,
                'health_check_interval': 2}})
        for number in (1, 2):
            self.cloud.add_housekeeping(f'hk{number}',
                                        options=self.at_node(number))
        managers = self.start_at({1: 1, 2: 2, 3: 3})
        self.wait_until_has([m.address for m in managers])
        # Their health checks have begun then.
        self.watch(HEARTBEAT_TIMEOUT + 5)
        return managers

    def wait_until_has(self, addresses):
        self.wait_for(lambda: self.published() == set(addresses),
                      lambda: f'list of {addresses}: {self.newest()}', 180)
        self.wait_until_applied()
        for agent in self.cloud.amphorae.values():
            self.assertEqual(set(addresses), set(agent.configured_list()))

    def check(self, addresses):
        """Everybody has the newest list, and is heard; nothing is left."""
        self.wait_until_has(addresses)
        self.watch(2 * HEARTBEAT_TIMEOUT)
        self.assertGreater(HEARTBEAT_TIMEOUT, max(
            self.cloud.records.health_ages().values()))
        self.assertEqual([], [row for row in self.results().values()
                              if row.claim_owner or row.held_since])
        self.assert_nothing_failed_over()

    def test_node_is_killed(self):
        """One housekeeper, and one health manager, has no database then."""
        old = self.start_cloud()
        self.cluster.nodes[1].kill_tree()
        for manager in old:
            manager.kill_tree()
        new = self.start_at({4: 1, 5: 3, 6: 3})
        self.wait_until_has([m.address for m in new])
        self.watch(HEARTBEAT_TIMEOUT)
        self.cluster.nodes[1].rejoin()
        self.cluster.wait_until_whole()
        self.check([m.address for m in new])

    def test_node_lags(self):
        """At rest, and again while all health managers are replaced."""
        old = self.start_cloud()
        number = self.newest().number
        with self.cluster.lagging(self.cluster.nodes[2]):
            self.watch(LAG)
        self.watch(HEARTBEAT_TIMEOUT)
        # Two of three addresses are heard by others all the time; the third
        # may have been given up for a while.
        self.assertGreaterEqual(2, self.newest().number - number)
        self.wait_until_has([m.address for m in old])

        has_begun = threading.Event()

        def lag():
            with self.cluster.lagging(self.cluster.nodes[2]):
                has_begun.set()
                time.sleep(LAG)

        thread = threading.Thread(target=lag)
        thread.start()
        self.addCleanup(thread.join)
        self.assertTrue(waiting.happens(has_begun))
        for manager in old:
            manager.kill_tree()
        new = self.start_at({4: 1, 5: 2, 6: 3})
        self.watch(LAG)
        thread.join()
        self.check([m.address for m in new])
