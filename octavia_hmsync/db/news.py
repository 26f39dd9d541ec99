# SPDX-License-Identifier: Apache-2.0

"""Rows of ``hmsync_news``: events to notify of.

A row is written in the transaction of the event. So no event is missed, and
none is announced that did not happen. The housekeeper that deletes a row sends
the notification, so none is sent twice.
"""

import dataclasses
import json
from typing import Any

import sqlalchemy as sa

from octavia_hmsync.db import api
from octavia_hmsync.db import models
from octavia_hmsync.db import rows
from octavia_hmsync.db import types

_TABLE = models.News.__table__


@dataclasses.dataclass(frozen=True)
class News:
    """An event: its payload's type, without the project, and the facts."""

    id: int
    kind: str
    body: dict[str, Any]


def add(connection, kind, **body):
    """Record an event of this transaction; body: plain values, and times."""
    connection.execute(sa.insert(_TABLE).values(
        kind=kind, created_at=types.utcnow(), body=json.dumps(
            body, default=lambda time: time.isoformat(timespec='seconds'))))


@api.transaction
def take(connection, limit):
    """Delete and return News that the caller has to announce, oldest first."""
    oldest = connection.execute(
        sa.select(_TABLE).order_by(_TABLE.c.id).limit(limit)).all()
    return [
        News(row.id, row.kind, json.loads(row.body)) for row in oldest
        # Skip rows that another housekeeper took meanwhile.
        if connection.execute(
            sa.delete(_TABLE).where(_TABLE.c.id == row.id)).rowcount]


def forget(engine, max_age):
    """Delete old news, as they pile up without notifications."""
    return rows.write(engine, sa.delete(_TABLE).where(
        _TABLE.c.created_at < types.utcnow_plus(-max_age)))
