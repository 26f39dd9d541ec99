#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

import fixtures

from octavia_hmsync.db import models
from octavia_hmsync.db.repositories import generation as generation_repo
from octavia_hmsync.db.repositories import health_manager as hm_repo
from octavia_hmsync.house_keeping import planner
from tests.db_cases import base
from tests.unit.db import sqlite


class TestPlanner(sqlite.SqliteMixin, base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger('octavia_hmsync'))
        self.now = 1000.0
        self.pinned = ()
        self.planner = self.make()
        # Long enough to know who is dead.
        self.settle()

    def make(self, host='controller1'):
        conf = self.make_conf(DEFAULT={'host': host})
        return planner.Planner(conf, self.engine, lambda: self.pinned,
                               clock=lambda: self.now)

    def settle(self):
        for _ in range(12):
            self.now += 2
            self.planner.run_once()

    def run_once(self, subject=None):
        self.now += 2
        return (subject or self.planner).run_once()

    def add(self, *numbers, online_for=100):
        for n in numbers:
            hm_repo.register(self.engine, f'hm{n}', f'192.0.2.{n}', 5555,
                             f'instance-{n}', 20)
            self.make_older(models.HealthManager, 'online_since', online_for,
                            host=f'hm{n}')

    def silence(self, number, seconds):
        self.make_older(models.HealthManager, 'keepalive_at', seconds,
                        host=f'hm{number}')

    @property
    def newest(self):
        return generation_repo.get_newest(self.engine)

    def test_nobody_there(self):
        self.assertFalse(self.run_once())
        self.assertIsNone(self.newest)

    def test_first_list(self):
        self.add(1, 2)
        self.assertTrue(self.run_once())
        self.assertEqual((1, ('192.0.2.1:5555', '192.0.2.2:5555')),
                         (self.newest.number, self.newest.addresses))
        self.assertIn('Published generation 1', self.log.output)

    def test_nothing_new(self):
        self.add(1, 2)
        self.run_once()
        for _ in range(5):
            self.assertFalse(self.run_once())
        self.assertEqual(1, self.newest.number)

    def test_one_added(self):
        self.add(1)
        self.run_once()
        self.add(2, online_for=0)
        self.assertFalse(self.run_once())
        self.assertIn('settle', self.log.output)
        self.add(2)
        self.assertTrue(self.run_once())
        self.assertEqual(2, self.newest.number)
        self.assertEqual('added 192.0.2.2:5555', self.newest.reason)

    def test_one_lost(self):
        self.add(1, 2, 3)
        self.run_once()
        self.silence(2, 59)
        self.assertFalse(self.run_once())
        self.silence(2, 61)
        self.assertTrue(self.run_once())
        self.assertEqual(('192.0.2.1:5555', '192.0.2.3:5555'),
                         self.newest.addresses)

    def test_who_stays_keeps_its_slot(self):
        self.add(1, 2, 3)
        self.run_once()
        before = self.newest.slots
        self.silence(2, 61)
        self.add(4)
        self.run_once()
        after = self.newest.slots
        self.assertEqual({'192.0.2.1:5555': before['192.0.2.1:5555'],
                          '192.0.2.3:5555': before['192.0.2.3:5555'],
                          '192.0.2.4:5555': before['192.0.2.2:5555']}, after)

    def test_nobody_is_dead_to_one_that_has_just_started(self):
        self.add(1, 2, 3)
        self.run_once()
        self.silence(2, 100)
        started = self.make('controller2')
        for _ in range(10):
            self.assertFalse(self.run_once(started))
        self.assertTrue(any(self.run_once(started) for _ in range(3)))

    def test_nobody_is_dead_after_a_pause(self):
        self.add(1, 2, 3)
        self.run_once()
        self.silence(2, 100)
        self.now += 30
        for _ in range(10):
            self.assertFalse(self.run_once())

    def test_nobody_is_dead_after_a_look_that_failed(self):
        self.add(1, 2, 3)
        self.run_once()
        self.silence(2, 100)
        get_all = hm_repo.get_all
        self.patch(hm_repo, 'get_all', None)
        for _ in range(3):
            self.assertRaises(TypeError, self.run_once)
        self.patch(hm_repo, 'get_all', get_all)
        for _ in range(10):
            self.assertFalse(self.run_once())

    def test_pinned(self):
        self.add(1)
        self.pinned = ('192.0.2.9:5555',)
        self.now += 60
        self.run_once()
        self.assertEqual(('192.0.2.1:5555', '192.0.2.9:5555'),
                         self.newest.addresses)

    def test_pinned_by_another_controller(self):
        self.add(1)
        self.pinned = ('192.0.2.9:5555',)
        self.run_once(self.make('controller2'))
        self.pinned = ()
        self.run_once()
        self.assertIn('192.0.2.9:5555', self.newest.addresses)

    def test_of_two_housekeepers_one_publishes(self):
        self.add(1, 2)
        other = self.make('controller2')
        results = self.run_at_once([self.planner.run_once, other.run_once])
        self.assertEqual([False, True], sorted(results))
        self.assertEqual(1, self.newest.number)

    def test_held_is_said_once(self):
        self.add(1)
        self.run_once()
        self.silence(1, 500)
        for _ in range(5):
            self.run_once()
        self.assertEqual(1, self.log.output.count('no health manager is'))

    def test_purge(self):
        self.add(1, 2)
        self.silence(2, 100000)
        self.now += 700
        self.run_once()
        self.assertEqual(['hm1'], [
            m.host for m in hm_repo.get_all(self.engine)])
        self.assertIn('hm2', self.log.output)
