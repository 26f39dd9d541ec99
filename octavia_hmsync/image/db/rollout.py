# SPDX-License-Identifier: Apache-2.0

"""Rows of ``hmsync_image_rollout``: at most one active, and the ended ones.

The version of a rollout counts up with each change that affects what may begin
next: a replacement begins or ends, a load balancer is excluded, an operator
pauses the rollout. A housekeeper carries a decision out only with the version
for which it was made. So several housekeepers need no lock.
"""

import dataclasses
import datetime

from oslo_db import exception as db_exc
import sqlalchemy as sa

from octavia_hmsync.db import api
from octavia_hmsync.db import models
from octavia_hmsync.db import rows
from octavia_hmsync.db import types
from octavia_hmsync.image.db import news as news_repo

_TABLE = models.ImageRollout.__table__
_REPLACEMENT = models.ImageReplacement.__table__
# Rows at once: a large transaction holds up a whole Galera cluster.
_AT_ONCE = 500

RUNNING = 'RUNNING'
PAUSED = 'PAUSED'
CANCELLED = 'CANCELLED'
DONE = 'DONE'
HALTED = 'HALTED'

# Make before break, and Octavia's own failover.
REPLACE = 'replace'
FAILOVER = 'failover'

# Not ended.
ACTIVE_STATES = (RUNNING, PAUSED)

_ACTIVE_KEY = 'rollout'


@dataclasses.dataclass(frozen=True)
class Settings:
    """How fast a rollout is, and when replacements may begin.

    :param parallel_per_az: most load balancers of an availability zone at
                            once, 0 for no such limit.
    :param rate_per_hour: most that may begin within an hour, 0 for no limit.
    :param windows: when replacements may begin, as the operator wrote it;
                    empty for always.
    :param watch_time: seconds for which a done replacement is watched before
                       it makes room for the next one.
    :param cause: why amphorae are replaced, a Kind of image.causes.
    :param only: which load balancers it is only for, see image.causes.
    """

    mode: str
    canaries: int
    parallel: int
    parallel_per_az: int
    rate_per_hour: int
    max_failures: int
    windows: str
    watch_time: int = 0
    cause: str = 'IMAGE'
    cause_value: str | None = None
    only: str = ''


# Settings that are options of [hmsync_image], after rollout_.
FROM_OPTIONS = ('canaries', 'parallel', 'parallel_per_az', 'rate_per_hour',
                'max_failures', 'watch_time', 'windows')


def from_options(opts, **values):
    """Return the Settings that [hmsync_image] has, with others."""
    return Settings(mode=REPLACE, **{
        name: opts[f'rollout_{name}'] for name in FROM_OPTIONS}, **values)


@dataclasses.dataclass(frozen=True)
class Rollout:
    """A rollout, RUNNING, PAUSED, CANCELLED, DONE or HALTED."""

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


def _from_row(row):
    return rows.make(Rollout, row, settings=rows.make(Settings, row))


def _select():
    return sa.select(_TABLE, types.utcnow().label('now'))


def get_active(engine):
    """Return the Rollout that has not ended, or None."""
    row = rows.read_one(
        engine, _select().where(_TABLE.c.active_key == _ACTIVE_KEY))
    return row and _from_row(row)


def get(engine, rollout_id):
    """Return a Rollout, or None if there is none with this id."""
    row = rows.read_one(engine, _select().where(_TABLE.c.id == rollout_id))
    return row and _from_row(row)


def get_all(engine, limit=None):
    """Return Rollouts, the newest first."""
    return [_from_row(row) for row in rows.read(
        engine, _select().order_by(_TABLE.c.created_at.desc(), _TABLE.c.id)
        .limit(limit))]


def get_last(engine):
    """Return the active Rollout, or the newest one; None without any."""
    return get_active(engine) or next(iter(get_all(engine, 1)), None)


