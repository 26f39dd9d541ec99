# SPDX-License-Identifier: Apache-2.0

"""Cancelling rollouts and replacements.

A replacement that waits ends at once. The owner of a running replacement finds
the request in its row, goes back, and records how it ended.
"""

import sqlalchemy as sa

from octavia_hmsync.db import api
from octavia_hmsync.db import models
from octavia_hmsync.db import rows
from octavia_hmsync.db import types
from octavia_hmsync.image.db import replacement as replace_repo
from octavia_hmsync.image.db import rollout as rollout_repo

_TABLE = models.ImageReplacement.__table__


@api.transaction
def cancel(connection, replacement_id, reason):
    """Cancel it: CANCELLED, RUNNING (its owner goes back), None (ended)."""
    if rows.change(connection, _TABLE, _TABLE.c.id == replacement_id,
                   _TABLE.c.state == replace_repo.WAITING,
                   state=replace_repo.CANCELLED, reason=reason,
                   active_key=None, finished_at=types.utcnow()):
        return replace_repo.CANCELLED
    return (replace_repo.RUNNING if _request(
        connection, reason, _TABLE.c.id == replacement_id) else None)


@api.transaction
def cancel_rollout(connection, rollout_id, old, reason):
    """Cancel a rollout and its running replacements.

    :returns: number of replacements that were asked to go back; None if the
              rollout has another state.
    """
    if not rollout_repo.change_state(connection, rollout_id, old,
                                     rollout_repo.CANCELLED, reason):
        return None
    return _request(connection, reason or 'its rollout was cancelled',
                    _TABLE.c.rollout_id == rollout_id)


def _request(connection, reason, *conditions):
    return connection.execute(
        sa.update(_TABLE)
        .where(_TABLE.c.state == replace_repo.RUNNING, *conditions)
        .values(cancel_requested=sa.func.coalesce(
            _TABLE.c.cancel_requested, reason))).rowcount


def get_request(engine, replacement_id):
    """Return why an operator cancelled a replacement, or None."""
    row = rows.read_one(engine, sa.select(_TABLE.c.cancel_requested).where(
        _TABLE.c.id == replacement_id))
    return row and row.cancel_requested
