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

import sqlite3

from tests.db_cases import faults
from tests.unit.db import sqlite


def _fail(message):
    def strike(connection, statement):
        raise sqlite3.OperationalError(message)
    return strike


class TestFaults(sqlite.SqliteMixin, faults.FaultCases):
    """Each fault has a class of its own, which another process may run."""


class TestLocked(sqlite.SqliteMixin, faults.FaultChecks):

    def test_locked(self):
        """Another process writes, and does not stop in time."""
        self.check_that_it_is_retried(_fail('database is locked'))


class TestDiskError(sqlite.SqliteMixin, faults.FaultChecks):

    def test_disk_error(self):
        self.check_that_it_is_all_or_nothing(_fail('disk I/O error'))


class TestAnswerIsLost(sqlite.SqliteMixin, faults.FaultChecks):

    def test_answer_is_lost(self):
        """It was done, and nobody was told."""
        def strike(connection, statement):
            statement()
            raise sqlite3.OperationalError('disk I/O error')

        self.check_that_it_is_all_or_nothing(strike)
