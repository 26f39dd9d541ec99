#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""Rows of ``hmsync_image_replacement``, and who works on each.

A row is one attempt. It is claimed from the moment it runs; when a claim
lapses another housekeeper takes the row up, in the phase that it has.
"""

import dataclasses
import datetime

from oslo_db import exception as db_exc
import sqlalchemy as sa

from octavia_hmsync.db import api
from octavia_hmsync.db import models
from octavia_hmsync.db.repositories import image_rollout as rollout_repo
from octavia_hmsync.db import types

_TABLE = models.ImageReplacement.__table__

WAITING = 'WAITING'
RUNNING = 'RUNNING'
DONE = 'DONE'
FAILED = 'FAILED'
SKIPPED = 'SKIPPED'
CANCELLED = 'CANCELLED'

# In these there is no other one of the load balancer.
OPEN_STATES = (WAITING, RUNNING)

# Rows in one statement.
_AT_ONCE = 500


@dataclasses.dataclass(frozen=True)
class New:
    """A replacement that is to be.

    :param id: a new id.
    :param load_balancer_id: whose.
    :param mode: how.
    :param target_image_id: the image that its amphorae are to have.
    :param topology: of the load balancer.
    :param flavor_id: likewise, or None.
    :param availability_zone: likewise, or None.
    :param canary: whether it is a canary of its rollout.
    :param forced: whether amphorae of the target image are replaced, too:
                   those that were there when it was asked for.
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


