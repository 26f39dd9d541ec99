# SPDX-License-Identifier: Apache-2.0

"""Every repository call, with a fault at each of its statements in turn."""

import dataclasses
import datetime
import functools
import re
import time
import types

from oslo_db import api as oslo_db_api
import sqlalchemy as sa

from octavia_hmsync.db import api
from octavia_hmsync.db import models
from octavia_hmsync.sync.rules import listening
from tests.cloud import records
from tests.db_cases import base
from tests.db_cases import calls

_NEWS = models.News.__tablename__
_TIME = re.compile(r'\d{4}-\d\d-\d\dT[\d:]+')
COMMIT = 'COMMIT'
# Seconds; more than the smallest time of SQLite.
_TICK = 0.002
_WRITES = re.compile(
    r'\s*(?:INSERT\s+(?:\w+\s+)*?INTO|UPDATE|DELETE\s+FROM)\s+[`"]?(\w+)',
    re.IGNORECASE)


def _plain(value):
    """What a call returned, without times and ages."""
    if isinstance(value, datetime.datetime):
        return 'a time'
    if isinstance(value, listening.HealthManagers):
        return sorted(value.addresses)
    if isinstance(value, float):
        return 'an age'
    if dataclasses.is_dataclass(value):
        value = [getattr(value, field.name)
                 for field in dataclasses.fields(value)]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, sa.Row)):
        return [_plain(item) for item in value]
    return value


class _Statements:
    """Strikes at one statement of an engine, the commits included.

    :param engine: an SQLAlchemy engine.
    """

    def __init__(self, engine):
        self.seen = []
        # Tables that a statement has written since this was cleared.
        self.written = set()
        self._strike = self._strike_at = None
        self._commit = engine.dialect.do_commit
        engine.dialect.do_commit = self._on_commit
        sa.event.listen(engine, 'do_execute', functools.partial(
            self._on_statement, 'execute'))
        sa.event.listen(engine, 'do_executemany', functools.partial(
            self._on_statement, 'executemany'))

    def watch(self, strike=None, at=None):
        """Begin to count from one.

        :param strike: called with a DBAPI connection and a function that
                       does what the statement does; returns True if that is
                       not to be done any more.
        :param at: the number of the statement which it strikes.
        """
        self.seen = []
        self._strike, self._strike_at = strike, at

    def _is_struck(self, statement):
        self.seen.append(statement)
        self.written.update(_WRITES.findall(statement))
        return self._strike and len(self.seen) == self._strike_at

    def _on_statement(self, method, cursor, statement, parameters, context):
        if self._is_struck(statement):
            return self._strike(cursor.connection, functools.partial(
                getattr(cursor, method), statement, parameters))

    def _on_commit(self, connection):
        commit = functools.partial(self._commit, connection)
        if not (self._is_struck(COMMIT) and
                self._strike(connection, commit)):
            commit()


def _number_news(rows, before):
    """Number those of news that are not of before in a row.

    MariaDB gives each number once, also where it was taken back. Times in
    their bodies are those of the call.
    """
    fresh = sorted(key for table, key in rows
                   if table == _NEWS and (table, key) not in before)
    names = {(_NEWS, key): f'new {number}'
             for number, key in enumerate(fresh)}
    return {(key[0], names[key]) if key in names else key:
            {**row, 'id': names[key], 'body': _TIME.sub('new', row['body'])}
            if key in names else row
            for key, row in rows.items()}


class FaultChecks(calls.Calls):
    """The faults themselves come with the kind of database."""

    def setUp(self):
        super().setUp()
        # Nobody else is there to be waited for.
        self.patch(oslo_db_api, 'time',
                   types.SimpleNamespace(sleep=lambda seconds: None))
        # One that nothing strikes, and that keeps its connections.
        self.safe_engine = self.create_engine()
        self.addCleanup(self.safe_engine.dispose)
        self.records = records.Records(self.safe_engine)
        self.statements = _Statements(self.engine)
        health = self.records.tables['amphora_health']
        self.tables = [*models.Base.metadata.sorted_tables, health]
        # Octavia's own, of which no row is added or deleted.
        self.kept_tables = [self.records.tables[name] for name in
                            ('load_balancer', 'amphora', 'listener')]

    def _look(self, names=None):
        """Rows, by table and primary key.

        :param names: of the tables; None for all.
        """
        rows = {}
        with self.safe_engine.connect() as connection:
            for table in base.find_filled(connection, [
                    table for table in (*self.tables, *self.kept_tables)
                    if names is None or table.name in names]):
                for row in connection.execute(sa.select(table)).mappings():
                    key = tuple(row[c.name] for c in table.primary_key)
                    rows[table.name, key] = dict(row)
        return rows

    def _restore(self, rows, names):
        """Have tables be as they were.

        :param rows: as _look() returned them.
        :param names: of the tables.
        """
        with self.safe_engine.begin() as connection:
            for table in self.tables:
                if table.name not in names:
                    continue
                connection.execute(sa.delete(table))
                values = [row for (name, _key), row in rows.items()
                          if name == table.name]
                if values:
                    connection.execute(sa.insert(table), values)
            for table in self.kept_tables:
                if table.name not in names:
                    continue
                for (name, key), row in rows.items():
                    if name == table.name:
                        connection.execute(
                            sa.update(table).where(table.c.id == key[0])
                            .values(**row))

    def _compare(self, before, rows):
        """Of times, only whether they are new.

        :param before: rows as _look() returned them.
        :param rows: those of later.
        """
        changes = _number_news(rows, before)
        octavia = {table.name for table in self.kept_tables}
        for key, row in changes.items():
            changes[key] = row = dict(row)
            for name, value in row.items():
                if not isinstance(value, datetime.datetime):
                    continue
                same = before.get(key, {}).get(name) == value
                row[name] = 'as before' if same else 'new'
                if name == 'updated_at' and key[0] in octavia:
                    # Of whole seconds: a new one may be as the one before.
                    row[name] = 'a time'
        return changes

    def _changes(self, before, names=None):
        """The rows as they are now, compared."""
        return self._compare(before, self._look(names))

    def check_each(self, *checks, some=calls.CALLS):
        """Call checks for every statement of every call.

        What a call finds, and what it does unharmed, is made once for all of
        the checks: that takes as long as a check.

        :param checks: each takes a _Call and the number of a statement.
        :param some: only these calls.
        """
        for function, method in some:
            self.empty()
            call = _Call(self, function, method)
            for check in checks:
                for number in range(1, len(call.statements) + 1):
                    check(call, number)
            call.check_the_rest()

    def is_retried(self, strike):
        """Return a check: with this fault a call succeeds, whole.

        One that has changed nothing yet may fail instead, for the caller's
        next cycle.
        """
        def check(call, number):
            error = call.run(strike, number)
            if error:
                self.assertFalse(call.is_retried, f'{call}: {error!r}')
                self.assertIn(call.statements[number - 1].split()[0],
                              ('BEGIN', 'SELECT'), f'{call}: {error!r}')
                call.run_again()

        return check

    def is_all_or_nothing(self, strike, statement=None):
        """Return a check: a call may fail, and the next one succeeds.

        :param statement: strike at those that are this one only.
        """
        def check(call, number):
            if (statement in (None, call.statements[number - 1]) and
                    call.run(strike, number)):
                call.run_again()

        return check


