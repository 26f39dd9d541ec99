# SPDX-License-Identifier: Apache-2.0

"""Connections to Octavia's database, apart from Octavia's own pools.

Octavia's engine waits up to 100 seconds for a database that is down. On SQLite
it shares one connection between all threads. Keepalives need neither.
"""

import contextlib
import functools

from oslo_config import cfg
from oslo_db import api as oslo_db_api
from oslo_db import exception as db_exc
from oslo_db.sqlalchemy import engines
import pymysql
import sqlalchemy as sa
from sqlalchemy import exc as sa_exc

from octavia_hmsync.conf import opts as groups
from octavia_hmsync import exceptions

# A server that accepts and never answers must not hold a keepalive for good.
_PYMYSQL_TIMEOUTS = {'connect_timeout': '10', 'read_timeout': '30',
                     'write_timeout': '30'}

# What a statement raises when the database cannot be used.
ERRORS = (db_exc.DBError, sa_exc.SQLAlchemyError)

# Connections that an engine keeps open.
_IDLE_CONNECTIONS = 5

# Bits of wsrep_sync_wait on a Galera cluster: reads, changes and deletions,
# and inserts wait until their node has all that was committed anywhere before.
# Changes, too: on a node that lags an UPDATE may not find its row. It costs a
# round trip between the nodes for each transaction.
_WSREP_SYNC_WAIT = 1 | 2 | 4


def create_engine(conf, connections=15, patience=10):
    """Create an engine for ``[database] connection``.

    It connects at first use only, and never retries by itself. On a Galera
    cluster its sessions see what was committed at any node before, unless
    ``[database] mysql_wsrep_sync_wait`` says otherwise.

    :param conf: with oslo.db's options.
    :param patience: seconds to wait for a free connection.
    :raises DatabaseUnavailable: if the URL cannot be used.
    """
    database = conf.database
    try:
        url = sa.make_url(database.connection)
        options = {'max_retries': 0,
                   'connection_recycle_time': database.connection_recycle_time}
        if url.get_backend_name() == 'sqlite':
            # Without uri=true SQLite ignores mode=memory, but SQLAlchemy
            # takes it for a database of one connection.
            if 'uri' not in url.query:
                url = url.difference_update_query(['mode'])
        else:
            idle = min(connections, _IDLE_CONNECTIONS)
            options.update(max_pool_size=idle,
                           max_overflow=connections - idle,
                           pool_timeout=patience,
                           mysql_sql_mode=database.mysql_sql_mode)
        if url.get_driver_name() == 'pymysql':
            url = url.set(query={**_PYMYSQL_TIMEOUTS, **url.query})
            options['mysql_wsrep_sync_wait'] = database.mysql_wsrep_sync_wait
        engine = engines.create_engine(url, **options)
        if (url.get_backend_name() in ('mysql', 'mariadb') and
                database.mysql_wsrep_sync_wait is None):
            sa.event.listen(engine, 'connect', _wait_for_other_writers)
        return engine
    except cfg.Error as e:
        raise exceptions.DatabaseUnavailable(
            f'An option of [database] cannot be used: '
            f'{groups.describe_error(e)}. Correct it in octavia.conf.'
        ) from None
    except (ModuleNotFoundError, sa_exc.NoSuchModuleError) as e:
        # The name of a driver, which is not the URL itself.
        missing = getattr(e, 'name', None) or url.drivername
        raise exceptions.DatabaseUnavailable(
            f'[database] connection begins with {url.drivername}:, and its '
            f'driver {missing} is not installed. Correct it: for MySQL and '
            f'MariaDB it is mysql+pymysql:.') from None
    except (sa_exc.ArgumentError, ImportError,
            TypeError, ValueError) as e:
        # The URL holds a password: name the option, not the value.
        raise exceptions.DatabaseUnavailable(
            f'[database] connection cannot be used ({type(e).__name__}): '
            f'correct the URL in octavia.conf.') from None


def _wait_for_other_writers(connection, _record):
    """Ensure that a new session sees what was committed at other nodes."""
    with contextlib.closing(connection.cursor()) as cursor:
        if _is_galera(cursor):
            cursor.execute(
                f'SET SESSION wsrep_sync_wait = {_WSREP_SYNC_WAIT}')


def _is_galera(cursor):
    # MySQL does not know the variable; without a cluster it is OFF. SHOW also
    # works on a node that has lost its cluster.
    cursor.execute("SHOW VARIABLES LIKE 'wsrep_on'")
    row = cursor.fetchone()
    return row is not None and row[1] == 'ON'


def has_several_writers(connection):
    """Tell whether other writers may ignore a lock at this server (Galera)."""
    if connection.dialect.name not in ('mysql', 'mariadb'):
        return False
    with contextlib.closing(
            connection.connection.driver_connection.cursor()) as cursor:
        return _is_galera(cursor)


def is_database_error(error):
    """Tell whether the database, or the connection to it, raised an error."""
    return isinstance(error, (*ERRORS, exceptions.DatabaseUnavailable,
                              exceptions.SchemaMissing)) or _is_hidden(error)


def _is_hidden(error):
    # oslo.db's filter fails on an error in the first connection of an engine,
    # in which SQLAlchemy examines the server.
    return (isinstance(error, NotImplementedError) and
            isinstance(error.__cause__, pymysql.Error))


# What PyMySQL before 1.2 raises when SQLAlchemy rolls back on a lost
# connection; the exception before it has the cause.
_CLOSED = (0, '')


def describe(error):
    """Describe an exception in one line, without the statement."""
    cause = getattr(error, 'inner_exception', None) or error
    if _is_hidden(error):
        cause = error.__cause__
    cause = getattr(cause, 'orig', None) or cause
    # It may also be a text.
    if getattr(cause, 'args', None) == _CLOSED and cause.__context__:
        cause = cause.__context__
        cause = getattr(cause, 'orig', None) or cause
    return ' '.join(str(cause).split()) or type(cause).__name__


def explain(error):
    """Return a line for the operator: the error, and what to do."""
    return (f'The database cannot be used: {describe(error)}. Check '
            f'[database] connection in octavia.conf, and the database.')


def _is_locked(error):
    # SQLite, while another process writes.
    return 'database is locked' in str(error)


# Retries a function that is one whole transaction when it lost a race. It does
# not retry a lost connection: the caller's next cycle does.
retry = oslo_db_api.wrap_db_retry(
    max_retries=5, retry_interval=0.1, max_retry_interval=1,
    inc_retry_interval=True, retry_on_deadlock=True,
    exception_checker=_is_locked, jitter=True)


def transaction(function):
    """Let a function that takes a connection take an engine instead.

    Then it is a transaction of its own, which retry() retries. With a
    connection it is a part of that transaction.
    """
    @retry
    @functools.wraps(function)
    def execute(engine, *args, **kwargs):
        with engine.begin() as connection:
            return function(connection, *args, **kwargs)

    @functools.wraps(function)
    def call(bind, *args, **kwargs):
        is_part = isinstance(bind, sa.Connection)
        return (function if is_part else execute)(bind, *args, **kwargs)

    return call
