# SPDX-License-Identifier: Apache-2.0

"""What amphorae said in their heartbeats while one of them is replaced.

Octavia keeps one status per member, as the last amphora saw it. Health
managers write one row here for each heartbeat of each amphora of a load
balancer during a replacement, until the old amphora goes. The owner of the
replacement reads the rows.
"""

import contextlib
import dataclasses
import datetime
import json

from oslo_db import exception as db_exc
import sqlalchemy as sa

from octavia_hmsync import compat
from octavia_hmsync.db import api
from octavia_hmsync.db import models
from octavia_hmsync.db import rows
from octavia_hmsync.db import types

_TABLE = models.AmphoraView.__table__
_REPLACEMENT = models.ImageReplacement.__table__
_AMPHORA = compat.AMPHORA

# Phases in which the owner no longer reads the rows; see
# octavia_hmsync.image.phases, which is above this layer.
_OVER = ('DELETE_OLD', 'UNLOCK')
_RUNNING = 'RUNNING'
# Seconds; longer than any proof looks back.
RETENTION = 3600
# Characters; ten thousand members have fewer.
_LONGEST = 2**20


@dataclasses.dataclass(frozen=True)
class View:
    """One heartbeat: ids of listeners, {id: operating_status} of members."""

    id: str
    amphora_id: str
    seen_at: datetime.datetime
    listeners: frozenset[str]
    members: dict[str, str]


def get_watched(engine):
    """Return {amphora id: load balancer id} whose heartbeats to record."""
    return {row.id: row.load_balancer_id for row in rows.read(
        engine, sa.select(_AMPHORA.c.id, _AMPHORA.c.load_balancer_id)
        .join(_REPLACEMENT, _REPLACEMENT.c.load_balancer_id ==
              _AMPHORA.c.load_balancer_id)
        .where(_REPLACEMENT.c.state == _RUNNING,
               sa.func.coalesce(_REPLACEMENT.c.phase, '').not_in(_OVER),
               _AMPHORA.c.status != compat.DELETED))}


def record(engine, view_id, load_balancer_id, heartbeat):
    """Record a heartbeat once, by a new view_id, unless it is too long."""
    listeners = json.dumps(sorted(heartbeat.listeners))
    members = json.dumps(dict(heartbeat.members))
    if len(listeners) + len(members) > _LONGEST:
        return
    # The answer to an earlier try may have been lost: it counts once.
    with contextlib.suppress(db_exc.DBDuplicateEntry):
        rows.write(engine, sa.insert(_TABLE).values(
            id=view_id, load_balancer_id=load_balancer_id,
            amphora_id=heartbeat.amphora_id, seen_at=types.utcnow(),
            listeners=listeners, members=members))


def get(engine, load_balancer_id, since):
    """Return the Views of a load balancer, in order of time."""
    return [View(row.id, row.amphora_id, row.seen_at,
                 frozenset(json.loads(row.listeners)), json.loads(row.members))
            for row in rows.read(
                engine, sa.select(_TABLE)
                .where(_TABLE.c.load_balancer_id == load_balancer_id,
                       _TABLE.c.seen_at >= since)
                .order_by(_TABLE.c.seen_at, _TABLE.c.id))]


def delete_of(connection, load_balancer_ids):
    """Delete the rows of load balancers, a subquery or a list."""
    connection.execute(sa.delete(_TABLE).where(
        _TABLE.c.load_balancer_id.in_(load_balancer_ids)))


@api.retry
def delete_old(engine):
    """Delete rows that no owner needs any more.

    A health manager may record a heartbeat when its replacement has just
    ended, and a replacement may go on for hours.
    """
    old = _TABLE.c.seen_at < types.utcnow_plus(-RETENTION)
    # At rest the table is empty, and a deletion would lock its end.
    if rows.read_one(engine, sa.select(_TABLE.c.id).where(old).limit(1)):
        with engine.begin() as connection:
            connection.execute(sa.delete(_TABLE).where(old))
