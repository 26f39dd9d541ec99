# SPDX-License-Identifier: Apache-2.0

"""Rows of ``hmsync_host_hold``: compute hosts that an operator holds.

Which amphorae are there is recorded with a hold, so that no health manager
asks the compute service while it decides about a failover.
"""

from oslo_db import exception as db_exc
import sqlalchemy as sa
from sqlalchemy import orm

from octavia_hmsync import compat
from octavia_hmsync.db import api
from octavia_hmsync.db import models
from octavia_hmsync.db import rows
from octavia_hmsync.db import types
from octavia_hmsync.sync.rules import host_hold

_TABLE = models.HostHold.__table__
_AMPHORA = models.Amphora.__table__
_OCTAVIA = compat.AMPHORA
_HEALTH = compat.AMPHORA_HEALTH


def _lasts():
    return _TABLE.c.ends_at > types.utcnow()


def is_held(amphora_id):
    """Return the condition for amphorae on a held host, by their column."""
    record = orm.aliased(_AMPHORA)
    return sa.exists().where(record.c.amphora_id == amphora_id,
                             record.c.held_host == _TABLE.c.host, _lasts())


def get_all(engine):
    """Return {host: when its hold ends, by the database's clock}."""
    return dict(rows.read(engine, sa.select(
        _TABLE.c.host, _TABLE.c.ends_at).where(_lasts())))


def get_seconds(engine, time):
    """Return how many seconds are left until a time."""
    now, = rows.read_one(engine, sa.select(types.utcnow()))
    return (time - now).total_seconds()


def find_waiting(engine, before):
    """Return {id: held host} of amphorae whose failover can wait.

    :param before: see hold.find_silent().
    """
    if not get_all(engine):
        return {}
    other, record = orm.aliased(_OCTAVIA), orm.aliased(_AMPHORA)
    is_heard = sa.and_(
        other.c.status == compat.AMPHORA_ALLOCATED,
        _HEALTH.c.last_update >= before,
        # A hold of an amphora is no heartbeat.
        sa.or_(record.c.held_at.is_(None),
               _HEALTH.c.last_update > record.c.held_at))
    held = (sa.select(_OCTAVIA.c.load_balancer_id)
            .join(_AMPHORA, _AMPHORA.c.amphora_id == _OCTAVIA.c.id)
            .join(_TABLE, _TABLE.c.host == _AMPHORA.c.held_host)
            .where(_lasts()).distinct().subquery())
    return host_hold.find_waiting(
        host_hold.Amphora(row.id, row.load_balancer_id, row.host,
                          bool(row.is_heard))
        for row in rows.read(
            engine, sa.select(other.c.id, other.c.load_balancer_id,
                              _TABLE.c.host, is_heard.label('is_heard'))
            .join(held, held.c.load_balancer_id == other.c.load_balancer_id)
            .join(_HEALTH, _HEALTH.c.amphora_id == other.c.id)
            .outerjoin(record, record.c.amphora_id == other.c.id)
            .outerjoin(_TABLE, sa.and_(_TABLE.c.host == record.c.held_host,
                                       _lasts()))))


@api.retry
def begin(engine, host, ends_at, amphora_ids):
    """Begin a hold, or replace that of the host.

    :param amphora_ids: all amphorae that are on the host now, which have
                        rows here.
    """
    try:
        with engine.begin() as connection:
            connection.execute(sa.delete(_TABLE).where(sa.not_(_lasts())))
            if not rows.change(connection, _TABLE, _TABLE.c.host == host,
                               ends_at=ends_at):
                connection.execute(sa.insert(_TABLE).values(
                    host=host, ends_at=ends_at))
            _note(connection, host, amphora_ids)
    except db_exc.DBDuplicateEntry as e:
        # Another process was faster: replace its hold.
        raise db_exc.RetryRequest(e)


def _note(connection, host, amphora_ids):
    connection.execute(
        sa.update(_AMPHORA).where(_AMPHORA.c.held_host == host)
        .values(held_host=None))
    for ids in rows.split(amphora_ids):
        connection.execute(
            sa.update(_AMPHORA).where(_AMPHORA.c.amphora_id.in_(ids))
            .values(held_host=host))


@api.transaction
def end(connection, host):
    """End the hold of a host; False if there is none."""
    was_there = connection.execute(
        sa.delete(_TABLE).where(_TABLE.c.host == host, _lasts())).rowcount
    _note(connection, host, [])
    return bool(was_there)
