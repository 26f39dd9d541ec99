# SPDX-License-Identifier: Apache-2.0

"""The lock of a load balancer whose amphorae are replaced.

The lock is Octavia's own, PENDING_UPDATE: whoever wants to change the load
balancer has to wait. It says nothing of who has it; the phase does, which is
written in the same transaction.
"""

import sqlalchemy as sa

from octavia_hmsync import compat
from octavia_hmsync.db import api
from octavia_hmsync.db import types
from octavia_hmsync import exceptions
from octavia_hmsync.image.db import claim as claims_repo

_LB = compat.LOAD_BALANCER


@api.retry
def lock(engine, replacement, owner, expiry, phase, old_amphora_id):
    """Lock a load balancer for a replacement.

    :param engine: an SQLAlchemy engine.
    :param replacement: a Replacement.
    :param owner: who has claimed it.
    :param expiry: seconds after which the claim lapses.
    :param phase: what begins with the lock.
    :param old_amphora_id: which amphora is to be replaced.
    :returns: False if the load balancer is not ACTIVE: somebody else works
              on it, it is in ERROR, or gone.
    :raises Lost: if somebody else has claimed it.
    """
    with engine.begin() as connection:
        # First: at another node of Galera it is what keeps a second one from
        # committing.
        _enter(connection, replacement, owner, expiry, phase=phase,
               old_amphora_id=old_amphora_id, new_amphora_id=None)
        is_locked = connection.execute(
            sa.update(_LB)
            .where(_LB.c.id == replacement.load_balancer_id,
                   _LB.c.provisioning_status == compat.ACTIVE)
            # "image restore" goes by when that was.
            .values(provisioning_status=compat.PENDING_UPDATE,
                    updated_at=types.utcnow())).rowcount
        if not is_locked:
            connection.rollback()
        return bool(is_locked)


@api.retry
def unlock(engine, replacement, owner, expiry, phase):
    """Give a load balancer back, and be in a phase without the lock.

    :param engine: an SQLAlchemy engine.
    :param replacement: a Replacement.
    :param owner: who has claimed it.
    :param expiry: seconds after which the claim lapses.
    :param phase: what comes then.
    :raises Lost: if somebody else has claimed it.
    """
    with engine.begin() as connection:
        _enter(connection, replacement, owner, expiry, phase=phase)
        connection.execute(
            sa.update(_LB)
            .where(_LB.c.id == replacement.load_balancer_id,
                   _LB.c.provisioning_status == compat.PENDING_UPDATE)
            .values(provisioning_status=compat.ACTIVE,
                    updated_at=types.utcnow()))


def _enter(connection, replacement, owner, expiry, **values):
    if not claims_repo.update_claimed(connection, replacement.id, owner,
                                      expiry, **values):
        raise exceptions.Lost
