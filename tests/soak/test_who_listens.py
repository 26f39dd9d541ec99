# SPDX-License-Identifier: Apache-2.0

"""All health managers are replaced by others at new addresses."""

from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.rules import trial
from tests.cloud import database
from tests.functional import base

HEARTBEAT_TIMEOUT = 10


class TestReplacement(base.FunctionalTestCase):

    make_database = database.MariaDBDatabase

    # Those that start together are one change.
    OPTIONS = {'hmsync': {'canary_size': 1, 'canary_wait': 5,
                          'settle_time': 8}}

    def statuses(self):
        return [(g.number, g.status, g.wave)
                for g in generation_repo.get_history(self.engine)]

    def replace_all(self, managers, end):
        """Replace all health managers by others at new addresses."""
        for manager in managers:
            end(manager)
        new = [self.cloud.add_health_manager(self.cloud.address(n))
               for n in range(11, 11 + len(managers))]
        self.cloud.wait_until_ready()
        return [manager.address for manager in new]

    def wait_until_all_have(self, addresses):
        """Wait until amphorae use new addresses, whoever was first."""
        self.wait_for(lambda: set(addresses) <= self.published(),
                      'list with the new addresses')
        self.wait_until_applied()
        self.cloud.wait_until_known(addresses)

    def assertNoTrial(self, since):
        self.assertEqual(set(), {
            (number, status, wave) for number, status, wave in
            self.statuses() if number > since and
            (status != trial.OPEN or wave)})

    def test_in_good_order(self):
        """All say goodbye; nobody listens, so there is nothing to lose."""
        self.make_cloud(amphorae=3, options=self.OPTIONS)
        managers = self.start(1, 2, 3)
        self.wait_until_synced([manager.address for manager in managers])
        number = self.newest().number
        new = self.replace_all(managers, lambda manager: manager.stop())
        self.wait_until_all_have(new)
        self.assertNoTrial(number)
        self.watch(HEARTBEAT_TIMEOUT)
        self.assert_nothing_failed_over()

    def test_pinned_ones(self):
        """A file lists their addresses, and nobody is there any more."""
        cloud = self.make_cloud(amphorae=4, options=self.OPTIONS)
        pinned = [f'{cloud.address(n)}:5555' for n in (1, 2, 3)]
        cloud.options['health_manager'] = {
            **cloud.options.get('health_manager', {}),
            'controller_ip_port_list': pinned}
        managers = self.start(1, 2, 3)
        self.wait_until_synced(pinned)
        number = self.newest().number
        new = self.replace_all(managers, lambda manager: manager.kill_tree())
        self.wait_until_all_have(new)
        self.watch(2 * HEARTBEAT_TIMEOUT)
        self.assert_nothing_failed_over()
        last = self.newest().number
        self.assertEqual((last, trial.OPEN), self.statuses()[-1][:2])
        self.assertGreater(last, number)
