# SPDX-License-Identifier: Apache-2.0

"""What clients see of a cluster is what they see of any load balancer.

Workers do what they are asked for once a client has seen it pending.
"""

from oslotest import base

from tests.cloud import api_clients
from tests.cloud import front
from tests.cloud import neutron
from tests.cloud import watched_api

ROLES = {'amphora': 'STANDALONE', 'amphora_cluster': 'IN_CLUSTER'}


class TestClients(base.BaseTestCase):

    clients = (api_clients.SDK, api_clients.CloudProvider)

    def setUp(self):
        super().setUp()
        self.front = self.useFixture(front.Front())
        self.front.workers.serve(front.CLUSTER_TOPIC)
        self.watched = self.useFixture(watched_api.WatchedAPI(
            int(self.front.url.rpartition(':')[2]), neutron.PROJECT_ID,
            self.front.settle))

    def walk(self, client, provider):
        """Return what a client sees, in order."""
        def populate(load_balancer_id):
            self.front.database.records.add_amphora(
                '192.0.2.1', load_balancer_id, ROLES[provider])

        client().walk(api_clients.Place(
            self.watched.url, self.front.neutron.url, self.front.subnet.id,
            provider, 0.02, populate))
        return [str(sight) for sight in self.watched.take()]

    def test_each_sees_the_same(self):
        for client in self.clients:
            alone = self.walk(client, 'amphora')
            self.assertIn('GET /lbaas/loadbalancers/* 200 PENDING_CREATE '
                          'OFFLINE', alone)
            self.assertEqual(alone, self.walk(client, 'amphora_cluster'),
                             client.name)


class TestOtherClients(TestClients):
    """Those that ask more often."""

    clients = (api_clients.OctaviaCommands, api_clients.Heat,
               api_clients.Terraform)
