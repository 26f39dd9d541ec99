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
        cloud.wait_until_ready(base.START_TIMEOUT)
        self.wait_for(lambda: {m.status for m in self.members().values()} ==
                      {'ONLINE'}, 'ONLINE of all')
        self.watch(HEARTBEAT_TIMEOUT)
        self.assertEqual(number, self.newest().number)
        self.assert_nothing_failed_over()
