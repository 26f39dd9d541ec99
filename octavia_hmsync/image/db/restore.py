# SPDX-License-Identifier: Apache-2.0

"""A load balancer that a failover has left locked, and unlocking it.

This writes what Octavia would write, in one transaction and only if nothing
has changed since it was read: an octavia-worker may go on at any moment.
"""

import dataclasses
import datetime

import sqlalchemy as sa

from octavia_hmsync import compat
from octavia_hmsync.db import api
from octavia_hmsync.db import models
from octavia_hmsync.db import rows
from octavia_hmsync.db import types
from octavia_hmsync.sync.db import hold as hold_repo

_LB = compat.LOAD_BALANCER
_AMPHORA = compat.AMPHORA
_HEALTH = compat.AMPHORA_HEALTH
_VIP = compat.VIP
_MORE_VIP = compat.ADDITIONAL_VIP
_OURS = models.Amphora.__table__
_REPLACEMENT = models.ImageReplacement.__table__

# Kinds of objects of a load balancer: the table, its join, and the column
# with the load balancer.
_OBJECTS = (
    ('listener', compat.LISTENER, compat.LISTENER,
     compat.LISTENER.c.load_balancer_id),
    ('l7policy', compat.L7POLICY, compat.L7POLICY.join(
        compat.LISTENER,
        compat.LISTENER.c.id == compat.L7POLICY.c.listener_id),
     compat.LISTENER.c.load_balancer_id),
    ('l7rule', compat.L7RULE, compat.L7RULE.join(
        compat.L7POLICY,
        compat.L7POLICY.c.id == compat.L7RULE.c.l7policy_id).join(
        compat.LISTENER,
        compat.LISTENER.c.id == compat.L7POLICY.c.listener_id),
     compat.LISTENER.c.load_balancer_id),
    ('pool', compat.POOL, compat.POOL, compat.POOL.c.load_balancer_id),
    ('member', compat.MEMBER, compat.MEMBER.join(
        compat.POOL, compat.POOL.c.id == compat.MEMBER.c.pool_id),
     compat.POOL.c.load_balancer_id),
    ('health_monitor', compat.HEALTH_MONITOR, compat.HEALTH_MONITOR.join(
        compat.POOL, compat.POOL.c.id == compat.HEALTH_MONITOR.c.pool_id),
     compat.POOL.c.load_balancer_id),
)
_TABLES = {kind: table for kind, table, _source, _owner in _OBJECTS}


@dataclasses.dataclass(frozen=True)
class Amphora:
    """An amphora that is not DELETED; heartbeat_age is None if not known."""

    id: str
    status: str | None
    role: str | None
    lb_network_ip: str | None
    compute_id: str | None
    vrrp_ip: str | None
    vrrp_port_id: str | None
    created_at: datetime.datetime | None
    updated_at: datetime.datetime | None
    heartbeat_age: float | None = dataclasses.field(default=None,
                                                    compare=False)


@dataclasses.dataclass(frozen=True)
class Listener:
    """A listener, whatever its status."""

    id: str
    status: str
    enabled: bool
    protocol: str


@dataclasses.dataclass(frozen=True)
class Object:
    """An object, such as a pool or an l7rule, that is not ACTIVE."""

    kind: str
    id: str
    status: str


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """A load balancer, and all that may be restored with it.

    :param unchanged_for: seconds since its row, or that of an amphora, last
                          changed.
    :param replacement_phase: of its open replacement; WAITING if that has not
                              begun, None without one.
    :param vips: its addresses, the VIP first.
    """

    id: str
    name: str | None
    provider: str | None
    topology: str | None
    enabled: bool
    status: str
    updated_at: datetime.datetime | None
    unchanged_for: float
    replacement_phase: str | None
    vips: tuple[str, ...]
    amphorae: tuple[Amphora, ...]
    listeners: tuple[Listener, ...]
    objects: tuple[Object, ...]


def get(engine, load_balancer_id):
    """Return the Snapshot of a load balancer, or None if it is gone."""
    with engine.connect() as connection:
        row = connection.execute(
            sa.select(*_LB.c, types.utcnow().label('now'))
            .where(_LB.c.id == load_balancer_id)).first()
        if row is None:
            return None
        amphorae = _read_amphorae(connection, load_balancer_id)
        changes = [row.updated_at or row.created_at]
        changes += [amphora.updated_at or amphora.created_at
                    for amphora in amphorae]
        return Snapshot(
            row.id, row.name, row.provider, row.topology, bool(row.enabled),
            row.provisioning_status, row.updated_at,
            min((row.now - changed).total_seconds()
                for changed in changes if changed is not None),
            _read_phase(connection, load_balancer_id),
            _read_vips(connection, load_balancer_id), amphorae,
            tuple(Listener(found.id, found.provisioning_status,
                           bool(found.enabled), found.protocol)
                  for found in connection.execute(
                      sa.select(*compat.LISTENER.c)
                      .where(compat.LISTENER.c.load_balancer_id ==
                             load_balancer_id)
                      .order_by(compat.LISTENER.c.id))),
            tuple(Object(kind, *found) for kind, table, source, owner
                  in _OBJECTS for found in connection.execute(
                      sa.select(table.c.id, table.c.provisioning_status)
                      .select_from(source)
                      .where(owner == load_balancer_id,
                             table.c.provisioning_status != compat.ACTIVE)
                      .order_by(table.c.id))))


