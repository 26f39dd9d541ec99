# SPDX-License-Identifier: Apache-2.0

"""Rows of ``hmsync_image_replacement``: one row is one attempt.

Their claims are in image_claim.
"""

import dataclasses
import datetime

from oslo_db import exception as db_exc
import sqlalchemy as sa

from octavia_hmsync import compat
from octavia_hmsync.db import api
from octavia_hmsync.db import models
from octavia_hmsync.db import rows
from octavia_hmsync.db import types

_TABLE = models.ImageReplacement.__table__
_LB = compat.LOAD_BALANCER
_FLAVOR = compat.FLAVOR

WAITING = 'WAITING'
RUNNING = 'RUNNING'
DONE = 'DONE'
FAILED = 'FAILED'
SKIPPED = 'SKIPPED'
REFUSED = 'REFUSED'
CANCELLED = 'CANCELLED'

# A load balancer has at most one replacement in these.
OPEN_STATES = (WAITING, RUNNING)
# A replacement may get these before it changed anything.
UNTOUCHED_STATES = (SKIPPED, REFUSED, CANCELLED)


@dataclasses.dataclass(frozen=True)
class New:
    """A replacement to add.

    :param forced: whether to replace amphorae that have the target image, too,
                   if they are older than the order.
    :param cause: why, a Kind of image.causes.
    :param was_spread: whether its amphorae are in several compute zones.
    """

    id: str
    load_balancer_id: str
    mode: str
    target_image_id: str | None
    topology: str | None = None
    flavor_id: str | None = None
    availability_zone: str | None = None
    canary: bool = False
    forced: bool = False
    operating_status: str | None = None
    cause: str = 'IMAGE'
    cause_value: str | None = None
    was_spread: bool = False


@dataclasses.dataclass(frozen=True)
class Replacement:
    """A row; times by the database's clock, UTC.

    Its fields are the columns of ``hmsync_image_replacement``, and now,
    when it was read.
    """

    id: str
    rollout_id: str | None
    load_balancer_id: str
    topology: str | None
    flavor_id: str | None
    availability_zone: str | None
    target_image_id: str | None
    mode: str
    canary: bool
    state: str
    phase: str | None
    old_amphora_id: str | None
    new_amphora_id: str | None
    attempts: int
    reason: str | None
    not_before: datetime.datetime | None
    created_at: datetime.datetime
    started_at: datetime.datetime | None
    finished_at: datetime.datetime | None
    claim_owner: str | None
    claim_expires_at: datetime.datetime | None
    now: datetime.datetime
    forced: bool = False
    cancel_requested: str | None = None
    operating_status: str | None = None
    cause: str = 'IMAGE'
    cause_value: str | None = None
    was_spread: bool = False


def select(*conditions):
    """Return the query for replacements that fulfil all conditions."""
    return sa.select(_TABLE, types.utcnow().label('now')).where(*conditions)


def read(bind, query):
    """Return the Replacements that a query of select() finds."""
    return [rows.make(Replacement, row) for row in rows.read(bind, query)]


def get(engine, replacement_id):
    """Return a Replacement, or None if there is none with this id."""
    return next(iter(read(engine, select(_TABLE.c.id == replacement_id))),
                None)


def get_open(engine):
    """Return all Replacements that wait or run, the oldest first."""
    return read(engine, select(_TABLE.c.active_key.is_not(None))
                .order_by(_TABLE.c.created_at, _TABLE.c.id))


def get_of_rollout(engine, rollout_id):
    """Return all Replacements of a rollout, ended or not, oldest first."""
    return read(engine, select(_TABLE.c.rollout_id == rollout_id)
                .order_by(_TABLE.c.created_at, _TABLE.c.id))


