# SPDX-License-Identifier: Apache-2.0

"""The database is gone for longer than heartbeat_timeout, and comes back.

All health rows are older than heartbeat_timeout then, and so are the
keepalives of all health managers.
"""

import time

import fixtures

from tests.cloud import database
from tests.cloud import mariadb
from tests.functional import base

OUTAGE = 30
# In the proportions of Octavia's defaults: an amphora is heard again later
# than the health check looks again.
HEARTBEAT_INTERVAL = 4
HEARTBEAT_TIMEOUT = 16
HEALTH_CHECK_INTERVAL = 2


class TestDatabase(base.FunctionalTestCase):

    def setUp(self):
        super().setUp()
        self.server = self.useFixture(mariadb.MariaDBServer(
            self.useFixture(fixtures.TempDir()).path))

    def make_database(self, directory):
        return database.MariaDBDatabase(directory, server=self.server)

    def start_cloud(self, poll_interval=1):
        """Two health managers, with health checks that have begun."""
        self.make_cloud(amphorae=3, boot_numbers=(1, 2), options={
            'hmsync': {'poll_interval': poll_interval},
            'health_manager': {
                'heartbeat_interval': HEARTBEAT_INTERVAL,
                'heartbeat_timeout': HEARTBEAT_TIMEOUT,
                'health_check_interval': HEALTH_CHECK_INTERVAL}})
        managers = self.start(1, 2)
        addresses = [m.address for m in managers]
        self.wait_until_published(addresses)
        self.wait_until_applied()
        self.cloud.wait_until_known(addresses)
        for manager in managers:
            self.wait_for(lambda m=manager: self.checks(m), 'health check')
        return managers

    def checks(self, manager):
        """Whether its health check has begun; it waits a timeout first."""
        row = self.members()[manager.host]
        return row.online_for > HEARTBEAT_TIMEOUT + HEALTH_CHECK_INTERVAL

    def check_nobody_is_taken_for_dead(self, managers, number):
        """Neither amphorae nor health managers; and the work goes on."""
        deadline = time.monotonic() + 3 * HEARTBEAT_TIMEOUT
        while time.monotonic() < deadline:
            self.assertEqual(set(), self.cloud.failovers_begun())
            self.assertEqual(number, self.newest().number)
            time.sleep(0.5)
        # Somebody looks, and has heard all of them.
        self.assertGreater(HEARTBEAT_TIMEOUT, max(
            self.cloud.records.health_ages().values()))
        self.wait_for(lambda: not [
            row for row in self.results().values() if row.held_since],
            'end of the holds')

        managers += self.start(3, housekeeping=False)
        addresses = {m.address for m in managers}
        self.wait_until_published(addresses)
        self.wait_until_applied()
        for agent in self.cloud.amphorae.values():
            self.assertEqual(addresses, set(agent.configured_list()))
        self.assertEqual(number + 1, self.newest().number)
        self.assert_nothing_failed_over()

    def assert_said_once(self, controllers, text):
        """By each process; a health manager consists of several."""
        for controller in controllers:
            pids = [line.split()[2] for line in controller.log().splitlines()
                    if text in line]
            self.assertNotEqual([], pids)
            self.assertEqual(sorted(set(pids)), sorted(pids))

    def test_stops(self):
        """The server ends, and is started again after 30 s.

        Each process says so once. The health managers register again within
        keepalive_interval plus 10 s (a connection attempt) of its return; no
        list is published for it, and no failover begins: Octavia's health
        check waits a heartbeat_timeout after a lost connection, and the
        failover guard holds whom nobody could hear.
        """
        managers = self.start_cloud()
        number = self.newest().number
        self.server.stop()
        time.sleep(OUTAGE)
        self.server.start()
        self.server.wait_until_ready()
        self.check_nobody_is_taken_for_dead(managers, number)
        controllers = [*managers[:2], self.housekeeping]
        self.assert_said_once(controllers, 'The database cannot be used')
        self.assert_said_once(controllers, 'octavia-hmsync works again')

    def test_hangs(self):
        """The server accepts and does not answer for 30 s, then goes on.

        Octavia's health check does not notice. The heartbeats of the outage
        are all ignored ("was processed too slowly"), and with a large fleet
        going through them takes a while, so that the health rows stay old;
        here the amphorae are silent for as long. The failover guard holds
        all of them at the server's return, at which its call ends or it makes
        the next one at once. The first health check comes up to
        health_check_interval later: Octavia aligns them.
        """
        managers = self.start_cloud()
        number = self.newest().number
        amphorae = self.cloud.amphorae.values()
        backlog = 1.5 * HEARTBEAT_INTERVAL
        self.server.pause()
        time.sleep(OUTAGE - backlog)
        for amphora in amphorae:
            amphora.pause()
        time.sleep(backlog)
        self.server.resume()
        time.sleep(3 * HEALTH_CHECK_INTERVAL)
        for amphora in amphorae:
            amphora.resume()
        self.check_nobody_is_taken_for_dead(managers, number)
        self.assertIn('Holding back the failover of',
                      managers[0].log() + managers[1].log())
