# SPDX-License-Identifier: Apache-2.0

"""Who listens: what restarts stays in the list."""

from tests.cloud import database
from tests.functional import base

HEARTBEAT_TIMEOUT = 10


class TestRestart(base.FunctionalTestCase):

    make_database = database.MariaDBDatabase

    def test_three_of_four_at_once(self):
        """A deployment tool reloads them; their addresses stay.

        The one that is left hears each amphora every 8 s.
        """
        cloud = self.make_cloud(
            amphorae=2, boot_numbers=range(1, 5), options={
                'health_manager': {'heartbeat_interval': 2},
                'hmsync': {'restart_grace': 40, 'removal_delay': 60}})
        managers = self.start(1, 2, 3, 4)
        addresses = [manager.address for manager in managers]
        self.wait_until_synced(addresses)
        number = self.newest().number
        for manager in managers[1:]:
            manager.request_stop()
        for manager in managers[1:]:
            manager.stop()
        # As long as two looks of a housekeeper, and as a start takes.
        self.watch(4)
        self.assertEqual(number, self.newest().number)
        for manager in managers[1:]:
            manager.start()
        cloud.wait_until_ready()
        self.wait_for(lambda: {m.status for m in self.members().values()} ==
                      {'ONLINE'}, 'ONLINE of all')
        self.watch(HEARTBEAT_TIMEOUT)
        self.assertEqual(number, self.newest().number)
        self.assert_nothing_failed_over()