def get_standing(engine, rollout_id, watch_time=None):
    """Return rows that decide about a rollout's next step.

    Only the columns for that: with thousands of rows, columns take the time,
    above all those with times.

    :param watch_time: seconds: of the ended replacements only FAILED ones, and
                       those DONE since then; None for all.
    """
    c = _TABLE.c
    conditions = [c.rollout_id == rollout_id]
    if watch_time is not None:
        conditions.append(sa.or_(
            c.state.in_((*OPEN_STATES, FAILED)),
            sa.and_(c.state == DONE,
                    c.finished_at > types.utcnow_plus(-watch_time))))
    return rows.read(
        engine, sa.select(
            c.state, c.load_balancer_id, c.target_image_id, c.topology,
            c.flavor_id, c.availability_zone, c.canary, c.not_before,
            c.finished_at)
        .where(*conditions).order_by(c.created_at, c.id))


def get_of_load_balancer(engine, load_balancer_id):
    """Return all Replacements of a load balancer, the newest first."""
    return read(engine, select(
        _TABLE.c.load_balancer_id == load_balancer_id)
        .order_by(_TABLE.c.created_at.desc(), _TABLE.c.id))


def get_start_ages(engine, seconds):
    """Return how many seconds ago replacements began to change anything."""
    return [(row.now - row.started_at).total_seconds() for row in rows.read(
        engine, sa.select(_TABLE.c.started_at, types.utcnow().label('now'))
        .where(_TABLE.c.rollout_id.is_not(None),
               _TABLE.c.started_at > types.utcnow_plus(-seconds),
               sa.or_(_TABLE.c.state.not_in(UNTOUCHED_STATES),
                      # This is written with the lock.
                      _TABLE.c.old_amphora_id.is_not(None)))
        .order_by(_TABLE.c.started_at))]


def get_durations(engine, limit):
    """Return the seconds that the last DONE replacements took."""
    return [(row.finished_at - row.started_at).total_seconds()
            for row in rows.read(
                engine, sa.select(_TABLE.c.started_at, _TABLE.c.finished_at)
                .where(_TABLE.c.state == DONE,
                       _TABLE.c.started_at.is_not(None))
                .order_by(_TABLE.c.finished_at.desc()).limit(limit))]


def count_states(engine, rollout_ids):
    """Return {id of a rollout: {state: number of replacements}}."""
    counts: dict[str, dict[str, int]] = {i: {} for i in rollout_ids}
    for rollout_id, state, count in rows.read(
            engine, sa.select(_TABLE.c.rollout_id, _TABLE.c.state,
                              sa.func.count())
            .where(_TABLE.c.rollout_id.in_(list(rollout_ids)))
            .group_by(_TABLE.c.rollout_id, _TABLE.c.state)):
        counts[rollout_id][state] = count
    return counts


def add(engine, new):
    """Add a WAITING replacement of an operator; False if one is open."""
    try:
        return rows.write(engine, sa.insert(_TABLE).values(
            **make_values(new), state=WAITING, attempts=0)) == 1
    except db_exc.DBDuplicateEntry:
        return False


@api.transaction
def resize(connection, load_balancer_id, flavor_id, old_flavor_id, new=None):
    """Give a load balancer another flavor, and add a replacement.

    :param new: a New for amphorae of another compute flavor, if there are.
    :returns: whether both was done. Nothing is, where Octavia works on it, it
              has another flavor by now, the new one was deleted, or a
              replacement is open.
    """
    is_there = sa.true() if flavor_id is None else sa.exists().where(
        _FLAVOR.c.id == flavor_id)
    if new is not None and not add(connection, new):
        return False
    is_done = rows.change(
        connection, _LB, _LB.c.id == load_balancer_id,
        _LB.c.provisioning_status == compat.ACTIVE,
        _LB.c.flavor_id.is_not_distinct_from(old_flavor_id), is_there,
        flavor_id=flavor_id)
    if not is_done:
        connection.rollback()
    return is_done


def make_values(new):
    """Return the columns for the row of a New."""
    return {**dataclasses.asdict(new), 'active_key': new.load_balancer_id,
            'created_at': types.utcnow()}
