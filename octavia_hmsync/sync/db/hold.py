# SPDX-License-Identifier: Apache-2.0

"""Amphorae held back from failover.

Only a fresh ``amphora_health.last_update``, as a heartbeat writes it, keeps
all health managers of Octavia from a failover.
"""

import collections
import datetime
import math

from oslo_utils import timeutils
import sqlalchemy as sa

from octavia_hmsync import compat
from octavia_hmsync.db import api
from octavia_hmsync.db import models
from octavia_hmsync.db import rows
from octavia_hmsync.db import types
from octavia_hmsync.sync.db import host_hold as host_hold_repo
from octavia_hmsync.sync.db import replaced as replaced_repo

_TABLE = models.Amphora.__table__
_OCTAVIA = compat.AMPHORA
_HEALTH = compat.AMPHORA_HEALTH


def find_silent(engine, before, amphora_ids=None, max_age=None):
    """Find amphorae that were not heard for a while.

    Only amphorae that Octavia would fail over, and no amphora that is being
    replaced: a hold looks like a heartbeat, by which a replacement proves that
    the new amphora serves. Octavia has no index for this: without amphora_ids
    it reads all rows.

    :param before: by the controller's clock, as Octavia's own times, UTC.
    :param max_age: seconds; only amphorae that acknowledged a list since.
    :returns: rows with the columns of hmsync_amphora, ``last_update``, and the
              database's time as ``now``.
    """
    columns = [c for c in _TABLE.c if c is not _TABLE.c.amphora_id]
    select = (
        sa.select(_OCTAVIA.c.id, _HEALTH.c.last_update,
                  types.utcnow().label('now'), *columns)
        .join(_HEALTH, _HEALTH.c.amphora_id == _OCTAVIA.c.id)
        .outerjoin(_TABLE, _TABLE.c.amphora_id == _OCTAVIA.c.id)
        .where(_HEALTH.c.busy.is_(sa.false()),
               _HEALTH.c.last_update < before,
               _OCTAVIA.c.status.in_(compat.FAILOVER_STATUSES),
               replaced_repo.not_in_hand()))
    if amphora_ids is not None:
        select = select.where(_OCTAVIA.c.id.in_(amphora_ids))
    if max_age is not None:
        select = select.where(
            _TABLE.c.applied_at > types.utcnow_plus(-max_age))
    return rows.read(engine, select)


def is_last_update_ours(row):
    """Tell whether a hold, not a heartbeat, wrote a row's last_update."""
    return (row.held_at is not None and row.last_update is not None and
            row.last_update <= row.held_at)


def count_held(engine, heartbeat_timeout):
    """Count the amphorae that a hold keeps from failover now.

    Without those on held hosts. By the controller's clock, as Octavia looks at
    what a hold has written.
    """
    since = timeutils.utcnow() - datetime.timedelta(seconds=heartbeat_timeout)
    return rows.read_one(
        engine, sa.select(sa.func.count()).select_from(_TABLE)
        .join(_HEALTH, _HEALTH.c.amphora_id == _TABLE.c.amphora_id)
        .join(_OCTAVIA, _OCTAVIA.c.id == _TABLE.c.amphora_id)
        .where(_TABLE.c.held_since.is_not(None),
               _OCTAVIA.c.status.in_(compat.FAILOVER_STATUSES),
               sa.not_(host_hold_repo.is_held(_TABLE.c.amphora_id)),
               _HEALTH.c.last_update > since,
               _HEALTH.c.last_update <= _TABLE.c.held_at))[0]


@api.transaction
def hold(connection, amphora_ids, at, begun_before=None):
    """Hold amphorae back for another heartbeat_timeout.

    :param at: now, by the controller's clock, UTC, in whole seconds.
    :param begun_before: {amphora id: how many seconds ago its hold counts as
                         begun, if it begins now}; 0 for others.
    :returns: ids of the amphorae whose hold this call begins; another guard
              may have begun the other holds.
    """
    connection.execute(
        sa.update(_HEALTH)
        .where(_HEALTH.c.amphora_id.in_(amphora_ids),
               _HEALTH.c.busy.is_(sa.false()), _HEALTH.c.last_update < at)
        .values(last_update=at))
    connection.execute(
        sa.update(_TABLE)
        .where(_TABLE.c.amphora_id.in_(amphora_ids))
        .values(
            # Never earlier: another guard, whose clock is ahead, may have
            # written the last_update, which must not look like a
            # heartbeat.
            held_at=sa.case((_TABLE.c.held_at > at, _TABLE.c.held_at),
                            else_=at)))
    # From here on these rows are this call's alone.
    begun = _select_ids(connection, amphora_ids,
                        _TABLE.c.held_since.is_(None))
    for seconds, ids in _by_seconds(begun, begun_before or {}).items():
        connection.execute(
            sa.update(_TABLE).where(_TABLE.c.amphora_id.in_(ids))
            .values(held_since=types.utcnow_plus(-seconds)))
    return begun


def _by_seconds(amphora_ids, begun_before):
    # Whole seconds make few groups, however many amphorae there are.
    groups = collections.defaultdict(list)
    for amphora_id in amphora_ids:
        groups[math.ceil(begun_before.get(amphora_id, 0))].append(amphora_id)
    return groups


def _select_ids(connection, amphora_ids, condition):
    return connection.execute(
        sa.select(_TABLE.c.amphora_id)
        .where(_TABLE.c.amphora_id.in_(amphora_ids), condition)
    ).scalars().all()


def get_held_page(engine, after, size, min_age):
    """Return a page of amphorae whose hold began long ago, in that order.

    :param after: the last (held_since, id) of the page before, None for the
                  first page.
    :param min_age: seconds; without amphorae that are held for less.
    """
    select = (sa.select(_TABLE.c.held_since, _TABLE.c.amphora_id)
              .where(_TABLE.c.held_since <= types.utcnow_plus(-min_age)))
    return rows.read_page(engine, select, after, size)


@api.retry
def release_heard(engine, amphora_ids=None, max_age=None):
    """End the holds of those heard since; return the ids that it ended."""
    select = (sa.select(_TABLE.c.amphora_id)
              .join(_HEALTH, _HEALTH.c.amphora_id == _TABLE.c.amphora_id)
              .where(_TABLE.c.held_since.is_not(None),
                     _HEALTH.c.last_update > _TABLE.c.held_at))
    if amphora_ids is not None:
        select = select.where(_TABLE.c.amphora_id.in_(amphora_ids))
    if max_age is not None:
        select = select.where(
            _TABLE.c.held_since > types.utcnow_plus(-max_age))
    heard = [row.amphora_id for row in rows.read(engine, select)]
    if not heard:
        return []
    with engine.begin() as connection:
        # From here on these rows are this call's alone.
        connection.execute(
            sa.update(_TABLE).where(_TABLE.c.amphora_id.in_(heard))
            .values(held_at=None))
        ended = _select_ids(connection, heard,
                            _TABLE.c.held_since.is_not(None))
        if ended:
            connection.execute(
                sa.update(_TABLE).where(_TABLE.c.amphora_id.in_(ended))
                .values(held_since=None))
    return ended
