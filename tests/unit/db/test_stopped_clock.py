# SPDX-License-Identifier: Apache-2.0

import time

import sqlalchemy as sa

from octavia_hmsync.db import types
from tests.db_cases import base
from tests.unit.db import sqlite


class TestStoppedClock(sqlite.SqliteMixin, base.DatabaseTestCase):

    def ask(self):
        with self.engine.connect() as connection:
            return connection.execute(
                sa.select(types.utcnow(), types.utcnow_plus(-2.5))).one()

    def test_no_time_passes(self):
        self.stop_clock()
        before = self.ask()
        time.sleep(0.01)
        # On another connection, too.
        self.engine.dispose()
        self.assertEqual(before, self.ask())
        self.assertEqual(2.5, (before[0] - before[1]).total_seconds())

    def test_on_connections_of_others(self):
        self.stop_clock()
        before = self.ask()[0]
        time.sleep(0.01)
        engine = sa.create_engine(self.database.connection)
        self.addCleanup(engine.dispose)
        with engine.connect() as connection:
            self.assertEqual(before, connection.execute(
                sa.select(types.utcnow())).scalar())

    def test_goes_forward(self):
        clock = self.stop_clock()
        before = self.ask()[0]
        clock.advance(2)
        self.assertEqual(2, round((self.ask()[0] - before).total_seconds()))

    def test_else_it_does(self):
        before = self.ask()
        time.sleep(0.01)
        self.assertLess(before[0], self.ask()[0])
