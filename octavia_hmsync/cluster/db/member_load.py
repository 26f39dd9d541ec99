# SPDX-License-Identifier: Apache-2.0

"""Rows of ``hmsync_member_load``: the load of members of clusters.

Octavia adds up what heartbeats count. A rate needs two of these sums, and any
process may be the one that reads the next one, so the last is kept here. Only
members of clusters whose manager follows the load have rows.
"""

import dataclasses
import datetime

from oslo_db import exception as db_exc
import sqlalchemy as sa

from octavia_hmsync.cluster.rules import load
from octavia_hmsync import compat
from octavia_hmsync.db import api
from octavia_hmsync.db import models
from octavia_hmsync.db import types

_TABLE = models.MemberLoad.__table__
_MEMBER = models.ClusterMember.__table__
_CLUSTER = models.Cluster.__table__
_HEALTH = compat.AMPHORA_HEALTH
_STATISTICS = compat.LISTENER_STATISTICS


@dataclasses.dataclass(frozen=True)
class MemberLoad:
    """A row whose rates are known; times are UTC.

    :param connections: open ones.
    :param connection_rate: new ones, for each second.
    :param byte_rate: bytes to and from clients, for each second.
    :param heard_at: when the heartbeat came, by its health manager's clock.
    :param now: when it was read, by the database's clock.
    """

    connections: int
    connection_rate: float
    byte_rate: float
    heard_at: datetime.datetime
    now: datetime.datetime


def get_of_cluster(engine, cluster_id):
    """Return {id of a member: its MemberLoad}, of those with known rates."""
    with engine.connect() as connection:
        return {row.member_id: MemberLoad(
            row.connections, row.connection_rate, row.byte_rate,
            row.heard_at, row.now) for row in connection.execute(
            sa.select(_TABLE, types.utcnow().label('now'))
            .join(_MEMBER, _MEMBER.c.id == _TABLE.c.member_id)
            .where(_MEMBER.c.cluster_id == cluster_id,
                   _TABLE.c.connection_rate.is_not(None)))}


@api.retry
def measure(engine, managers):
    """Record the load of the members of some clusters.

    :param managers: of the clusters that these managers decide for.
    :returns: the number of members whose load was recorded; 0 if another
              process has just done it.
    """
    with engine.connect() as connection:
        due = list(_find_due(connection, managers))
    if not due:
        return 0
    try:
        with engine.begin() as connection:
            return _write(connection, due)
    except db_exc.DBDuplicateEntry:
        # Another process does it at this moment.
        return 0


def _find_due(connection, managers):
    """Yield (id of a member, what was counted before, and now, row)."""
    sums = [sa.func.sum(column).label(name) for name, column in (
        ('open_now', _STATISTICS.c.active_connections),
        ('connections_now', _STATISTICS.c.total_connections),
        ('bytes_now', _STATISTICS.c.bytes_in + _STATISTICS.c.bytes_out))]
    columns = (_MEMBER.c.id, _HEALTH.c.last_update, _TABLE.c.heard_at,
               _TABLE.c.total_connections, _TABLE.c.total_bytes)
    for row in connection.execute(
            sa.select(*columns, *sums)
            .join(_CLUSTER, _CLUSTER.c.id == _MEMBER.c.cluster_id)
            .join(_HEALTH, _HEALTH.c.amphora_id == _MEMBER.c.amphora_id)
            .join(_STATISTICS,
                  _STATISTICS.c.amphora_id == _MEMBER.c.amphora_id)
            .outerjoin(_TABLE, _TABLE.c.member_id == _MEMBER.c.id)
            .where(_CLUSTER.c.cluster_type.in_(sorted(managers)))
            .group_by(*columns).order_by(_MEMBER.c.id)):
        before = row.heard_at and load.Counted(
            row.heard_at, row.total_connections, row.total_bytes)
        now = load.Counted(row.last_update, int(row.connections_now),
                           int(row.bytes_now))
        if load.is_due(before, now):
            yield row.id, before, now, int(row.open_now)


def _write(connection, due):
    # Locked: a deletion of a member meanwhile would leave these rows.
    there = set(connection.execute(
        sa.select(_MEMBER.c.id).where(_MEMBER.c.id.in_(
            [member_id for member_id, *_ in due]))
        .order_by(_MEMBER.c.id).with_for_update(read=True)).scalars())
    written = 0
    for member_id, before, now, open_now in due:
        if member_id not in there:
            continue
        rates = load.find_rates(before, now)
        values = {
            'heard_at': now.at, 'connections': open_now,
            'total_connections': now.connections, 'total_bytes': now.traffic,
            'connection_rate': rates and rates.connections,
            'byte_rate': rates and rates.traffic}
        written += connection.execute(
            sa.insert(_TABLE).values(member_id=member_id, **values)
            if before is None else
            sa.update(_TABLE).where(
                _TABLE.c.member_id == member_id,
                _TABLE.c.heard_at == before.at).values(**values)).rowcount
    return written


def delete_of(connection, member_ids):
    """Delete the rows of members, as part of a transaction."""
    connection.execute(sa.delete(_TABLE).where(
        _TABLE.c.member_id.in_(member_ids)))
