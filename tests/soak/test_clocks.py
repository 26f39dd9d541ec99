# SPDX-License-Identifier: Apache-2.0

"""Controllers whose clocks are five minutes apart."""

import re

from tests.cloud import database
from tests.cloud import process
from tests.functional import base

HEARTBEAT_TIMEOUT = 10


class TestClocks(base.FunctionalTestCase):

    make_database = database.MariaDBDatabase

    def add_health_manager(self, number, ahead):
        manager = self.cloud.add_health_manager(self.cloud.address(number))
        manager.stop()
        process.turn_clock(manager, ahead)
        manager.start()
        return manager

    def test_five_minutes_apart(self):
        """Housekeeper behind, health managers ahead, database right."""
        cloud = self.make_cloud(amphorae=2, boot_numbers=(1, 2))
        old = [self.add_health_manager(n, 300) for n in (1, 2)]
        keeper = cloud.add_housekeeping()
        keeper.stop()
        process.turn_clock(keeper, -300)
        keeper.start()
        cloud.wait_until_ready()
        self.wait_until_synced([m.address for m in old])
        # On a busy machine it takes some seconds to ask the database.
        self.wait_for(lambda: re.search(
            'clock of this controller is (29|30). s ahead', old[0].log()),
            'word about the clock')
        # All of them replaced: silence, holds, uploads, and back.
        for manager in old:
            manager.kill_tree()
        new = [self.add_health_manager(n, 300) for n in (3, 4)]
        cloud.wait_until_ready()
        self.wait_until_synced([m.address for m in new])
        self.watch(2 * HEARTBEAT_TIMEOUT)
        self.assert_nothing_failed_over()
