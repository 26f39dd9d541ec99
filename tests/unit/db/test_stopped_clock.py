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

    def test_else_it_does(self):
        before = self.ask()
        time.sleep(0.01)
        self.assertLess(before[0], self.ask()[0])
