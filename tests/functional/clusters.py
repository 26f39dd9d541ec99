# SPDX-License-Identifier: Apache-2.0

"""What the tests of clusters on a whole Octavia share."""

from oslotest import base
import sqlalchemy as sa

from tests.cloud import clusters
from tests.cloud import machines

TABLES = ('hmsync_cluster', 'hmsync_cluster_member',
          'hmsync_distributor_vip')


class ClusterTestCase(base.BaseTestCase):
    """A whole Octavia, two distributors, members of pools and a client."""

    kind = clusters.ClusterOctavia
    workers = 1
    options = None
    neutron_options = None

    def setUp(self):
        super().setUp()
        self.cloud = self.useFixture(self.kind(
            options=self.options, workers=self.workers,
            neutron_options=self.neutron_options))
        self.cloud.wait_until_ready()
        self.prepare()
        self.api = self.cloud.connection.load_balancer
        self.hosts = self.cloud.fabric.hosts
        self.members = [
            self.useFixture(machines.Member(self.cloud, f'member-{host}',
                                            host=host))
            for host in self.hosts]
        self.client = self.useFixture(machines.Client(
            self.cloud, 'client', host=self.hosts[0]))

    def prepare(self):
        """Make what there has to be before machines are."""

    def rows(self, table):
        with self.cloud.engine.connect() as connection:
            return [dict(row) for row in connection.execute(
                sa.text(f'SELECT * FROM {table}')).mappings()]

    def get_members(self):
        """{slot: id of the amphora} of ACTIVE members."""
        return {row['slot']: row['amphora_id']
                for row in self.rows('hmsync_cluster_member')
                if row['state'] == 'ACTIVE'}

    def wait_until_whole(self, load_balancer, size, timeout=240):
        """Wait until a cluster has all members, and nothing is left over."""
        def is_whole():
            found = self.api.get_load_balancer(load_balancer.id)
            return (found.provisioning_status == 'ACTIVE' and
                    sorted(self.get_members()) == list(range(size)) and
                    len(self.rows('hmsync_cluster_member')) == size and
                    len(self.cloud.compute.instances) == size)

        self.cloud.wait_for(
            is_whole, lambda: f'{size} members; there are '
            f'{self.rows("hmsync_cluster_member")}, '
            f'{self.rows("hmsync_cluster")}', timeout)

    def assertServes(self, load_balancer, port=80):
        """Check that each member of the pool answers at the VIP."""
        self.assertEqual(
            {each.name for each in self.members},
            {self.client.get(load_balancer.vip_address, port=port)
             for _ in range(12)})

    def assertNothingLeft(self):
        """Check that there is nothing of any load balancer."""
        self.assertEqual({}, self.cloud.compute.instances)
        self.assertEqual([], [
            port.name for port in self.cloud.connection.network.ports()
            if port.name.startswith('octavia')])
        self.assertEqual([], [
            group.name for group in
            self.cloud.connection.network.security_groups()
            if group.name.startswith('lb-')
            and group.name != 'lb-mgmt-sec-grp'])
        self.cloud.wait_for(
            lambda: not any(self.rows(table) for table in TABLES),
            'end of all rows')
        for each in self.cloud.distributors.values():
            self.assertEqual([], each.ask('list_vips'))
