# SPDX-License-Identifier: Apache-2.0

"""Lists that are no good, seen from those that get them first."""

from octavia_hmsync.sync.db import doubt as doubt_repo
from octavia_hmsync.sync.rules import trial
from tests.functional import test_rollout


class TestTriedAgain(test_rollout.RolloutTestCase):

    def test_out_of_reach_again(self):
        cloud = self.make_cloud(amphorae=4, boot_numbers=(1,), options={
            'hmsync': {'canary_size': 1, 'canary_wait': 1}})
        good = self.start(1)[0]
        self.wait_until_synced([good.address])
        bad = self.add_out_of_reach(2)
        bad_address = f'{cloud.address(50)}:{bad.bind_port}'
        number = self.wait_until_rolled_back(bad_address)
        self.assert_rolled_back(number, good, bad_address)

        # When the operator says so, it is tried.
        self.command('sync', 'retry')
        self.wait_until_status(number + 2, trial.ROLLED_BACK)
        # And it never keeps out another one.
        third = cloud.add_health_manager(cloud.address(3))
        self.wait_until_synced([good.address, third.address])
        self.assert_nothing_failed_over()


class TestSilence(test_rollout.RolloutTestCase):

    def test_they_fall_silent(self):
        """Without the statistics driver only that can be seen."""
        cloud = self.make_cloud(amphorae=4, boot_numbers=(1,), options={
            'controller_worker': {'statistics_drivers': 'stats_db'},
            'hmsync': {'canary_size': 1, 'canary_wait': 1,
                       'settle_time': 6}})
        good = self.start(1)[0]
        self.wait_until_synced([good.address])
        bad = self.add_out_of_reach(2)
        bad_address = f'{cloud.address(50)}:{bad.bind_port}'
        self.wait_for(lambda: bad.host in self.members(), 'registration')
        # Before it has settled, so that the list is to be that address
        # alone.
        self.command('health', 'manager', 'drain', good.host)
        number = self.wait_until_rolled_back(bad_address)
        self.assertEqual((bad_address,),
                         self.generations()[number].addresses)
        self.assert_rolled_back(number, good, bad_address)


class TestMoved(test_rollout.RolloutTestCase):

    def test_still_heard_where_it_was(self):
        """By those that have the old list; the canary is not among them."""
        cloud = self.make_cloud(boot_numbers=(1, 2), options={
            'hmsync': {'canary_size': 1, 'canary_wait': 1}})
        for _ in range(3):
            # Only heartbeats with statistics tell whose they are.
            cloud.add_load_balancer([f'{cloud.address(n)}:5555'
                                     for n in (1, 2)], listener=True)
        good, moved = self.start(1, 2)
        self.wait_until_synced([good.address, moved.address])
        self.wait_for(lambda: not doubt_repo.get_unproven(self.engine),
                      'adoption of all')

        moved.stop()
        moved.options['hmsync'].update(
            address_driver='static', static_address=cloud.address(50))
        moved.start()
        self.wait_until_rolled_back(
            f'{cloud.address(50)}:{moved.bind_port}')
        self.wait_until_applied()
        self.assert_nothing_failed_over()
