# SPDX-License-Identifier: Apache-2.0

"""Rows of ``hmsync_order``: which operator ordered what, and how it ended.

A row is written before the command changes anything, so that no order takes
effect that is not recorded; its end follows.
"""

import contextlib
import dataclasses
import datetime

from oslo_db import exception as db_exc
import sqlalchemy as sa

from octavia_hmsync.db import api
from octavia_hmsync.db import models
from octavia_hmsync.db import news
from octavia_hmsync.db import rows
from octavia_hmsync.db import types

_TABLE = models.Order.__table__

# The command runs, or was killed.
GIVEN = 'GIVEN'
DONE = 'DONE'
# It was refused, or could not be carried out to its end.
FAILED = 'FAILED'


@dataclasses.dataclass(frozen=True)
class New:
    """An order to record; command is its words: 'rollout start'."""

    id: str
    command: str
    arguments: str
    reason: str | None
    os_user: str
    sudo_user: str | None
    host: str


@dataclasses.dataclass(frozen=True)
class Order(New):
    """A row; state is GIVEN (finished_at is None), DONE or FAILED."""

    state: str
    error: str | None
    created_at: datetime.datetime
    finished_at: datetime.datetime | None


def get_page(engine, marker=None, limit=None):
    """Return Orders, the newest first, behind that of the marker."""
    statement = sa.select(_TABLE).order_by(
        _TABLE.c.created_at.desc(), _TABLE.c.id.desc()).limit(limit)
    if marker is not None:
        at = sa.select(_TABLE.c.created_at).where(
            _TABLE.c.id == marker).scalar_subquery()
        statement = statement.where(sa.or_(
            _TABLE.c.created_at < at,
            sa.and_(_TABLE.c.created_at == at, _TABLE.c.id < marker)))
    return [rows.make(Order, row) for row in rows.read(engine, statement)]


def exists(engine, order_id):
    """Tell whether an order is recorded."""
    return rows.read_one(engine, sa.select(_TABLE.c.id).where(
        _TABLE.c.id == order_id)) is not None


@api.retry
def add(engine, new: New):
    """Record an order that is about to be carried out."""
    # With the id of this order there is no other: the answer was lost.
    with contextlib.suppress(db_exc.DBDuplicateEntry):
        with engine.begin() as connection:
            connection.execute(sa.insert(_TABLE).values(
                **dataclasses.asdict(new), state=GIVEN,
                created_at=types.utcnow()))
            _tell(connection, new.id)


@api.transaction
def finish(connection, order_id, error=None):
    """End an order, FAILED with an error; False if it is not GIVEN."""
    is_ended = rows.change(
        connection, _TABLE, _TABLE.c.id == order_id,
        _TABLE.c.state == GIVEN, state=DONE if error is None else FAILED,
        error=error, finished_at=types.utcnow())
    if is_ended:
        _tell(connection, order_id)
    return is_ended


def _tell(connection, order_id):
    row = connection.execute(
        sa.select(_TABLE).where(_TABLE.c.id == order_id)).one()
    news.add(connection, 'order.given', order_id=order_id,
             **{name: value for name, value in row._mapping.items()
                if name != 'id'})


def delete_old(engine, seconds):
    """Delete orders that were given longer ago; return how many."""
    return rows.write(engine, sa.delete(_TABLE).where(
        _TABLE.c.created_at < types.utcnow_plus(-seconds)))
