# SPDX-License-Identifier: Apache-2.0

"""What lost datagrams do in the scenarios of doc/source/admin/faults.rst.

With one of a thousand lost, and 10 000 amphorae, fewer than one in ten times
that such a thing happens may an amphora be failed over that is well.
"""

import os

from tests.unit import base
from tests.unit.sync.rules import cases
from tests.unit.sync.rules import loss

# Amphorae that stand for all; HMSYNC_LOSS_AMPHORAE=100 for a closer look.
AMPHORAE = int(os.environ.get('HMSYNC_LOSS_AMPHORAE', 10))
LIMIT = 0.1


class TestLoss(base.TestCase):

    def simulate(self, count, **kwargs):
        cloud = loss.Cloud(range(1, count + 1), amphorae=AMPHORAE, **kwargs)
        cloud.run(100)
        self.assertLess(cloud.failovers(), 1e-6)
        return cloud

    def assertFew(self, cloud, seconds=300):
        cloud.run(seconds)
        self.assertLess(cloud.failovers(), LIMIT)

    def kill(self, cloud, *numbers):
        for number in numbers:
            cloud.kill(f'hm{number}')

    def stop(self, cloud, *numbers):
        for number in numbers:
            cloud.stop(f'hm{number}')

    def start(self, cloud, *numbers):
        for number in numbers:
            cloud.start(number)

    def test_without_guard_and_housekeeper(self):
        """The one that is left of four hears each of them every 40 s.

        In 250 s there are six such heartbeats, and each that is lost is a
        failover of the one in a thousand that sent it.
        """
        cloud = self.simulate(4, hold_max=0)
        cloud.stop_housekeepers()
        self.kill(cloud, 1, 2, 3)
        cloud.run(250)
        self.assertGreater(cloud.failovers(), 30)
        self.assertLess(cloud.failovers(), 70)

    def test_some_are_killed(self):
        for count, killed in ((2, 1), (3, 1), (3, 2), (4, 2), (4, 3), (5, 2),
                              (5, 3), (5, 4), (7, 2), (7, 5), (7, 6)):
            cloud = self.simulate(count)
            self.kill(cloud, *range(1, killed + 1))
            self.assertFew(cloud)

    def test_apart_from_each_other(self):
        cloud = self.simulate(5)
        self.kill(cloud, 1, 3)
        self.assertFew(cloud, 15)
        self.kill(cloud, 2)
        self.assertFew(cloud)

    def test_restart_at_the_same_address(self):
        for seconds in (5, 15):
            cloud = self.simulate(3)
            for number in (1, 2, 3):
                self.stop(cloud, number)
                cloud.run(seconds)
                self.start(cloud, number)
                cloud.run(seconds)
            self.assertFew(cloud)

    def test_restart_together(self):
        for count, restarting in ((3, 3), (5, 4), (5, 5), (7, 6), (20, 3)):
            cloud = self.simulate(count)
            self.stop(cloud, *range(1, restarting + 1))
            self.assertFew(cloud, 15)
            self.start(cloud, *range(1, restarting + 1))
            self.assertFew(cloud)

    def test_stopped_for_good(self):
        for count, stopped in ((3, 1), (3, 2), (5, 4)):
            cloud = self.simulate(count)
            self.stop(cloud, *range(1, stopped + 1))
            self.assertFew(cloud)

    def test_moves(self):
        cloud = self.simulate(3)
        cloud.start(11, 'hm1')
        self.assertFew(cloud, 20)
        cloud.start(12, 'hm2')
        self.assertFew(cloud)

    def test_all_are_replaced(self):
        for count in (1, 3, 5):
            for end in (self.kill, self.stop):
                cloud = self.simulate(count)
                end(cloud, *range(1, count + 1))
                cloud.run(5)
                self.start(cloud, *range(11, 11 + count))
                self.assertFew(cloud)

    def test_four_of_five_are_replaced(self):
        for end in (self.kill, self.stop):
            cloud = self.simulate(5)
            end(cloud, 2, 3, 4, 5)
            cloud.run(5)
            self.start(cloud, 12, 13, 14, 15)
            self.assertFew(cloud)

    def test_rolling_replacement(self):
        cloud = self.simulate(3)
        for number in (1, 2, 3):
            self.start(cloud, number + 10)
            self.assertFew(cloud, 20)
            self.stop(cloud, number)
            self.assertFew(cloud, 30)
        self.assertFew(cloud)

    def test_drain(self):
        cloud = self.simulate(3)
        cloud.drain('hm1')
        self.assertFew(cloud, 60)
        self.stop(cloud, 1)
        self.assertFew(cloud)

    def test_no_housekeeper_for_two_minutes(self):
        cloud = self.simulate(3)
        cloud.stop_housekeepers()
        self.kill(cloud, 1, 2, 3)
        self.start(cloud, 11, 12, 13)
        self.assertFew(cloud, 120)
        cloud.start_housekeepers()
        self.assertFew(cloud)

    def test_control_plane_is_off_for_an_hour(self):
        cloud = self.simulate(3)
        cloud.stop_housekeepers()
        self.kill(cloud, 1, 2, 3)
        cloud.run(3600)
        self.start(cloud, 11, 12)
        cloud.start_housekeepers()
        self.assertFew(cloud)

    def test_database_is_down(self):
        for seconds in (30, 600):
            cloud = self.simulate(3)
            cloud.cut_off_database()
            cloud.run(seconds)
            cloud.bring_back_database()
            self.assertFew(cloud)

    def test_flapping(self):
        cloud = self.simulate(3)
        for _ in range(10):
            self.kill(cloud, 1)
            cloud.run(12)
            self.start(cloud, 1)
            cloud.run(12)
        self.assertFew(cloud)

    def test_flapping_at_another_address_each_time(self):
        cloud = self.simulate(3)
        for number in range(20, 30):
            cloud.start(number, 'hm1')
            cloud.run(12)
        self.assertFew(cloud)

    def test_twenty(self):
        for gone in (3, 5, 10, 19):
            cloud = self.simulate(20)
            self.kill(cloud, *range(1, gone + 1))
            self.assertFew(cloud)

    def test_pinned_ones_are_replaced(self):
        cloud = self.simulate(3, pinned=cases.addresses(1, 2, 3))
        self.kill(cloud, 1, 2, 3)
        self.start(cloud, 11, 12, 13)
        self.assertFew(cloud, 200)
