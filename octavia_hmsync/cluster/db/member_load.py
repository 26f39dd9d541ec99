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

from octavia_hmsync import compat
from octavia_hmsync.db import api
from octavia_hmsync.db import models
from octavia_hmsync.db import rows
from octavia_hmsync.db import types

_TABLE = models.MemberLoad.__table__
_MEMBER = models.ClusterMember.__table__
_CLUSTER = models.Cluster.__table__
_HEALTH = compat.AMPHORA_HEALTH
_STATISTICS = compat.LISTENER_STATISTICS


@dataclasses.dataclass(frozen=True)
class Counted:
    """What the heartbeats of a member have counted until one of them.

    :param at: when it came, by its health manager's clock, UTC.
    :param connections: clients' connections so far.
    :param traffic: bytes to and from clients so far.
    """

    at: datetime.datetime
    connections: int
    traffic: int


@dataclasses.dataclass(frozen=True)
class Sum:
    """What Octavia has of a member, and what is recorded.

    :param connections: open ones.
    :param before: None if nothing is recorded.
    """

    member_id: str
    connections: int
    now: Counted
    before: Counted | None


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
    return {row.member_id: rows.make(MemberLoad, row) for row in rows.read(
        engine, sa.select(_TABLE, types.utcnow().label('now'))
        .join(_MEMBER, _MEMBER.c.id == _TABLE.c.member_id)
        .where(_MEMBER.c.cluster_id == cluster_id,
               _TABLE.c.connection_rate.is_not(None)))}


def scan(engine, managers):
    """Return what the heartbeats of members have counted.

    :param managers: of the clusters that these managers decide for.
    :returns: a list of Sums, by member.
    """
    columns = (_MEMBER.c.id, _HEALTH.c.last_update, _TABLE.c.heard_at,
               _TABLE.c.total_connections, _TABLE.c.total_bytes)
    sums = [sa.func.sum(column).label(name) for name, column in (
        ('open_now', _STATISTICS.c.active_connections),
        ('connections_now', _STATISTICS.c.total_connections),
        ('bytes_now', _STATISTICS.c.bytes_in + _STATISTICS.c.bytes_out))]
    query = (
        sa.select(*columns, *sums)
        .join(_CLUSTER, _CLUSTER.c.id == _MEMBER.c.cluster_id)
        .join(_HEALTH, _HEALTH.c.amphora_id == _MEMBER.c.amphora_id)
        .join(_STATISTICS, _STATISTICS.c.amphora_id == _MEMBER.c.amphora_id)
        .outerjoin(_TABLE, _TABLE.c.member_id == _MEMBER.c.id)
        .where(_CLUSTER.c.cluster_type.in_(sorted(managers)))
        .group_by(*columns).order_by(_MEMBER.c.id))
    return [
        Sum(row.id, int(row.open_now),
            Counted(row.last_update, int(row.connections_now),
                    int(row.bytes_now)),
            row.heard_at and Counted(row.heard_at, row.total_connections,
                                     row.total_bytes))
        for row in rows.read(engine, query)]


@api.retry
def record(engine, measured):
    """Record the load of members.

    :param measured: (Sum, its Rates or None) pairs.
    :returns: the number of members whose load was recorded; less where
              another process has just done it, or a member is gone.
    """
    if not measured:
        return 0
    try:
        with engine.begin() as connection:
            return _write(connection, measured)
    except db_exc.DBDuplicateEntry:
        # Another process does it at this moment.
        return 0


def _write(connection, measured):
    # Locked: a deletion of a member meanwhile would leave these rows.
    there = set(connection.execute(
        sa.select(_MEMBER.c.id).where(_MEMBER.c.id.in_(
            [each.member_id for each, _rates in measured]))
        .order_by(_MEMBER.c.id).with_for_update(read=True)).scalars())
    written = 0
    for each, rates in measured:
        if each.member_id not in there:
            continue
        values = {
            'heard_at': each.now.at, 'connections': each.connections,
            'total_connections': each.now.connections,
            'total_bytes': each.now.traffic,
            'connection_rate': rates and rates.connections,
            'byte_rate': rates and rates.traffic}
        written += connection.execute(
            sa.insert(_TABLE).values(member_id=each.member_id, **values)
            if each.before is None else
            sa.update(_TABLE).where(
                _TABLE.c.member_id == each.member_id,
                _TABLE.c.heard_at == each.before.at)
            .values(**values)).rowcount
    return written


def delete_of(connection, member_ids):
    """Delete the rows of members, as part of a transaction."""
    connection.execute(sa.delete(_TABLE).where(
        _TABLE.c.member_id.in_(member_ids)))
