# SPDX-License-Identifier: Apache-2.0

"""A new heartbeat_key on disk, and SIGHUP, as a deployment tool may do it."""

import signal

from tests.cloud import database
from tests.cloud import octavia_conf
from tests.functional import base

NEW = {'health_manager': {'heartbeat_key': 'a-new-key-0123456789'}}


class TestHangUp(base.FunctionalTestCase):

    make_database = database.MariaDBDatabase

    def hang_up(self, controller):
        """Write the new key into its file, and have it read that again."""
        octavia_conf.write(controller.conf_path, octavia_conf.merge(
            controller.options, NEW))
        controller.signal(signal.SIGHUP)

    def wait_for_log(self, controller, words):
        self.wait_for(lambda: words in controller.log(),
                      f'{words!r} in the log of {controller.name}')

    def hang_up_all(self, first, then):
        """See that whatever is uploaded then has a key that is heard."""
        cloud = self.make_cloud(amphorae=2, boot_numbers=(1, 2))
        managers = self.start(1, 2)
        self.wait_until_synced([manager.address for manager in managers])
        number = self.newest().number
        before = {i: row.applied_at for i, row in self.results().items()}
        services = {'managers': managers, 'keepers': [self.housekeeping]}
        for controllers in first, then:
            for controller in services[controllers]:
                self.hang_up(controller)
            result = cloud.command('octavia-hmsync', 'sync', 'run', '--all')
            self.assertEqual(0, result.returncode, result.stderr)
            for controller in services[controllers]:
                self.wait_for_log(
                    controller, 'by now than the one with which this'
                    if controllers == 'managers' else 'no health manager '
                    'that is up listens with')
        self.wait_for_log(self.housekeeping, 'half of them first, on ' +
                          ', '.join(sorted(m.host for m in managers)))

        # Longer than heartbeat_timeout.
        self.watch(12)
        self.assert_nothing_failed_over()
        # Each is still heard.
        self.wait_for(lambda: max(cloud.records.health_ages().values()) < 5,
                      lambda: f'heartbeats: {cloud.records.health_ages()}')
        self.assertEqual(number, self.newest().number)
        for row in self.results().values():
            self.assertIsNone(row.held_since)
            if first == 'keepers':
                self.assertEqual(before[row.id], row.applied_at)
        shown = cloud.command('octavia-hmsync', 'health', 'manager', 'list',
                              '-f', 'value', '-c', 'key').stdout
        self.assertEqual(['RESTART'] * 2, shown.split())
        checked = cloud.command('octavia-hmsync', 'upgrade', 'check').stdout
        self.assertIn(', '.join(sorted(m.host for m in managers)),
                      ' '.join(checked.replace('|', ' ').split()))
        for controller in cloud.controllers:
            # oslo.config itself logs what SIGHUP has changed, both values.
            self.assertEqual([], [
                line for line in controller.log().splitlines() if
                NEW['health_manager']['heartbeat_key'] in line and
                'oslo_config.cfg' not in line])

    def test_health_managers_first(self):
        self.hang_up_all('managers', 'keepers')

    def test_housekeepers_first(self):
        self.hang_up_all('keepers', 'managers')