def _read_amphorae(connection, load_balancer_id):
    found = connection.execute(
        sa.select(*_AMPHORA.c, _HEALTH.c.last_update, _OURS.c.held_at,
                  types.utcnow().label('now'))
        .outerjoin(_HEALTH, _HEALTH.c.amphora_id == _AMPHORA.c.id)
        .outerjoin(_OURS, _OURS.c.amphora_id == _AMPHORA.c.id)
        .where(_AMPHORA.c.load_balancer_id == load_balancer_id,
               sa.or_(_AMPHORA.c.status.is_(None),
                      _AMPHORA.c.status != compat.DELETED))
        .order_by(_AMPHORA.c.id)).all()
    return tuple(rows.make(
        Amphora, row, heartbeat_age=None if row.last_update is None or
        hold_repo.is_last_update_ours(row) else
        (row.now - row.last_update).total_seconds()) for row in found)


def _read_vips(connection, load_balancer_id):
    return tuple(address for table in (_VIP, _MORE_VIP)
                 for address in connection.execute(
                     sa.select(table.c.ip_address)
                     .where(table.c.load_balancer_id == load_balancer_id)
                     .order_by(table.c.ip_address)).scalars())


def _read_phase(connection, load_balancer_id):
    row = connection.execute(
        sa.select(_REPLACEMENT.c.phase, _REPLACEMENT.c.state)
        .where(_REPLACEMENT.c.active_key == load_balancer_id)).first()
    return row and (row.phase or row.state)


@api.retry
def restore(engine, snapshot: Snapshot, amphora_statuses, detached, statuses):
    """Unlock a load balancer, if nothing has changed since it was read.

    :param amphora_statuses: new statuses of all amphorae, {id: status};
                             ALLOCATED amphorae are no longer busy.
    :returns: False, without a change, if something has changed.
    """
    with engine.connect() as connection, connection.begin() as transaction:
        if _restore(connection, snapshot, amphora_statuses, detached,
                    statuses):
            return True
        transaction.rollback()
        return False


def _restore(connection, snapshot, amphora_statuses, detached, statuses):
    # First, as all that lock a load balancer do: from here on no other
    # process can.
    if not take_over(connection, snapshot):
        return False
    if (_read_phase(connection, snapshot.id) is not None or
            _read_amphorae(connection, snapshot.id) != snapshot.amphorae):
        return False
    for amphora in snapshot.amphorae:
        status = amphora_statuses[amphora.id]
        values = ({'load_balancer_id': None} if amphora.id in detached
                  else {})
        if not _update(connection, _AMPHORA, amphora.id, amphora.updated_at,
                       _AMPHORA.c.status == amphora.status,
                       status=status, **values):
            return False
        if status == compat.AMPHORA_ALLOCATED and not rows.change(
                connection, _HEALTH, _HEALTH.c.amphora_id == amphora.id,
                busy=False):
            return False
    return change_objects(connection, statuses)


def take_over(connection, snapshot, status=compat.ACTIVE):
    """Change a load balancer's status; False if its row has changed."""
    return _update(connection, _LB, snapshot.id, snapshot.updated_at,
                   _LB.c.provisioning_status == snapshot.status,
                   provisioning_status=status)


def change_objects(connection, statuses):
    """Change {Object: status}; False if one has another status by now."""
    for found, status in statuses.items():
        table = _TABLES[found.kind]
        if not rows.change(connection, table, table.c.id == found.id,
                           table.c.provisioning_status == found.status,
                           provisioning_status=status):
            return False
    return True


def _update(connection, table, row_id, updated_at, *conditions, **values):
    """Change a row of Octavia's; False if it has changed since it was read."""
    unchanged = (table.c.updated_at.is_(None) if updated_at is None else
                 table.c.updated_at == updated_at)
    return rows.change(connection, table, table.c.id == row_id, unchanged,
                       *conditions, updated_at=types.utcnow(), **values)
