# SPDX-License-Identifier: Apache-2.0

"""Rows of ``hmsync_member_sight``: what somebody sees of a member.

Distributors see whether its front end answers; health managers, all of them
together, whether it is silent though it could have been heard. Each writes
what it sees, and only a cluster manager draws conclusions from it. Who has
not looked has no row.
"""

import dataclasses
import datetime

from oslo_db import exception as db_exc
import sqlalchemy as sa

from octavia_hmsync import compat
from octavia_hmsync.db import api
from octavia_hmsync.db import models
from octavia_hmsync.db import types

_TABLE = models.MemberSight.__table__
_MEMBER = models.ClusterMember.__table__
_DISTRIBUTOR = models.Distributor.__table__
_VIP = models.DistributorVIP.__table__

UP = 'UP'
DOWN = 'DOWN'

# In place of the id of a distributor: what health managers hear. DOWN is one
# that was silent for heartbeat_timeout and could have been heard all of it.
HEARTBEATS = 'heartbeats'

# Seconds for which the status of a distributor holds; it is asked every few.
_RECENT = 60
# Rows that are written in one transaction.
_AT_ONCE = 500


@dataclasses.dataclass(frozen=True)
class Look:
    """What somebody sees.

    :param state: UP or DOWN.
    :param error: what is wrong, or None.
    """

    state: str
    error: str | None = None


@dataclasses.dataclass(frozen=True)
class Sight:
    """A row, times by the database's clock, UTC, and who has seen it.

    :param member_id: of which member.
    :param distributor_id: who sees it, or HEARTBEATS.
    :param state: UP or DOWN.
    :param changed_at: since when.
    :param error: what is wrong, or None.
    :param is_active: whether that distributor is the cluster's active one.
    :param is_online: whether that distributor is, and was a moment ago; False
                      of HEARTBEATS.
    :param now: when it was read.
    """

    member_id: str
    distributor_id: str
    state: str
    changed_at: datetime.datetime
    error: str | None
    is_active: bool
    is_online: bool
    now: datetime.datetime


def get_of_cluster(engine, cluster_id):
    """Return the Sights of all members of a cluster.

    :param engine: an SQLAlchemy engine.
    :param cluster_id: its id.
    """
    # Nobody may have asked it for long, as while no housekeeper ran.
    is_online = sa.and_(
        _DISTRIBUTOR.c.status == compat.ONLINE,
        _DISTRIBUTOR.c.last_seen >= types.utcnow_plus(-_RECENT))
    with engine.connect() as connection:
        return [Sight(
            row.member_id, row.distributor_id, row.state, row.changed_at,
            row.error, bool(row.active), bool(row.is_online), row.now)
            for row in connection.execute(
                sa.select(_TABLE, _VIP.c.active, is_online.label('is_online'),
                          types.utcnow().label('now'))
                .select_from(
                    _TABLE.join(_MEMBER, _MEMBER.c.id == _TABLE.c.member_id)
                    .outerjoin(_DISTRIBUTOR, _DISTRIBUTOR.c.id ==
                               _TABLE.c.distributor_id)
                    .outerjoin(_VIP, sa.and_(
                        _VIP.c.distributor_id == _TABLE.c.distributor_id,
                        _VIP.c.cluster_id == _MEMBER.c.cluster_id)))
                .where(_MEMBER.c.cluster_id == cluster_id)
                .order_by(_TABLE.c.member_id, _TABLE.c.distributor_id))]


def get_of_observer(engine, distributor_id):
    """Return {id of a member: Look} of what one sees.

    :param engine: an SQLAlchemy engine.
    :param distributor_id: who, or HEARTBEATS.
    """
    with engine.connect() as connection:
        return _read(connection, distributor_id)


def _read(connection, distributor_id, *conditions):
    return {row.member_id: Look(row.state, row.error)
            for row in connection.execute(
                sa.select(_TABLE).where(
                    _TABLE.c.distributor_id == distributor_id, *conditions))}


@api.retry
def record(engine, distributor_id, looks):
    """Record what somebody sees; what was seen before is not written again.

    :param engine: an SQLAlchemy engine.
    :param distributor_id: who, or HEARTBEATS.
    :param looks: {id of a member: Look}; of members that are gone nothing is
                  kept.
    :returns: ids of the members whose state is another one now, in order; of
              those that were seen for the first time only the ones that are
              DOWN.
    """
    ids = sorted(looks)
    changed = []
    for begin in range(0, len(ids), _AT_ONCE):
        changed += _record(engine, distributor_id, {
            member_id: looks[member_id]
            for member_id in ids[begin:begin + _AT_ONCE]})
    return changed


def _record(engine, distributor_id, looks):
    ours = _TABLE.c.member_id.in_(list(looks))
    with engine.connect() as connection:
        known = _read(connection, distributor_id, ours)
    if all(known.get(member_id) == look for member_id, look in looks.items()):
        return []
    try:
        with engine.begin() as connection:
            return _write(connection, distributor_id, looks, known)
    except db_exc.DBDuplicateEntry as e:
        # Somebody else wrote it at the same time.
        raise db_exc.RetryRequest(e)


def _write(connection, distributor_id, looks, known):
    # Nobody deletes them meanwhile, and leaves what is written here.
    there = set(connection.execute(
        sa.select(_MEMBER.c.id).where(_MEMBER.c.id.in_(list(looks)))
        .order_by(_MEMBER.c.id).with_for_update(read=True)).scalars())
    # Who deletes one with a release before leaves them.
    gone = sorted(known.keys() - there)
    if gone:
        delete_of(connection, _TABLE.c.distributor_id == distributor_id,
                  _TABLE.c.member_id.in_(gone))
    changed = []
    for member_id in sorted(there):
        look, before = looks[member_id], known.get(member_id)
        if look == before:
            continue
        values = {'state': look.state, 'error': look.error}
        if before is None:
            connection.execute(sa.insert(_TABLE).values(
                member_id=member_id, distributor_id=distributor_id,
                changed_at=types.utcnow(), **values))
            if look.state == DOWN:
                changed.append(member_id)
            continue
        if before.state != look.state:
            values['changed_at'] = types.utcnow()
            changed.append(member_id)
        if not connection.execute(
                sa.update(_TABLE)
                .where(_TABLE.c.member_id == member_id,
                       _TABLE.c.distributor_id == distributor_id,
                       _TABLE.c.state == before.state)
                .values(**values)).rowcount:
            # Somebody else wrote it since it was read, and tells it.
            raise db_exc.RetryRequest(db_exc.DBError(
                f'What is seen of member {member_id} changes all the time.'))
    return changed


@api.retry
def forget(engine, distributor_id, member_ids=None):
    """Delete what somebody has seen.

    As of a distributor that has lost what it knew, or is gone; or that looks
    at some members no more.

    :param member_ids: of which members; None for all.
    :returns: how much that was.
    """
    whose = [] if member_ids is None else [
        _TABLE.c.member_id.in_(sorted(member_ids))]
    with engine.begin() as connection:
        return connection.execute(sa.delete(_TABLE).where(
            _TABLE.c.distributor_id == distributor_id, *whose)).rowcount


def delete_of(connection, *conditions):
    """Delete what was seen, as part of a transaction.

    :param connection: an SQLAlchemy connection, in a transaction.
    :param conditions: of columns of the table.
    """
    connection.execute(sa.delete(_TABLE).where(*conditions))
