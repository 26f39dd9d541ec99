# SPDX-License-Identifier: Apache-2.0

"""Rows of Octavia's look-up tables that clusters need.

Load balancers and amphorae have foreign keys to them. Octavia does not use
them otherwise, so a row that another tool added is as good, whatever its
description.
"""

from oslo_db import exception as db_exc
import sqlalchemy as sa

from octavia_hmsync import compat

# Marks the plugin's own rows.
DESCRIPTION = 'octavia-hmsync'

# Each table, the row, and the column that refers to it.
_ROWS = (
    (compat.LB_TOPOLOGY, compat.TOPOLOGY_ACTIVE_ACTIVE,
     compat.LOAD_BALANCER.c.topology),
    (compat.AMPHORA_ROLES, compat.ROLE_IN_CLUSTER, compat.AMPHORA.c.role))


def _read(connection):
    """Yield (table, name, column, description); False without a row."""
    for table, name, column in _ROWS:
        row = connection.execute(sa.select(table).where(
            table.c.name == name)).first()
        yield table, name, column, row.description if row else False


def add(connection):
    """Add the rows that are missing."""
    for table, name, _column, description in list(_read(connection)):
        if description is False:
            connection.execute(sa.insert(table).values(
                name=name, description=DESCRIPTION))


def find_missing(connection):
    """Return the rows that are missing, as texts."""
    return [f'{table.name} {name}' for table, name, _column, description
            in _read(connection) if description is False]


def find_others(connection):
    """Return the rows that another tool added, as texts."""
    return [f'{table.name} {name} ({description or "not described"})'
            for table, name, _column, description in _read(connection)
            if description not in (False, DESCRIPTION)]


def remove(engine):
    """Delete the plugin's unused rows; return the others, as texts."""
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
            # A load balancer or amphora has just begun to use it.
            is_removed = False
        if not is_removed:
            kept.append(f'{table.name} {name}')
    return kept
