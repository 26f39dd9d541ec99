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
