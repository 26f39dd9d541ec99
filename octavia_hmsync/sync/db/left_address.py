# SPDX-License-Identifier: Apache-2.0

"""Rows of ``hmsync_left_address``: where a health manager was, and is no more.

They are written in the transaction that moves or deletes the row of the
health manager: an address is in one of the two tables from the moment on at
which somebody registers there for the first time.
"""

import sqlalchemy as sa

from octavia_hmsync.db import api
from octavia_hmsync.db import models
from octavia_hmsync.db import types
from octavia_hmsync.sync.db import house_keeper as keeper_repo

_TABLE = models.LeftAddress.__table__


def add(connection, address):
    """Record that a health manager is not registered at an address any more.

    :param connection: one with a transaction, in which nobody else can
                       register there.
    :param address: as in controller_ip_port_list.
    """
    if not connection.execute(
            sa.update(_TABLE).where(_TABLE.c.address == address)
            .values(left_at=types.utcnow())).rowcount:
        connection.execute(sa.insert(_TABLE).values(
            address=address, left_at=types.utcnow()))


def remove(connection, address):
    """Record that somebody registers at an address.

    :param connection: one with a transaction.
    :param address: as in controller_ip_port_list.
    """
    connection.execute(sa.delete(_TABLE).where(_TABLE.c.address == address))


def get_all(engine):
    """Return the addresses that were left.

    Read the members first: whoever moves in between is then seen at one
    address or the other; the other way round its old address could look like
    one at which nobody has ever registered. A member at one of these
    addresses counts for more.

    :returns: a frozenset.
    """
    with engine.connect() as connection:
        return frozenset(connection.execute(
            sa.select(_TABLE.c.address)).scalars())


@api.retry
def delete_expired(engine, retention):
    """Delete the addresses that nobody pins, and that were left long ago.

    One that a configuration file still lists would count as alive again.

    :param engine: an SQLAlchemy engine.
    :param retention: seconds.
    """
    conditions = [_TABLE.c.left_at <= types.utcnow_plus(-retention)]
    pinned = keeper_repo.get_pinned(engine, float('inf'))
    if pinned:
        conditions.append(_TABLE.c.address.not_in(pinned))
    with engine.begin() as connection:
        connection.execute(sa.delete(_TABLE).where(*conditions))
