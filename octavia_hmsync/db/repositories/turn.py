#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

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
