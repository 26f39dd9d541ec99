# SPDX-License-Identifier: Apache-2.0

"""Rows of ``hmsync_left_address``: former addresses of health managers.

A row is written in the transaction that moves or deletes the row of the health
manager. So each address at which one ever registered is in one of the two
tables.
"""

import sqlalchemy as sa

from octavia_hmsync.db import api
from octavia_hmsync.db import models
from octavia_hmsync.db import rows
from octavia_hmsync.db import types
from octavia_hmsync.sync.db import house_keeper as keeper_repo

_TABLE = models.LeftAddress.__table__


def add(connection, address):
    """Record a left address, while no other process can register there."""
    if not rows.change(connection, _TABLE, _TABLE.c.address == address,
                       left_at=types.utcnow()):
        connection.execute(sa.insert(_TABLE).values(
            address=address, left_at=types.utcnow()))


def remove(connection, address):
    """Record that a health manager registers at an address."""
    connection.execute(sa.delete(_TABLE).where(_TABLE.c.address == address))


def get_all(engine):
    """Return the addresses that health managers have left, a frozenset.

    Read the members before this: otherwise the old address of a health manager
    that moves in between is in neither answer. A member at one of these
    addresses takes precedence.
    """
    return frozenset(row.address for row in rows.read(
        engine, sa.select(_TABLE.c.address)))


@api.retry
def delete_expired(engine, retention):
    """Delete addresses that were left long ago and that no file lists."""
    conditions = [_TABLE.c.left_at <= types.utcnow_plus(-retention)]
    # Without its row a pinned address would count as alive again.
    pinned = keeper_repo.get_pinned(engine, float('inf'))
    if pinned:
        conditions.append(_TABLE.c.address.not_in(pinned))
    with engine.begin() as connection:
        connection.execute(sa.delete(_TABLE).where(*conditions))
