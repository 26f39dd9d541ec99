# SPDX-License-Identifier: Apache-2.0

"""Octavia's rows of amphorae that are built, or go.

For image upgrades and clusters, which hold the lock of the load balancer.
"""

import sqlalchemy as sa

from octavia_hmsync import compat
from octavia_hmsync.db import api
from octavia_hmsync.db import rows
from octavia_hmsync.db import types

_AMPHORA = compat.AMPHORA
_HEALTH = compat.AMPHORA_HEALTH


def set_interface(engine, amphora_id, interface):
    """Record the interface of an amphora that keepalived uses."""
    rows.change(engine, _AMPHORA, _AMPHORA.c.id == amphora_id,
                vrrp_interface=interface)


@api.transaction
def set_right(connection, amphora_ids):
    """Set amphorae in ERROR that serve to ALLOCATED.

    The revert of a stock flow sets all amphorae of a load balancer to ERROR.
    """
    connection.execute(
        sa.update(_AMPHORA)
        .where(_AMPHORA.c.id.in_(amphora_ids),
               _AMPHORA.c.status == compat.ERROR)
        .values(status=compat.AMPHORA_ALLOCATED,
                updated_at=types.utcnow()))
    connection.execute(
        sa.update(_HEALTH).where(_HEALTH.c.amphora_id.in_(amphora_ids))
        .values(busy=False))


def set_busy(engine, amphora_ids):
    """Keep Octavia from a failover of amphorae, until set_right()."""
    rows.write(engine, sa.update(_HEALTH).where(
        _HEALTH.c.amphora_id.in_(amphora_ids)).values(busy=True))


@api.transaction
def set_going(connection, amphora_id):
    """Keep Octavia from a failover of an amphora that is about to go."""
    rows.change(connection, _AMPHORA, _AMPHORA.c.id == amphora_id,
                _AMPHORA.c.status != compat.DELETED,
                status=compat.PENDING_DELETE, updated_at=types.utcnow())
    rows.change(connection, _HEALTH, _HEALTH.c.amphora_id == amphora_id,
                busy=True)


@api.transaction
def set_gone(connection, amphora_id):
    """Set an amphora to DELETED, and detach it from its load balancer."""
    # When a tenant changes a load balancer, Octavia asks Neutron for the port
    # of each of its amphorae, even of deleted ones. It would not find this
    # one, and set the load balancer to ERROR (UpdateAmphoraSecurityGroup).
    connection.execute(sa.delete(_HEALTH).where(
        _HEALTH.c.amphora_id == amphora_id))
    rows.change(connection, _AMPHORA, _AMPHORA.c.id == amphora_id,
                status=compat.DELETED, load_balancer_id=None,
                updated_at=types.utcnow())


def get_unfinished(engine, load_balancer_id):
    """Return ids of a locked load balancer's amphorae without instance."""
    return [row.id for row in rows.read(engine, sa.select(_AMPHORA.c.id).where(
        _AMPHORA.c.load_balancer_id == load_balancer_id,
        _AMPHORA.c.status.in_(compat.BUILDING_STATUSES),
        _AMPHORA.c.compute_id.is_(None)))]
