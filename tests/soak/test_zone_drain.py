# SPDX-License-Identifier: Apache-2.0

"""A compute zone that is left, and come back to, under traffic."""

import collections
import datetime
import json

import sqlalchemy as sa

from octavia_hmsync.cluster.rules import places
from tests.cloud import clusters
from tests.cloud import machines
from tests.cloud import records
from tests.functional import clusters as functional


class TestZoneDrain(functional.ClusterTestCase):

    options = {'hmsync_cluster': {'drain_timeout': 5},
               'hmsync_image': {'proof_timeout': 300,
                                'rollout_watch_time': 5}}

    def add_cluster(self):
        """A zone for each host, and a cluster over both."""
        self.cloud.compute.zones = dict(zip(self.hosts, ('az1', 'az2'),
                                            strict=True))
        profile = self.api.create_availability_zone_profile(
            name='spread', provider_name=clusters.PROVIDER,
            availability_zone_data=json.dumps({places.KEY: ['az1', 'az2']}))
        zone = self.api.create_availability_zone(
            name='spread', availability_zone_profile_id=profile.id)
        return self.cloud.add_cluster('web', self.members,
                                      availability_zone=zone.name)

    def hmsync(self, *arguments):
        return self.cloud.command('octavia-hmsync', *arguments)

    def count(self):
        """Instances by zone; at least one member serves."""
        self.assertTrue(self.get_members())
        return dict(collections.Counter(
            self.cloud.compute.zones[each.host]
            for each in list(self.cloud.compute.instances.values())))

    def get_zones(self, load_balancer):
        """Return the zones of its amphorae, as Octavia has recorded them."""
        with self.cloud.engine.connect() as connection:
            return set(connection.execute(sa.text(
                "SELECT cached_zone FROM amphora WHERE status = 'ALLOCATED' "
                'AND load_balancer_id = :id'), {'id': load_balancer.id}
            ).scalars())

    def wait_until_there(self, cause, **expected):
        """Wait for the end of a rollout, and until amphorae are in zones."""
        def is_there():
            with self.cloud.engine.connect() as connection:
                row = connection.execute(sa.text(
                    'SELECT state, cause, reason FROM hmsync_image_rollout '
                    'ORDER BY created_at DESC LIMIT 1')).one()
            found.append((*row, self.count()))
            return ((row.state, row.cause) == ('DONE', cause) and
                    self.count() == expected)

        found: list = []
        self.cloud.wait_for(is_there, lambda: f'{cause}: {found[-1]}', 600)

    def test_drain_and_release(self):
        lb = self.add_cluster()
        self.wait_until_whole(lb, 2)
        self.assertEqual({'az1': 1, 'az2': 1}, self.count())
        # The hosts take turns: one of these is in the zone.
        for name in ('one', 'two'):
            self.cloud.add_load_balancer(name, members=self.members)
        pair = self.cloud.add_load_balancer('pair', 'ACTIVE_STANDBY',
                                            members=self.members)
        self.assertEqual({'az1': 3, 'az2': 3}, self.count())
        probe = self.client.start_probe(lb.vip_address,
                                        timeout=machines.PATIENCE)
        until = (records.utcnow() + datetime.timedelta(hours=1)).isoformat()
        self.assertIn('Zone az1 is drained until', self.hmsync(
            'zone', 'drain', 'az1', '--until', until, '--reason', 'flood',
            '--build-in', 'az2'))
        self.wait_until_there('ZONE', az2=6)
        # What Octavia builds meanwhile is elsewhere, too.
        for name in ('three', 'four'):
            made = self.cloud.add_load_balancer(name, members=self.members)
        self.api.failover_load_balancer(made.id)
        self.cloud.wait_until_active(made.id)
        self.assertEqual({'az2': 8}, self.count())
        # What is replaced meanwhile does not come back there.
        self.cloud.replace(lb, min(self.cloud.get_serving(lb)))
        self.cloud.wait_for(lambda: self.count() == {'az2': 8},
                            lambda: f'eight in az2: {self.count()}')
        # The one without the VIP moves, so that nothing breaks.
        kept = self.client.hold(pair.vip_address, 40)
        kept.wait_until_open()
        self.hmsync('zone', 'release', 'az1')
        self.wait_until_there('BALANCE', az1=2, az2=6)
        for each in (pair, lb):
            self.assertEqual({'az1', 'az2'}, self.get_zones(each))
        self.assertEqual({}, kept.report().broken)
        kept.stop()
        report = probe.stop()
        self.assertEqual(0, report.failed, report)
        self.assertServes(lb)
