# SPDX-License-Identifier: Apache-2.0

"""Numbers of replacements, by state, and their ages.

Ended replacements pile up, so the counts read only an index.
"""

import dataclasses

import sqlalchemy as sa

from octavia_hmsync.db import claims
from octavia_hmsync.db import models
from octavia_hmsync.db import rows
from octavia_hmsync.db import types
from octavia_hmsync.image.db import replacement as replace_repo

_TABLE = models.ImageReplacement.__table__


@dataclasses.dataclass(frozen=True)
class Open:
    """Open replacements of a state and phase; oldest: for how long."""

    state: str
    phase: str | None
    number: int
    unclaimed: int
    oldest: float


def get_open(engine):
    """Return a list of Open, by state and phase."""
    since = sa.func.coalesce(_TABLE.c.started_at, _TABLE.c.created_at)
    return [
        Open(row.state, row.phase, row.number, int(row.unclaimed),
             (row.now - row.since).total_seconds())
        for row in rows.read(
            engine, sa.select(
                _TABLE.c.state, _TABLE.c.phase,
                sa.func.count().label('number'),
                _count(claims.is_free(_TABLE)).label('unclaimed'),
                sa.func.min(since).label('since'),
                types.utcnow().label('now'))
            .where(_TABLE.c.state.in_(replace_repo.OPEN_STATES))
            .group_by(_TABLE.c.state, _TABLE.c.phase))]


def count(engine):
    """Return ({state: number}, how many were taken up more than once)."""
    states = rows.read(
        engine, sa.select(_TABLE.c.state, sa.func.count().label('number'),
                          _count(_TABLE.c.attempts > 1).label('retaken'))
        .group_by(_TABLE.c.state))
    return ({row.state: row.number for row in states},
            sum(int(row.retaken) for row in states))


def get_last_failure_age(engine):
    """Return how many seconds ago a replacement failed, None if none has."""
    row = rows.read_one(
        engine, sa.select(sa.func.max(_TABLE.c.finished_at).label('at'),
                          types.utcnow().label('now'))
        .where(_TABLE.c.state == replace_repo.FAILED))
    return row.at and (row.now - row.at).total_seconds()


def _count(condition):
    return sa.func.sum(sa.case((condition, 1), else_=0))
