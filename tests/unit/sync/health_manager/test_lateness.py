# SPDX-License-Identifier: Apache-2.0

"""Heartbeats that Octavia ignores, as they have waited for too long."""

import time

from octavia.amphorae.drivers.health import heartbeat_udp

from octavia_hmsync.compat import heartbeats
from octavia_hmsync.sync.db import health_manager as hm_repo
from octavia_hmsync.sync.health_manager import lateness
from octavia_hmsync.sync.health_manager import start
from tests.db_cases import base
from tests.unit import base as unit_base
from tests.unit.db import sqlite


class TestLateness(sqlite.SqliteMixin, base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.conf.set_override('host', 'hm1')
        hm_repo.register(self.engine, 'hm1', '192.0.2.1', 5555, start.ID, 20)
        self.now = 0.0
        self.lateness = lateness.Lateness(self.conf, lambda: self.now)
        self.writes = 0
        self.interval = self.conf.health_manager.heartbeat_interval
        stock = hm_repo.set_late

        def set_late(*args):
            self.writes += 1
            stock(*args)

        self.patch(hm_repo, 'set_late', set_late)

    def is_late(self):
        member, = hm_repo.get_all(self.engine)
        return member.late_age is not None

    def note(self, delay, number=1):
        for _ in range(number):
            self.lateness.note(delay)

    def test_in_time(self):
        self.note(self.interval - 0.1, 100)
        self.assertFalse(self.is_late())

    def test_late(self):
        self.note(self.interval)
        self.assertTrue(self.is_late())

    def test_few(self):
        """One in more than ten: no amphora loses all of its own by that."""
        self.note(0.1, 10)
        self.note(self.interval)
        self.assertFalse(self.is_late())
        self.note(self.interval)
        self.assertTrue(self.is_late())

    def test_few_are_many_in_a_quiet_time(self):
        self.note(0.1, 1000)
        self.now += self.interval
        self.note(self.interval)
        self.assertTrue(self.is_late())

    def test_each_interval_is_written_once(self):
        """An overloaded health manager has enough to do."""
        for _ in range(3):
            self.note(2.0 * self.interval, 50)
            self.now += self.interval
        self.assertEqual(3, self.writes)

    def test_no_database(self):
        """Heartbeats are recorded, or not, whatever becomes of ours."""
        def fail(*_):
            self.writes += 1
            raise RuntimeError('gone')

        self.patch(hm_repo, 'set_late', fail)
        self.note(self.interval, 2)
        self.assertEqual(1, self.writes)


class TestWatchDelays(unit_base.TestCase):

    def setUp(self):
        super().setUp()
        self.noted = []
        self.calls = []

        class Updater:
            def update_health(_self, health, srcaddr):
                self.calls.append((health['id'], srcaddr))
                if health['id'] == 'bad':
                    raise ValueError('bad')

        self.patch(heartbeat_udp, 'UpdateHealthDb', Updater)
        heartbeats.watch_delays(self.noted.append)
        # Once, however often it is asked.
        heartbeats.watch_delays(self.noted.append)
        self.updater = Updater()

    def test_delay(self):
        self.updater.update_health(
            {'id': 'one', 'recv_time': time.time() - 30}, '192.0.2.7')
        self.assertEqual([('one', '192.0.2.7')], self.calls)
        delay, = self.noted
        self.assertGreaterEqual(delay, 30)

    def test_error(self):
        self.assertRaises(ValueError, self.updater.update_health,
                          {'id': 'bad', 'recv_time': time.time()}, '')
        self.assertEqual(1, len(self.noted))

    def test_of_another_octavia(self):
        """Whatever it is called with, it gets."""
        class Updater:
            def update_health(_self, health, more, *, other):
                return health['id'], more, other

        self.patch(heartbeat_udp, 'UpdateHealthDb', Updater)
        heartbeats.watch_delays(self.noted.append)
        self.assertEqual(('one', 2, 3), Updater().update_health(
            {'id': 'one'}, 2, other=3))

    def test_without_a_time(self):
        self.updater.update_health({'id': 'one'}, '')
        self.assertEqual([], self.noted)


class TestOctavia(unit_base.TestCase):
    """What is wrapped is what Octavia calls, with what it passes."""

    def test_update_health(self):
        getter = heartbeat_udp.UDPStatusGetter.check
        self.assertIn('update_health', getter.__code__.co_names)
        self.assertIn('recv_time',
                      heartbeat_udp.UDPStatusGetter.dorecv.__code__.co_consts)
