# SPDX-License-Identifier: Apache-2.0

"""The clients of tenants, on real parts: a cluster keeps none of them waiting.

A client that has waited for ACTIVE goes on with the next order at once.
"""

from tests.cloud import api_clients
from tests.cloud import clusters
from tests.cloud import neutron
from tests.cloud import watched_api
from tests.functional import clusters as functional_clusters

_CONFLICT = 409
# They try again by design.
_TRYING = (api_clients.Heat, api_clients.Terraform)


class TestClients(functional_clusters.ClusterTestCase):

    options = {'hmsync_cluster': {'desired_size': 2, 'min_size': 1}}

    def walk(self, client, provider):
        """Return what a client asked for, with the answers: {(what, code)}."""
        watched = self.useFixture(watched_api.WatchedAPI(
            self.cloud.api.options['api_settings']['bind_port'],
            neutron.PROJECT_ID))
        client().walk(api_clients.Place(
            watched.url, self.cloud.neutron.url, self.cloud.subnet.id,
            provider, 1))
        seen = watched.take()
        self.assertEqual([], [
            str(sight) for sight in seen if 'ERROR' in sight.provisioning])
        return {(sight.what, sight.code) for sight in seen
                if not sight.what.startswith('GET ')}

    def test_each_is_answered_the_same(self):
        for client in api_clients.ALL:
            alone = self.walk(client, 'amphora')
            seen = self.walk(client, clusters.PROVIDER)
            if client in _TRYING:
                alone, seen = ({order for order in orders
                                if order[1] != _CONFLICT}
                               for orders in (alone, seen))
            self.assertEqual(alone, seen, client.name)
