# SPDX-License-Identifier: Apache-2.0

"""Octavia's rows of the health of members of clusters.

Octavia does not fail over an amphora whose ``amphora_health`` row is busy. The
rows of members are busy from before they boot until they are deleted;
heartbeats do not change that. But the row may lose it: a heartbeat creates a
deleted row anew, and the revert of an Octavia flow clears busy.
"""

import dataclasses

from oslo_db import exception as db_exc
from oslo_utils import timeutils
import sqlalchemy as sa

from octavia_hmsync import compat
from octavia_hmsync.db import api
from octavia_hmsync.db import models
from octavia_hmsync.db import rows
from octavia_hmsync.db import types

_MEMBER = models.ClusterMember.__table__
_AMPHORA = models.Amphora.__table__
_OCTAVIA = compat.AMPHORA
_HEALTH = compat.AMPHORA_HEALTH

# Amphorae that should send heartbeats. An amphora in ERROR serves, too: a
# tenant's change that failed, or an order to fail it over, left it so. An
# amphora that is being deleted has no load balancer any more.
_SERVES = sa.and_(
    _OCTAVIA.c.status.in_((*compat.FAILOVER_STATUSES, compat.ERROR)),
    _OCTAVIA.c.load_balancer_id.is_not(None))


@dataclasses.dataclass(frozen=True)
class Found:
    """Members to look at more closely, by the ids of their amphorae.

    :param late: without a heartbeat for a while.
    :param unmarked: whose row is gone, or not busy.
    """

    late: frozenset[str]
    unmarked: frozenset[str]


def scan(engine, seconds):
    """Look through all members, and return the Found; it reads two rows each.

    By the database's clock, though health managers write last_update by their
    own.

    :param seconds: since the last heartbeat after which a member is late.
    """
    is_late = _HEALTH.c.last_update < types.utcnow_plus(-seconds)
    is_marked = sa.func.coalesce(_HEALTH.c.busy, sa.false())
    found = rows.read(
        engine, sa.select(_MEMBER.c.amphora_id, is_late.label('is_late'),
                          is_marked.label('is_marked'))
        .select_from(_MEMBER.outerjoin(
            _HEALTH, _HEALTH.c.amphora_id == _MEMBER.c.amphora_id))
        .where(_MEMBER.c.amphora_id.is_not(None),
               sa.or_(is_late, is_marked == sa.false())))
    return Found(frozenset(row.amphora_id for row in found if row.is_late),
                 frozenset(row.amphora_id for row in found
                           if not row.is_marked))


def get_late(engine, amphora_ids):
    """Return rows of members that may be silent.

    Without amphorae that should not send heartbeats.

    :returns: rows with the columns of hmsync_amphora, the amphora's ``id``,
              ``member_id``, ``cluster_id``, ``last_update``, and the
              database's time as ``now``.
    """
    columns = [c for c in _AMPHORA.c if c is not _AMPHORA.c.amphora_id]
    return rows.read(
        engine, sa.select(
            _OCTAVIA.c.id, _MEMBER.c.id.label('member_id'),
            _MEMBER.c.cluster_id, _HEALTH.c.last_update,
            types.utcnow().label('now'), *columns)
        .select_from(_MEMBER)
        .join(_OCTAVIA, _OCTAVIA.c.id == _MEMBER.c.amphora_id)
        .join(_HEALTH, _HEALTH.c.amphora_id == _OCTAVIA.c.id)
        .outerjoin(_AMPHORA, _AMPHORA.c.amphora_id == _OCTAVIA.c.id)
        .where(_MEMBER.c.amphora_id.in_(amphora_ids), _SERVES))


@api.retry
def keep_from_failover(engine, amphora_ids):
    """Ensure that the rows of members are busy, so Octavia never fails over.

    :param amphora_ids: amphorae that should not send heartbeats stay as they
                        are.
    :returns: the ids of the amphorae whose row was changed.
    """
    select = (sa.select(_OCTAVIA.c.id, _HEALTH.c.busy)
              .select_from(_MEMBER)
              .join(_OCTAVIA, _OCTAVIA.c.id == _MEMBER.c.amphora_id)
              .outerjoin(_HEALTH, _HEALTH.c.amphora_id == _OCTAVIA.c.id)
              .where(_MEMBER.c.amphora_id.in_(amphora_ids), _SERVES,
                     sa.or_(_HEALTH.c.busy.is_(sa.false()),
                            _HEALTH.c.amphora_id.is_(None))))
    found = dict(map(tuple, rows.read(engine, select)))
    if not found:
        return []
    lost = [amphora_id for amphora_id, busy in found.items() if busy is None]
    try:
        with engine.begin() as connection:
            if lost:
                # Its silence counts from now.
                connection.execute(sa.insert(_HEALTH), [
                    {'amphora_id': amphora_id, 'busy': True,
                     'last_update': timeutils.utcnow().replace(
                         microsecond=0)}
                    for amphora_id in lost])
            connection.execute(
                sa.update(_HEALTH)
                .where(_HEALTH.c.amphora_id.in_(found))
                .values(busy=True))
    except db_exc.DBDuplicateEntry as e:
        # A heartbeat was faster: see what it has written.
        raise db_exc.RetryRequest(e)
    return list(found)
