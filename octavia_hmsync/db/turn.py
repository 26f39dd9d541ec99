# SPDX-License-Identifier: Apache-2.0

"""Turns: transactions that decide by rows that others write, one at a time.

At another node of a Galera cluster a read, even FOR UPDATE, does not stop a
transaction that changes the row. Only transactions that *write* the same row
conflict. So they all write a row in ``hmsync_turn``.
"""

import sqlalchemy as sa

from octavia_hmsync.db import models

_TABLE = models.Turn.__table__


def take(connection, name):
    """Keep all other transactions that take this turn from committing.

    Must come first in a transaction. The loser of a conflict raises a deadlock
    error, here or when it commits; api.retry runs it again.

    :param name: of the turn, 64 characters at most.
    """
    connection.execute(sa.insert(_TABLE).values(name=name))
    # The row is gone before the commit, but the write still conflicts.
    connection.execute(sa.delete(_TABLE).where(_TABLE.c.name == name))
