# SPDX-License-Identifier: Apache-2.0

"""Facts for the checks of members of clusters, from Octavia's rows.

The ports at which distributors check members are a column of the cluster,
because what they are told with one version never changes. The octavia-worker
that changes listeners changes the column; if it died before, a housekeeper
finds the difference here.
"""

import collections
import dataclasses
import datetime
import math

import sqlalchemy as sa

from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync import compat
from octavia_hmsync.db import models
from octavia_hmsync.db import rows
from octavia_hmsync.db import types

_CLUSTER = models.Cluster.__table__
_MEMBER = models.ClusterMember.__table__
_VIP = models.DistributorVIP.__table__
_LB = compat.LOAD_BALANCER
_LISTENER = compat.LISTENER
_CIDR = compat.LISTENER_CIDR
_GROUP = compat.VIP_SECURITY_GROUP
_HEALTH = compat.AMPHORA_HEALTH
_STATISTICS = compat.LISTENER_STATISTICS


@dataclasses.dataclass(frozen=True)
class Drain:
    """A member that drains, and its connections.

    :ivar recorded: the number of connections in its row.
    :ivar since: when distributors knew that it drains, None if they do not;
                 is_recorded tells whether its row has that.
    :ivar told: the number in its last heartbeat; None if no heartbeat that
                counts has come since it drains.
    :ivar rest: seconds for which an open connection may still be silent since
                distributors know that it drains; below 0 if all have shown
                themselves, infinite if that is not known.
    """

    cluster_id: str
    amphora_id: str | None
    recorded: int | None
    told: int | None
    rest: float
    since: datetime.datetime | None = None
    is_recorded: bool = False


def get_ports(engine):
    """Return the ports at which members should be checked.

    :returns: {id of a cluster: (its column, a set of ports)}, without load
              balancers that are being changed.
    """
    is_open = sa.and_(
        ~sa.exists().where(_CIDR.c.listener_id == _LISTENER.c.id),
        ~sa.exists().where(_GROUP.c.load_balancer_id == _LB.c.id))
    found = collections.defaultdict(set)
    recorded = {}
    for row in rows.read(
            engine, sa.select(_CLUSTER.c.id, _CLUSTER.c.ports,
                              _LISTENER.c.protocol_port)
            .select_from(
                _CLUSTER.join(_LB, _LB.c.id == _CLUSTER.c.load_balancer_id)
                .outerjoin(_LISTENER, sa.and_(
                    _LISTENER.c.load_balancer_id == _LB.c.id,
                    _LB.c.enabled, _LISTENER.c.enabled,
                    # Members may never have had that listener.
                    _LISTENER.c.provisioning_status != compat.ERROR,
                    _LISTENER.c.protocol.not_in(compat.LVS_PROTOCOLS),
                    is_open)))
            .where(_LB.c.provisioning_status == compat.ACTIVE,
                   _CLUSTER.c.provisioning_status == compat.ACTIVE)):
        recorded[row.id] = row.ports
        if row.protocol_port:
            found[row.id].add(row.protocol_port)
    return {cluster_id: (ports, found[cluster_id])
            for cluster_id, ports in recorded.items()}


@dataclasses.dataclass(frozen=True)
class Heard:
    """What heartbeats of an amphora have told.

    :param last_update: of the last heartbeat that counted, or None.
    :param listeners: ids of the listeners that haproxy, or LVS, has ever run.
    """

    last_update: datetime.datetime | None
    listeners: frozenset[str]


def get_heard(engine, amphora_id):
    """Return the Heard of an amphora."""
    with engine.connect() as connection:
        return Heard(
            connection.execute(
                sa.select(_HEALTH.c.last_update)
                .where(_HEALTH.c.amphora_id == amphora_id)).scalar(),
            frozenset(connection.execute(
                sa.select(_STATISTICS.c.listener_id)
                .where(_STATISTICS.c.amphora_id == amphora_id)).scalars()))


def get_reported(engine, listener_ids):
    """Return those of the listeners that an amphora has ever reported."""
    return {row.listener_id for row in rows.read(
        engine, sa.select(_STATISTICS.c.listener_id).distinct()
        .where(_STATISTICS.c.listener_id.in_(listener_ids)))}


def get_connections(engine, margin):
    """Return {id of a draining member: its Drain}.

    :param margin: seconds after the distributors know of the drain from which
                   on a heartbeat counts. Before that new connections may have
                   come, or the numbers may be of an earlier heartbeat.
    """
    told = (sa.select(sa.func.coalesce(sa.func.sum(
        _STATISTICS.c.active_connections), 0))
        .where(_STATISTICS.c.amphora_id == _MEMBER.c.amphora_id)
        .scalar_subquery())
    has_datagrams = sa.exists().where(
        _LB.c.id == _CLUSTER.c.load_balancer_id,
        _LISTENER.c.load_balancer_id == _LB.c.id,
        _LB.c.enabled, _LISTENER.c.enabled,
        _LISTENER.c.protocol.in_(compat.LVS_PROTOCOLS))
    return {
        row.id: Drain(
            row.cluster_id, row.amphora_id, row.connections,
            int(row.told) if _counts(row, margin) else None,
            _get_rest(row), _get_since(row), row.drained_at is not None)
        for row in rows.read(
            engine, sa.select(
                _MEMBER.c.id, _MEMBER.c.cluster_id, _MEMBER.c.amphora_id,
                _MEMBER.c.connections, _MEMBER.c.updated_at,
                _MEMBER.c.drained_at, _MEMBER.c.idle_timeout,
                _VIP.c.applied_at, types.utcnow().label('now'),
                _HEALTH.c.last_update, told.label('told'),
                has_datagrams.label('has_datagrams'))
            .select_from(
                _MEMBER.join(_CLUSTER, _CLUSTER.c.id == _MEMBER.c.cluster_id)
                .outerjoin(_HEALTH, _HEALTH.c.amphora_id ==
                           _MEMBER.c.amphora_id)
                .outerjoin(_VIP, sa.and_(
                    _VIP.c.cluster_id == _CLUSTER.c.id, _VIP.c.active,
                    _VIP.c.applied_version == _CLUSTER.c.version)))
            .where(_MEMBER.c.state == member_repo.DRAINING)
            .order_by(_MEMBER.c.id))}


def _counts(row, margin):
    if row.last_update is None or row.applied_at is None:
        return False
    # Heartbeats do not count datagrams: with a listener for these zero
    # connections prove nothing.
    if row.has_datagrams and not row.told:
        return False
    since = max(row.updated_at, row.applied_at)
    return row.last_update > since + datetime.timedelta(seconds=margin)


def _get_since(row):
    # Later versions of the cluster send it nothing new either.
    if row.drained_at is not None or row.applied_at is None:
        return row.drained_at
    return max(row.updated_at, row.applied_at)


def _get_rest(row):
    since = _get_since(row)
    return (math.inf if since is None else
            row.idle_timeout - (row.now - since).total_seconds())


def forget_connections(engine):
    """Clear connections of members that no longer drain; return how many."""
    return rows.write(engine, sa.update(_MEMBER).where(
        _MEMBER.c.state != member_repo.DRAINING,
        _MEMBER.c.connections.is_not(None)).values(connections=None))
