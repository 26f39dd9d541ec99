# SPDX-License-Identifier: Apache-2.0

"""Rows of ``hmsync_image_rollout``: one rollout at a time, and the ended.

A rollout has a version, which counts up with whatever decides what may begin
next: that one of its replacements began or ended, that somebody is left
alone, that it is paused. A decision is carried out only with the version for
which it was made; several housekeepers need no lock for that.
"""

import dataclasses
import datetime

from oslo_db import exception as db_exc
import sqlalchemy as sa

from octavia_hmsync.db import api
from octavia_hmsync.db import models
from octavia_hmsync.db import types

_TABLE = models.ImageRollout.__table__

RUNNING = 'RUNNING'
PAUSED = 'PAUSED'
CANCELLED = 'CANCELLED'
DONE = 'DONE'
HALTED = 'HALTED'

# Make before break, and Octavia's own failover.
REPLACE = 'replace'
FAILOVER = 'failover'

# In these it may go on.
ACTIVE_STATES = (RUNNING, PAUSED)

_ACTIVE_KEY = 'rollout'


@dataclasses.dataclass(frozen=True)
class Settings:
    """How fast a rollout is, and when it may begin something.

    :param mode: how amphorae are replaced, REPLACE or FAILOVER.
    :param canaries: how many of each group come first.
    :param parallel: how many load balancers at once.
    :param parallel_per_az: how many of an availability zone at once, 0 for
                            no limit of its own.
    :param rate_per_hour: how many may begin within an hour, 0 for no limit.
    :param max_failures: with so many it ends.
    :param windows: when something may begin, as the operator wrote it; empty
                    for always.
    :param watch_time: for how many seconds what is done is watched before it
                       makes room for the next one.
    """

    mode: str
    canaries: int
    parallel: int
    parallel_per_az: int
    rate_per_hour: int
    max_failures: int
    windows: str
    watch_time: int = 0


@dataclasses.dataclass(frozen=True)
class Rollout:
    """A rollout, by the database's clock, UTC.

    :param id: its id.
    :param state: RUNNING, PAUSED, CANCELLED, DONE or HALTED.
    :param version: what a decision is made for.
    :param reason: why it is in this state; may be empty.
    :param settings: Settings.
    :param created_at: when it was started.
    :param updated_at: when its state changed last.
    :param finished_at: when it ended, or None.
    :param now: when the row was read.
    :param undo_of: the id of the rollout that this one takes back, or None.
    """

    id: str
    state: str
    version: int
    reason: str
    settings: Settings
    created_at: datetime.datetime
    updated_at: datetime.datetime
    finished_at: datetime.datetime | None
    now: datetime.datetime
    undo_of: str | None = None


def from_row(row):
    """Return the Rollout that a row of select() is."""
    settings = {field.name: getattr(row, field.name)
                for field in dataclasses.fields(Settings)}
    # None where a release that does not watch has started it.
    settings['watch_time'] = settings['watch_time'] or 0
    return Rollout(
        id=row.id, state=row.state, version=row.version, reason=row.reason,
        settings=Settings(**settings),
        created_at=row.created_at, updated_at=row.updated_at,
        finished_at=row.finished_at, now=row.now, undo_of=row.undo_of)


def select():
    """Return the query for all rollouts, and when they are read."""
    return sa.select(_TABLE, types.utcnow().label('now'))


def get_active(engine):
    """Return the Rollout that has not ended, or None."""
    with engine.connect() as connection:
        row = connection.execute(
            select().where(_TABLE.c.active_key == _ACTIVE_KEY)).first()
    return row and from_row(row)


def get(engine, rollout_id):
    """Return a Rollout, or None if there is none with this id."""
    with engine.connect() as connection:
        row = connection.execute(
            select().where(_TABLE.c.id == rollout_id)).first()
    return row and from_row(row)


def get_all(engine, limit=None):
    """Return rollouts, the newest first.

    :param engine: an SQLAlchemy engine.
    :param limit: how many at most.
    :returns: a list of Rollout.
    """
    with engine.connect() as connection:
        return [from_row(row) for row in connection.execute(
            select().order_by(_TABLE.c.created_at.desc(), _TABLE.c.id)
            .limit(limit)).all()]


@api.retry
def add(engine, rollout_id, settings, reason='', undo_of=None):
    """Start a rollout, unless there is one that has not ended.

    :param engine: an SQLAlchemy engine.
    :param rollout_id: a new id.
    :param settings: Settings.
    :param reason: why, in the operator's words.
    :param undo_of: the id of the rollout that it takes back, or None.
    :returns: False if there is another one.
    """
    try:
        with engine.begin() as connection:
            connection.execute(sa.insert(_TABLE).values(
                id=rollout_id, state=RUNNING, active_key=_ACTIVE_KEY,
                version=0, reason=reason, undo_of=undo_of,
                created_at=types.utcnow(), updated_at=types.utcnow(),
                **dataclasses.asdict(settings)))
        return True
    except db_exc.DBDuplicateEntry:
        return False


@api.retry
def change_state(engine, rollout_id, old, new, reason=''):
    """Go from one state to another.

    :param engine: an SQLAlchemy engine.
    :param rollout_id: its id.
    :param old: the states from which that can be done.
    :param new: the state.
    :param reason: why.
    :returns: False if the rollout is in no such state.
    """
    with engine.begin() as connection:
        return change(connection, rollout_id, old, new, reason)


def change(connection, rollout_id, old, new, reason=''):
    """The same as part of a transaction."""
    return _change(connection, new, reason, _TABLE.c.id == rollout_id,
                   _TABLE.c.state.in_(old))


@api.retry
def end(engine, rollout_id, version, state, reason):
    """End a rollout that runs, if nothing has changed since that was decided.

    :param engine: an SQLAlchemy engine.
    :param rollout_id: its id.
    :param version: that for which it was decided.
    :param state: DONE or HALTED.
    :param reason: why.
    :returns: False if something has changed.
    """
    with engine.begin() as connection:
        return _change(connection, state, reason, _TABLE.c.id == rollout_id,
                       _TABLE.c.state == RUNNING,
                       _TABLE.c.version == version)


def _change(connection, state, reason, *conditions):
    is_active = state in ACTIVE_STATES
    return connection.execute(
        sa.update(_TABLE).where(*conditions)
        .values(state=state, reason=reason, updated_at=types.utcnow(),
                version=_TABLE.c.version + 1,
                active_key=_ACTIVE_KEY if is_active else None,
                finished_at=None if is_active else types.utcnow())
    ).rowcount == 1


def take(connection, rollout_id, version):
    """Begin to carry out a decision.

    Has to come first in a transaction: nobody else's decision is carried out
    before that commits.

    :param connection: an SQLAlchemy connection, in a transaction.
    :param rollout_id: its id.
    :param version: that for which it was decided.
    :returns: False if something has changed since, or it does not run.
    """
    return connection.execute(
        sa.update(_TABLE)
        .where(_TABLE.c.id == rollout_id, _TABLE.c.version == version,
               _TABLE.c.state == RUNNING)
        .values(version=_TABLE.c.version + 1)).rowcount == 1


def touch(connection, rollout_id=None):
    """Have decisions that were made before this transaction made anew.

    Has to come first in it.

    :param connection: an SQLAlchemy connection, in a transaction.
    :param rollout_id: its id, or a query for it; None for the one that has
                       not ended.
    """
    which = (_TABLE.c.active_key == _ACTIVE_KEY if rollout_id is None
             else _TABLE.c.id == rollout_id)
    connection.execute(sa.update(_TABLE).where(which)
                       .values(version=_TABLE.c.version + 1))
