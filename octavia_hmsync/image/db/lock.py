# SPDX-License-Identifier: Apache-2.0

"""The lock of a load balancer in a replacement, and its amphorae.

The lock is Octavia's own status PENDING_UPDATE: other changes of the load
balancer have to wait. Octavia's row does not name the owner of the lock. So
the phase of the replacement is written in the same transaction.
"""

import sqlalchemy as sa

from octavia_hmsync import compat
from octavia_hmsync.db import api
from octavia_hmsync.db import rows
from octavia_hmsync.db import types
from octavia_hmsync.image.db import claim as claims_repo

_LB = compat.LOAD_BALANCER
_GROUP = compat.VRRP_GROUP


@api.transaction
def lock(connection, replacement, owner, expiry, phase, old_amphora_id):
    """Lock a load balancer, or return False if not ACTIVE, or raise Lost."""
    claims_repo.CLAIMS.require(
        connection, replacement.id, owner, expiry, phase=phase,
        old_amphora_id=old_amphora_id, new_amphora_id=None)
    is_locked = rows.change(
        connection, _LB, _LB.c.id == replacement.load_balancer_id,
        _LB.c.provisioning_status == compat.ACTIVE,
        provisioning_status=compat.PENDING_UPDATE,
        # "image restore" uses this time.
        updated_at=types.utcnow())
    if not is_locked:
        connection.rollback()
    return is_locked


@api.transaction
def change_topology(connection, replacement, owner, expiry, phase, topology):
    """Write the topology of a locked load balancer and begin a phase.

    :raises Lost: if another owner has claimed the replacement.
    """
    claims_repo.CLAIMS.require(connection, replacement.id, owner, expiry,
                               phase=phase)
    rows.change(connection, _LB, _LB.c.id == replacement.load_balancer_id,
                topology=topology)


@api.transaction
def unlock(connection, replacement, owner, expiry, phase):
    """Unlock a load balancer and begin a phase, or raise Lost.

    A SINGLE one may have a VRRP group from before, or from a change of its
    topology that was taken back.
    """
    claims_repo.CLAIMS.require(connection, replacement.id, owner, expiry,
                               phase=phase)
    rows.write(connection, sa.delete(_GROUP).where(
        _GROUP.c.load_balancer_id == replacement.load_balancer_id,
        sa.exists().where(_LB.c.id == _GROUP.c.load_balancer_id,
                          _LB.c.topology == compat.TOPOLOGY_SINGLE)))
    rows.change(connection, _LB, _LB.c.id == replacement.load_balancer_id,
                _LB.c.provisioning_status == compat.PENDING_UPDATE,
                provisioning_status=compat.ACTIVE,
                updated_at=types.utcnow())
