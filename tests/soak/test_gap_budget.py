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

"""Most of the health managers die at once.

tests/functional/test_gap_budget has one after the other.
"""

from tests.cloud import database
from tests.functional import base

HEARTBEAT_TIMEOUT = 10


class TestGapBudget(base.FunctionalTestCase):

    make_database = database.MariaDBDatabase

    def test_six_of_seven_at_once(self):
        """The one that is left hears an amphora every 7 s, of 10."""
        numbers = range(1, 8)
        self.make_cloud(amphorae=3, boot_numbers=numbers, options={
            'hmsync': {'removal_delay': 300},
            'health_manager': {'heartbeat_timeout': HEARTBEAT_TIMEOUT}})
        *dead, left = self.start(*numbers)
        self.wait_until_synced([m.address for m in (*dead, left)])
        for manager in dead:
            manager.kill_tree()
        # The last of them may be found dead after the list was shortened for
        # the others: so few do no harm, and stay for removal_delay.
        self.wait_for(
            lambda: left.address in self.published() and
            len(self.published()) <= 5,
            lambda: f'list without most of the dead: {self.published()}')
        self.wait_until_applied()
        self.watch(1.5 * HEARTBEAT_TIMEOUT)
        self.assert_nothing_failed_over()
