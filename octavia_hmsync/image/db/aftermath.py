# SPDX-License-Identifier: Apache-2.0

"""The results of the replacements of a rollout, and their effects later."""

import dataclasses
import datetime

import sqlalchemy as sa

from octavia_hmsync import compat
from octavia_hmsync.db import api
from octavia_hmsync.db import models
from octavia_hmsync.db import rows
from octavia_hmsync.db import types
from octavia_hmsync.image.db import news as news_repo
from octavia_hmsync.image.db import replacement as replace_repo
from octavia_hmsync.image.db import rollout as rollout_repo

_TABLE = models.ImageReplacement.__table__
_NEWER = _TABLE.alias()
_LB = compat.LOAD_BALANCER
_AMPHORA = compat.AMPHORA
_HEALTH = compat.AMPHORA_HEALTH

_BROUGHT_BY = (replace_repo.DONE, replace_repo.FAILED,
               replace_repo.CANCELLED)


@dataclasses.dataclass(frozen=True)
class Amphora:
    """An amphora of a watched load balancer, not deleted.

    :param created_at: by the clock of the service that built it, UTC.
    :param silent_for: seconds since its last heartbeat, None before any.
    :param is_busy: whether a failover of it has begun, or failed.
    """

    id: str
    status: str
    created_at: datetime.datetime | None
    silent_for: float | None
    is_busy: bool


@dataclasses.dataclass(frozen=True)
class Watched:
    """A load balancer whose replacement is DONE, as it is now.

    :param old_status: its operating status before, None if not known.
    :param new_amphora_id: the amphora that was built last, or None.
    """

    replacement_id: str
    load_balancer_id: str
    provider: str | None
    old_status: str | None
    operating_status: str | None
    new_amphora_id: str | None
    finished_at: datetime.datetime
    amphorae: tuple[Amphora, ...] = ()


def get_watched(engine, rollout_id, watch_time):
    """Return the load balancers of a rollout to watch.

    Without load balancers that are deleted, or were replaced again since.

    :returns: (a list of Watched; seconds since the last heartbeat of any
              amphora, None for none).
    """
    c = _TABLE.c
    with engine.connect() as connection:
        done = connection.execute(
            sa.select(c.id.label('replacement_id'), c.load_balancer_id,
                      c.new_amphora_id, c.finished_at,
                      c.operating_status.label('old_status'),
                      _LB.c.provider, _LB.c.operating_status)
            .join(_LB, _LB.c.id == c.load_balancer_id)
            .where(c.rollout_id == rollout_id,
                   c.state == replace_repo.DONE,
                   c.finished_at > types.utcnow_plus(-watch_time),
                   _LB.c.provisioning_status.not_in(compat.DELETED_STATUSES),
                   ~sa.exists().where(
                       _NEWER.c.load_balancer_id == c.load_balancer_id,
                       _NEWER.c.created_at > c.finished_at))
            .order_by(c.finished_at, c.id)).all()
        if not done:
            return [], None
        amphorae: dict[str, list[Amphora]] = {}
        for row in connection.execute(
                sa.select(_AMPHORA.c.id, _AMPHORA.c.load_balancer_id,
                          _AMPHORA.c.status, _AMPHORA.c.created_at,
                          _HEALTH.c.last_update, _HEALTH.c.busy,
                          types.utcnow().label('now'))
                .outerjoin(_HEALTH, _HEALTH.c.amphora_id == _AMPHORA.c.id)
                .where(_AMPHORA.c.load_balancer_id.in_(
                    [row.load_balancer_id for row in done]),
                    _AMPHORA.c.status.not_in(compat.DELETED_STATUSES))
                .order_by(_AMPHORA.c.id)):
            amphorae.setdefault(row.load_balancer_id, []).append(Amphora(
                row.id, row.status, row.created_at,
                _get_age(row.now, row.last_update), bool(row.busy)))
        newest = connection.execute(sa.select(
            sa.func.max(_HEALTH.c.last_update).label('at'),
            types.utcnow().label('now'))).one()
    return [rows.make(Watched, row, amphorae=tuple(
        amphorae.get(row.load_balancer_id, ()))) for row in done
    ], _get_age(newest.now, newest.at)


def _get_age(now, at):
    return None if at is None else (now - at).total_seconds()


@api.transaction
def set_failed(connection, replacement_id, reason):
    """Record that a DONE replacement has failed; False if it is not DONE."""
    conditions = (_TABLE.c.id == replacement_id,
                  _TABLE.c.state == replace_repo.DONE)
    rollout_repo.touch(connection, sa.select(_TABLE.c.rollout_id).where(
        *conditions).scalar_subquery())
    is_changed = rows.change(connection, _TABLE, *conditions,
                             state=replace_repo.FAILED, reason=reason)
    if is_changed:
        news_repo.add_replacements(connection,
                                   _TABLE.c.id == replacement_id)
    return is_changed


def count_skipped(engine, replacement: replace_repo.Replacement):
    """Count SKIPPED ones of the same rollout, load balancer and image."""
    return rows.read_one(engine, sa.select(sa.func.count()).where(
        _TABLE.c.rollout_id == replacement.rollout_id,
        _TABLE.c.load_balancer_id == replacement.load_balancer_id,
        _TABLE.c.target_image_id.is_not_distinct_from(
            replacement.target_image_id),
        _TABLE.c.id != replacement.id,
        _TABLE.c.state == replace_repo.SKIPPED))[0]


def get_brought(engine, rollout_id):
    """Return {id of a load balancer: images that a rollout brought to it}.

    FAILED replacements count, too: some amphorae may have the image.
    """
    found: dict[str, set[str]] = {}
    for row in rows.read(
            engine, sa.select(_TABLE.c.load_balancer_id,
                              _TABLE.c.target_image_id)
            .where(_TABLE.c.rollout_id == rollout_id,
                   _TABLE.c.state.in_(_BROUGHT_BY))):
        found.setdefault(row.load_balancer_id, set()).add(row.target_image_id)
    return found


def get_left_zones(engine, cause):
    """Return {load balancer: the compute zone that one of several left}.

    What counts is its last rollout out of a zone that is DONE, and where its
    amphorae were before the first attempt of that.

    :param cause: of rollouts out of a zone.
    """
    c = _TABLE.c
    was_spread: dict[tuple[str, str], bool] = {}
    left = {}
    for row in rows.read(
            engine, sa.select(c.rollout_id, c.load_balancer_id, c.cause_value,
                              c.was_spread, c.state)
            .where(c.cause == cause).order_by(c.created_at, c.id)):
        before = was_spread.setdefault((row.rollout_id, row.load_balancer_id),
                                       row.was_spread)
        if row.state == replace_repo.DONE:
            left[row.load_balancer_id] = row.cause_value if before else None
    return {load_balancer_id: zone
            for load_balancer_id, zone in left.items() if zone}
