# SPDX-License-Identifier: Apache-2.0

"""A health manager that comes and goes every few seconds, for a minute."""

import datetime
import time
import uuid

from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.db import health_manager as hm_repo
from octavia_hmsync.sync.rules import plan
from tests.cloud import database
from tests.functional import base

_OFFLINE_AFTER = 4
_MINUTE = plan.CALM_PERIOD
# Seconds; long enough to settle.
_PERIOD = 4


class TestFlapping(base.FunctionalTestCase):
    """Its rows are written here: a process takes longer to start."""

    make_database = database.MariaDBDatabase

    def flap(self, addresses):
        """Have the host 'flapping' come and go for a minute.

        :param addresses: where it comes up, one after the other.
        """
        for address in addresses:
            instance = str(uuid.uuid4())
            hm_repo.register(self.engine, 'flapping', address, 5555, instance,
                             _OFFLINE_AFTER)
            end = time.monotonic() + _PERIOD * 0.75
            while time.monotonic() < end:
                hm_repo.touch(self.engine, 'flapping', instance, address,
                              5555, _OFFLINE_AFTER)
                time.sleep(0.5)
            hm_repo.set_offline(self.engine, 'flapping', instance)
            time.sleep(_PERIOD * 0.25)

    def start_cloud(self):
        cloud = self.make_cloud(amphorae=2, boot_numbers=(1,), options={
            # As with the defaults, but for the shorter settle_time.
            'hmsync': {'removal_delay': 60, 'canary_size': 0}})
        self.good = self.start(1)[0]
        self.wait_until_synced([self.good.address])
        self.first = self.newest().number
        return cloud

    def published_since(self):
        return self.newest().number - self.first

    def assert_few_in_any_minute(self, most):
        # All of it takes somewhat longer than a minute.
        generations = generation_repo.get_history(self.engine)[self.first:]
        for first in generations:
            end = first.published_at + datetime.timedelta(seconds=_MINUTE)
            within = [(g.number, g.reason) for g in generations
                      if first.published_at <= g.published_at < end]
            self.assertLessEqual(len(within), most, within)

    def test_at_the_same_address(self):
        """It comes once, and never leaves: removal_delay is longer."""
        cloud = self.start_cloud()
        self.flap([cloud.address(9)] * (_MINUTE // _PERIOD))
        self.assertEqual(1, self.published_since())
        self.assert_nothing_failed_over()

    def test_at_another_address_each_time(self):
        """A handful of generations, and one more when it stays."""
        cloud = self.start_cloud()
        addresses = [cloud.address(10 + n)
                     for n in range(_MINUTE // _PERIOD)]
        self.flap(addresses)
        self.assert_few_in_any_minute(5)
        self.assert_nothing_failed_over()
        # When it is over, amphorae have what is alive.
        self.wait_for(
            lambda: self.published() == {self.good.address},
            lambda: f'end of it: {self.newest()}')
        self.wait_until_applied()
        self.assert_nothing_failed_over()
