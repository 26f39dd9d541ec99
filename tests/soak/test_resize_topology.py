# SPDX-License-Identifier: Apache-2.0

"""A SINGLE load balancer becomes a pair, under clients."""

import sys

import sqlalchemy as sa

from tests.cloud import octavia
from tests.functional import images


class TestTopology(images.ImageTestCase):
    """On OVN, which enforces what security groups say of VRRP."""

    def make_cloud(self):
        return octavia.Octavia(network='ovn', workers=1)

    def assertIsPair(self, lb):
        """Check that it is like a load balancer that was made so."""
        self.wait_until_online(lb)
        found = self.look_at(lb)
        self.assertEqual(('ACTIVE', 'ONLINE'), found['status'])
        self.assertEqual(
            [('ALLOCATED', 'BACKUP', False), ('ALLOCATED', 'MASTER', False)],
            sorted((row[0], row[3], bool(row[4]))
                   for row in found['amphorae'].values()))
        self.assertEqual(1, len(found['holders']), found)
        with self.cloud.engine.connect() as connection:
            self.assertEqual([('ACTIVE_STANDBY', lb.id)], [
                tuple(row) for row in connection.execute(sa.text(
                    'SELECT topology, vrrp_group.load_balancer_id FROM '
                    'load_balancer JOIN vrrp_group ON load_balancer_id = id'))
            ])

    def test_grow(self):
        lb = self.add_load_balancer()
        instances = len(self.cloud.compute.instances)
        flavor = self.cloud.add_flavor(loadbalancer_topology='ACTIVE_STANDBY')
        held = self.client.hold(lb.vip_address, 5)
        held.wait_until_open(60)
        with self.under_probe(lb) as seen:
            self.cloud.command('octavia-hmsync', 'resize', lb.id, '--flavor',
                               flavor, '--reason', 'grows', '--wait')
        print(seen.report, seen.holders, held.stop(), file=sys.__stderr__)
        self.assertHardlyNoticed(seen.report)
        self.assertNotIn(0, seen.holders)
        self.assertIsPair(lb)
        # Octavia's own failover builds by the new topology.
        self.api.failover_load_balancer(lb.id)
        self.cloud.wait_until_active(lb.id)
        self.assertIsPair(lb)
        self.assertEqual(instances + 1, len(self.cloud.compute.instances))
