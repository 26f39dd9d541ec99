# SPDX-License-Identifier: Apache-2.0

"""How many amphorae have a generation already, for how long others wait."""

import bisect
import dataclasses

import sqlalchemy as sa

from octavia_hmsync.amphora import upload_result
from octavia_hmsync import compat
from octavia_hmsync.db import claims
from octavia_hmsync.db import models
from octavia_hmsync.db import rows
from octavia_hmsync.db import types
from octavia_hmsync.sync.db import amphora as amphora_repo
from octavia_hmsync.sync.rules import trial

_TABLE = models.Amphora.__table__
_GENERATION = models.Generation.__table__
_OCTAVIA = compat.AMPHORA


@dataclasses.dataclass(frozen=True)
class Progress:
    """Numbers of amphorae.

    :param done: whose agents acknowledged the list.
    :param adopted: of these, those seen to use it.
    :param claimed: a batch works on them now.
    :param failed: without the list because an attempt failed.
    """

    amphorae: int
    done: int
    adopted: int
    claimed: int
    failed: int


def _has_failed(number):
    return sa.and_(amphora_repo.behind(number),
                   _TABLE.c.attempted_generation.is_not(None),
                   _TABLE.c.result.is_not(None),
                   _TABLE.c.result != upload_result.APPLIED)


def get_progress(engine, number, admitted_to=None, not_admitted_to=None):
    """Return the Progress; amphora.admitted() explains the last two."""
    done = _TABLE.c.generation >= number

    def count(condition):
        return sa.func.count(sa.case((condition, 1)))

    return rows.make(Progress, rows.read_one(
        engine, sa.select(
            sa.func.count().label('amphorae'), count(done).label('done'),
            count(sa.and_(done, _TABLE.c.adopted_at.is_not(None))
                  ).label('adopted'),
            count(~claims.is_free(_TABLE)).label('claimed'),
            count(_has_failed(number)).label('failed'))
        .select_from(_OCTAVIA.outerjoin(
            _TABLE, _TABLE.c.amphora_id == _OCTAVIA.c.id))
        .where(amphora_repo.that_get_lists(), amphora_repo.admitted(
            admitted_to, not_admitted_to))))


def get_failed(engine, number, limit):
    """Return rows, with ``now``, that failed; most attempts first."""
    return rows.read(
        engine, sa.select(
            _OCTAVIA.c.id, _OCTAVIA.c.lb_network_ip, _TABLE.c.result,
            _TABLE.c.error, _TABLE.c.attempts, _TABLE.c.next_attempt_at,
            types.utcnow().label('now'))
        .join(_TABLE, _TABLE.c.amphora_id == _OCTAVIA.c.id)
        .where(amphora_repo.that_get_lists(), _has_failed(number))
        .order_by(_TABLE.c.attempts.desc(), _OCTAVIA.c.id).limit(limit))


def _is_again():
    """Return the condition for amphorae that an operator wants anew."""
    return sa.and_(_TABLE.c.generation.is_(None),
                   _TABLE.c.applied_at.is_not(None))


def get_oldest_age(engine):
    """Return the seconds for which the amphora that waits longest is due.

    It is due since the first list that it does not have was published, or
    since its creation if that came later. Lists that were rolled back do not
    count, nor do the amphorae of get_again().

    :returns: 0.0 if none is due.
    """
    with engine.connect() as connection:
        published = connection.execute(
            sa.select(_GENERATION.c.number, _GENERATION.c.published_at)
            .where(_GENERATION.c.status != trial.ROLLED_BACK)
            .order_by(_GENERATION.c.number)).all()
        if not published:
            return 0.0
        # All amphorae with one generation have missed the same list.
        groups = connection.execute(
            sa.select(_TABLE.c.generation, types.utcnow().label('now'),
                      sa.func.min(_OCTAVIA.c.created_at).label('created_at'))
            .select_from(_OCTAVIA.outerjoin(
                _TABLE, _TABLE.c.amphora_id == _OCTAVIA.c.id))
            .where(amphora_repo.that_get_lists(), sa.not_(_is_again()),
                   amphora_repo.behind(published[-1].number))
            .group_by(_TABLE.c.generation)).all()
    numbers = [row.number for row in published]
    oldest = 0.0
    for group in groups:
        missed = published[bisect.bisect_right(numbers,
                                               group.generation or 0)]
        since = max(missed.published_at,
                    group.created_at or missed.published_at)
        oldest = max(oldest, (group.now - since).total_seconds())
    return oldest


def get_again(engine):
    """Return ids of amphorae that should get a list anew, since unknown."""
    return [row.amphora_id for row in rows.read(
        engine, sa.select(_TABLE.c.amphora_id)
        .join(_OCTAVIA, _OCTAVIA.c.id == _TABLE.c.amphora_id)
        .where(amphora_repo.that_get_lists(), _is_again()))]
