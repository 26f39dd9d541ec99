# SPDX-License-Identifier: Apache-2.0

"""No amphora is failed over for what happened to the health managers.

With the real failover loop; compute and network drivers are no-ops, so that a
failover that begins is seen in the database.
"""

from tests.cloud import database
from tests.cloud import waiting
from tests.functional import base

HEARTBEAT_TIMEOUT = 10


class GuardTestCase(base.FunctionalTestCase):

    make_database = database.MariaDBDatabase

    def wait_until_failed_over(self, amphora_ids,
                               timeout=HEARTBEAT_TIMEOUT + waiting.LIMIT):
        self.wait_for(
            lambda: self.cloud.failovers_begun() == set(amphora_ids),
            lambda: f'failover of {amphora_ids} alone '
                    f'(of {self.cloud.failovers_begun()})', timeout)

    def replace_health_manager(self, hold_max):
        """All health managers at new addresses, and no housekeeper."""
        cloud = self.make_cloud(amphorae=2, options={
            'hmsync': {'failover_hold_max': hold_max}})
        old = self.start(1)[0]
        self.wait_until_synced([old.address])
        self.housekeeping.stop()
        new = cloud.add_health_manager(cloud.address(2))
        old.kill_tree()
        new.wait_until_ready()
        return new


class TestFailoverGuard(GuardTestCase):

    def test_held_until_they_are_heard(self):
        new = self.replace_health_manager(hold_max=300)
        # It begins failovers one heartbeat_timeout after its start.
        self.watch(1.5 * HEARTBEAT_TIMEOUT)
        self.assertIn('Holding back the failover of', new.log())
        self.housekeeping.start()
        self.wait_until_synced([new.address])
        self.wait_for(lambda: not [
            row for row in self.results().values() if row.held_since],
            'end of the holds')
        self.assert_nothing_failed_over()

    def test_held_for_no_longer_than_stated(self):
        hold_max = 20
        self.replace_health_manager(hold_max)
        # It ends in time for the failover to be late by hold_max at most,
        # however late the guard came to look.
        self.watch(hold_max - HEARTBEAT_TIMEOUT)
        self.wait_until_failed_over(self.cloud.amphora_ids,
                                    hold_max + waiting.LIMIT)


class TestWithoutPlugin(GuardTestCase):
    """What happens to an Octavia without the plugin: why it exists."""

    hmsync = False

    def test_all_replaced(self):
        cloud = self.make_cloud(amphorae=3, boot_numbers=(1,), upgrade=False)
        old = self.start(1, housekeeping=False)[0]
        cloud.wait_until_known([old.address])
        old.kill_tree()
        cloud.add_health_manager(cloud.address(2))
        cloud.wait_until_ready()
        self.wait_until_failed_over(cloud.amphora_ids)
