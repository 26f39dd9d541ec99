# SPDX-License-Identifier: Apache-2.0

"""What operators order of clusters, under traffic."""

import sqlalchemy as sa

from tests.cloud import machines
from tests.functional import clusters


class TestOrders(clusters.ClusterTestCase):

    def hmsync(self, *arguments):
        return self.cloud.command('octavia-hmsync', *arguments)

    def get_images(self):
        """{id of an amphora: what it was booted from}."""
        with self.cloud.engine.connect() as connection:
            return dict(connection.execute(sa.text(
                "SELECT id, image_id FROM amphora "
                "WHERE status = 'ALLOCATED'")).all())

    def finish(self, load_balancer, probe):
        """Check that nobody has noticed, and that nothing is left over."""
        report = probe.stop()
        self.assertEqual(0, report.failed, report)
        self.assertServes(load_balancer)
        self.cloud.delete_cluster(load_balancer)
        self.assertNothingLeft()

    def test_image(self):
        """Each member is replaced by one of the newest image."""
        lb = self.cloud.add_cluster('web', self.members)
        self.wait_until_whole(lb, 2)
        before = self.get_members()
        image = self.cloud.add_image('second')
        probe = self.client.start_probe(lb.vip_address,
                                        timeout=machines.PATIENCE)
        out = self.hmsync('image', 'replace', lb.id, '--wait', '--timeout',
                          '400')
        self.assertIn('ORDER, amphora', out)
        self.assertIn('DONE', out)
        self.wait_until_whole(lb, 2)
        after = self.get_members()
        self.assertEqual(before.keys(), after.keys())
        self.assertFalse(set(before.values()) & set(after.values()))
        self.assertEqual(dict.fromkeys(after.values(), image.id),
                         self.get_images())
        self.finish(lb, probe)

    def test_commands(self):
        """Sizes, orders for a member, and distributors."""
        lb = self.cloud.add_cluster('web', self.members)
        self.wait_until_whole(lb, 2)
        probe = self.client.start_probe(lb.vip_address,
                                        timeout=machines.PATIENCE)
        self.hmsync('cluster', 'set', lb.id, '--desired', '3', '--cooldown',
                    '0')
        self.wait_until_whole(lb, 3)
        members = self.get_members()
        self.hmsync('cluster', 'member', 'drain', members[0])
        self.cloud.wait_for(lambda: 0 not in self.get_members(), 'a drain')
        self.hmsync('cluster', 'member', 'undrain', members[0])
        self.cloud.wait_for(lambda: self.get_members() == members,
                            'the same members')
        self.hmsync('cluster', 'set', lb.id, '--desired', '2')
        self.wait_until_whole(lb, 2)
        active = self.cloud.get_active_distributor(lb)
        self.hmsync('distributor', 'move', lb.id)
        self.cloud.wait_for(
            lambda: self.cloud.get_active_distributor(lb) not in (
                None, active), 'another distributor')
        active = self.cloud.get_active_distributor(lb)
        self.hmsync('distributor', 'drain', active.host)
        self.cloud.wait_for(
            lambda: not active.ask('list_vips'), 'a drained distributor', 120)
        self.assertServes(lb)
        self.hmsync('distributor', 'resume', active.host)
        # It began with the first two members, which stay.
        self.assertEqual(0, probe.report().broken)
        self.finish(lb, probe)
