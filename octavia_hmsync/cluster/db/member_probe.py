# SPDX-License-Identifier: Apache-2.0

"""Rows of ``hmsync_member_probe``: what observers see of a member.

A distributor sees whether the front end of a member answers. The health
managers together see whether it is silent though it could have been heard.
Each observer has its own row, none before its first probe. Only a cluster
manager draws conclusions.
"""

import dataclasses
import datetime

from oslo_db import exception as db_exc
import sqlalchemy as sa

from octavia_hmsync import compat
from octavia_hmsync.db import api
from octavia_hmsync.db import models
from octavia_hmsync.db import rows
from octavia_hmsync.db import types

_TABLE = models.MemberProbe.__table__
_MEMBER = models.ClusterMember.__table__
_DISTRIBUTOR = models.Distributor.__table__
_VIP = models.DistributorVIP.__table__

UP = 'UP'
DOWN = 'DOWN'

# In place of the id of a distributor: what health managers hear. DOWN is a
# member that was silent for heartbeat_timeout, though it could have been heard
# all that time.
HEARTBEATS = 'heartbeats'

# Seconds for which the status of a distributor holds; housekeepers ask it more
# often.
_RECENT = 60


@dataclasses.dataclass(frozen=True)
class Result:
    """What an observer sees.

    :param state: UP or DOWN.
    :param error: what is wrong, or None.
    """

    state: str
    error: str | None = None


@dataclasses.dataclass(frozen=True)
class Probe:
    """A row with its distributor; times by the database's clock, UTC.

    :param distributor_id: the observer, or HEARTBEATS.
    :param is_active: whether the observer is the cluster's active distributor.
    :param is_online: whether the observer is a distributor that was ONLINE a
                      moment ago.
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
    """Return the Probes of all members of a cluster."""
    # Its status is old if no housekeeper ran for a while.
    is_online = sa.and_(
        _DISTRIBUTOR.c.status == compat.ONLINE,
        _DISTRIBUTOR.c.last_seen >= types.utcnow_plus(-_RECENT))
    return [
        rows.make(Probe, row, is_active=bool(row.active),
                  is_online=bool(row.is_online)) for row in rows.read(
            engine, sa.select(
                _TABLE, _VIP.c.active, is_online.label('is_online'),
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
    """Return {id of a member: Result} of one observer.

    :param distributor_id: the observer, or HEARTBEATS.
    """
    return _read(engine, distributor_id)


def _read(engine, distributor_id, *conditions):
    return {row.member_id: Result(row.state, row.error)
            for row in rows.read(engine, sa.select(_TABLE).where(
                _TABLE.c.distributor_id == distributor_id, *conditions))}


@api.retry
def record(engine, distributor_id, results):
    """Record what an observer sees; only changes are written.

    :param results: {id of a member: Result}; members that are gone are
                    skipped.
    :returns: ids of the members whose state changed, in order; at the first
              probe only DOWN counts as a change.
    """
    changed = []
    for ids in rows.split(sorted(results)):
        changed += _record(engine, distributor_id, {
            member_id: results[member_id] for member_id in ids})
    return changed


def _record(engine, distributor_id, results):
    ours = _TABLE.c.member_id.in_(list(results))
    known = _read(engine, distributor_id, ours)
    if all(known.get(member_id) == result
           for member_id, result in results.items()):
        return []
    try:
        with engine.begin() as connection:
            return _write(connection, distributor_id, results, known)
    except db_exc.DBDuplicateEntry as e:
        # Another process wrote it at the same time.
        raise db_exc.RetryRequest(e)


def _write(connection, distributor_id, results, known):
    # Locked: a deletion of a member meanwhile would leave these rows.
    there = set(connection.execute(
        sa.select(_MEMBER.c.id).where(_MEMBER.c.id.in_(list(results)))
        .order_by(_MEMBER.c.id).with_for_update(read=True)).scalars())
    changed = []
    for member_id in sorted(there):
        result, before = results[member_id], known.get(member_id)
        if result == before:
            continue
        values = {'state': result.state, 'error': result.error}
        if before is None:
            connection.execute(sa.insert(_TABLE).values(
                member_id=member_id, distributor_id=distributor_id,
                changed_at=types.utcnow(), **values))
            if result.state == DOWN:
                changed.append(member_id)
            continue
        if before.state != result.state:
            values['changed_at'] = types.utcnow()
            changed.append(member_id)
        if not connection.execute(
                sa.update(_TABLE)
                .where(_TABLE.c.member_id == member_id,
                       _TABLE.c.distributor_id == distributor_id,
                       _TABLE.c.state == before.state)
                .values(**values)).rowcount:
            # Another process changed it since it was read, and returned it.
            raise db_exc.RetryRequest(db_exc.DBError(
                f'The result of member {member_id} changes all the time.'))
    return changed


def forget(engine, distributor_id, member_ids=None):
    """Delete the rows of an observer.

    For a distributor that has lost its state, is gone, or no longer checks
    some members.

    :param member_ids: of these members; None for all.
    :returns: number of deleted rows.
    """
    whose = [] if member_ids is None else [
        _TABLE.c.member_id.in_(sorted(member_ids))]
    return rows.write(engine, sa.delete(_TABLE).where(
        _TABLE.c.distributor_id == distributor_id, *whose))


def delete_of(connection, *conditions):
    """Delete the rows that fulfil all conditions, as part of a transaction."""
    connection.execute(sa.delete(_TABLE).where(*conditions))
