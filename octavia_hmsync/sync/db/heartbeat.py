# SPDX-License-Identifier: Apache-2.0

"""Where and when amphorae were heard, to find out which lists they use."""

import time

from oslo_db import exception as db_exc
import sqlalchemy as sa

from octavia_hmsync import compat
from octavia_hmsync.db import api
from octavia_hmsync.db import models
from octavia_hmsync.db import rows
from octavia_hmsync.db import types
from octavia_hmsync.sync.db import hold as hold_repo

_AMPHORA = models.Amphora.__table__
_TABLE = models.Heartbeat.__table__
_HEALTH = compat.AMPHORA_HEALTH


def get_heartbeats(engine, amphora_id=None, max_age=None, amphora_ids=None):
    """Return {amphora id: {address: seconds since}} of unproven ones."""
    select = (sa.select(_TABLE, types.utcnow().label('now'))
              .join(_AMPHORA, _AMPHORA.c.amphora_id == _TABLE.c.amphora_id)
              .where(_AMPHORA.c.adopted_at.is_(None),
                     _TABLE.c.heard_at > _AMPHORA.c.applied_at))
    if amphora_id is not None:
        select = select.where(_TABLE.c.amphora_id == amphora_id)
    if amphora_ids is not None:
        select = select.where(_TABLE.c.amphora_id.in_(amphora_ids))
    if max_age is not None:
        select = select.where(
            _AMPHORA.c.applied_at > types.utcnow_plus(-max_age))
    heard: dict[str, dict[str, float]] = {}
    for row in rows.read(engine, select):
        heard.setdefault(row.amphora_id, {})[row.address] = (
            row.now - row.heard_at).total_seconds()
    return heard


def get_last_updates(engine):
    """Return {amphora id: when it was heard}, without the guard's times."""
    found = rows.read(
        engine, sa.select(_HEALTH.c.amphora_id, _HEALTH.c.last_update,
                          _AMPHORA.c.held_at)
        .outerjoin(_AMPHORA, _AMPHORA.c.amphora_id == _HEALTH.c.amphora_id))
    return {row.amphora_id: row.last_update for row in found
            if not hold_repo.is_last_update_ours(row)}


def note_heartbeat(engine, amphora_id, address, seconds_ago=0.0):
    """Note at which health manager's address an amphora was heard."""
    arrived = time.monotonic() - seconds_ago
    _note_heartbeat(engine, amphora_id, address, arrived)


@api.retry
def _note_heartbeat(engine, amphora_id, address, arrived):
    # Computed anew at each retry: a late time would make the next heartbeat
    # look early.
    values = {'heard_at': types.utcnow_plus(arrived - time.monotonic())}
    with engine.begin() as connection:
        if rows.change(connection, _TABLE, _TABLE.c.amphora_id == amphora_id,
                       _TABLE.c.address == address, **values):
            return
    try:
        with engine.begin() as connection:
            connection.execute(sa.insert(_TABLE).values(
                amphora_id=amphora_id, address=address, **values))
    except db_exc.DBDuplicateEntry:
        # Another process of the same health manager was faster.
        return


def delete_heartbeats(connection, amphora_ids):
    connection.execute(sa.delete(_TABLE).where(
        _TABLE.c.amphora_id.in_(amphora_ids)))
