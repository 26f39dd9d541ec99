# SPDX-License-Identifier: Apache-2.0

"""Health managers of a compute zone that an operator drains."""

import datetime

from octavia_hmsync.sync.db import zone_drain as drain_repo
from tests.cloud import database
from tests.cloud import records
from tests.functional import base


class TestZoneDrain(base.FunctionalTestCase):

    make_database = database.MariaDBDatabase

    def test_leaves_and_comes_back(self):
        cloud = self.make_cloud(amphorae=3)
        managers = [cloud.add_health_manager(
            cloud.address(number), options={'hmsync': {'zone': zone}})
            for number, zone in ((1, 'az1'), (2, 'az1'), (3, 'az2'))]
        cloud.add_housekeeping()
        cloud.wait_until_ready()
        addresses = [manager.address for manager in managers]
        self.wait_until_synced(addresses)
        drain_repo.begin(self.engine, 'az1', records.utcnow() +
                         datetime.timedelta(hours=1), True)
        self.wait_until_synced(addresses[2:])
        self.assertIn('the zone is drained', self.newest().reason)
        # It registers anew, and drains with its zone.
        managers[0].stop()
        managers[0].start()
        cloud.wait_until_ready()
        self.assertEqual(addresses[2:], sorted(self.published()))
        cloud.command('octavia-hmsync', 'zone', 'release', 'az1')
        self.wait_until_synced(addresses)
        self.assert_nothing_failed_over()
