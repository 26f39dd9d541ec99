# SPDX-License-Identifier: Apache-2.0

"""Finding the silent amphorae that may have to be held, among few."""

import datetime

from oslo_utils import timeutils
import sqlalchemy as sa

from octavia_hmsync.db import models
from octavia_hmsync.db import types
from octavia_hmsync.sync.health_manager import guard
from octavia_hmsync.sync.rules import listening
from octavia_hmsync.sync.rules import timing
from tests.db_cases.sync import amphora
from tests.unit.db import sqlite

TIMEOUT = 60
# See silence.time_in_question().
IN_QUESTION = 240
HOUR = 3600
OTHER = ('192.0.2.109:5555',)


class TestSilenceWatch(sqlite.SqliteMixin, amphora.AmphoraCases):

    def setUp(self):
        super().setUp()
        self.now = 0.0
        self.settings = timing.Settings.from_conf(self.conf)
        self.alive = {*amphora.LIST, *OTHER}
        self.subject = guard.SilenceWatch(self.engine,
                                          lambda: self.now)

    def add_silent(self, number=1, applied_age=HOUR, **values):
        ids = self.add(number, **values)
        self.records.set_health(*ids, age=TIMEOUT)
        if applied_age is not None:
            self.apply(ids, applied_age)
        return set(ids)

    def apply(self, ids, age=HOUR, addresses=amphora.LIST, **values):
        self.change(ids, applied_at=types.utcnow_plus(-age), result='APPLIED',
                    controller_ip_port_list=', '.join(addresses),
                    adopted_at=types.utcnow_plus(-age), **values)

    def change(self, ids, **values):
        with self.engine.begin() as connection:
            connection.execute(
                sa.update(models.Amphora)
                .where(models.Amphora.amphora_id.in_(ids)).values(**values))

    def find(self, seconds=TIMEOUT, also=()):
        """Look, some seconds later."""
        self.now += seconds
        return {row.id for row in self.subject.find(
            timeutils.utcnow() - datetime.timedelta(seconds=TIMEOUT / 2),
            also, self.settings,
            lambda exposure: exposure.find_exposed(
                listening.HealthManagers([], self.alive, self.settings), 300))}

    def test_nobody_whom_somebody_could_hear(self):
        silent = self.add_silent()
        self.assertEqual(set(), self.find())
        self.assertEqual(silent, self.find(also=silent))

    def test_whom_nobody_can_hear(self):
        silent = self.add_silent()
        self.assertEqual(set(), self.find())
        self.alive.clear()
        self.assertEqual(silent, self.find())

    def test_not_each_time(self):
        silent = self.add_silent()
        self.find()
        self.alive.difference_update(amphora.LIST)
        self.assertEqual(set(), self.find(TIMEOUT / 8 - 1))
        self.assertEqual(silent, self.find(1))

    def test_who_acknowledged_just_now(self):
        """Each time."""
        silent = self.add_silent(applied_age=IN_QUESTION - 10)
        for _ in range(3):
            self.assertEqual(silent, self.find(1))
        self.make_older(models.Amphora, 'applied_at', IN_QUESTION + 1)
        self.assertEqual(set(), self.find(1))

    def test_a_list_of_later(self):
        """What was acknowledged since is known as well."""
        silent = self.add_silent(applied_age=None)
        self.apply(silent)
        self.find()
        self.alive.difference_update(OTHER)
        self.assertEqual(set(), self.find())
        self.apply(silent, 100, OTHER)
        self.assertEqual(silent, self.find())

    def test_another_list_that_it_may_use(self):
        silent = self.add_silent()
        self.change(silent, adopted_at=None)
        with self.engine.begin() as connection:
            connection.execute(sa.insert(models.PreviousList), [{
                'amphora_id': amphora_id, 'number': 1,
                'controller_ip_port_list': ', '.join(OTHER)}
                for amphora_id in silent])
        self.alive.difference_update(OTHER)
        self.assertEqual(silent, self.find())

    def test_without_a_list(self):
        silent = self.add_silent(applied_age=None)
        self.assertEqual(silent, self.find())

    def test_many_without_a_list(self):
        """All of them within two looks."""
        silent = self.add_silent(350, applied_age=None)
        first, second = self.find(TIMEOUT / 8), self.find(TIMEOUT / 8)
        self.assertEqual(100, len(first))
        self.assertEqual(silent, first | second)
        self.assertEqual(first, self.find())

    def test_many_whom_nobody_can_hear(self):
        silent = self.add_silent(600)
        self.alive.difference_update(amphora.LIST)
        self.assertEqual(silent, self.find())

    def test_after_a_failure_it_looks_again(self):
        silent = self.add_silent(150, applied_age=None)
        self.find()
        find = self.subject._find
        self.subject._find = lambda *args: 1 / 0
        self.assertRaises(ZeroDivisionError, self.find)
        self.subject._find = find
        # The second half of them still, and at once.
        self.assertEqual(50, len(self.find(0)))
        self.assertEqual(silent, self.find() | self.find())

    def test_one_that_was_not_known(self):
        """Whoever makes its row."""
        self.find()
        late = set(self.add_amphorae(1, status='BOOTING'))
        self.find()
        for amphora_id in late:
            self.records.set_status(amphora_id, 'ALLOCATED')
        self.records.set_health(*late, age=TIMEOUT)
        self.assertEqual(late, self.find())

    def test_what_nobody_told(self):
        """As after the database was restored."""
        silent = self.add_silent(150)
        self.find()
        self.alive.difference_update(OTHER)
        self.change(silent,
                    controller_ip_port_list=', '.join(OTHER))
        self.find()
        self.assertEqual(silent, self.find() | self.find())
        # And that some are gone.
        with self.engine.begin() as connection:
            connection.execute(sa.delete(models.Amphora))
        self.find()
        self.find()
        self.assertEqual(set(), self.find())
