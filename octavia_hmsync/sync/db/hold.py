# SPDX-License-Identifier: Apache-2.0

"""Amphorae held back from failover.

Refreshing ``amphora_health.last_update``, as a heartbeat does, is the one
thing that keeps every health manager of Octavia from a failover.
"""

import collections
import datetime
import math

from oslo_utils import timeutils
import sqlalchemy as sa

from octavia_hmsync import compat
from octavia_hmsync.db import api
from octavia_hmsync.db import models
from octavia_hmsync.db import types
from octavia_hmsync.sync.db import replaced as replaced_repo

_TABLE = models.Amphora.__table__
_OCTAVIA = compat.AMPHORA
_HEALTH = compat.AMPHORA_HEALTH


def find_silent(engine, before, amphora_ids=None, max_age=None):
    """Find amphorae that nobody has heard for a while.

    Only those that Octavia would fail over, and none that a replacement has in
    hand: a hold writes what looks like a heartbeat, which is to prove that
    the new one serves. Octavia has no index for that: to look among all reads
    all.

    :param engine: an SQLAlchemy engine.
    :param before: by the controller's clock, as Octavia's own times, UTC.
    :param amphora_ids: only among these.
    :param max_age: only those that acknowledged a list in the last seconds.
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
    with engine.connect() as connection:
        return connection.execute(select).all()


def is_last_update_ours(row):
    """Tell whether last_update is what a hold wrote, and no heartbeat's.

    :param row: with ``held_at`` and ``last_update``.
    """
    return (row.held_at is not None and row.last_update is not None and
            row.last_update <= row.held_at)


def count_held(engine, heartbeat_timeout):
    """Count the amphorae that a hold keeps from failover now.

    By the controller's clock, as Octavia looks at what a hold has written.

    :param engine: an SQLAlchemy engine.
    :param heartbeat_timeout: seconds for which a hold lasts.
    """
    since = timeutils.utcnow() - datetime.timedelta(seconds=heartbeat_timeout)
    with engine.connect() as connection:
        return connection.execute(
            sa.select(sa.func.count()).select_from(_TABLE)
            .join(_HEALTH, _HEALTH.c.amphora_id == _TABLE.c.amphora_id)
            .join(_OCTAVIA, _OCTAVIA.c.id == _TABLE.c.amphora_id)
            .where(_TABLE.c.held_since.is_not(None),
                   _OCTAVIA.c.status.in_(compat.FAILOVER_STATUSES),
                   _HEALTH.c.last_update > since,
                   _HEALTH.c.last_update <= _TABLE.c.held_at)).scalar()


@api.retry
def hold(engine, amphora_ids, at, begun_before=None):
    """Hold amphorae back for another heartbeat_timeout.

    :param engine: an SQLAlchemy engine.
    :param amphora_ids: ids of amphorae that have a row of ours.
    :param at: now, by the controller's clock, UTC, in whole seconds.
    :param begun_before: by amphora id, how many seconds ago its hold counts
                         as begun, if it begins now; 0 for one that is not
                         there.
    :returns: the ids of those whose hold this call begins, a list; another
              guard may have begun the others'.
    """
    with engine.begin() as connection:
        connection.execute(
            sa.update(_HEALTH)
            .where(_HEALTH.c.amphora_id.in_(amphora_ids),
                   _HEALTH.c.busy.is_(sa.false()), _HEALTH.c.last_update < at)
            .values(last_update=at))
        connection.execute(
            sa.update(_TABLE)
            .where(_TABLE.c.amphora_id.in_(amphora_ids))
            .values(
                # Never back: another controller's clock may be ahead, and
                # what it wrote is no heartbeat.
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
    # In whole seconds they are few, however many amphorae there are.
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
    """Return some of the amphorae whose hold began long ago, in that order.

    :param engine: an SQLAlchemy engine.
    :param after: the last (held_since, id) of the page before, None for the
                  first page.
    :param size: how many at most; fewer on the last page.
    :param min_age: leave out those that are held for less, seconds.
    :returns: a list of (held_since, id).
    """
    select = (sa.select(_TABLE.c.held_since, _TABLE.c.amphora_id)
              .where(_TABLE.c.held_since <= types.utcnow_plus(-min_age)))
    if after is not None:
        since, amphora_id = after
        select = select.where(
            # The first of these is for the index.
            _TABLE.c.held_since >= since,
            sa.or_(_TABLE.c.held_since > since,
                   _TABLE.c.amphora_id > amphora_id))
    with engine.connect() as connection:
        return [tuple(row) for row in connection.execute(
            select.order_by(_TABLE.c.held_since, _TABLE.c.amphora_id)
            .limit(size))]


@api.retry
def release_heard(engine, amphora_ids=None, max_age=None):
    """End the holds of amphorae that were heard since.

    :param engine: an SQLAlchemy engine.
    :param amphora_ids: only of these.
    :param max_age: only those that began in the last seconds.
    :returns: the ids of those whose hold this call ends, a list; another
              guard may have ended the others'.
    """
    select = (sa.select(_TABLE.c.amphora_id)
              .join(_HEALTH, _HEALTH.c.amphora_id == _TABLE.c.amphora_id)
              .where(_TABLE.c.held_since.is_not(None),
                     _HEALTH.c.last_update > _TABLE.c.held_at))
    if amphora_ids is not None:
        select = select.where(_TABLE.c.amphora_id.in_(amphora_ids))
    if max_age is not None:
        select = select.where(
            _TABLE.c.held_since > types.utcnow_plus(-max_age))
    with engine.connect() as connection:
        heard = connection.execute(select).scalars().all()
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
