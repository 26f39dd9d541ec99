# SPDX-License-Identifier: Apache-2.0

"""The lock of a load balancer that is replaced, and the amphorae below it.

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
_AMPHORA = compat.AMPHORA
_HEALTH = compat.AMPHORA_HEALTH


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


@api.retry
def set_interface(engine, amphora_id, interface):
    """Record at which interface of an amphora keepalived is."""
    with engine.begin() as connection:
        connection.execute(
            sa.update(_AMPHORA).where(_AMPHORA.c.id == amphora_id)
            .values(vrrp_interface=interface))


@api.retry
def set_right(engine, amphora_ids):
    """Have amphorae that serve be ones that Octavia looks after.

    What is undone of stock flows leaves all of a load balancer in ERROR.
    """
    with engine.begin() as connection:
        connection.execute(
            sa.update(_AMPHORA)
            .where(_AMPHORA.c.id.in_(amphora_ids),
                   _AMPHORA.c.status == compat.ERROR)
            .values(status=compat.AMPHORA_ALLOCATED,
                    updated_at=types.utcnow()))
        connection.execute(
            sa.update(_HEALTH).where(_HEALTH.c.amphora_id.in_(amphora_ids))
            .values(busy=False))


@api.retry
def set_going(engine, amphora_id):
    """Have Octavia take no notice of an amphora that is about to go."""
    with engine.begin() as connection:
        connection.execute(
            sa.update(_AMPHORA)
            .where(_AMPHORA.c.id == amphora_id,
                   _AMPHORA.c.status != compat.DELETED)
            .values(status=compat.PENDING_DELETE,
                    updated_at=types.utcnow()))
        connection.execute(
            sa.update(_HEALTH).where(_HEALTH.c.amphora_id == amphora_id)
            .values(busy=True))


@api.retry
def set_gone(engine, amphora_id):
    """Record that an amphora is deleted, and is its load balancer's no more.

    Octavia asks Neutron for the port of each amphora of a load balancer that
    its owner changes, of those that are deleted, too: after a failover it
    does not find it, and the load balancer is in ERROR
    (``UpdateAmphoraSecurityGroup``).
    """
    with engine.begin() as connection:
        connection.execute(sa.delete(_HEALTH).where(
            _HEALTH.c.amphora_id == amphora_id))
        connection.execute(
            sa.update(_AMPHORA).where(_AMPHORA.c.id == amphora_id)
            .values(status=compat.DELETED, load_balancer_id=None,
                    updated_at=types.utcnow()))


def get_unfinished(engine, load_balancer_id):
    """Return the ids of amphorae that were begun and have no instance.

    :param engine: an SQLAlchemy engine.
    :param load_balancer_id: whose; locked, so that nobody else builds any.
    """
    with engine.connect() as connection:
        return connection.execute(
            sa.select(_AMPHORA.c.id)
            .where(_AMPHORA.c.load_balancer_id == load_balancer_id,
                   _AMPHORA.c.status.in_(compat.BUILDING_STATUSES),
                   _AMPHORA.c.compute_id.is_(None))).scalars().all()
