# SPDX-License-Identifier: Apache-2.0

"""A health manager that leaves the list while it still listens."""

import time

from octavia_hmsync.sync.rules import member
from tests.cloud import database
from tests.functional import base


class TestDrain(base.FunctionalTestCase):

    make_database = database.MariaDBDatabase

    def drain(self, host, *arguments):
        return self.cloud.command('octavia-hmsync', 'health', 'manager',
                                  'drain', host, *arguments, timeout=120)

    def test_drain(self):
        cloud = self.make_cloud(options={
            'health_manager': {'heartbeat_timeout': 6}})
        boot = [f'{cloud.address(n)}:5555' for n in (1, 2)]
        cloud.add_load_balancer(boot, listener=True)
        cloud.add_load_balancer(boot)
        one, two = self.start(1, 2)
        self.wait_until_synced([one.address, two.address])

        result = self.drain(one.host, '--wait', '--timeout', '90')
        ended = time.time()
        self.assertEqual(0, result.returncode,
                         result.stdout + result.stderr)
        self.assertIn(f'No amphora sends to {one.host}', result.stdout)
        # It listens to the end, and nobody sends to it any more.
        self.assertTrue(one.is_ready())
        self.assertEqual(member.DRAINING, self.members()[one.host].status)
        self.assertEqual({two.address}, self.published())
        time.sleep(3)
        self.assertIsNone(cloud.sniffer.last_heard(
            cloud.amphora_ids, {one.address}, since=ended))
        self.assertTrue(one.stop())

        # A new process at its place is ONLINE: the drain was for the old.
        one.start()
        self.wait_until_synced([one.address, two.address])

        # An image that goes on with its old list is named.
        old = cloud.add_load_balancer(boot, listener=True, old_image=True)[0]
        old.wait_until_ready()
        self.wait_until_applied()
        result = self.drain(two.host, '--wait', '--timeout', '20')
        self.assertEqual(1, result.returncode, result.stdout)
        self.assertEqual(
            [f'Health manager {two.host} at {two.address} is DRAINING.',
             f'{old.amphora_id} has the new list and does not use it'],
            result.stdout.splitlines())
        self.assertIn('1 amphora may still send', result.stderr)

        resumed = cloud.command('octavia-hmsync', 'health', 'manager',
                                'resume', two.host)
        self.assertEqual(0, resumed.returncode, resumed.stderr)
        self.wait_until_published([one.address, two.address])
        self.assert_nothing_failed_over()
