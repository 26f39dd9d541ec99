# SPDX-License-Identifier: Apache-2.0

"""How far amphorae are on their way to a generation, for people to watch."""

import dataclasses

import sqlalchemy as sa

from octavia_hmsync.amphora import upload_result
from octavia_hmsync import compat
from octavia_hmsync.db import models
from octavia_hmsync.db import types
from octavia_hmsync.sync.db import amphora as amphora_repo

_TABLE = models.Amphora.__table__
_OCTAVIA = compat.AMPHORA


@dataclasses.dataclass(frozen=True)
class Progress:
    """How many amphorae are how far.

    :param amphorae: how many there are.
    :param done: those whose agents acknowledged the list.
    :param adopted: those of them that were seen to use it.
    :param claimed: those that a batch works on now.
    :param failed: those that do not have it because an attempt failed.
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
    """Count how far the amphorae that are to have the list are.

    :param engine: an SQLAlchemy engine.
    :param number: the generation.
    :param admitted_to: only those that were admitted to this generation.
    :param not_admitted_to: only those that were not.
    :returns: Progress.
    """
    done = _TABLE.c.generation >= number

    def count(condition):
        return sa.func.count(sa.case((condition, 1)))

    with engine.connect() as connection:
        row = connection.execute(
            sa.select(
                sa.func.count().label('amphorae'), count(done).label('done'),
                count(sa.and_(done, _TABLE.c.adopted_at.is_not(None))
                      ).label('adopted'),
                count(_TABLE.c.claim_expires_at > types.utcnow()
                      ).label('claimed'),
                count(_has_failed(number)).label('failed'))
            .select_from(_OCTAVIA.outerjoin(
                _TABLE, _TABLE.c.amphora_id == _OCTAVIA.c.id))
            .where(amphora_repo.that_get_lists(), amphora_repo.admitted(
                admitted_to, not_admitted_to))).one()
    return Progress(**row._mapping)


def get_failed(engine, number, limit):
    """Return amphorae that do not have a list because attempts failed.

    :param engine: an SQLAlchemy engine.
    :param number: the generation.
    :param limit: how many at most; those tried most often come first.
    :returns: rows, each with the database's time as ``now``.
    """
    with engine.connect() as connection:
        return connection.execute(
            sa.select(_OCTAVIA.c.id, _OCTAVIA.c.lb_network_ip,
                      _TABLE.c.result, _TABLE.c.error, _TABLE.c.attempts,
                      _TABLE.c.next_attempt_at, types.utcnow().label('now'))
            .join(_TABLE, _TABLE.c.amphora_id == _OCTAVIA.c.id)
            .where(amphora_repo.that_get_lists(), _has_failed(number))
            .order_by(_TABLE.c.attempts.desc(), _OCTAVIA.c.id)
            .limit(limit)).all()
