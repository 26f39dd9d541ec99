# SPDX-License-Identifier: Apache-2.0

"""Events of rollouts and replacements to notify of; see db.news."""

import sqlalchemy as sa

from octavia_hmsync.db import models
from octavia_hmsync.db import news

_ROLLOUT = models.ImageRollout.__table__
_REPLACEMENT = models.ImageReplacement.__table__

# The states of replacements that a rollout counts.
_COUNTED = ('DONE', 'FAILED', 'SKIPPED', 'RUNNING', 'REFUSED')


def add_rollout(connection, rollout_id, kind):
    """Record that a rollout has a new state."""
    row = connection.execute(
        sa.select(_ROLLOUT).where(_ROLLOUT.c.id == rollout_id)).one()
    counts = {state: count for state, count in connection.execute(
        sa.select(_REPLACEMENT.c.state, sa.func.count())
        .where(_REPLACEMENT.c.rollout_id == rollout_id)
        .group_by(_REPLACEMENT.c.state)).all()}
    news.add(connection, f'image_rollout.{kind}', rollout_id=row.id,
             mode=row.mode, reason=row.reason, undo_of=row.undo_of,
             **{state.lower(): counts.get(state, 0) for state in _COUNTED})


def add_replacements(connection, *conditions, is_start=False):
    """Record that replacements begin, or have ended."""
    for row in connection.execute(
            sa.select(_REPLACEMENT).where(*conditions)
            .order_by(_REPLACEMENT.c.created_at, _REPLACEMENT.c.id)).all():
        kind = 'started' if is_start else row.state.lower()
        news.add(
            connection, f'image_replacement.{kind}', replacement_id=row.id,
            **{name: getattr(row, name) for name in (
                'rollout_id', 'load_balancer_id', 'mode', 'canary',
                'target_image_id', 'old_amphora_id', 'new_amphora_id',
                'attempts', 'reason', 'started_at', 'finished_at',
                'not_before')})
