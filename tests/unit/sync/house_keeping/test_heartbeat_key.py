# SPDX-License-Identifier: Apache-2.0

"""A new heartbeat key, from the rows of all to the lists and back."""

import fixtures

from octavia_hmsync.db import models
from octavia_hmsync import exceptions
from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.db import health_manager as hm_repo
from octavia_hmsync.sync import heartbeat_key
from octavia_hmsync.sync.house_keeping import planner
from octavia_hmsync.sync.rules import trial
from octavia_hmsync.sync.worker import runner
from tests.db_cases import base
from tests.unit.db import sqlite

OLD, NEW = 'the old key', 'the new key'


class TestNewKey(sqlite.SqliteMixin, base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.stop_clock()
        self.log = self.useFixture(fixtures.FakeLogger('octavia_hmsync'))
        self.now = 1000.0
        self.keepers = {}
        for host in ('hk1', 'hk2'):
            conf = self.make_conf(DEFAULT={'host': host}, health_manager={
                'heartbeat_key': OLD})
            self.keepers[host] = conf, planner.Planner(
                conf, self.engine, lambda: (), clock=lambda: self.now)
        self.listen(OLD, 1, 2, 3, 4)
        self.plan(12)

    def listen(self, key, *numbers):
        """Have health managers start with a key."""
        for n in numbers:
            hm_repo.register(self.engine, f'hm{n}', f'192.0.2.{n}', 5555,
                             f'instance-{n}-{key}', 20,
                             heartbeat_key.digest(key),
                             configured_key_digest=heartbeat_key.digest(key))
            self.make_older(models.HealthManager, 'online_since', 100,
                            host=f'hm{n}')

    def give(self, key, *hosts):
        """Change the key of housekeepers, as SIGHUP does."""
        for host in hosts:
            self.keepers[host][0].set_override('heartbeat_key', key,
                                               'health_manager')

    def plan(self, times=4):
        for _ in range(times):
            self.now += 2
            for _conf, subject in self.keepers.values():
                subject.run_once()

    def open(self):
        generation_repo.set_open(self.engine, self.newest.number)

    @property
    def newest(self):
        return generation_repo.get_newest(self.engine)

    def assertNewest(self, key, status, *numbers):
        self.assertEqual(
            (heartbeat_key.digest(key), status,
             tuple(f'192.0.2.{n}:5555' for n in numbers)),
            (self.newest.key_digest, self.newest.status,
             self.newest.addresses))

    def assertUploads(self, *hosts):
        """Only these housekeepers may upload."""
        able = []
        for host, (conf, _planner) in self.keepers.items():
            try:
                if runner.get_targets(conf, self.engine):
                    able.append(host)
            except exceptions.InvalidConfiguration as e:
                self.refused = str(e)
        self.assertEqual(list(hosts), able)

    def test_the_whole_way(self):
        self.open()
        self.assertNewest(OLD, trial.OPEN, 1, 2, 3, 4)
        self.listen(NEW, 1, 2)
        self.plan()
        # What only loses addresses goes to all at once.
        self.assertNewest(OLD, trial.OPEN, 3, 4)
        self.assertUploads('hk1', 'hk2')

        self.give(NEW, 'hk1')
        self.plan()
        self.assertNewest(OLD, trial.OPEN, 3, 4)
        self.assertUploads('hk2')
        self.assertIn('housekeeping with the same key on hk2', self.refused)
        self.give(NEW, 'hk2')
        self.plan()
        self.assertNewest(NEW, trial.CANARY, 1, 2)
        self.assertUploads('hk1', 'hk2')
        self.open()

        self.listen(NEW, 3, 4)
        self.plan()
        self.assertNewest(NEW, trial.CANARY, 1, 2, 3, 4)
        self.assertUploads('hk1', 'hk2')

    def test_housekeepers_before_health_managers(self):
        self.open()
        number = self.newest.number
        self.give(NEW, 'hk1', 'hk2')
        self.plan()
        self.assertEqual(number, self.newest.number)
        self.assertUploads()
        self.assertIn('hm1, hm2, hm3, hm4', self.refused)
        self.assertNotIn(NEW, self.refused)

    def test_all_at_once(self):
        """The new list is on trial also where it only loses addresses."""
        self.open()
        self.listen(NEW, 1, 2)
        self.give(NEW, 'hk1', 'hk2')
        self.plan()
        self.assertNewest(NEW, trial.CANARY, 1, 2)

    def test_all_health_managers_first(self):
        """Nothing is lost by a list for the new key."""
        self.open()
        number = self.newest.number
        self.listen(NEW, 1, 2, 3, 4)
        self.plan()
        self.assertEqual(number, self.newest.number)
        self.assertUploads()
        self.give(NEW, 'hk2', 'hk1')
        self.plan()
        self.assertNewest(NEW, trial.OPEN, 1, 2, 3, 4)
        self.assertIn('another heartbeat_key', self.newest.reason)
        self.assertUploads('hk1', 'hk2')

    def test_after_a_roll_back(self):
        """It is not tried again and again; the way back is the old key."""
        self.open()
        self.listen(NEW, 1, 2)
        self.give(NEW, 'hk1', 'hk2')
        self.plan()
        good = generation_repo.get_last_good(self.engine)
        generation_repo.roll_back(
            self.engine, self.newest.number, self.newest.addresses,
            {a: s for a, s in good.slots.items()}, 'silent', 'hk1',
            good_key_digest=good.key_digest)
        self.plan()
        self.assertNewest(OLD, trial.OPEN, 3, 4)
        self.assertUploads()
        self.give(OLD, 'hk1', 'hk2')
        self.plan()
        self.assertUploads('hk1', 'hk2')

    def test_a_list_that_does_not_tell(self):
        """Published before anybody could tell."""
        generation_repo.publish(self.engine, self.newest.number + 1,
                                self.newest.slots, '', 'earlier')
        self.assertUploads('hk1', 'hk2')
        self.plan(1)
        self.assertEqual(heartbeat_key.digest(OLD), self.newest.key_digest)
