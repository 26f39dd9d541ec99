# SPDX-License-Identifier: Apache-2.0

"""Rows of ``hmsync_house_keeper``: each controller's configuration."""

from oslo_db import exception as db_exc
import sqlalchemy as sa

from octavia_hmsync import addresses as addr
from octavia_hmsync.db import api
from octavia_hmsync.db import models
from octavia_hmsync.db import rows
from octavia_hmsync.db import types

_TABLE = models.HouseKeeper.__table__


@api.retry
def touch(engine, host, pinned, key_digest=None, problem=None):
    """Write a keepalive, with what the file pins and what the problem is."""
    values = {'pinned_ip_port_list': addr.join_list(pinned),
              'key_digest': key_digest,
              'problem': problem and types.storable(problem),
              'keepalive_at': types.utcnow()}
    with engine.begin() as connection:
        if rows.change(connection, _TABLE, _TABLE.c.host == host, **values):
            return
    try:
        with engine.begin() as connection:
            connection.execute(sa.insert(_TABLE).values(host=host, **values))
    except db_exc.DBDuplicateEntry:
        # Another housekeeper of the same host was faster. Both have read the
        # same file.
        return


def get_pinned(engine, max_age):
    """Return the addresses that the file of any controller lists.

    So an operator can remove the option from one controller after the other,
    and only the last removal has an effect.
    """
    return addr.canonical(a for a, age in get_pins(engine).items()
                          if age <= max_age)


def _get_all(engine):
    return rows.read(engine, sa.select(_TABLE, types.utcnow().label('now')))


def get_pins(engine):
    """Return {pinned address: seconds since a housekeeper confirmed it}."""
    pins: dict[str, float] = {}
    for row in _get_all(engine):
        age = (row.now - row.keepalive_at).total_seconds()
        for address in addr.split_list(row.pinned_ip_port_list):
            pins[address] = min(age, pins.get(address, age))
    return pins


def get_up(engine, max_age):
    """Return {host: why it uploads nothing, or None} of those up."""
    return {row.host: row.problem for row in rows.read(
        engine, sa.select(_TABLE.c.host, _TABLE.c.problem)
        .where(_TABLE.c.keepalive_at >= types.utcnow_plus(-max_age))
        .order_by(_TABLE.c.host))}


def get_key_digests(engine, max_age=None):
    """Return {host: digest of its key, or None} of housekeepers up."""
    select = (sa.select(_TABLE.c.host, _TABLE.c.key_digest)
              .order_by(_TABLE.c.host))
    if max_age is not None:
        select = select.where(
            _TABLE.c.keepalive_at >= types.utcnow_plus(-max_age))
    return {row.host: row.key_digest for row in rows.read(engine, select)}


@api.retry
def delete_expired(engine, retention):
    """Delete the rows of housekeepers that have been gone for long."""
    expired = [row.host for row in _get_all(engine) if
               (row.now - row.keepalive_at).total_seconds() > retention]
    if expired:
        with engine.begin() as connection:
            connection.execute(
                sa.delete(_TABLE).where(_TABLE.c.host.in_(expired)))
