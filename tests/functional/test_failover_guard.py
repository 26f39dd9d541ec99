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

"""No amphora is failed over for what happened to the health managers.

With the real failover loop; compute and network drivers are no-ops, so that a
failover that begins is seen in the database.
"""

import time

from tests.cloud import database
from tests.functional import base

HEARTBEAT_TIMEOUT = 10


class TestFailoverGuard(base.FunctionalTestCase):

    make_database = database.MariaDBDatabase

    def replace_health_manager(self, hold_max):
        """All health managers at new addresses, and no housekeeper."""
        cloud = self.make_cloud(amphorae=2, options={
            'hmsync': {'failover_hold_max': hold_max}})
        old = self.start(1)[0]
        self.wait_until_synced([old.address])
        self.housekeeping.stop()
        new = cloud.add_health_manager(cloud.address(2))
        old.kill_tree()
        new.wait_until_ready(base.START_TIMEOUT)
        return new

    def watch(self, seconds):
        """Check that no failover begins for some seconds."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.assertEqual(set(), self.cloud.failovers_begun())
            time.sleep(0.5)

    def test_held_until_they_are_heard(self):
        new = self.replace_health_manager(hold_max=300)
        # It begins failovers one heartbeat_timeout after its start.
        self.watch(2.5 * HEARTBEAT_TIMEOUT)
        self.assertIn('Holding back the failover of', new.log())
        self.housekeeping.start()
        self.wait_until_synced([new.address])
        self.watch(2 * HEARTBEAT_TIMEOUT)
        self.wait_for(lambda: not [
            row for row in self.results().values() if row.held_since],
            'end of the holds')

        # Its list was live all along: it is dead, and not held.
        dead = sorted(self.cloud.amphora_ids)[0]
        self.cloud.amphorae[dead].kill_tree()
        self.wait_for(lambda: self.cloud.failovers_begun() == {dead},
                      'failover of an amphora that is really dead',
                      timeout=HEARTBEAT_TIMEOUT + 30)

    def test_held_for_no_longer_than_stated(self):
        hold_max = 20
        self.replace_health_manager(hold_max)
        # It ends in time for the failover to be late by hold_max at most.
        self.watch(hold_max - HEARTBEAT_TIMEOUT / 2)
        self.wait_for(
            lambda: self.cloud.failovers_begun() == self.cloud.amphora_ids,
            'end of the holds', timeout=hold_max + base.SYNC_TIMEOUT)


class TestWithoutGuard(TestFailoverGuard):
    """The same without it: what it is good for."""

    def test_held_until_they_are_heard(self):
        self.replace_health_manager(hold_max=0)
        self.wait_for(
            lambda: self.cloud.failovers_begun() == self.cloud.amphora_ids,
            'failovers', timeout=HEARTBEAT_TIMEOUT + base.SYNC_TIMEOUT)

    test_held_for_no_longer_than_stated = None
