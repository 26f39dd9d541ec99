# SPDX-License-Identifier: Apache-2.0

"""A controller that cannot reach amphorae, for longer."""

from tests.functional import test_blind_controller
from tests.functional import test_failover_guard

HEARTBEAT_TIMEOUT = test_failover_guard.HEARTBEAT_TIMEOUT


class TestBlindController(test_blind_controller.BlindControllerTestCase):

    def test_all_health_managers_replaced(self):
        """The blind one is first, and later leaves them to the other."""
        blind, new = self.replace_all()
        # Past the time after which they would be failed over.
        self.watch(1.5 * HEARTBEAT_TIMEOUT)

        self.housekeeping.start()
        self.wait_until_synced([m.address for m in new])
        self.watch(HEARTBEAT_TIMEOUT)
        self.assert_nothing_failed_over()
        self.wait_until_known()
        # It leaves the next list to the other one.
        log = blind.log()
        third = self.cloud.add_health_manager(self.cloud.address(4))
        self.wait_until_synced([m.address for m in (*new, third)])
        self.assertEqual(1, blind.log().count(
            'cannot reach the agents of amphorae that others reach'))
        self.assertNotIn('is UNREACHABLE', blind.log()[len(log):])
        self.assert_nothing_failed_over()
