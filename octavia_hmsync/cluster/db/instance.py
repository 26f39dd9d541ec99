# SPDX-License-Identifier: Apache-2.0

"""Rows of ``hmsync_distributor_instance``: distributors that are booted.

The distributor in a READY instance also has a row in ``hmsync_distributor``,
by the id of its instance in the compute service, from the next sync() on.
"""

import dataclasses
import datetime

import sqlalchemy as sa

from octavia_hmsync.db import api
from octavia_hmsync.db import claims
from octavia_hmsync.db import models
from octavia_hmsync.db import rows
from octavia_hmsync.db import turn
from octavia_hmsync.db import types

_TABLE = models.DistributorInstance.__table__
_CLAIMS = claims.Claims(_TABLE, _TABLE.c.id, _TABLE.c.claimed_by)
claim, renew, release = _CLAIMS.claim, _CLAIMS.hold, _CLAIMS.release
_DISTRIBUTOR = models.Distributor.__table__

BUILDING = 'BUILDING'
READY = 'READY'
LEAVING = 'LEAVING'
STATES = (BUILDING, READY, LEAVING)

# Taken to decide that one more is booted, or that one leaves.
TURN = 'distributor-instance'


@dataclasses.dataclass(frozen=True)
class Instance:
    """A row; times by the database's clock, UTC.

    Its fields are the columns of ``hmsync_distributor_instance``, and now,
    when it was read.
    """

    id: str
    state: str
    compute_id: str | None
    address: str | None
    booted_at: datetime.datetime | None
    expires_at: datetime.datetime | None
    reason: str | None
    claimed_by: str | None
    claim_expires_at: datetime.datetime | None
    created_at: datetime.datetime
    now: datetime.datetime

    @property
    def is_free(self):
        """Whether it has no owner."""
        return (not self.claimed_by or self.claim_expires_at is None or
                self.claim_expires_at <= self.now)


def _read(engine, *conditions):
    return [rows.make(Instance, row) for row in rows.read(
        engine, sa.select(_TABLE, types.utcnow().label('now'))
        .where(*conditions).order_by(_TABLE.c.created_at, _TABLE.c.id))]


def get(engine, instance_id):
    """Return an Instance, or None if there is none with this id."""
    return next(iter(_read(engine, _TABLE.c.id == instance_id)), None)


def get_all(engine):
    """Return all Instances, the oldest first."""
    return _read(engine)


def get_ready(engine):
    """Return {id in the compute service: address} of READY instances."""
    return dict(map(tuple, rows.read(
        engine, sa.select(_TABLE.c.compute_id, _TABLE.c.address)
        .where(_TABLE.c.state == READY))))


@api.transaction
def reserve(connection, instance_id, known, owner, expiry):
    """Add the claimed row of an instance to be booted.

    :param instance_id: a new id, of this call alone.
    :param known: ids of all instances when this was decided.
    :returns: False if the instances are others by now.
    """
    turn.take(connection, TURN)
    there = set(connection.execute(sa.select(_TABLE.c.id)).scalars())
    if there != set(known):
        connection.rollback()
        # A first try may have added it, and the answer was lost.
        return instance_id in there
    connection.execute(sa.insert(_TABLE).values(
        id=instance_id, state=BUILDING, created_at=types.utcnow(),
        **_CLAIMS.make(owner, expiry)))
    return True


def record(engine, instance_id, owner, expiry, is_booted=False, **values):
    """Renew a claim, and record columns.

    :param is_booted: whether the compute service is asked for it now, or it
                      first answers now.
    :returns: False if another owner has claimed it.
    """
    if is_booted:
        values['booted_at'] = types.utcnow()
    return _CLAIMS.hold(engine, instance_id, owner, expiry, **values)


def order(engine, instance_id, reason):
    """Order that a READY instance goes as soon as it has a substitute.

    :returns: False if it is not READY, or is to go already.
    """
    return rows.change(engine, _TABLE, _TABLE.c.id == instance_id,
                       _TABLE.c.state == READY, _TABLE.c.reason.is_(None),
                       reason=reason)


@api.transaction
def leave(connection, instance_id, reason, known):
    """Set a READY instance to LEAVING: clusters leave it before its deletion.

    :param known: ids of the READY instances when this was decided.
    :returns: False if it, or one of the others, is no longer READY.
    """
    # If two leave at once, the second call sees the first.
    turn.take(connection, TURN)
    return set(known) <= set(connection.execute(
        sa.select(_TABLE.c.id).where(_TABLE.c.state == READY)).scalars()
    ) and rows.change(
        connection, _TABLE, _TABLE.c.id == instance_id,
        _TABLE.c.state == READY, state=LEAVING, reason=reason)


def forget(engine, instance_id, owner):
    """Delete the row of an instance whose distributor is forgotten.

    :returns: False if another owner has claimed it, it is gone, or its
              distributor still has a row.
    """
    return _CLAIMS.delete(
        engine, instance_id, owner, ~sa.exists().where(
            _DISTRIBUTOR.c.name == _TABLE.c.compute_id))