@api.retry
def add(engine, rollout_id, settings, reason='', undo_of=None):
    """Start a rollout; False if one is active."""
    try:
        with engine.begin() as connection:
            connection.execute(sa.insert(_TABLE).values(
                id=rollout_id, state=RUNNING, active_key=_ACTIVE_KEY,
                version=0, reason=reason, undo_of=undo_of,
                created_at=types.utcnow(), updated_at=types.utcnow(),
                **dataclasses.asdict(settings)))
            news_repo.add_rollout(connection, rollout_id, 'started')
        return True
    except db_exc.DBDuplicateEntry:
        return False


@api.transaction
def change_state(connection, rollout_id, old, new, reason=''):
    """Change one of the old states to new; False if it has another."""
    return _change(connection, rollout_id, new, reason,
                   _TABLE.c.state.in_(old))


@api.transaction
def end(connection, rollout_id, version, state, reason):
    """End a RUNNING rollout, DONE or HALTED; False if it has changed."""
    return _change(connection, rollout_id, state, reason,
                   _TABLE.c.state == RUNNING,
                   _TABLE.c.version == version)


def _change(connection, rollout_id, state, reason, *conditions):
    is_active = state in ACTIVE_STATES
    is_changed = rows.change(
        connection, _TABLE, _TABLE.c.id == rollout_id, *conditions,
        state=state, reason=reason, updated_at=types.utcnow(),
        version=_TABLE.c.version + 1,
        active_key=_ACTIVE_KEY if is_active else None,
        finished_at=None if is_active else types.utcnow())
    if is_changed:
        news_repo.add_rollout(connection, rollout_id, 'resumed' if
                              state == RUNNING else state.lower())
    return is_changed


def take(connection, rollout_id, version):
    """Begin to carry out a decision.

    Must come first in a transaction: no other decision is carried out until
    it commits.

    :returns: False if something has changed since, or it is not RUNNING.
    """
    return rows.change(connection, _TABLE, _TABLE.c.id == rollout_id,
                       _TABLE.c.version == version, _TABLE.c.state == RUNNING,
                       version=_TABLE.c.version + 1)


def touch(connection, rollout_id=None):
    """Invalidate earlier decisions: raise the version.

    Must come first in a transaction.

    :param rollout_id: its id, or a query for it; None for the active rollout.
    """
    which = (_TABLE.c.active_key == _ACTIVE_KEY if rollout_id is None
             else _TABLE.c.id == rollout_id)
    rows.change(connection, _TABLE, which, version=_TABLE.c.version + 1)


@api.retry
def delete_ended(engine, retention):
    """Delete a part of the old ones; return (rollouts, replacements)."""
    cutoff = types.utcnow_plus(-retention)
    # A replacement that outlasted its rollout keeps the whole rollout.
    lasting = (
        sa.select(_REPLACEMENT.c.rollout_id)
        .where(_REPLACEMENT.c.rollout_id.is_not(None),
               sa.or_(_REPLACEMENT.c.active_key.is_not(None),
                      _REPLACEMENT.c.finished_at > cutoff)))
    ended = (
        sa.select(_TABLE.c.id)
        .where(_TABLE.c.active_key.is_(None),
               _TABLE.c.finished_at <= cutoff,
               _TABLE.c.id.not_in(lasting)))
    of_any = sa.select(_REPLACEMENT.c.rollout_id).where(
        _REPLACEMENT.c.rollout_id.is_not(None))
    with engine.begin() as connection:
        replacements = _delete(
            connection, _REPLACEMENT, _REPLACEMENT.c.active_key.is_(None),
            _REPLACEMENT.c.finished_at <= cutoff,
            sa.or_(_REPLACEMENT.c.rollout_id.is_(None),
                   _REPLACEMENT.c.rollout_id.in_(ended)))
        rollouts = _delete(connection, _TABLE, _TABLE.c.id.in_(ended),
                           _TABLE.c.id.not_in(of_any))
    return rollouts, replacements


def _delete(connection, table, *conditions):
    # Ended rows never begin again, so no lock is needed.
    ids = connection.execute(sa.select(table.c.id).where(*conditions)
                             .limit(_AT_ONCE)).scalars().all()
    if not ids:
        return 0
    return connection.execute(
        sa.delete(table).where(table.c.id.in_(ids))).rowcount
