# SPDX-License-Identifier: Apache-2.0

"""Deletes the plugin's tables.

The tables may be of any revision, or incomplete after an aborted purge. So
this reads only columns that every revision has.
"""

import sqlalchemy as sa

from octavia_hmsync.db import models
from octavia_hmsync.db import schema
from octavia_hmsync.db import types
from octavia_hmsync.sync.rules import member as mem

# Of each table of any release, and of no other table.
_PREFIX = 'hmsync_'
_HEALTH_MANAGER = models.HealthManager.__table__
_HOUSE_KEEPER = models.HouseKeeper.__table__
_CLUSTER = models.Cluster.__table__
_INSTANCE = models.DistributorInstance.__table__


def get_tables(engine):
    """Return the names of the plugin's tables that exist, in order."""
    with engine.connect() as connection:
        return _get_tables(connection)


def _get_tables(connection):
    return sorted(name for name in sa.inspect(connection).get_table_names()
                  if name.startswith(_PREFIX))


def count_rows(engine, tables):
    """Return the number of rows of all these tables."""
    with engine.connect() as connection:
        return sum(connection.execute(
            sa.select(sa.func.count()).select_from(sa.table(name))).scalar()
            for name in tables)


def count_clusters(engine):
    """Return how many load balancers have a cluster."""
    if _CLUSTER.name not in get_tables(engine):
        return 0
    return count_rows(engine, [_CLUSTER.name])


def count_instances(engine):
    """Return how many distributors controllers have booted."""
    if _INSTANCE.name not in get_tables(engine):
        return 0
    return count_rows(engine, [_INSTANCE.name])


def get_alive(engine, max_age):
    """Return the services that are up with the plugin, as texts."""
    alive = []
    tables = get_tables(engine)
    for table, service, conditions in (
            (_HEALTH_MANAGER, 'octavia-health-manager',
             [_HEALTH_MANAGER.c.status != mem.OFFLINE]),
            (_HOUSE_KEEPER, 'octavia-housekeeping', [])):
        if table.name not in tables:
            continue
        with engine.connect() as connection:
            alive += [f'{service} on {host}' for host in connection.execute(
                sa.select(table.c.host).where(
                    table.c.keepalive_at >= types.utcnow_plus(-max_age),
                    *conditions).order_by(table.c.host)).scalars()]
    return alive


def drop_tables(engine):
    """Delete the plugin's tables; another call continues an aborted one.

    :returns: the names of the tables, in order.
    :raises DatabaseUnavailable: if an upgrade of the tables does not end.
    """
    with engine.connect() as connection, schema.upgrade_lock(connection):
        tables = _get_tables(connection)
        # The version table first: without it services do not use the others,
        # and an upgrade creates the missing tables anew.
        for name in sorted(tables, key=lambda n: n != schema.VERSION_TABLE):
            connection.execute(sa.schema.DropTable(
                sa.Table(name, sa.MetaData()), if_exists=True))
        connection.commit()
    return tables
