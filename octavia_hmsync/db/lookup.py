# SPDX-License-Identifier: Apache-2.0

"""Rows of Octavia's look-up tables, without which no cluster can be written.

Load balancers and amphorae have foreign keys to them. Nothing else of Octavia
looks at them, so one that somebody else has added does as well, whatever it
is described as.
"""

from oslo_db import exception as db_exc
import sqlalchemy as sa

from octavia_hmsync import compat

# By which the plugin knows its own.
DESCRIPTION = 'octavia-hmsync'

# Each table, the row, and the column that refers to it.
_ROWS = (
    (compat.LB_TOPOLOGY, compat.TOPOLOGY_ACTIVE_ACTIVE,
     compat.LOAD_BALANCER.c.topology),
    (compat.AMPHORA_ROLES, compat.ROLE_IN_CLUSTER, compat.AMPHORA.c.role))


def _read(connection):
    """Yield (table, name, column, description); that is False without one."""
    for table, name, column in _ROWS:
        row = connection.execute(sa.select(table).where(
            table.c.name == name)).first()
        yield table, name, column, row.description if row else False


def add(connection):
    """Add those that are not there.

    :param connection: an SQLAlchemy connection, in a transaction.
    """
    for table, name, _column, description in list(_read(connection)):
        if description is False:
            connection.execute(sa.insert(table).values(
                name=name, description=DESCRIPTION))


def find_missing(connection):
    """Return those that are not there, a list of texts."""
    return [f'{table.name} {name}' for table, name, _column, description
            in _read(connection) if description is False]


def find_others(connection):
    """Return those that somebody else has added, a list of texts."""
    return [f'{table.name} {name} ({description or "not described"})'
            for table, name, _column, description in _read(connection)
            if description not in (False, DESCRIPTION)]


def remove(engine):
    """Take those away that the plugin has added and nobody uses.

    :param engine: an SQLAlchemy engine.
    :returns: the others of its own, a list of texts.
    """
    kept = []
    with engine.connect() as connection:
        rows = list(_read(connection))
    for table, name, column, description in rows:
        if description != DESCRIPTION:
            continue
        unused = ~sa.exists().where(column == name)
        try:
            with engine.begin() as connection:
                is_removed = connection.execute(sa.delete(table).where(
                    table.c.name == name, unused)).rowcount
        except db_exc.DBReferenceError:
            # Somebody has begun to use it at this moment.
            is_removed = False
        if not is_removed:
            kept.append(f'{table.name} {name}')
    return kept
