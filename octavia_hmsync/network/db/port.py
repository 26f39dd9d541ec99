# SPDX-License-Identifier: Apache-2.0

"""Rows of ``hmsync_port``: the nodes' ports, and their claims.

Neutron is the truth. The row remembers a lost port, and lets health managers
check their address without Neutron.
"""

import dataclasses

import sqlalchemy as sa

from octavia_hmsync import addresses as addr
from octavia_hmsync.db import claims
from octavia_hmsync.db import models
from octavia_hmsync.db import rows
from octavia_hmsync.db import types

_TABLE = models.Port.__table__
_CLAIMS = claims.Claims(_TABLE, _TABLE.c.host, _TABLE.c.claim_owner,
                        made=_TABLE.c.port_id)
claim, renew = _CLAIMS.claim, _CLAIMS.hold
release, forget = _CLAIMS.release, _CLAIMS.delete
_HEALTH_MANAGER = models.HealthManager.__table__


@dataclasses.dataclass(frozen=True)
class Port:
    """A node's port; ages by the database's clock.

    :param is_registered: whether its health manager has registered since the
                          node first plugged it.
    :param plugged_age: seconds since the node last plugged it, None if never.
    """

    host: str
    port_id: str
    mac: str
    ip_addresses: tuple
    binding_host: str
    is_registered: bool
    plugged_age: float | None
    repairs: int


def _to_port(row):
    return rows.make(
        Port, row, ip_addresses=addr.split_list(row.ip_addresses),
        is_registered=row.registered_at is not None,
        plugged_age=(None if row.plugged_at is None else
                     (row.now - row.plugged_at).total_seconds()))


def _select():
    # A port that is claimed for the first time is not made yet.
    return sa.select(_TABLE, types.utcnow().label('now')).where(
        _TABLE.c.port_id.is_not(None))


def get_all(engine):
    """Return all Ports, by host."""
    return [_to_port(row) for row in rows.read(
        engine, _select().order_by(_TABLE.c.host))]


def get(engine, host):
    """Return the Port of a host, or None."""
    row = rows.read_one(engine, _select().where(_TABLE.c.host == host))
    return row and _to_port(row)


def record(engine, owner, host, port_id, mac, ip_addresses, binding_host,
           repairs=0):
    """Record a port and its total repairs; False if another claims it."""
    return _CLAIMS.change(
        engine, host, owner, port_id=port_id, mac=mac,
        ip_addresses=addr.join_list(ip_addresses),
        binding_host=binding_host, repairs=repairs)


def set_plugged(engine, host):
    """Record that the node plugs its port now.

    Without a row of its health manager this clears registered_at: an earlier
    deletion of the health manager no longer counts.

    :returns: False if there is no such port.
    """
    return rows.change(
        engine, _TABLE, _TABLE.c.host == host, _TABLE.c.port_id.is_not(None),
        plugged_at=types.utcnow(), registered_at=sa.case(
            (_TABLE.c.host.in_(sa.select(_HEALTH_MANAGER.c.host)),
             _TABLE.c.registered_at), else_=None))


def set_registered(engine):
    """Record hosts whose health manager registered; return how many new."""
    return rows.write(
        engine, sa.update(_TABLE)
        .where(_TABLE.c.registered_at.is_(None),
               _TABLE.c.host.in_(sa.select(_HEALTH_MANAGER.c.host)))
        .values(registered_at=types.utcnow()))
