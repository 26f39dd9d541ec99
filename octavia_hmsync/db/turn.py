# SPDX-License-Identifier: Apache-2.0

"""Transactions that look at rows of others before they commit, in turn.

What a transaction reads, even FOR UPDATE, keeps nobody at another node of a
Galera cluster from changing it; there only those are in each other's way that
*write* the same row. So they write one, in ``hmsync_turn``.
"""

import sqlalchemy as sa

from octavia_hmsync.db import models

_TABLE = models.Turn.__table__


def take(connection, name):
    """Keep all other transactions that take this turn from committing.

    Has to come first in a transaction. One that comes too late raises a
    deadlock error, here or when it commits; api.retry runs it again.

    :param connection: an SQLAlchemy connection, in a transaction.
    :param name: of the turn, 64 characters at most.
    """
    connection.execute(sa.insert(_TABLE).values(name=name))
    # Nobody ever sees the row; what was written counts all the same.
    connection.execute(sa.delete(_TABLE).where(_TABLE.c.name == name))
