# SPDX-License-Identifier: Apache-2.0

import concurrent.futures

import pymysql
import sqlalchemy as sa

from octavia_hmsync.db import models
from octavia_hmsync.sync.db import outcome as outcome_repo
from tests.cloud import waiting
from tests.db_cases import faults
from tests.db_cases.sync import amphora
from tests.functional.db import mariadb


class Server:
    """What an administrator does on the server."""

    def __init__(self, engine):
        self._engine = engine

    def query(self, sql):
        with self._engine.connect() as connection:
            return connection.execute(sa.text(sql)).all()

    def connections(self):
        """Ids of the connections to this database."""
        return {row[0] for row in self.query(
            'SELECT id FROM information_schema.processlist WHERE '
            'db = DATABASE() AND id != CONNECTION_ID()')}

    def kill(self, *ids):
        with self._engine.connect() as connection:
            for connection_id in ids:
                connection.execute(sa.text(f'KILL {connection_id:d}'))
        waiting.wait_for(lambda: not self.connections() & set(ids),
                         f'end of connections {ids}', interval=0.01)


class MariaDBFaultsMixin(mariadb.MariaDBMixin):

    def setUp(self):
        super().setUp()
        self.server = Server(self.safe_engine)


class TestFaults(MariaDBFaultsMixin, faults.FaultCases):
    """Those that matter most; tests.soak.test_faults has the others."""

    test_it_strikes = None

    def test_deadlock(self):
        """The server has rolled the transaction back; on Galera at COMMIT."""
        def strike(connection, statement):
            connection.rollback()
            raise pymysql.err.OperationalError(
                1213, 'Deadlock found when trying to get lock; try '
                      'restarting transaction')

        self.check_each(self.is_retried(strike))

    def test_connection_is_lost_before_the_answer(self):
        """It was done, and nobody was told."""
        def strike(connection, statement):
            statement()
            self.server.kill(connection.thread_id())
            raise pymysql.err.OperationalError(
                2013, 'Lost connection to MySQL server during query')

        self.check_each(self.is_all_or_nothing(strike))


class TestRealDeadlocks(mariadb.MariaDBMixin, amphora.AmphoraCases):
    """Two transactions, with nothing made up."""

    def setUp(self):
        super().setUp()
        self.server = Server(self.database.engine)
        self.one, self.two = sorted(self.add(2))
        self.claim()
        self.other = self.database.engine.connect()
        self.addCleanup(self.other.close)
        # By the first UPDATE one is locked, by the second two is.
        sa.event.listen(self.engine, 'after_cursor_execute',
                        self.after_statement)
        sa.event.listen(self.engine, 'handle_error', self.on_error)
        self.updates = 0
        self.refused = []

    def after_statement(self, connection, cursor, statement, *args):
        self.updates += statement.startswith('UPDATE hmsync_amphora')
        if self.updates == 1:
            self.updates += 1
            self.between_the_updates()

    def on_error(self, context):
        self.refused.append(context.original_exception.args[0])
        self.when_refused()

    def lock(self, amphora_id):
        self.other.execute(sa.text(
            'UPDATE hmsync_amphora SET held_since = UTC_TIMESTAMP(6) '
            'WHERE amphora_id = :id'), {'id': amphora_id})

    def check_recorded(self, *errors):
        recorded = outcome_repo.record(self.engine, 1, 'batch1', [
            outcome_repo.Outcome(self.one, 'APPLIED', amphora.LIST),
            outcome_repo.Outcome(self.two, 'UNREACHABLE', amphora.LIST,
                                 'it hangs', 10)])
        self.assertEqual(list(errors), self.refused)
        self.assertEqual({self.one, self.two}, recorded)
        self.assertEqual(
            [('APPLIED', 1, None), ('UNREACHABLE', 1, None)],
            [(row.result, row.attempts, row.claim_owner)
             for row in self.rows(models.Amphora)])

    def test_deadlock(self):
        """Each waits for the other; ours is rolled back, and runs again."""
        executor = concurrent.futures.ThreadPoolExecutor(1)
        self.addCleanup(executor.shutdown)

        def cross():
            # The one that has changed more is spared.
            self.other.execute(sa.text(
                'UPDATE algorithm SET name = CONCAT(name, :x)'), {'x': 'x'})
            self.lock(self.two)
            crossing = executor.submit(self.lock, self.one)
            waiting.wait_for(
                lambda: crossing.done() or self.server.query(
                    "SELECT 1 FROM information_schema.innodb_trx "
                    "WHERE trx_state = 'LOCK WAIT'"),
                'transaction that waits for ours', interval=0.01)

        self.between_the_updates = cross
        self.when_refused = lambda: executor.submit(
            self.other.rollback).result()
        self.check_recorded(1213)

    def test_lock_wait_timeout(self):
        @sa.event.listens_for(self.engine, 'connect')
        def on_connect(connection, record):
            connection.cursor().execute(
                'SET innodb_lock_wait_timeout = 1')

        self.engine.dispose()
        self.between_the_updates = lambda: self.lock(self.two)
        self.when_refused = self.other.rollback
        self.check_recorded(1205)
