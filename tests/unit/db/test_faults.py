# SPDX-License-Identifier: Apache-2.0

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
        """It was done, and the client was not told.

        Of a statement before the commit nothing is left then, as if it had
        not been done: TestDiskError has those.
        """
        def strike(connection, statement):
            statement()
            raise sqlite3.OperationalError('disk I/O error')

        self.check_that_it_is_all_or_nothing(strike, faults.COMMIT)
