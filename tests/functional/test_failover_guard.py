# SPDX-License-Identifier: Apache-2.0

"""No amphora is failed over for what happened to the health managers.

With the real failover loop; compute and network drivers are no-ops, so that a
failover that begins is seen in the database.
"""

import datetime
import threading
import time

from oslotest import base as test_base
import psutil

from octavia_hmsync.sync.db import health_manager as hm_repo
from octavia_hmsync.sync.db import host_hold as host_hold_repo
from tests.cloud import database
from tests.cloud import records
from tests.cloud import waiting
from tests.fleet import cloud as fleet_cloud
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


class TestHeldHost(GuardTestCase):

    def test_while_the_other_one_lives(self):
        cloud = self.make_cloud(boot_numbers=(1,))
        addresses = [f'{cloud.address(1)}:5555']
        pair = [cloud.add_load_balancer(addresses, 'ACTIVE_STANDBY')
                for _ in range(2)]
        single, = cloud.add_load_balancer(addresses)
        manager, = self.start(1)
        self.wait_until_synced([manager.address])
        here = [pair[0][0], pair[1][0], single]
        host_hold_repo.begin(
            self.engine, 'host1', records.utcnow() +
            datetime.timedelta(hours=1),
            [each.amphora_id for each in here])
        for each in here:
            each.kill_tree()
        gone = {single.amphora_id}
        self.wait_until_failed_over(gone)
        self.watch(1.5 * HEARTBEAT_TIMEOUT, gone)
        self.assertIn('of host host1, which an operator holds', manager.log())
        # Nobody serves the first load balancer any more.
        pair[0][1].kill_tree()
        gone |= {each.amphora_id for each in pair[0]}
        self.wait_until_failed_over(gone)
        host_hold_repo.end(self.engine, 'host1')
        gone.add(pair[1][0].amphora_id)
        self.wait_until_failed_over(gone)


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


class TestOverloaded(test_base.BaseTestCase):
    """Heartbeats wait for longer than heartbeat_interval, and are ignored."""

    AMPHORAE = 60

    def setUp(self):
        super().setUp()
        self.cloud = self.useFixture(fleet_cloud.FleetCloud(
            self.AMPHORAE, options={'health_manager': {
                'heartbeat_interval': 1, 'health_update_threads': 1,
                'heartbeat_timeout': HEARTBEAT_TIMEOUT}}))
        address = self.cloud.address(1)
        self.cloud.start_fleet([f'{address}:5555'], 1)
        self.manager = self.cloud.add_health_manager(address)
        self.cloud.wait_until_ready()
        self.ids = {each['id'] for each in self.cloud.members}
        self.wait_for(self.are_all_heard, 'heartbeats of all')

    def wait_for(self, condition, what, timeout=waiting.LIMIT):
        return waiting.wait_for(condition, what, timeout)

    def are_all_heard(self):
        ages = self.cloud.records.health_ages()
        return all(ages.get(each, 100) < HEARTBEAT_TIMEOUT / 2
                   for each in self.ids)

    def starve(self, stop):
        """Let what handles heartbeats run for a tenth of the time."""
        main = psutil.Process(self.manager.pid)
        handlers = [worker for child in main.children()
                    for worker in child.children()]
        while not stop.is_set():
            for action in ('suspend', 'resume'):
                for each in handlers:
                    getattr(each, action)()
                time.sleep(0.27 if action == 'suspend' else 0.03)

    def get_late_age(self):
        member, = hm_repo.get_all(self.cloud.database.engine)
        return member.late_age

    def test_held_until_it_has_time_again(self):
        stop = threading.Event()
        starving = threading.Thread(target=self.starve, args=(stop,))
        starving.start()
        self.addCleanup(starving.join)
        self.addCleanup(stop.set)
        self.wait_for(lambda: 'Holding back the failover' in
                      self.manager.log(), 'amphorae that are not heard')
        self.assertLess(self.get_late_age(), HEARTBEAT_TIMEOUT)
        self.assertIn('THIS IS NOT GOOD', self.manager.log())
        # Without the plugin the first ones were failed over within that.
        end = time.monotonic() + 2 * HEARTBEAT_TIMEOUT
        while time.monotonic() < end:
            self.assertEqual(set(), self.cloud.failovers_begun())
            time.sleep(1)
        stop.set()
        starving.join()
        self.wait_for(self.are_all_heard, 'heartbeats of all again')
        self.assertEqual(set(), self.cloud.failovers_begun())
