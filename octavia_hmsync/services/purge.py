# SPDX-License-Identifier: Apache-2.0

"""Takes the plugin's tables away.

Reads no more than what every revision of them has: any may be there, and a
part of them where that was broken off.
"""

import sqlalchemy as sa

from octavia_hmsync.db import models
from octavia_hmsync.db import schema
from octavia_hmsync.db import types
from octavia_hmsync.sync.rules import member as mem

# Of each table of any release, and of no other one.
_PREFIX = 'hmsync_'
_HEALTH_MANAGER = models.HealthManager.__table__
_HOUSE_KEEPER = models.HouseKeeper.__table__
_CLUSTER = models.Cluster.__table__
_INSTANCE = models.DistributorInstance.__table__


def get_tables(engine):
    """Return the names of the plugin's tables that are there, in order."""
    with engine.connect() as connection:
        return _get_tables(connection)


def _get_tables(connection):
    return sorted(name for name in sa.inspect(connection).get_table_names()
                  if name.startswith(_PREFIX))


def count_rows(engine, tables):
    """Return how many rows tables have, together."""
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
    """Return how many distributors there are that controllers have booted."""
    if _INSTANCE.name not in get_tables(engine):
        return 0
    return count_rows(engine, [_INSTANCE.name])


def get_alive(engine, max_age):
    """Return the services with the plugin that gave a sign of life lately.

    :param engine: an SQLAlchemy engine.
    :param max_age: seconds without a keepalive after which one is not up.
    :returns: a list of texts, service and host.
    """
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
    """Delete the plugin's tables; whatever breaks it off, it can go on.

    :param engine: an SQLAlchemy engine.
    :returns: the names of those that were there, in order.
    :raises DatabaseUnavailable: if an upgrade of them does not end.
    """
    with engine.connect() as connection, schema.upgrade_lock(connection):
        tables = _get_tables(connection)
        # First: without it services know that the others are not for use,
        # and an upgrade makes anew what is not there.
        for name in sorted(tables, key=lambda n: n != schema.VERSION_TABLE):
            connection.execute(sa.schema.DropTable(
                sa.Table(name, sa.MetaData()), if_exists=True))
        connection.commit()
    return tables
