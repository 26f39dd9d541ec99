# SPDX-License-Identifier: Apache-2.0

"""Octavia's rows of the health of members of clusters.

Octavia fails over nobody whose ``amphora_health`` row is busy. A member's is,
from before it boots until it is deleted: heartbeats leave that as it is. What
makes the row anew, without that, is a heartbeat after something has deleted
it; what takes it back is the undoing of one of Octavia's flows.
"""

import dataclasses

from oslo_db import exception as db_exc
from oslo_utils import timeutils
import sqlalchemy as sa

from octavia_hmsync import compat
from octavia_hmsync.db import api
from octavia_hmsync.db import models
from octavia_hmsync.db import types

_MEMBER = models.ClusterMember.__table__
_AMPHORA = models.Amphora.__table__
_OCTAVIA = compat.AMPHORA
_HEALTH = compat.AMPHORA_HEALTH

# Those that are to send heartbeats. One in ERROR serves, too: a tenant's
# change that failed left it so, or an order to fail it over. One that is
# taken apart is its load balancer's no more.
_SERVES = sa.and_(
    _OCTAVIA.c.status.in_((*compat.FAILOVER_STATUSES, compat.ERROR)),
    _OCTAVIA.c.load_balancer_id.is_not(None))


@dataclasses.dataclass(frozen=True)
class Found:
    """Members to look at more closely, by the ids of their amphorae.

    :param late: those of which no heartbeat came for a while.
    :param unmarked: those whose row is gone, or not busy.
    """

    late: frozenset[str]
    unmarked: frozenset[str]


def scan(engine, seconds):
    """Look through all members: two rows of each, which is what that costs.

    By the database's clock, whatever the clock of who heard them.

    :param engine: an SQLAlchemy engine.
    :param seconds: since the last heartbeat, at least.
    :returns: a Found.
    """
    is_late = _HEALTH.c.last_update < types.utcnow_plus(-seconds)
    is_marked = sa.func.coalesce(_HEALTH.c.busy, sa.false())
    with engine.connect() as connection:
        rows = connection.execute(
            sa.select(_MEMBER.c.amphora_id, is_late.label('is_late'),
                      is_marked.label('is_marked'))
            .select_from(_MEMBER.outerjoin(
                _HEALTH, _HEALTH.c.amphora_id == _MEMBER.c.amphora_id))
            .where(_MEMBER.c.amphora_id.is_not(None),
                   sa.or_(is_late, is_marked == sa.false()))).all()
    return Found(frozenset(row.amphora_id for row in rows if row.is_late),
                 frozenset(row.amphora_id for row in rows
                           if not row.is_marked))


def get_late(engine, amphora_ids):
    """Read what there is of members that may be silent.

    :param engine: an SQLAlchemy engine.
    :param amphora_ids: ids of their amphorae.
    :returns: rows with the columns of hmsync_amphora, the amphora's ``id``,
              ``member_id``, ``last_update``, and the database's time as
              ``now``; none of those that are not to send heartbeats.
    """
    columns = [c for c in _AMPHORA.c if c is not _AMPHORA.c.amphora_id]
    with engine.connect() as connection:
        return connection.execute(
            sa.select(_OCTAVIA.c.id, _MEMBER.c.id.label('member_id'),
                      _HEALTH.c.last_update,
                      types.utcnow().label('now'), *columns)
            .select_from(_MEMBER)
            .join(_OCTAVIA, _OCTAVIA.c.id == _MEMBER.c.amphora_id)
            .join(_HEALTH, _HEALTH.c.amphora_id == _OCTAVIA.c.id)
            .outerjoin(_AMPHORA, _AMPHORA.c.amphora_id == _OCTAVIA.c.id)
            .where(_MEMBER.c.amphora_id.in_(amphora_ids), _SERVES)).all()


@api.retry
def keep_from_failover(engine, amphora_ids):
    """Have Octavia never fail a member over, whatever was done to its row.

    :param engine: an SQLAlchemy engine.
    :param amphora_ids: of whom; those that are not to send heartbeats stay
                        as they are.
    :returns: the ids of the amphorae whose row was not as it has to be, a
              list.
    """
    select = (sa.select(_OCTAVIA.c.id, _HEALTH.c.busy)
              .select_from(_MEMBER)
              .join(_OCTAVIA, _OCTAVIA.c.id == _MEMBER.c.amphora_id)
              .outerjoin(_HEALTH, _HEALTH.c.amphora_id == _OCTAVIA.c.id)
              .where(_MEMBER.c.amphora_id.in_(amphora_ids), _SERVES,
                     sa.or_(_HEALTH.c.busy.is_(sa.false()),
                            _HEALTH.c.amphora_id.is_(None))))
    with engine.connect() as connection:
        found = dict(connection.execute(select).all())
    if not found:
        return []
    lost = [amphora_id for amphora_id, busy in found.items() if busy is None]
    try:
        with engine.begin() as connection:
            if lost:
                # From now on it is silent, unless it is heard.
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
        # A heartbeat came first: see what it has left.
        raise db_exc.RetryRequest(e)
    return list(found)
