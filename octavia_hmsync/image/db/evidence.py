# SPDX-License-Identifier: Apache-2.0

"""Evidence, from Octavia's tables, that a load balancer is served."""

import dataclasses
import datetime

import sqlalchemy as sa

from octavia_hmsync import compat
from octavia_hmsync.db import types

_AMPHORA = compat.AMPHORA
_HEALTH = compat.AMPHORA_HEALTH
_LISTENER = compat.LISTENER
_LOAD_BALANCER = compat.LOAD_BALANCER
_STATISTICS = compat.LISTENER_STATISTICS
_POOL = compat.POOL
_MEMBER = compat.MEMBER
_MONITOR = compat.HEALTH_MONITOR


@dataclasses.dataclass(frozen=True)
class Amphora:
    """An amphora that is not deleted.

    :param vrrp_port_id: its port in the VIP's network, or None.
    :param is_busy: whether a failover of it has begun, or failed.
    :param created_at: by the clock of the service that built it.
    """

    id: str
    status: str
    image_id: str | None = None
    lb_network_ip: str | None = None
    compute_id: str | None = None
    vrrp_port_id: str | None = None
    heard_at: datetime.datetime | None = None
    is_busy: bool = False
    created_at: datetime.datetime | None = None
    listeners: frozenset[str] = frozenset()


@dataclasses.dataclass(frozen=True)
class Evidence:
    """The rows of one load balancer.

    :param listeners: {id: (enabled, provisioning_status,
                      operating_status)}.
    :param members: {id: operating_status}, from the last heartbeat of any
                    amphora.
    :param down_after: seconds after which the slowest health monitor takes a
                       member for down.
    :param without_haproxy: ids of the listeners that haproxy does not run.
    """

    now: datetime.datetime
    amphorae: dict[str, Amphora]
    listeners: dict[str, tuple[bool, str, str]]
    members: dict[str, str]
    down_after: float
    is_enabled: bool = True
    without_haproxy: frozenset[str] = frozenset()


def read(engine, load_balancer_id):
    """Return the Evidence of a load balancer, in five statements."""
    with engine.connect() as connection:
        now = connection.execute(sa.select(types.utcnow())).scalar()
        heard: dict[str, set[str]] = {}
        for row in connection.execute(
                sa.select(_STATISTICS.c.amphora_id, _STATISTICS.c.listener_id)
                .join(_AMPHORA, _AMPHORA.c.id == _STATISTICS.c.amphora_id)
                .where(_AMPHORA.c.load_balancer_id == load_balancer_id)):
            heard.setdefault(row.amphora_id, set()).add(row.listener_id)
        amphorae = {
            row.id: Amphora(
                row.id, row.status, row.image_id, row.lb_network_ip,
                row.compute_id, row.vrrp_port_id, row.last_update,
                bool(row.busy), row.created_at,
                frozenset(heard.get(row.id, ())))
            for row in connection.execute(
                sa.select(_AMPHORA, _HEALTH.c.last_update, _HEALTH.c.busy)
                .outerjoin(_HEALTH, _HEALTH.c.amphora_id == _AMPHORA.c.id)
                .where(_AMPHORA.c.load_balancer_id == load_balancer_id,
                       _AMPHORA.c.status != compat.DELETED)
                .order_by(_AMPHORA.c.id))}
        listeners, without_haproxy, is_enabled = {}, set(), True
        for row in connection.execute(
                sa.select(_LISTENER.c.id, _LISTENER.c.enabled,
                          _LISTENER.c.protocol,
                          _LISTENER.c.provisioning_status,
                          _LISTENER.c.operating_status,
                          _LOAD_BALANCER.c.enabled.label('is_served'))
                .join(_LOAD_BALANCER,
                      _LOAD_BALANCER.c.id == _LISTENER.c.load_balancer_id)
                .where(_LISTENER.c.load_balancer_id == load_balancer_id)):
            listeners[row.id] = (bool(row.enabled), row.provisioning_status,
                                 row.operating_status)
            is_enabled = bool(row.is_served)
            if row.protocol in compat.LVS_PROTOCOLS:
                without_haproxy.add(row.id)
        members, down_after = {}, 0
        for row in connection.execute(
                sa.select(_MEMBER.c.id, _MEMBER.c.operating_status,
                          _MONITOR.c.delay, _MONITOR.c.timeout,
                          _MONITOR.c.fall_threshold)
                .join(_POOL, _POOL.c.id == _MEMBER.c.pool_id)
                .outerjoin(_MONITOR, sa.and_(
                    _MONITOR.c.pool_id == _POOL.c.id, _MONITOR.c.enabled))
                .where(_POOL.c.load_balancer_id == load_balancer_id)):
            members[row.id] = row.operating_status
            if row.delay is not None:
                down_after = max(down_after, row.timeout +
                                 row.delay * row.fall_threshold)
    return Evidence(now, amphorae, listeners, members, down_after,
                    is_enabled, frozenset(without_haproxy))
