# SPDX-License-Identifier: Apache-2.0

"""The row of ``hmsync_pause``: whether uploads are paused."""

import dataclasses
import datetime

from oslo_db import exception as db_exc
import sqlalchemy as sa

from octavia_hmsync.db import api
from octavia_hmsync.db import models
from octavia_hmsync.db import rows
from octavia_hmsync.db import types

_TABLE = models.Pause.__table__
_NUMBER = 1


@dataclasses.dataclass(frozen=True)
class Pause:
    """A time without uploads; the operator's reason may be empty."""

    reason: str
    begun_at: datetime.datetime
    ends_at: datetime.datetime


def get(engine):
    """Return the current Pause, or None."""
    row = rows.read_one(
        engine, sa.select(_TABLE).where(_TABLE.c.ends_at > types.utcnow()))
    return row and rows.make(Pause, row)


@api.retry
def begin(engine, seconds, reason):
    """Begin a pause, or replace the current one; return the Pause."""
    values = {'reason': reason, 'begun_at': types.utcnow(),
              'ends_at': types.utcnow_plus(seconds)}
    with engine.begin() as connection:
        if not rows.change(connection, _TABLE, **values):
            try:
                connection.execute(
                    sa.insert(_TABLE).values(number=_NUMBER, **values))
            except db_exc.DBDuplicateEntry as e:
                # Another process was faster: replace its pause.
                raise db_exc.RetryRequest(e)
        row = connection.execute(sa.select(_TABLE)).one()
    return rows.make(Pause, row)


@api.transaction
def end(connection):
    """End the pause; True if there was one."""
    was_there = connection.execute(
        sa.select(sa.func.count()).select_from(_TABLE)
        .where(_TABLE.c.ends_at > types.utcnow())).scalar()
    connection.execute(sa.delete(_TABLE))
    return bool(was_there)
