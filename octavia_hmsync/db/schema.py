# SPDX-License-Identifier: Apache-2.0

"""The plugin's schema: its revisions, and moving from one to the next."""

import contextlib
import importlib
import pathlib
import random
import time

import sqlalchemy as sa

from octavia_hmsync import compat
from octavia_hmsync.db import api
from octavia_hmsync.db import lookup
from octavia_hmsync import exceptions

VERSION_TABLE = 'hmsync_alembic_version'

MIGRATION_PATH = pathlib.Path(__file__).parent / 'migration'
_LOCK_NAME = 'octavia_hmsync_db_upgrade'
_LOCK_TIMEOUT = 60
# Seconds for which one statement waits for the lock. A client that waits for
# longer than its read_timeout takes the server for dead.
_LOCK_TICK = 1
# On Galera the lock holds at one node only, so upgrades at several nodes may
# overlap. The steps can be repeated: an upgrade that fails tries again.
_CLUSTER_TRIES = 8


def _scripts():
    # Imported late: services do not need alembic, see the module.
    return importlib.import_module('octavia_hmsync.db.scripts')


def _revisions():
    """Return the revisions that this release knows, oldest first."""
    return sorted(path.name.partition('_')[0] for path in
                  (MIGRATION_PATH / 'versions').glob('[0-9]*_*.py'))


def head():
    """Return the newest revision that this release knows."""
    return _revisions()[-1]


def current(connection):
    """Return the revision of the database, or None without tables."""
    if not sa.inspect(connection).has_table(VERSION_TABLE):
        return None
    return connection.execute(
        sa.text(f'SELECT version_num FROM {VERSION_TABLE}')).scalar()


def history():
    """Return (revision, description) of all known ones, oldest first."""
    return _scripts().get_history(MIGRATION_PATH)


def check(connection):
    """Check that the tables are at the revision of this release.

    :raises SchemaMissing: if they do not exist, or are older.
    :raises SchemaNewer: if a newer release made them. Migrations only add,
                         so a service may run on.
    """
    revision, newest = current(connection), head()
    if revision == newest:
        return
    if revision is None:
        raise exceptions.SchemaMissing(
            'The tables of octavia-hmsync are not in the database yet: run '
            '"octavia-hmsync db upgrade".')
    if revision in _revisions():
        raise exceptions.SchemaMissing(
            f'The tables of octavia-hmsync are at revision {revision}, this '
            f'release needs {newest}: run "octavia-hmsync db upgrade".')
    raise exceptions.SchemaNewer(
        f'The tables of octavia-hmsync are at revision {revision}, which '
        f'this release does not know (its newest is {newest}): install the '
        f'newer release of octavia-hmsync here too.')


def check_octavia(connection):
    """Raise NotOctavia if the database lacks a table of Octavia."""
    inspector = sa.inspect(connection)
    missing = [table.name for table in compat.TABLES
               if not inspector.has_table(table.name)]
    if missing:
        # The query part of the URL can be secret, too.
        url = connection.engine.url.set(query={})
        raise exceptions.NotOctavia(
            f'The database {url.render_as_string(hide_password=True)} is not '
            f'that of Octavia, or Octavia has not made its tables there yet '
            f'(it has no {", ".join(missing)}): correct [database] '
            f'connection in octavia.conf, or run "octavia-db-manage upgrade '
            f'head" first.')


@contextlib.contextmanager
def upgrade_lock(connection):
    """Keep other upgrades away, or raise DatabaseUnavailable."""
    # Two controllers may start the upgrade at once; MySQL has no
    # transactional DDL, so the second has to wait for the first.
    if connection.dialect.name != 'mysql':
        yield
        return
    deadline = time.monotonic() + _LOCK_TIMEOUT
    while connection.execute(
            sa.text('SELECT GET_LOCK(:name, :timeout)'),
            {'name': _LOCK_NAME, 'timeout': _LOCK_TICK}).scalar() != 1:
        if time.monotonic() >= deadline:
            raise exceptions.DatabaseUnavailable(
                f'Another "octavia-hmsync db upgrade" has been running for '
                f'{_LOCK_TIMEOUT} s: wait for it to end, then try again.')
    try:
        yield
    finally:
        # An earlier error matters more. The lock ends with the connection at
        # the latest.
        with contextlib.suppress(*api.ERRORS):
            connection.execute(sa.text('SELECT RELEASE_LOCK(:name)'),
                               {'name': _LOCK_NAME})


def upgrade(engine):
    """Bring the tables to the newest revision of this release.

    :returns: (revision before, revision after).
    :raises SchemaNewer: if a newer release made the tables.
    :raises NotOctavia: if the database has no tables of Octavia; it stays as
                        it is.
    :raises DatabaseUnavailable: if another upgrade does not end.
    """
    for tries_left in reversed(range(_CLUSTER_TRIES)):
        try:
            return _upgrade(engine)
        except (exceptions.SchemaNewer, exceptions.NotOctavia,
                exceptions.DatabaseUnavailable):
            raise
        except (*api.ERRORS, exceptions.HMSyncException):
            if not tries_left or not _has_several_writers(engine):
                raise
            time.sleep(random.uniform(0.2, 2))  # nosec B311
    raise AssertionError('the last try returns or raises')


def _has_several_writers(engine):
    try:
        with engine.connect() as connection:
            return api.has_several_writers(connection)
    except api.ERRORS:
        return False


def _upgrade(engine):
    with engine.connect() as connection, upgrade_lock(connection):
        check_octavia(connection)
        before = current(connection)
        with contextlib.suppress(exceptions.SchemaMissing):
            check(connection)
        connection.commit()
        _scripts().upgrade(MIGRATION_PATH, connection)
        # Ensure Octavia's look-up rows even if an operator deleted them.
        lookup.add(connection)
        connection.commit()
        return before, current(connection)
