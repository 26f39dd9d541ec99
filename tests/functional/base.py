# SPDX-License-Identifier: Apache-2.0

"""What the functional tests share: a small real cloud with the plugin."""

import time

from oslotest import base
import sqlalchemy as sa
from sqlalchemy import pool

from octavia_hmsync.amphora import upload_result
from octavia_hmsync.db import models
from octavia_hmsync.db import schema
from octavia_hmsync.sync.db import amphora as amphora_repo
from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.db import health_manager as hm_repo
from tests.cloud import cloud
from tests.cloud import database
from tests.cloud import waiting


class FunctionalTestCase(base.BaseTestCase):
    """A cloud with the plugin on, its tables made, nothing started yet."""

    make_database = database.SqliteDatabase
    hmsync = True

    def make_cloud(self, amphorae=0, boot_numbers=(1, 2, 3), options=None,
                   upgrade=True):
        """Start a cloud.

        :param amphorae: how many amphorae.
        :param boot_numbers: numbers of the health manager addresses that
                             they boot with.
        :param options: {group: {option: value}} for every controller.
        :param upgrade: whether to make the plugin's tables.
        """
        self.cloud = self.useFixture(cloud.Cloud(
            amphorae=amphorae, hmsync=self.hmsync, options=options,
            make_database=self.make_database,
            controller_ip_port_list=lambda made: [
                f'{made.address(n)}:5555' for n in boot_numbers]))
        self.engine = sa.create_engine(
            self.cloud.database.engine.url, poolclass=pool.NullPool)
        if upgrade:
            # The command takes 2 s of a processor to do so.
            schema.upgrade(self.engine)
        return self.cloud

    def start(self, *numbers, housekeeping=True):
        """Start health managers, and a housekeeper; wait for all."""
        managers = [self.cloud.add_health_manager(self.cloud.address(n))
                    for n in numbers]
        if housekeeping:
            self.housekeeping = self.cloud.add_housekeeping()
        self.cloud.wait_until_ready()
        return managers

    # What the plugin's tables say

    def newest(self):
        return generation_repo.get_newest(self.engine)

    def published(self):
        newest = self.newest()
        return set(newest.addresses) if newest else set()

    def members(self):
        """The health managers by host, as membership Members."""
        return {m.host: m for m in hm_repo.get_all(self.engine)}

    def results(self):
        """Rows of amphorae with an agent, by id."""
        return {row.id: row for row in amphora_repo.get_rows(self.engine)}

    def due(self):
        newest = self.newest()
        return amphora_repo.count(self.engine,
                                  newest.number if newest else 0).due

    def make_due(self):
        """Have all amphorae brought to the newest list once more."""
        with self.engine.begin() as connection:
            connection.execute(sa.update(models.Amphora).values(
                generation=None, result=None))

    # Waiting

    def wait_for(self, condition, what, timeout=waiting.LIMIT):
        return waiting.wait_for(
            condition, what, timeout,
            processes=[c for c in self.cloud.controllers if c.running])

    def wait_until_published(self, addresses):
        """Wait until exactly these addresses are published."""
        self.wait_for(
            lambda: self.published() == set(addresses),
            lambda: f'list of {sorted(addresses)} (it is '
                    f'{sorted(self.published())})')

    def wait_until_applied(self, amphora_ids=None):
        """Wait until amphorae are at the newest generation."""
        amphora_ids = amphora_ids or self.cloud.amphora_ids
        newest = self.newest()

        def applied():
            results = self.results()
            # One has none before housekeeping has looked for amphorae, and
            # where it is failed over.
            return all(i in results and
                       results[i].result == upload_result.APPLIED and
                       results[i].generation >= newest.number
                       for i in amphora_ids)
        self.wait_for(applied, lambda: f'upload to {amphora_ids}: '
                                       f'{self.results()}')

    def wait_until_synced(self, addresses):
        """Wait until every amphora has, and uses, exactly these addresses.

        What an amphora uses is what a sniffer sees it send.
        """
        self.wait_until_published(addresses)
        self.wait_until_applied()
        self.wait_for(
            lambda: all(set(addresses) == set(agent.configured_list())
                        for agent in self.cloud.amphorae.values()),
            lambda: f'{sorted(addresses)} in the file of each amphora')
        since = time.time()
        self.wait_for(
            lambda: all(self.uses(amphora_id, addresses, since)
                        for amphora_id in self.cloud.amphora_ids),
            lambda: f'use of {sorted(addresses)} by all: '
                    f'{self.cloud.sniffer.heartbeats(since)}')
        self.cloud.wait_until_recorded(self.cloud.amphora_ids)

    def uses(self, amphora_id, addresses, since):
        """Whether an amphora sends to exactly these addresses by now.

        A list with one more would have had its turn there among so many
        heartbeats in a row.
        """
        row = [beat.destination
               for beat in self.cloud.sniffer.heartbeats(since)
               if beat.amphora_id == amphora_id][-len(addresses) - 1:]
        return len(row) > len(addresses) and set(row) == set(addresses)

    def watch(self, seconds, expected=()):
        """Check for some seconds that no other failover begins."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.assertEqual(set(expected), self.cloud.failovers_begun())
            time.sleep(0.5)

    def assert_nothing_failed_over(self):
        """Check that no amphora and no load balancer was touched."""
        self.assertEqual(set(), self.cloud.failovers_begun())
        self.assertEqual({'ACTIVE'}, {
            row['provisioning_status']
            for row in self.cloud.records.rows('load_balancer')})
        self.assertEqual({'ALLOCATED'}, {
            row['status'] for row in self.cloud.records.rows('amphora')})
