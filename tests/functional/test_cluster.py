# SPDX-License-Identifier: Apache-2.0

"""A load balancer on a cluster, from its creation to its end."""

from octavia_hmsync.cluster.db import member_probe as probe_repo
from tests.functional import clusters


class TestCluster(clusters.ClusterTestCase):

    def wait_until_seen(self, lb, size):
        """Wait until both distributors see all members."""
        self.cloud.wait_for(
            lambda: [row['state'] for row in
                     self.rows('hmsync_member_probe')
                     if row['distributor_id'] != probe_repo.HEARTBEATS
                     ] == ['UP'] * size * len(self.cloud.distributors),
            lambda: f'probes: {self.rows("hmsync_member_probe")}, '
            f'{self.rows("hmsync_cluster")}, '
            f'{self.rows("hmsync_distributor_vip")}', 120)

    def test_life(self):
        lb = self.cloud.add_cluster('web', self.members)
        self.wait_until_whole(lb, 2)
        self.assertServes(lb)
        self.wait_until_seen(lb, 2)
        # By Octavia's own time-outs.
        self.cloud.wait_for(
            lambda: [row['idle_timeout'] for row in
                     self.rows('hmsync_cluster_member')] == [75, 75],
            lambda: f'members: {self.rows("hmsync_cluster_member")}', 120)

        # Octavia's own workers change it.
        pool = self.api.find_pool('members')
        self.api.create_listener(
            name='other', protocol='HTTP', protocol_port=81,
            load_balancer_id=lb.id, default_pool_id=pool.id)
        self.cloud.wait_until_active(lb.id)
        self.assertServes(lb, port=81)

        self.check_refused(lb)

        self.cloud.delete_cluster(lb)
        self.assertNothingLeft()

    def check_refused(self, lb):
        """A change that haproxy does not take is seen by no client.

        octavia-api checks expressions by those of Python, which counts
        further.
        """
        before = self.read_configurations(lb)
        probe = self.client.start_probe(lb.vip_address, rate=20)
        policy = self.api.create_l7_policy(
            listener_id=self.api.find_listener('other').id, action='REJECT')
        self.cloud.wait_until_active(lb.id)
        with_policy = self.read_configurations(lb)
        rule = self.api.create_l7_rule(
            policy, type='PATH', compare_type='REGEX', value='x{70000}')
        self.cloud.wait_for(
            lambda: self.api.get_l7_rule(
                rule, policy).provisioning_status == 'ERROR', 'rule in ERROR')
        self.cloud.wait_until_active(lb.id)
        self.assertEqual(with_policy, self.read_configurations(lb))
        self.wait_until_whole(lb, 2)
        self.api.delete_l7_policy(policy)
        self.cloud.wait_until_active(lb.id)
        report = probe.stop()
        self.assertEqual(0, report.failed, report)
        self.assertEqual(before, self.read_configurations(lb))
        self.assertServes(lb)
        self.assertServes(lb, port=81)

    def read_configurations(self, lb):
        return {amphora_id: self.cloud.compute.by_amphora(
            amphora_id).run_inside(
                'cat', f'/var/lib/octavia/{lb.id}/haproxy.cfg').stdout
            for amphora_id in self.get_members().values()}
