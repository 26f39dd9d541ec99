# SPDX-License-Identifier: Apache-2.0

"""Rows of ``hmsync_distributor_instance``: distributors that are booted.

The distributor in one that is READY has a row of its own, by the name of its
instance in the compute service, as soon as somebody asks for distributors.
"""

import dataclasses
import datetime

import sqlalchemy as sa

from octavia_hmsync.db import api
from octavia_hmsync.db import claims
from octavia_hmsync.db import models
from octavia_hmsync.db import turn
from octavia_hmsync.db import types
from octavia_hmsync import exceptions

_TABLE = models.DistributorInstance.__table__
_CLAIMS = claims.Claims(_TABLE, _TABLE.c.id, _TABLE.c.claimed_by)
_DISTRIBUTOR = models.Distributor.__table__

BUILDING = 'BUILDING'
READY = 'READY'
LEAVING = 'LEAVING'
STATES = (BUILDING, READY, LEAVING)

# Of whoever decides that one more is booted.
TURN = 'distributor-instance'


@dataclasses.dataclass(frozen=True)
class Instance:
    """A row; times by the database's clock, UTC.

    The fields are columns of ``hmsync_distributor_instance``, and now, when
    it was read.
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
        """Whether nobody works on it."""
        return (not self.claimed_by or self.claim_expires_at is None or
                self.claim_expires_at <= self.now)


_FIELDS = [field.name for field in dataclasses.fields(Instance)]


def _read(connection, *conditions):
    return [Instance(**{name: getattr(row, name) for name in _FIELDS})
            for row in connection.execute(
                sa.select(_TABLE, types.utcnow().label('now'))
                .where(*conditions)
                .order_by(_TABLE.c.created_at, _TABLE.c.id)).all()]


def get(engine, instance_id):
    """Return an Instance, or None if there is none with this id."""
    with engine.connect() as connection:
        found = _read(connection, _TABLE.c.id == instance_id)
    return found[0] if found else None


def get_all(engine):
    """Return all Instances, the oldest first."""
    with engine.connect() as connection:
        return _read(connection)


def get_ready(engine):
    """Return {id in the compute service: address} of those to be used."""
    with engine.connect() as connection:
        return {row.compute_id: row.address for row in connection.execute(
            sa.select(_TABLE.c.compute_id, _TABLE.c.address)
            .where(_TABLE.c.state == READY)).all()}


@api.retry
def reserve(engine, instance_id, known, owner, expiry):
    """Add one that is to be booted, claimed.

    :param engine: an SQLAlchemy engine.
    :param instance_id: a new id, of this call alone.
    :param known: ids of all that there were when this was decided.
    :param owner: a new id, of this call alone.
    :param expiry: seconds after which the claim lapses.
    :returns: False if there are others meanwhile.
    """
    with engine.begin() as connection:
        turn.take(connection, TURN)
        there = set(connection.execute(sa.select(_TABLE.c.id)).scalars())
        if there != set(known):
            connection.rollback()
            # It may be that it was added, and the answer was lost.
            return instance_id in there
        connection.execute(sa.insert(_TABLE).values(
            id=instance_id, state=BUILDING, created_at=types.utcnow(),
            **_CLAIMS.make(owner, expiry)))
        return True


@api.retry
def claim(engine, instance_id, owner, expiry):
    """Claim one that nobody works on.

    :param engine: an SQLAlchemy engine.
    :param instance_id: which.
    :param owner: a new id, of this call alone.
    :param expiry: seconds after which the claim lapses.
    :returns: False if somebody else works on it, or it is gone.
    """
    with engine.begin() as connection:
        return _CLAIMS.take(connection, instance_id, owner, expiry)


@api.retry
def record(engine, instance_id, owner, expiry, is_booted=False, **values):
    """Go on holding a claim, and record what was found out.

    :param expiry: seconds after which the claim lapses.
    :param is_booted: whether the compute service is asked for it now, or it
                      answers now.
    :param values: columns, and what they are to have.
    :raises Lost: if somebody else has claimed it meanwhile.
    """
    if is_booted:
        values['booted_at'] = types.utcnow()
    with engine.begin() as connection:
        if not _CLAIMS.hold(connection, instance_id, owner, expiry,
                            **values):
            raise exceptions.Lost


@api.retry
def release(engine, instance_id, owner):
    """Give a claim back.

    :returns: False if somebody else has claimed it meanwhile, or it is gone.
    """
    with engine.begin() as connection:
        return _CLAIMS.release(connection, instance_id, owner)


@api.retry
def order(engine, instance_id, reason):
    """Have one that is READY go, when another one is there for it.

    :param reason: why.
    :returns: False if it is not READY, or is to go already.
    """
    with engine.begin() as connection:
        return connection.execute(
            sa.update(_TABLE)
            .where(_TABLE.c.id == instance_id, _TABLE.c.state == READY,
                   _TABLE.c.reason.is_(None))
            .values(reason=reason)).rowcount == 1


@api.retry
def leave(engine, instance_id, reason, known):
    """Have clusters leave one that is READY; then it is deleted.

    :param reason: why.
    :param known: ids of those that were READY when this was decided.
    :returns: False if it is not READY, or others are not any more.
    """
    with engine.begin() as connection:
        # Of two that are to go at once the second one sees the first one.
        turn.take(connection, TURN)
        return set(known) <= set(connection.execute(
            sa.select(_TABLE.c.id).where(_TABLE.c.state == READY)).scalars()
        ) and connection.execute(
            sa.update(_TABLE)
            .where(_TABLE.c.id == instance_id, _TABLE.c.state == READY)
            .values(state=LEAVING, reason=reason)).rowcount == 1


@api.retry
def forget(engine, instance_id, owner):
    """Delete the row of one that is no distributor's any more.

    :returns: False if somebody else has claimed it meanwhile, it is gone, or
              a distributor goes by it.
    """
    with engine.begin() as connection:
        return _CLAIMS.delete(
            connection, instance_id, owner, ~sa.exists().where(
                _DISTRIBUTOR.c.name == _TABLE.c.compute_id))