@dataclasses.dataclass(frozen=True)
class Replacement:
    """A row; times by the database's clock, UTC.

    The fields are columns of ``hmsync_image_replacement``, and now, when it
    was read.
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


_FIELDS = [field.name for field in dataclasses.fields(Replacement)]


def select(*conditions):
    """Return the query for those that fulfil all conditions."""
    return sa.select(_TABLE, types.utcnow().label('now')).where(*conditions)


def from_row(row):
    """Return the Replacement that a row of select() is."""
    return Replacement(**{name: getattr(row, name) for name in _FIELDS})


def _read(connection, statement):
    return [from_row(row) for row in connection.execute(statement).all()]


def _get(engine, statement):
    with engine.connect() as connection:
        return _read(connection, statement)


def get(engine, replacement_id):
    """Return a Replacement, or None if there is none with this id."""
    found = _get(engine, select(_TABLE.c.id == replacement_id))
    return found[0] if found else None


def get_open(engine):
    """Return all that wait or run, whatever began them, the oldest first."""
    return _get(engine, select(_TABLE.c.active_key.is_not(None))
                .order_by(_TABLE.c.created_at, _TABLE.c.id))


def get_of_rollout(engine, rollout_id):
    """Return all of a rollout, the ended ones too, the oldest first."""
    return _get(engine, select(_TABLE.c.rollout_id == rollout_id)
                .order_by(_TABLE.c.created_at, _TABLE.c.id))


def get_standing(engine, rollout_id):
    """Return what decides about a rollout's next step, of thousands of them.

    Of these the time goes by columns, those with times above all.

    :param engine: an SQLAlchemy engine.
    :param rollout_id: of this rollout, the ended ones too.
    :returns: rows with state, load_balancer_id, target_image_id, topology,
              flavor_id, availability_zone, canary and not_before.
    """
    c = _TABLE.c
    with engine.connect() as connection:
        return connection.execute(
            sa.select(c.state, c.load_balancer_id, c.target_image_id,
                      c.topology, c.flavor_id, c.availability_zone, c.canary,
                      c.not_before)
            .where(c.rollout_id == rollout_id)
            .order_by(c.created_at, c.id)).all()


def get_of_load_balancer(engine, load_balancer_id):
    """Return all of a load balancer, the newest first."""
    return _get(engine, select(
        _TABLE.c.load_balancer_id == load_balancer_id)
        .order_by(_TABLE.c.created_at.desc(), _TABLE.c.id))


def get_start_ages(engine, seconds):
    """Return how long ago replacements of any rollout began.

    :param engine: an SQLAlchemy engine.
    :param seconds: no longer ago than that.
    :returns: a list of seconds.
    """
    with engine.connect() as connection:
        return [(row.now - row.started_at).total_seconds()
                for row in connection.execute(
                    sa.select(_TABLE.c.started_at,
                              types.utcnow().label('now'))
                    .where(_TABLE.c.rollout_id.is_not(None),
                           _TABLE.c.started_at > types.utcnow_plus(-seconds))
                    .order_by(_TABLE.c.started_at)).all()]


def get_durations(engine, limit):
    """Return how long replacements took that were done last.

    :param engine: an SQLAlchemy engine.
    :param limit: how many at most.
    :returns: a list of seconds.
    """
    with engine.connect() as connection:
        return [(row.finished_at - row.started_at).total_seconds()
                for row in connection.execute(
                    sa.select(_TABLE.c.started_at, _TABLE.c.finished_at)
                    .where(_TABLE.c.state == DONE,
                           _TABLE.c.started_at.is_not(None))
                    .order_by(_TABLE.c.finished_at.desc())
                    .limit(limit)).all()]


def count_states(engine, rollout_ids):
    """Count replacements by state.

    :param engine: an SQLAlchemy engine.
    :param rollout_ids: of these rollouts.
    :returns: {id of the rollout: {state: number}}.
    """
    counts: dict[str, dict[str, int]] = {i: {} for i in rollout_ids}
    with engine.connect() as connection:
        for rollout_id, state, count in connection.execute(
                sa.select(_TABLE.c.rollout_id, _TABLE.c.state,
                          sa.func.count())
                .where(_TABLE.c.rollout_id.in_(list(rollout_ids)))
                .group_by(_TABLE.c.rollout_id, _TABLE.c.state)).all():
            counts[rollout_id][state] = count
    return counts


@api.retry
def add(engine, new):
    """Have one waiting that an operator asked for.

    :param engine: an SQLAlchemy engine.
    :param new: New.
    :returns: False if the load balancer has one that is open.
    """
    try:
        with engine.begin() as connection:
            connection.execute(sa.insert(_TABLE).values(
                **_values(new), state=WAITING, attempts=0))
        return True
    except db_exc.DBDuplicateEntry:
        return False


def _values(new):
    return {**dataclasses.asdict(new), 'active_key': new.load_balancer_id,
            'created_at': types.utcnow()}


def _claim_values(owner, expiry):
    return {'claim_owner': owner,
            'claim_expires_at': types.utcnow_plus(expiry)}


@api.retry
def begin(engine, rollout_id, version, chosen, owner, expiry):
    """Begin what was chosen for a rollout, and claim it.

    Nothing begins if the rollout has changed since it was chosen, nor does
    that of a load balancer which has one that is open.

    :param engine: an SQLAlchemy engine.
    :param rollout_id: the rollout.
    :param version: that for which it was chosen.
    :param chosen: a list of New.
    :param owner: who begins, unique to the call.
    :param expiry: seconds after which the claims lapse.
    :returns: the ids of those that began, None if the rollout has changed.
    """
    try:
        with engine.begin() as connection:
            if not rollout_repo.take(connection, rollout_id, version):
                return None
            open_ = _get_open_of(connection,
                                 [new.load_balancer_id for new in chosen])
            begun = [new for new in chosen
                     if new.load_balancer_id not in open_]
            for new in begun:
                connection.execute(sa.insert(_TABLE).values(
                    **_values(new), **_claim_values(owner, expiry),
                    rollout_id=rollout_id, state=RUNNING, attempts=1,
                    started_at=types.utcnow()))
            return [new.id for new in begun]
    except db_exc.DBDuplicateEntry as e:
        # An operator asked for one of them at the same time.
        raise db_exc.RetryRequest(e)


def _get_open_of(connection, load_balancer_ids):
    found = set()
    for n in range(0, len(load_balancer_ids), _AT_ONCE):
        found.update(connection.execute(
            sa.select(_TABLE.c.active_key).where(_TABLE.c.active_key.in_(
                load_balancer_ids[n:n + _AT_ONCE]))).scalars())
    return found


def _may_be_claimed():
    """What waits and may begin, and what nobody works on any more."""
    return sa.or_(
        sa.and_(_TABLE.c.state == WAITING,
                sa.or_(_TABLE.c.not_before.is_(None),
                       _TABLE.c.not_before <= types.utcnow())),
        sa.and_(_TABLE.c.state == RUNNING,
                sa.or_(_TABLE.c.claim_owner.is_(None),
                       _TABLE.c.claim_expires_at <= types.utcnow())))


def claim(engine, owner, limit, expiry):
    """Claim what waits, and what somebody died with.

    :param engine: an SQLAlchemy engine.
    :param owner: a new id, of this call alone.
    :param limit: how many at most.
    :param expiry: seconds after which the claims lapse.
    :returns: a list of Replacement, those that somebody died with first;
              empty if there is nothing to claim, or others claim it now.
    """
    with engine.connect() as connection:
        # A load balancer that is locked by one waits for it.
        ids = connection.execute(
            sa.select(_TABLE.c.id).where(_may_be_claimed())
            .order_by(sa.case((_TABLE.c.state == RUNNING, 0), else_=1),
                      _TABLE.c.created_at, _TABLE.c.id)
            .limit(limit)).scalars().all()
    return _claim(engine, ids, owner, expiry) if ids else []


@api.retry
def _claim(engine, ids, owner, expiry):
    """Claim, and read what was claimed in the same transaction.

    Another connection may lead to another node of Galera.
    """
    with engine.begin() as connection:
        claimed = connection.execute(
            sa.update(_TABLE)
            .where(_TABLE.c.id.in_(ids), _may_be_claimed())
            .values(state=RUNNING, attempts=_TABLE.c.attempts + 1,
                    started_at=sa.func.coalesce(_TABLE.c.started_at,
                                                types.utcnow()),
                    **_claim_values(owner, expiry))).rowcount
        if not claimed:
            return []
        return _read(connection, select(_TABLE.c.claim_owner == owner)
                     .order_by(_TABLE.c.created_at, _TABLE.c.id))


def _is_claimed_by(replacement_id, owner):
    return (_TABLE.c.id == replacement_id, _TABLE.c.claim_owner == owner,
            _TABLE.c.state == RUNNING)


@api.retry
def renew(engine, replacement_id, owner, expiry):
    """Go on holding a claim, for as long as that from now.

    :param engine: an SQLAlchemy engine.
    :param replacement_id: of what.
    :param owner: who has claimed it.
    :param expiry: seconds after which the claim lapses.
    :returns: False if it lapsed and somebody else has claimed it meanwhile:
              nothing must be done any more then.
    """
    return _update(engine, replacement_id, owner,
                   claim_expires_at=types.utcnow_plus(expiry))


@api.retry
def set_phase(engine, replacement_id, owner, expiry, phase, **amphorae):
    """Record the phase that begins, and go on holding the claim.

    :param engine: an SQLAlchemy engine.
    :param replacement_id: of what.
    :param owner: who has claimed it.
    :param expiry: seconds after which the claim lapses.
    :param phase: see octavia_hmsync.image.phases.
    :param amphorae: old_amphora_id or new_amphora_id where they change, None
                     too.
    :returns: False if somebody else has claimed it meanwhile.
    """
    return _update(engine, replacement_id, owner, phase=phase,
                   claim_expires_at=types.utcnow_plus(expiry), **amphorae)


def _update(engine, replacement_id, owner, **values):
    with engine.begin() as connection:
        return _update_claimed(connection, replacement_id, owner, **values)


def _update_claimed(connection, replacement_id, owner, **values):
    return connection.execute(
        sa.update(_TABLE).where(*_is_claimed_by(replacement_id, owner))
        .values(**values)).rowcount == 1


def update_claimed(connection, replacement_id, owner, expiry, **values):
    """Go on holding a claim, as part of a transaction.

    :param connection: an SQLAlchemy connection, in a transaction.
    :param replacement_id: of what.
    :param owner: who has claimed it.
    :param expiry: seconds after which the claim lapses.
    :param values: columns that change.
    :returns: False if somebody else has claimed it meanwhile.
    """
    return _update_claimed(connection, replacement_id, owner,
                           claim_expires_at=types.utcnow_plus(expiry),
                           **values)


@api.retry
def release(engine, replacement_id, owner):
    """Give a claim back before the end: the next one goes on from there.

    :returns: False if somebody else has claimed it meanwhile.
    """
    return _update(engine, replacement_id, owner, claim_owner=None,
                   claim_expires_at=None)


@api.retry
def finish(engine, replacement_id, owner, state, reason=None, wait=None):
    """Record how one ended.

    :param engine: an SQLAlchemy engine.
    :param replacement_id: of what.
    :param owner: who has claimed it.
    :param state: DONE, FAILED or SKIPPED.
    :param reason: why, in words.
    :param wait: seconds before which the next one of this load balancer does
                 not begin, for one that was SKIPPED.
    :returns: False if somebody else has claimed it meanwhile.
    """
    with engine.begin() as connection:
        rollout_repo.touch(connection, sa.select(_TABLE.c.rollout_id).where(
            *_is_claimed_by(replacement_id, owner)).scalar_subquery())
        return connection.execute(
            sa.update(_TABLE).where(*_is_claimed_by(replacement_id, owner))
            .values(state=state, reason=reason, active_key=None,
                    finished_at=types.utcnow(), claim_owner=None,
                    claim_expires_at=None,
                    not_before=None if wait is None
                    else types.utcnow_plus(wait))).rowcount == 1


@api.retry
def cancel(engine, replacement_id, reason):
    """Have one that waits not begin.

    :param engine: an SQLAlchemy engine.
    :param replacement_id: of what.
    :param reason: why, in words.
    :returns: False if it has begun, or ended.
    """
    with engine.begin() as connection:
        return connection.execute(
            sa.update(_TABLE)
            .where(_TABLE.c.id == replacement_id, _TABLE.c.state == WAITING)
            .values(state=CANCELLED, reason=reason, active_key=None,
                    finished_at=types.utcnow())).rowcount == 1
