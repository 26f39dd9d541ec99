# SPDX-License-Identifier: Apache-2.0

"""Rows of ``hmsync_zone_drain``: compute zones that an operator drains.

A row stays after its end, until a rollout has begun that evens out zones.
"""

from oslo_db import exception as db_exc
import sqlalchemy as sa

from octavia_hmsync.db import api
from octavia_hmsync.db import models
from octavia_hmsync.db import rows
from octavia_hmsync.db import types

_TABLE = models.ZoneDrain.__table__
_MANAGER = models.HealthManager.__table__


def _lasts():
    return _TABLE.c.ends_at > types.utcnow()


def has_health_manager():
    """Return the condition for health managers that leave with their zone."""
    return sa.exists().where(_TABLE.c.zone == _MANAGER.c.zone,
                             _TABLE.c.with_health_managers, _lasts())


def get_all(engine):
    """Return {zone: when its drain ends, by the database's clock}."""
    return dict(rows.read(engine, sa.select(
        _TABLE.c.zone, _TABLE.c.ends_at).where(_lasts())))


def get_builds(engine):
    """Return {drained zone: where is built instead, None if not ordered}."""
    return dict(rows.read(engine, sa.select(
        _TABLE.c.zone, _TABLE.c.build_in).where(_lasts())))


def get_build_zone(engine, default):
    """Return where amphorae are built that have no zone by a profile.

    :param default: [nova] availability_zone, None if Nova chooses. It stays
                    unless that may be a drained zone, and a drain says where
                    else.
    """
    builds = get_builds(engine)
    if default and default.partition(':')[0] not in builds:
        return default
    return min(set(builds.values()) - {None, *builds}, default=default)


def get_ended(engine):
    """Return the zones whose drains have ended, and are not forgotten."""
    return {row.zone for row in rows.read(
        engine, sa.select(_TABLE.c.zone).where(sa.not_(_lasts())))}


@api.retry
def begin(engine, zone, ends_at, with_health_managers, build_in=None):
    """Begin a drain, or replace that of the zone.

    :param with_health_managers: whether those of the zone leave the list.
    :param build_in: the zone for what would be built in the drained one by
                     [nova] availability_zone, or by Nova's choice.
    """
    values = {'ends_at': ends_at, 'build_in': build_in,
              'with_health_managers': with_health_managers}
    try:
        with engine.begin() as connection:
            if not rows.change(connection, _TABLE, _TABLE.c.zone == zone,
                               **values):
                connection.execute(sa.insert(_TABLE).values(
                    zone=zone, **values))
    except db_exc.DBDuplicateEntry as e:
        # Another process was faster: replace its drain.
        raise db_exc.RetryRequest(e)


def end(engine, zone):
    """End the drain of a zone; False if there is none."""
    return rows.change(engine, _TABLE, _TABLE.c.zone == zone, _lasts(),
                       ends_at=types.utcnow())


@api.transaction
def forget(connection, zones):
    """Delete the rows of zones, unless they are drained again."""
    connection.execute(sa.delete(_TABLE).where(
        _TABLE.c.zone.in_(zones), sa.not_(_lasts())))
