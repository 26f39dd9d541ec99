# SPDX-License-Identifier: Apache-2.0

"""States of rollouts and replacements to notify of.

Each row has the state in its last notification. The service that changes this
column sends the next notification. So no state is announced twice, and the
state that a dead service left is announced, too.
"""

import sqlalchemy as sa

from octavia_hmsync.db import api
from octavia_hmsync.db import models
from octavia_hmsync.db import types
from octavia_hmsync.image.db import replacement as replace_repo
from octavia_hmsync.image.db import rollout as rollout_repo

_ROLLOUT = models.ImageRollout.__table__
_REPLACEMENT = models.ImageReplacement.__table__

_ENDED_STATES = (replace_repo.DONE, replace_repo.FAILED,
                 replace_repo.SKIPPED, replace_repo.REFUSED,
                 replace_repo.CANCELLED)


def get_rollouts(engine, max_age):
    """Return rollouts whose state was not announced yet.

    :param max_age: seconds; without changes before that.
    :returns: a list of (Rollout, the state announced last or None), the
              oldest change first.
    """
    with engine.connect() as connection:
        return [(rollout_repo.from_row(row), row.announced)
                for row in connection.execute(
                    rollout_repo.select()
                    .where(_ROLLOUT.c.updated_at >
                           types.utcnow_plus(-max_age),
                           _ROLLOUT.c.announced.is_distinct_from(
                               _ROLLOUT.c.state))
                    .order_by(_ROLLOUT.c.updated_at, _ROLLOUT.c.id)).all()]


def get_replacements(engine, max_age, limit):
    """Return replacements whose state was not announced yet.

    :param max_age: seconds; without changes before that.
    :param limit: largest number that run, and that have ended.
    :returns: a list of (Replacement, the state announced last or None), ended
              replacements first, by their ends.
    """
    since = types.utcnow_plus(-max_age)
    # Two queries, so that each finds its few rows by an index.
    ended = (replace_repo.select(
        _REPLACEMENT.c.finished_at > since,
        _REPLACEMENT.c.state.in_(_ENDED_STATES),
        # Do not announce what an operator cancelled before it began.
        _REPLACEMENT.c.started_at.is_not(None),
        _REPLACEMENT.c.announced.is_distinct_from(_REPLACEMENT.c.state))
        .order_by(_REPLACEMENT.c.finished_at, _REPLACEMENT.c.id))
    running = (replace_repo.select(
        _REPLACEMENT.c.state == replace_repo.RUNNING,
        _REPLACEMENT.c.started_at > since,
        _REPLACEMENT.c.announced.is_(None))
        .order_by(_REPLACEMENT.c.started_at, _REPLACEMENT.c.id))
    with engine.connect() as connection:
        return [(replace_repo.from_row(row), row.announced)
                for statement in (ended, running)
                for row in connection.execute(statement.limit(limit)).all()]


def set_rollout_announced(engine, rollout_id, old, new):
    """Record the state of a rollout that the caller announces now.

    :param old: the state announced last, or None.
    :param new: the state to announce.
    :returns: False if another service has announced it.
    """
    return _set_announced(engine, _ROLLOUT, rollout_id, old, new)


def set_replacement_announced(engine, replacement_id, old, new):
    """Record the state of a replacement that the caller announces now."""
    return _set_announced(engine, _REPLACEMENT, replacement_id, old, new)


@api.retry
def _set_announced(engine, table, row_id, old, new):
    with engine.begin() as connection:
        return connection.execute(
            sa.update(table)
            .where(table.c.id == row_id,
                   table.c.announced.is_not_distinct_from(old))
            .values(announced=new)).rowcount == 1
