# SPDX-License-Identifier: Apache-2.0

"""Which clusters need work, and whether they have an owner.

A look at a cluster costs some rows. So usually only candidates are looked at,
which an index finds. What no index shows, such as the end of a cooldown, is
found page by page.
"""

import dataclasses

import sqlalchemy as sa

from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import lock as lock_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster.db import member_probe as probe_repo
from octavia_hmsync import compat
from octavia_hmsync.db import claims
from octavia_hmsync.db import models
from octavia_hmsync.db import rows
from octavia_hmsync.db import types

_CLUSTER = models.Cluster.__table__
_MEMBER = models.ClusterMember.__table__
_PROBE = models.MemberProbe.__table__
_LB = compat.LOAD_BALANCER
_AMPHORA = compat.AMPHORA

PROVIDER = 'amphora_cluster'

# Seconds within which a live octavia-worker begins what it is asked for.
_YOUTH = 10

_UNFIT = (member_repo.BUILDING, member_repo.DRAINING, member_repo.FAILED)


@dataclasses.dataclass(frozen=True)
class Orphan:
    """A load balancer whose message to an octavia-worker was lost.

    :param provisioning_status: PENDING_CREATE or PENDING_DELETE.
    """

    id: str
    provisioning_status: str


@dataclasses.dataclass(frozen=True)
class Due:
    """A cluster that may need work.

    :param news: changes with each new probe or order: work that was not
                 possible before may be possible then.
    """

    id: str
    is_free: bool
    news: tuple


def _count(condition):
    return sa.func.sum(sa.case((condition, 1), else_=0))


def _members(among):
    """Return the query for numbers of members, by cluster."""
    has_slot = _MEMBER.c.slot.is_not(None)
    return (
        sa.select(
            _MEMBER.c.cluster_id,
            sa.func.count(_MEMBER.c.slot).label('slots'),
            _count(sa.and_(has_slot, _MEMBER.c.state == member_repo.ACTIVE))
            .label('active'),
            _count(_MEMBER.c.state == member_repo.STANDBY).label('standbys'),
            _count(sa.or_(
                _MEMBER.c.state.in_(_UNFIT), _MEMBER.c.ordered.is_not(None),
                _MEMBER.c.health.in_((member_repo.SUSPECT, member_repo.DEAD)),
                # A member that has just taken a slot.
                sa.and_(has_slot, sa.or_(
                    _MEMBER.c.config_digest.is_(None),
                    _MEMBER.c.config_digest == member_repo.ALONE))))
            .label('unfit'),
            _count(_MEMBER.c.ordered.is_not(None)).label('ordered'))
        .where(*_of(_MEMBER.c.cluster_id, among))
        .group_by(_MEMBER.c.cluster_id).subquery())


def _broken(among=None):
    """Return the query for clusters with amphorae in ERROR."""
    return (sa.select(_MEMBER.c.cluster_id).distinct()
            .join_from(_MEMBER, _AMPHORA,
                       _AMPHORA.c.id == _MEMBER.c.amphora_id)
            .where(_AMPHORA.c.status == compat.ERROR,
                   *_of(_MEMBER.c.cluster_id, among)).subquery())


def _down(among=None):
    """Return the query for clusters with a member that is DOWN."""
    return (sa.select(_MEMBER.c.cluster_id,
                      sa.func.max(_PROBE.c.changed_at).label('changed_at'),
                      sa.func.count().label('number'))
            .join_from(_PROBE, _MEMBER, _MEMBER.c.id == _PROBE.c.member_id)
            .where(_PROBE.c.state == probe_repo.DOWN,
                   *_of(_MEMBER.c.cluster_id, among))
            .group_by(_MEMBER.c.cluster_id).subquery())


def get_candidates(engine, seconds, followers=()):
    """Return the ids of clusters that may need work, a set.

    The cost does not depend on the number of other clusters.

    :param seconds: for how long a change of a cluster, of its members' tasks,
                    or of its distributors counts.
    :param followers: all clusters of these managers are candidates.
    """
    broken, down = _broken(), _down()
    following = [sa.select(_CLUSTER.c.id).where(
        _CLUSTER.c.cluster_type.in_(followers))] if followers else []
    return {row.id for row in rows.read(engine, sa.union_all(
        sa.select(_CLUSTER.c.id).where(
            _CLUSTER.c.updated_at >= types.utcnow_plus(-seconds)),
        sa.select(_MEMBER.c.cluster_id).where(_MEMBER.c.state.in_(_UNFIT)),
        sa.select(broken.c.cluster_id), sa.select(down.c.cluster_id),
        sa.select(_CLUSTER.c.id)
        .join_from(_LB, _CLUSTER, _CLUSTER.c.load_balancer_id == _LB.c.id)
        .where(_LB.c.provisioning_status.in_(
            (compat.PENDING_CREATE, compat.PENDING_DELETE))),
        *following))}


