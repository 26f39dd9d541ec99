# SPDX-License-Identifier: Apache-2.0

"""Octavia's database, on SQLite or on MariaDB."""

import atexit
import functools
import os
import pathlib
import shutil
import sqlite3
import uuid

import fixtures
import sqlalchemy as sa
from sqlalchemy import pool

from tests.cloud import mariadb
from tests.cloud import records

LASTING_DIRECTORY = mariadb.LASTING_DIRECTORY
LOOKUP_TABLES = {
    'ProvisioningStatus': 'SUPPORTED_PROVISIONING_STATUSES',
    'HealthMonitorType': 'SUPPORTED_HEALTH_MONITOR_TYPES',
    'Algorithm': 'SUPPORTED_LB_ALGORITHMS',
    'Protocol': 'SUPPORTED_PROTOCOLS',
    'OperatingStatus': 'SUPPORTED_OPERATING_STATUSES',
    'SessionPersistenceType': 'SUPPORTED_SP_TYPES',
    'AmphoraRoles': 'SUPPORTED_AMPHORA_ROLES',
    'LBTopology': 'SUPPORTED_LB_TOPOLOGIES',
    'VRRPAuthMethod': 'SUPPORTED_VRRP_AUTH',
    'L7RuleType': 'SUPPORTED_L7RULE_TYPES',
    'L7RuleCompareType': 'SUPPORTED_L7RULE_COMPARE_TYPES',
    'L7PolicyAction': 'SUPPORTED_L7POLICY_ACTIONS',
    'ClientAuthenticationMode': 'SUPPORTED_CLIENT_AUTH_MODES',
}


class Database(fixtures.Fixture):
    """A database at Octavia's newest schema, with the look-up tables filled.

    .connection is for octavia.conf, .records makes and reads rows.
    """

    connection = None

    def upgrade(self):
        """Add our own tables, as "octavia-hmsync db upgrade" does."""
        _upgrade(self.engine)

    def _open(self, url, tables=None):
        # No pool: no connection of ours holds a lock, or survives a restart
        # of the server.
        engine = sa.create_engine(url, poolclass=pool.NullPool)
        self.addCleanup(engine.dispose)
        self.engine = engine
        self.records = records.Records(engine, tables)


class SqliteDatabase(Database):
    """A file in the directory, which several processes can use at once."""

    def __init__(self, directory):
        super().__init__()
        self.path = os.path.join(directory, 'octavia.db')

    def _setUp(self):
        shutil.copyfile(_sqlite_template(), self.path)
        self.connection = f'sqlite:///{self.path}?timeout=30'
        self._open(self.connection, _sqlite_tables())

    def upgrade(self):
        """Become a copy of what an upgrade made once, before any other use."""
        self.engine.dispose()
        for end in ('-wal', '-shm'):
            pathlib.Path(f'{self.path}{end}').unlink(missing_ok=True)
        shutil.copyfile(_upgraded_template(), self.path)


@functools.cache
def _sqlite_tables():
    engine = sa.create_engine(f'sqlite:///{_sqlite_template()}',
                              poolclass=pool.NullPool)
    return records.Records(engine).tables


@functools.cache
def _upgraded_template():
    """A file with our own tables as well."""
    path = f'{_sqlite_template()}-upgraded'
    shutil.copyfile(_sqlite_template(), path)
    engine = sa.create_engine(f'sqlite:///{path}', poolclass=pool.NullPool)
    _upgrade(engine)
    engine.dispose()
    return path


def _upgrade(engine):
    # Octavia's tables alone need none of it.
    from octavia_hmsync.db import schema

    schema.upgrade(engine)


@functools.cache
def _sqlite_template():
    """A file with the schema; the import of the models takes seconds."""
    from octavia.common import constants
    from octavia.db import base_models
    from octavia.db import models

    # Not in a test's own temporary directory, which ends with that test.
    directory = fixtures.TempDir(rootdir=LASTING_DIRECTORY)
    directory.setUp()
    atexit.register(directory.cleanUp)
    path = os.path.join(directory.path, 'template.db')
    engine = sa.create_engine(f'sqlite:///{path}', poolclass=pool.NullPool)
    base_models.BASE.metadata.create_all(engine)
    with engine.begin() as connection:
        for model, names in LOOKUP_TABLES.items():
            table = getattr(models, model).__table__
            connection.execute(table.insert(), [
                {'name': name} for name in getattr(constants, names)])
    engine.dispose()
    # The mode stays with the file; readers then do not hold up the writer.
    with sqlite3.connect(path) as connection:
        connection.execute('PRAGMA journal_mode=WAL')
    connection.close()
    return path


class MariaDBDatabase(Database):
    """A database of its own on a MariaDB server.

    :param directory: not needed; all kinds of database take one
    :param server: a running mariadb.MariaDBServer; by default one which all
                   tests of this process share. A test that stops the server
                   needs its own.
    """

    def __init__(self, directory=None, server=None):
        super().__init__()
        self._given_server = server

    def _setUp(self):
        self.server = self._given_server or mariadb.shared_server()
        self.name = f'octavia_{uuid.uuid4().hex[:12]}'
        self.server.create_octavia_database(self.name)
        self.addCleanup(self._drop)
        self.connection = self.server.url(self.name)
        self._open(self.connection)

    def _drop(self):
        if self.server.running:
            self.server.execute(f'DROP DATABASE {self.name}')
