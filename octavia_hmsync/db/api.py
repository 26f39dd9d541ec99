# SPDX-License-Identifier: Apache-2.0

"""Connections to Octavia's database, apart from Octavia's own pools.

Octavia's engine waits up to 100 seconds for a database that is down and, on
SQLite, shares one connection between all threads; a keepalive can afford
neither.
"""

import contextlib

from oslo_config import cfg
from oslo_db import api as oslo_db_api
from oslo_db import exception as db_exc
from oslo_db.sqlalchemy import engines
import pymysql
import sqlalchemy as sa
from sqlalchemy import exc as sa_exc

from octavia_hmsync.conf import sync as hmsync_conf
from octavia_hmsync import exceptions

# A server that accepts and never answers must not hold a keepalive for good.
_PYMYSQL_TIMEOUTS = {'connect_timeout': '10', 'read_timeout': '30',
                     'write_timeout': '30'}

# What a statement raises when the database cannot be used.
ERRORS = (db_exc.DBError, sa_exc.SQLAlchemyError)

# As many are kept open.
_IDLE_CONNECTIONS = 5

# On a Galera cluster the bits of wsrep_sync_wait: whatever reads, changes or
# deletes, or inserts waits until its node has all that was committed anywhere
# before. A change that finds no row on a node that lags is as wrong an answer
# as no row at all. It costs a round trip between the nodes for each
# transaction.
_WSREP_SYNC_WAIT = 1 | 2 | 4


def create_engine(conf, connections=15, patience=10):
    """Create an engine for ``[database] connection``.

    It connects at first use only, and never retries by itself. On a Galera
    cluster its sessions see what was committed at any node before, unless
    ``[database] mysql_wsrep_sync_wait`` says otherwise.

    :param conf: a parsed oslo.config object with oslo.db's options.
    :param connections: how many at once.
    :param patience: seconds for which whoever needs one more waits.
    :returns: an SQLAlchemy engine with oslo.db's exception filters.
    :raises DatabaseUnavailable: if the URL cannot be used.
    """
    database = conf.database
    try:
        url = sa.make_url(database.connection)
        options = {'max_retries': 0,
                   'connection_recycle_time': database.connection_recycle_time}
        if url.get_backend_name() == 'sqlite':
            # Without uri=true SQLite takes mode=memory for nothing, while
            # SQLAlchemy takes it for a database of one connection.
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
            f'{hmsync_conf.describe_error(e)}. Correct it in octavia.conf.'
        ) from None
    except (sa_exc.ArgumentError, sa_exc.NoSuchModuleError, ImportError,
            TypeError, ValueError) as e:
        # The URL holds a password: name the option, not the value.
        raise exceptions.DatabaseUnavailable(
            f'[database] connection cannot be used ({type(e).__name__}): '
            f'correct the URL in octavia.conf.') from None


def _wait_for_other_writers(connection, _record):
    """Have a new session see what was committed at other nodes before."""
    with contextlib.closing(connection.cursor()) as cursor:
        if _is_galera(cursor):
            cursor.execute(
                f'SET SESSION wsrep_sync_wait = {_WSREP_SYNC_WAIT}')


def _is_galera(cursor):
    # MySQL does not know the variable, and a server without a cluster has it
    # OFF. SHOW is answered on a node which is not part of its cluster, too.
    cursor.execute("SHOW VARIABLES LIKE 'wsrep_on'")
    row = cursor.fetchone()
    return row is not None and row[1] == 'ON'


def has_several_writers(connection):
    """Tell whether a lock at this server may be unknown to other writers.

    :param connection: an SQLAlchemy connection.
    :returns: True on a Galera cluster.
    """
    if connection.dialect.name not in ('mysql', 'mariadb'):
        return False
    with contextlib.closing(
            connection.connection.driver_connection.cursor()) as cursor:
        return _is_galera(cursor)


def is_database_error(error):
    """Tell whether the database, and not the code around it, is to blame.

    :param error: an exception.
    :returns: True for whatever the database or the connection to it raised.
    """
    return isinstance(error, (*ERRORS, exceptions.DatabaseUnavailable,
                              exceptions.SchemaMissing)) or _is_hidden(error)


def _is_hidden(error):
    # What goes wrong while SQLAlchemy gets to know the server, in the first
    # connection of an engine, makes oslo.db's filter stumble.
    return (isinstance(error, NotImplementedError) and
            isinstance(error.__cause__, pymysql.Error))


# What PyMySQL before 1.2 says when SQLAlchemy still wants to roll back on a
# connection that was lost; why it was lost is in the exception before it.
_CLOSED = (0, '')


def describe(error):
    """Put an exception of the database in one line, without the statement.

    :param error: an exception for which is_database_error() is true.
    :returns: a line of text.
    """
    cause = getattr(error, 'inner_exception', None) or error
    if _is_hidden(error):
        cause = error.__cause__
    cause = getattr(cause, 'orig', None) or cause
    # oslo.db's exceptions may as well hold a text.
    if getattr(cause, 'args', None) == _CLOSED and cause.__context__:
        cause = cause.__context__
        cause = getattr(cause, 'orig', None) or cause
    return ' '.join(str(cause).split()) or type(cause).__name__


def explain(error):
    """Tell that the database cannot be used, why, and what to do.

    :param error: an exception for which is_database_error() is true.
    :returns: a line of text.
    """
    return (f'The database cannot be used: {describe(error)}. Check '
            f'[database] connection in octavia.conf, and the database.')


def _is_locked(error):
    # SQLite's way to say that another process writes.
    return 'database is locked' in str(error)


# Runs a function that is one whole transaction again when it lost a race. A
# lost connection is the caller's affair: its next cycle is the retry.
retry = oslo_db_api.wrap_db_retry(
    max_retries=5, retry_interval=0.1, max_retry_interval=1,
    inc_retry_interval=True, retry_on_deadlock=True,
    exception_checker=_is_locked, jitter=True)