def get_page(engine, after, number):
    """Return a page of ids of all clusters, in order.

    :param after: the last id of the page before, '' for the first page.
    :param number: most ids on a page.
    """
    return [row.id for row in rows.read(
        engine, sa.select(_CLUSTER.c.id).where(_CLUSTER.c.id > after)
        .order_by(_CLUSTER.c.id).limit(number))]


def _of(column, among):
    return [] if among is None else [column.in_(sorted(among))]


def get_due(engine, among=None, followers=()):
    """Return the Dues of clusters that may need work, longest waiting first.

    :param among: ids of clusters to look at; None for all.
    :param followers: managers that are to decide even if nothing has
                      changed.
    """
    members, broken, down = (part(among) for part in
                             (_members, _broken, _down))
    slots, active, standbys = (
        sa.func.coalesce(column, 0) for column in (
            members.c.slots, members.c.active, members.c.standbys))
    size = _CLUSTER.c.size
    # A change of the load balancer delays what is not urgent.
    is_made = sa.and_(_CLUSTER.c.provisioning_status == compat.ACTIVE,
                      _LB.c.provisioning_status.in_(
                          (compat.ACTIVE, compat.PENDING_UPDATE,
                           compat.ERROR)))
    is_unlike = sa.or_(
        slots != size, standbys != _CLUSTER.c.standby,
        cluster_repo.may_resize(), members.c.unfit > 0,
        broken.c.cluster_id.is_not(None), down.c.cluster_id.is_not(None),
        sa.and_(_LB.c.enabled.is_(sa.true()), active >= size,
                _CLUSTER.c.operating_status != compat.ONLINE),
        sa.and_(_LB.c.enabled.is_(sa.false()),
                _CLUSTER.c.operating_status != compat.OFFLINE))
    wrong = sa.or_(
        sa.and_(is_made, _CLUSTER.c.cluster_type.in_(followers)),
        _LB.c.id.is_(None), _LB.c.provisioning_status == compat.DELETED,
        _LB.c.provisioning_status.in_(
            (compat.PENDING_CREATE, compat.PENDING_DELETE)),
        _CLUSTER.c.provisioning_status.in_(lock_repo.PENDING),
        _CLUSTER.c.is_failing_over, sa.and_(is_made, is_unlike),
        # A failed cluster gets no new members, but dead ones have to leave.
        sa.and_(_CLUSTER.c.provisioning_status == compat.ERROR,
                _LB.c.provisioning_status == compat.ERROR,
                sa.or_(members.c.unfit > 0, down.c.cluster_id.is_not(None))))
    is_free = sa.and_(
        claims.is_free(_CLUSTER),
        # An octavia-worker has just been asked for it.
        sa.or_(_LB.c.id.is_(None), _LB.c.provisioning_status.not_in(
            (compat.PENDING_CREATE, compat.PENDING_DELETE)),
            sa.func.coalesce(_LB.c.updated_at, _LB.c.created_at) <=
            types.utcnow_plus(-_YOUTH)))
    return [Due(row.id, bool(row.is_free), (
        row.desired_size, row.min_size, row.standby, row.ordered,
        row.number, row.changed_at)) for row in rows.read(
        engine, sa.select(
            _CLUSTER.c.id, is_free.label('is_free'), _CLUSTER.c.desired_size,
            _CLUSTER.c.min_size, _CLUSTER.c.standby, members.c.ordered,
            down.c.number, down.c.changed_at)
        .select_from(
            _CLUSTER
            .outerjoin(_LB, _LB.c.id == _CLUSTER.c.load_balancer_id)
            .outerjoin(members, members.c.cluster_id == _CLUSTER.c.id)
            .outerjoin(broken, broken.c.cluster_id == _CLUSTER.c.id)
            .outerjoin(down, down.c.cluster_id == _CLUSTER.c.id))
        .where(wrong, *_of(_CLUSTER.c.id, among))
        .order_by(_CLUSTER.c.updated_at, _CLUSTER.c.id))]


def get_orphans(engine, age):
    """Return the Orphans.

    :param age: seconds since a tenant's request, within which a live
                octavia-worker would have begun.
    """
    begun = sa.func.coalesce(_LB.c.updated_at, _LB.c.created_at)
    return [rows.make(Orphan, row) for row in rows.read(
        engine, sa.select(_LB.c.id, _LB.c.provisioning_status)
        .where(_LB.c.provider == PROVIDER,
               _LB.c.provisioning_status.in_(
                   (compat.PENDING_CREATE, compat.PENDING_DELETE)),
               begun < types.utcnow_plus(-age),
               ~sa.exists().where(_CLUSTER.c.load_balancer_id == _LB.c.id))
        .order_by(_LB.c.id))]
