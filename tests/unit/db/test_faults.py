# SPDX-License-Identifier: Apache-2.0

import sqlite3

from tests.db_cases import calls
from tests.db_cases import faults
from tests.unit.db import sqlite

_PARTS = 3


def _lock(connection, statement):
    """Another process writes, and does not stop in time.

    The transaction is gone, as after a deadlock on a server; after the error
    of a disk it is still there.
    """
    connection.rollback()
    raise sqlite3.OperationalError('database is locked')


def _break_disk(connection, statement):
    raise sqlite3.OperationalError('disk I/O error')


def _lose_answer(connection, statement):
    """It was done, and the client was not told.

    Of a statement before the commit nothing is left then, as if it had not
    been done: _break_disk() has those.
    """
    statement()
    raise sqlite3.OperationalError('disk I/O error')


class TestFaults(sqlite.SqliteMixin, faults.FaultCases):
    """What they do is in the classes below."""


class _Part(sqlite.SqliteMixin, faults.FaultChecks):
    """One of some parts of the calls, which another process may run."""

    def check(self, part):
        self.check_each(
            self.is_retried(_lock), self.is_all_or_nothing(_break_disk),
            self.is_all_or_nothing(_lose_answer, faults.COMMIT),
            some=calls.CALLS[part::_PARTS])


class TestFirstPart(_Part):

    def test_each_fault(self):
        self.check(0)


class TestSecondPart(_Part):

    def test_each_fault(self):
        self.check(1)


class TestThirdPart(_Part):

    def test_each_fault(self):
        self.check(2)
