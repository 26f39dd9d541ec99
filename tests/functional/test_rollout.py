# SPDX-License-Identifier: Apache-2.0

"""A new list goes to few amphorae first, and back if they fall silent."""

import time

from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.rules import trial
from tests.cloud import database
from tests.functional import base


class RolloutTestCase(base.FunctionalTestCase):

    make_database = database.MariaDBDatabase

    def generations(self):
        return {g.number: g for g in
                generation_repo.get_history(self.engine)}

    def wait_until_status(self, number, status):
        self.wait_for(lambda: number in self.generations() and
                      self.generations()[number].status == status,
                      lambda: f'{status} of generation {number}: '
                              f'{self.generations()}')

    def command(self, *arguments):
        result = self.cloud.command('octavia-hmsync', *arguments)
        self.assertEqual(0, result.returncode, result.stderr)
        return result.stdout

    def add_out_of_reach(self, number):
        """As behind a firewall: it binds one address, advertises another."""
        return self.cloud.add_health_manager(
            self.cloud.address(number), options={'hmsync': {
                'address_driver': 'static',
                'static_address': self.cloud.address(50)}})

    def wait_until_rolled_back(self, bad_address):
        """Wait for the roll back of a list with it; returns its number."""
        def find():
            return [g.number for g in self.generations().values()
                    if bad_address in g.addresses and
                    g.status == trial.ROLLED_BACK and
                    g.number + 1 in self.generations()]
        numbers = self.wait_for(find, lambda: f'roll back: '
                                              f'{self.generations()}')
        return numbers[-1]

    def assert_rolled_back(self, number, good, bad_address):
        self.wait_until_applied()
        # One amphora had it, for a while, and those that were asked then; the
        # others never did.
        had_it = {amphora_id for amphora_id in self.cloud.amphora_ids
                  if bad_address in self.cloud.sniffer.destinations(
                      amphora_id)}
        self.assertIn(len(had_it), (2, 3))
        self.assertEqual((good.address,),
                         self.generations()[number + 1].addresses)
        for agent in self.cloud.amphorae.values():
            self.assertEqual([good.address], agent.configured_list())
        self.assertIn(f'Generation {number} is ROLLED_BACK',
                      self.housekeeping.log())
        self.assertIn(bad_address, self.command('sync', 'status'))
        # It is not tried again by itself.
        time.sleep(5)
        self.assertEqual(number + 1, self.newest().number)
        self.assert_nothing_failed_over()


class TestRollout(RolloutTestCase):

    def test_nobody_is_heard_at_a_new_address(self):
        cloud = self.make_cloud(amphorae=4, boot_numbers=(1,), options={
            'hmsync': {'canary_size': 1, 'canary_wait': 1}})
        good = self.start(1)[0]
        # The first switch-on is a change like any other.
        self.wait_until_status(1, trial.CANARY)
        self.assertEqual(1, len(self.wait_for(
            lambda: [r for r in self.results().values() if r.generation == 1],
            'first upload')))
        self.wait_until_status(1, trial.OPEN)
        self.wait_until_synced([good.address])

        bad = self.add_out_of_reach(2)
        bad_address = f'{cloud.address(50)}:{bad.bind_port}'
        number = self.wait_until_rolled_back(bad_address)
        self.assert_rolled_back(number, good, bad_address)


class TestHostileAmphora(RolloutTestCase):

    def test_falls_silent_and_resumes(self):
        """It vetoes no address, where the others are few and many."""
        cloud = self.make_cloud(boot_numbers=(1,), options={
            'hmsync': {'canary_size': 3, 'canary_wait': 1}})
        addresses = [f'{cloud.address(n)}:5555' for n in (1, 2)]
        for _ in range(2):
            cloud.add_load_balancer(addresses[:1])
        # Longer than half of heartbeat_timeout and an interval.
        hostile = cloud.add_hostile_amphora(addresses[:1], addresses[1], 8)
        good, = self.start(1)
        self.wait_until_synced([good.address])
        self.wait_until_applied({hostile.amphora_id})

        new = cloud.add_health_manager(cloud.address(2))
        self.wait_for(lambda: hostile.silences, 'upload to it')
        number = self.newest().number
        self.wait_until_status(number, trial.OPEN)
        self.wait_until_synced([good.address, new.address])
        line = [line for line in self.housekeeping.log().splitlines()
                if f'Generation {number} goes on' in line]
        self.assertEqual(1, len(line), self.housekeeping.log())
        self.assertIn(hostile.amphora_id, line[0])
        self.assertEqual([], [g for g in self.generations().values()
                              if g.status == trial.ROLLED_BACK])
        self.assertEqual(set(), cloud.records.failovers_begun(
            {hostile.amphora_id}))
        self.assert_nothing_failed_over()
