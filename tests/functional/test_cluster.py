#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.
"""A load balancer on a cluster, from its creation to its end."""

from octavia_hmsync.db.repositories import member_sight as sight_repo
from tests.functional import clusters


class TestCluster(clusters.ClusterTestCase):

    def wait_until_seen(self, lb, size):
        """Wait until both distributors see all members."""
        self.cloud.wait_for(
            lambda: [row['state'] for row in
                     self.rows('hmsync_member_sight')
                     if row['distributor_id'] != sight_repo.HEARTBEATS
                     ] == ['UP'] * size * len(self.cloud.distributors),
            lambda: f'sights: {self.rows("hmsync_member_sight")}, '
            f'{self.rows("hmsync_cluster")}, '
            f'{self.rows("hmsync_distributor_vip")}', 120)

    def test_life(self):
        lb = self.cloud.add_cluster('web', self.members)
        self.wait_until_whole(lb, 2)
        self.assertServes(lb)
        self.wait_until_seen(lb, 2)

        # Octavia's own workers change it.
        pool = self.api.find_pool('members')
        self.api.create_listener(
            name='other', protocol='HTTP', protocol_port=81,
            load_balancer_id=lb.id, default_pool_id=pool.id)
        self.cloud.wait_until_active(lb.id)
        self.assertServes(lb, port=81)

        self.cloud.delete_cluster(lb)
        self.assertNothingLeft()
