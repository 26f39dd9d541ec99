# SPDX-License-Identifier: Apache-2.0

"""The lock of a load balancer in a replacement, and its amphorae.

The lock is Octavia's own status PENDING_UPDATE: other changes of the load
balancer have to wait. Octavia's row does not name the owner of the lock. So
the phase of the replacement is written in the same transaction.
"""

import sqlalchemy as sa

from octavia_hmsync import compat
from octavia_hmsync.db import api
from octavia_hmsync.db import types
from octavia_hmsync.image.db import claim as claims_repo

_LB = compat.LOAD_BALANCER


@api.retry
def lock(engine, replacement, owner, expiry, phase, old_amphora_id):
    """Lock a load balancer, or return False if not ACTIVE, or raise Lost."""
    with engine.begin() as connection:
        claims_repo.CLAIMS.require(
            connection, replacement.id, owner, expiry, phase=phase,
            old_amphora_id=old_amphora_id, new_amphora_id=None)
        is_locked = connection.execute(
            sa.update(_LB)
            .where(_LB.c.id == replacement.load_balancer_id,
                   _LB.c.provisioning_status == compat.ACTIVE)
            # "image restore" uses this time.
            .values(provisioning_status=compat.PENDING_UPDATE,
                    updated_at=types.utcnow())).rowcount
        if not is_locked:
            connection.rollback()
        return bool(is_locked)


@api.retry
def unlock(engine, replacement, owner, expiry, phase):
    """Unlock a load balancer and begin a phase, or raise Lost."""
    with engine.begin() as connection:
        claims_repo.CLAIMS.require(connection, replacement.id, owner, expiry,
                                   phase=phase)
        connection.execute(
            sa.update(_LB)
            .where(_LB.c.id == replacement.load_balancer_id,
                   _LB.c.provisioning_status == compat.PENDING_UPDATE)
            .values(provisioning_status=compat.ACTIVE,
                    updated_at=types.utcnow()))
