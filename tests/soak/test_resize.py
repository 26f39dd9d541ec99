# SPDX-License-Identifier: Apache-2.0

"""Load balancers that grow while clients use them."""

import sqlalchemy as sa

from tests.cloud import clusters
from tests.soak import traffic


class TestResize(traffic.TrafficTestCase):

    # Each member goes, and one of them has the connection that a probe keeps.
    drain_timeout = 60

    def read_flavors(self, lb):
        """Compute flavors of the amphorae of a load balancer, in order."""
        return sorted(
            amphora.compute_flavor for amphora in
            self.cloud.connection.load_balancer.amphorae(
                loadbalancer_id=lb.id) if amphora.status == 'ALLOCATED')

    def count(self, lb):
        """Connections of clients so far, as Octavia's API tells them."""
        api = self.cloud.connection.load_balancer
        return api.get_load_balancer_statistics(lb.id).total_connections

    def read_states(self):
        with self.cloud.engine.connect() as connection:
            return dict(connection.execute(sa.text(
                'SELECT load_balancer_id, state '
                'FROM hmsync_image_replacement')).all())

    def test_grow(self):
        sizes = {name: len(self.read_flavors(lb))
                 for name, lb in self.load_balancers.items()}
        self.assertEqual({'single': 1, 'pair': 2, 'cluster': 4}, sizes)
        flavors = {'cluster': self.cloud.add_flavor(
            clusters.PROVIDER, compute_flavor='large',
            cluster_desired_size=5)}
        flavors['single'] = flavors['pair'] = self.cloud.add_flavor(
            compute_flavor='large')
        sizes['cluster'] = 5
        self.begin()
        # A member that goes ends them after a minute.
        for each in self.held['cluster']:
            self.assertEqual({}, each.report().broken)
            each.stop()
        for lb in self.load_balancers.values():
            self.cloud.wait_for(lambda: self.count(lb), 'statistics')
        counts = {name: self.count(lb)
                  for name, lb in self.load_balancers.items()}
        for name, lb in self.load_balancers.items():
            self.cloud.command('octavia-hmsync', 'resize', lb.id, '--flavor',
                               flavors[name], '--reason', 'grows')
        self.cloud.wait_for(
            lambda: not {'WAITING', 'RUNNING'}.intersection(
                self.read_states().values()),
            lambda: f'end of {self.read_states()}', 900)
        self.assertEqual(
            {lb.id: 'DONE' for lb in self.load_balancers.values()},
            self.read_states())
        self.assertHardlyNoticed()
        api = self.cloud.connection.load_balancer
        for name, lb in self.load_balancers.items():
            # The last member of a cluster may still drain.
            self.cloud.wait_for(
                lambda: self.read_flavors(lb) == ['large'] * sizes[name],
                lambda: f'large {name}: {self.read_flavors(lb)}')
            found = api.get_load_balancer(lb.id)
            self.assertEqual((flavors[name], lb.vip_address),
                             (found.flavor_id, found.vip_address))
            self.assertGreaterEqual(self.count(lb), counts[name])
        self.assertHealthy()
