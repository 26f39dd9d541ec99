# SPDX-License-Identifier: Apache-2.0

"""What clients see of a cluster, beside what Octavia alone shows."""

from tests.cloud import api_clients
from tests.cloud import neutron
from tests.cloud import watched_api

_ROLES = {'amphora': 'STANDALONE', 'amphora_cluster': 'IN_CLUSTER'}


class ClientsMixin:
    """For a test with a front.Front, whose workers serve clusters.

    They do what they are asked for once a client has seen it pending.
    """

    def assertEachSeesTheSame(self, *clients):
        """Check that a client sees the same with either provider.

        :param clients: of api_clients.ALL.
        """
        watched = self.useFixture(watched_api.WatchedAPI(
            int(self.front.url.rpartition(':')[2]), neutron.PROJECT_ID,
            self.front.settle))
        for client in clients:
            alone, seen = (self._walk(client, provider, watched)
                           for provider in _ROLES)
            self.assertIn('GET /lbaas/loadbalancers/* 200 PENDING_CREATE '
                          'OFFLINE', alone)
            self.assertEqual(alone, seen, client.name)

    def _walk(self, client, provider, watched):
        """Return what a client sees, in order."""
        def populate(load_balancer_id):
            self.front.database.records.add_amphora(
                '192.0.2.1', load_balancer_id, _ROLES[provider])

        client().walk(api_clients.Place(
            watched.url, self.front.neutron.url, self.front.subnet.id,
            provider, 0.02, populate))
        return [str(sight) for sight in watched.take()]
