# SPDX-License-Identifier: Apache-2.0

"""Deletes the rows of rollouts and replacements that ended long ago.

A rollout and all its replacements go together, because commands and decisions
count the replacements.
"""

import sqlalchemy as sa

from octavia_hmsync.db import api
from octavia_hmsync.db import models
from octavia_hmsync.db import types

_ROLLOUT = models.ImageRollout.__table__
_REPLACEMENT = models.ImageReplacement.__table__
# Rows at once: a large transaction holds up a whole Galera cluster.
_AT_ONCE = 500


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
        sa.select(_ROLLOUT.c.id)
        .where(_ROLLOUT.c.active_key.is_(None),
               _ROLLOUT.c.finished_at <= cutoff,
               _ROLLOUT.c.id.not_in(lasting)))
    of_any = sa.select(_REPLACEMENT.c.rollout_id).where(
        _REPLACEMENT.c.rollout_id.is_not(None))
    with engine.begin() as connection:
        replacements = _delete(
            connection, _REPLACEMENT, _REPLACEMENT.c.active_key.is_(None),
            _REPLACEMENT.c.finished_at <= cutoff,
            sa.or_(_REPLACEMENT.c.rollout_id.is_(None),
                   _REPLACEMENT.c.rollout_id.in_(ended)))
        rollouts = _delete(connection, _ROLLOUT, _ROLLOUT.c.id.in_(ended),
                           _ROLLOUT.c.id.not_in(of_any))
    return rollouts, replacements


def _delete(connection, table, *conditions):
    # Ended rows never begin again, so no lock is needed.
    ids = connection.execute(sa.select(table.c.id).where(*conditions)
                             .limit(_AT_ONCE)).scalars().all()
    if not ids:
        return 0
    return connection.execute(
        sa.delete(table).where(table.c.id.in_(ids))).rowcount
