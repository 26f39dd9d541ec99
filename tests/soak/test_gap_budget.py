# SPDX-License-Identifier: Apache-2.0

"""How many addresses of a list may be dead, and what happens before that.

Each heartbeat goes to one address, in turn: d dead ones in a row leave a gap
of d + 1 intervals.
"""

from tests.cloud import database
from tests.functional import base

HEARTBEAT_TIMEOUT = 10


class TestGapBudget(base.FunctionalTestCase):

    make_database = database.MariaDBDatabase

    def test_five_of_seven_then_six(self):
        numbers = range(1, 8)
        cloud = self.make_cloud(amphorae=3, boot_numbers=numbers, options={
            # What is dead would stay for long, but for the gap.
            'hmsync': {'removal_delay': 300},
            'health_manager': {'heartbeat_timeout': HEARTBEAT_TIMEOUT}})
        managers = self.start(*numbers)
        self.wait_until_synced([m.address for m in managers])
        first = self.newest().number

        # Four dead in a row: a gap of 5 s, half of heartbeat_timeout. One
        # lost datagram is no harm yet.
        for manager in managers[:4]:
            manager.kill_tree()
        self.watch(HEARTBEAT_TIMEOUT)
        self.assertEqual(first, self.newest().number)

        # The fifth makes it 6 s: the list is shortened at once.
        managers[4].kill_tree()
        self.wait_until_synced([m.address for m in managers[5:]])
        self.assertIn('too few', self.newest().reason)
        shortened = self.newest().number

        # Six of the seven: one of the two that are left is a gap of 2 s.
        managers[5].kill_tree()
        self.watch(2 * HEARTBEAT_TIMEOUT)
        self.assertEqual(shortened, self.newest().number)
        self.wait_for(lambda: max(
            cloud.records.health_ages()[amphora_id]
            for amphora_id in cloud.amphora_ids) < HEARTBEAT_TIMEOUT / 2,
            'news of all', HEARTBEAT_TIMEOUT)
        self.assert_nothing_failed_over()

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
