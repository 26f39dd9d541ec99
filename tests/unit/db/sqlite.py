# SPDX-License-Identifier: Apache-2.0

"""The database of the unit tests: a file with SQLite."""

import os
import shutil
import sqlite3
import threading

import fixtures
from oslo_db.sqlalchemy import engines
import sqlalchemy as sa
from sqlalchemy.dialects import plugins
from sqlalchemy import util

from tests.cloud import database

# Each commit waits for a disk otherwise, which takes most of the time.
_MEMORY = '/dev/shm'  # nosec B108
_WANTED = 64 << 20


def _find_memory():
    """Return a directory in memory, or None where there is no room in any."""
    try:
        is_free = shutil.disk_usage(_MEMORY).free >= _WANTED
    except OSError:
        return None
    return _MEMORY if is_free and os.access(_MEMORY, os.W_OK) else None


class _TemporaryDatabase(database.SqliteDatabase):

    def __init__(self):
        self._directory = fixtures.TempDir(rootdir=_find_memory())
        self._directory.setUp()
        super().__init__(self._directory.path)

    def _setUp(self):
        self.addCleanup(self._directory.cleanUp)
        super()._setUp()


class _Statements(util.LRUCache):
    """What statements were compiled to, for all engines of the process.

    Each test has an engine of its own, which would compile them again. In
    their keys the dialect is an object of each engine; those of one name are
    all alike. Functional tests with such a class may have MariaDB.
    """

    def __getitem__(self, key):
        return super().__getitem__(_name_dialect(key))

    def get(self, key, default=None):
        return super().get(_name_dialect(key), default)

    def __setitem__(self, key, value):
        super().__setitem__(_name_dialect(key), value)


def _name_dialect(key):
    dialect, *rest = key
    return (dialect.name, dialect.driver, *rest)


_STATEMENTS = _Statements(5000)


class _KeptConnections(sa.engine.CreateEnginePlugin):
    """Has an engine keep connections to SQLite, as it does to a server.

    With oslo.db each statement has a new one, which reads the whole schema
    first: that takes longer than the statements themselves.
    """

    NAME = 'octavia_hmsync_tests'

    def __init__(self, url, kwargs):
        super().__init__(url, kwargs)
        kwargs.update(poolclass=sa.pool.QueuePool, max_overflow=-1)

    def update_url(self, url):
        return url

    def engine_created(self, engine):
        engine.update_execution_options(compiled_cache=_STATEMENTS)


plugins.register(_KeptConnections.NAME, __name__, _KeptConnections.__name__)


class _Clock:
    """SQLite's STRFTIME, and so all times that the database has.

    One for all connections of the process, those of Octavia's and of commands
    among them.
    """

    def __init__(self):
        self._lock = threading.Lock()
        self._sqlite = sqlite3.connect(':memory:', check_same_thread=False)
        self._now = 'now'
        sa.event.listen(sa.pool.Pool, 'connect', self._on_connect)

    def stop(self):
        self._now = self._ask('SELECT JULIANDAY(?)', 'now')

    def run(self):
        """Have it be the machine's."""
        self._now = 'now'

    def advance(self, seconds):
        """Have it go forward, or back."""
        self._now += seconds / 86400

    def _on_connect(self, connection, record):
        if isinstance(connection, sqlite3.Connection):
            connection.create_function('STRFTIME', -1, self._strftime)

    def _strftime(self, text, time, *shifts):
        return self._ask(
            f'SELECT STRFTIME(?, ?{", ?" * len(shifts)})', text,
            self._now if time == 'now' else time, *shifts)

    def _ask(self, query, *values):
        with self._lock:
            return self._sqlite.execute(query, values).fetchone()[0]


_CLOCK = _Clock()


class SqliteMixin:
    """For the test cases of tests.db_cases."""

    @classmethod
    def make_database(cls):
        return _TemporaryDatabase()

    def create_engine(self):
        connection = self.conf.database.connection
        self.conf.set_override(
            'connection', f'{connection}&plugin={_KeptConnections.NAME}',
            group='database')
        try:
            engine = super().create_engine()
        finally:
            self.conf.set_override('connection', connection, group='database')
        # oslo.db sleeps after each transaction, for the sake of eventlet: on
        # a busy machine that takes longer than the transaction.
        sa.event.remove(engine, 'checkin', engines._thread_yield)
        return engine

    def stop_clock(self):
        """Have no time pass in the database, however long a test takes.

        What is renewed while time passes, a keepalive for example, would
        lapse where a machine is slow enough.

        :returns: the clock, with advance(seconds).
        """
        self.addCleanup(_CLOCK.run)
        _CLOCK.stop()
        return _CLOCK