class FaultCases(FaultChecks):
    """What is to be so before any of them says something."""

    def test_every_function_is_called(self):
        """Whoever adds a function to a repository adds a call of it."""
        self.assertEqual(set(), calls.public_functions() - {
            function for function, _method in calls.CALLS})

    def test_it_strikes(self):
        """The faults below are not just passed by.

        That each statement is reached, each of them checks itself.
        """
        struck = []

        def strike(connection, statement):
            struck.append(True)

        def check(call, number):
            self.assertIsNone(call.run(strike, number))
            expected.append(True)

        expected = []
        some = 20
        self.check_each(check, some=calls.CALLS[:some])
        self.assertEqual(expected, struck)
        self.assertGreater(len(expected), some)


class _Call:
    """A call, and what it does when nothing goes wrong."""

    def __init__(self, case, function, method):
        self.is_retried = hasattr(function, '__wrapped__')
        arguments = getattr(case, method)()
        self.function = functools.partial(function, case.engine, *arguments)
        self._case = case
        self._name = method
        self._before = case._look()
        self._unchanged = case._compare(self._before, self._before)
        case.statements.written.clear()
        case.statements.watch()
        # So that each time that the call writes is another one.
        time.sleep(_TICK)
        self._result = _plain(self.function())
        self.statements = case.statements.seen
        case.statements.watch()
        self._after = case._changes(self._before)
        # That the statements are read rightly: nothing else has changed.
        self._check_unchanged(self._after, case.statements.written)
        self._written = set(case.statements.written)

    def __str__(self):
        return self._name

    def _check_unchanged(self, changes, but):
        """Check all tables but some."""
        self._case.assertEqual(
            {key: row for key, row in self._unchanged.items()
             if key[0] not in but},
            {key: row for key, row in changes.items() if key[0] not in but},
            str(self))

    def restore(self):
        written = self._case.statements.written
        self._case._restore(self._before, written)
        written.clear()

    def _check_after(self, changes, where):
        self._case.assertEqual(
            {key: row for key, row in self._after.items()
             if key[0] in self._looked_at}, changes, where)

    def _look(self):
        """The changes in the tables which the call has written, or would."""
        self._looked_at = self._written | self._case.statements.written
        return self._case._changes(self._before, self._looked_at)

    def run(self, strike, number):
        """Make the call with a fault, and check what is there then.

        :returns: the exception, or None.
        """
        case = self._case
        self.restore()
        case.statements.watch(strike, number)
        try:
            result, error = self.function(), None
        except Exception as e:
            result, error = None, e
        where = str(self)
        if number:
            where += f' {number}: {self.statements[number - 1]}'
            case.assertGreaterEqual(len(case.statements.seen), number, where)
        case.statements.watch()
        changes = self._look()
        if error is None:
            case.assertEqual(self._result, _plain(result), where)
            self._check_after(changes, where)
            return None
        case.assertTrue(api.is_database_error(error), f'{where}: {error!r}')
        case.assertNotIn('\n', api.describe(error))
        # What was lost can have been the answer to a commit.
        self.was_done = changes != {
            key: row for key, row in self._unchanged.items()
            if key[0] in self._looked_at}
        if self.was_done:
            self._check_after(changes, where)
        return error

    def run_again(self):
        """Make it once more, as the caller's next cycle does."""
        result = self.function()
        if not self.was_done:
            self._case.assertEqual(self._result, _plain(result), str(self))
        self._check_after(self._look(), str(self))

    def check_the_rest(self):
        """Check that no fault had it change a table that it never named."""
        self._check_unchanged(self._case._changes(self._before),
                              self._written | self._case.statements.written)
