# SPDX-License-Identifier: Apache-2.0

"""Numbers of clusters, members and distributors, by state."""

import collections
import dataclasses
import typing

import sqlalchemy as sa

from octavia_hmsync.cluster.db import distributor as distributor_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync import compat
from octavia_hmsync.db import models

_CLUSTER = models.Cluster.__table__
_MEMBER = models.ClusterMember.__table__
_DISTRIBUTOR = models.Distributor.__table__
_BOOTED = models.DistributorInstance.__table__
_VIP = models.DistributorVIP.__table__

# In these an octavia-worker just builds or deletes members and VIPs.
_COMING_AND_GOING = (compat.PENDING_CREATE, compat.PENDING_DELETE)


@dataclasses.dataclass(frozen=True)
class Figures:
    """The numbers at one moment.

    What is counted by something has a dict: clusters by provisioning status,
    health by operating status, members, distributors and booted by state.

    :param distributors: those that get VIPs.
    :param short: clusters with fewer ACTIVE members than desired_size. This,
                  failing, unreachable, behind and without_standby leave out
                  clusters that are just made or deleted.
    :param active_vips: {name of a distributor: VIPs that are active there}.
    """

    clusters: dict[str, int]
    health: dict[str, int]
    members: dict[str, int]
    distributors: dict[str, int]
    short: int
    failing: int
    unreachable: int
    behind: int
    members_by_health: dict[str, int]
    orders: dict[str, int]
    without_standby: int
    draining: int
    drained: int
    booted: dict[str, int]
    active_vips: dict[str, int]


def _count(name, table, column, *conditions):
    return (sa.select(sa.literal(name).label('name'), column.label('label'),
                      sa.func.count().label('number'))
            .select_from(table).where(*conditions).group_by(column))


def _count_one(name, table, *conditions):
    return sa.select(
        sa.literal(name).label('name'), sa.literal('').label('label'),
        sa.func.count().label('number')).select_from(table).where(
            *conditions)


def _count_members(state):
    return (sa.select(sa.func.count()).select_from(_MEMBER)
            .where(_MEMBER.c.cluster_id == _CLUSTER.c.id,
                   _MEMBER.c.state == state)
            .correlate(_CLUSTER).scalar_subquery())


def read(engine):
    """Return the Figures, by one statement."""
    active = _count_members(member_repo.ACTIVE)
    stays = _CLUSTER.c.provisioning_status.not_in(_COMING_AND_GOING)
    answers = sa.exists().where(
        _VIP.c.cluster_id == _CLUSTER.c.id,
        _VIP.c.applied_active.is_(sa.true()), _VIP.c.applied_version > 0,
        _VIP.c.distributor_id == _DISTRIBUTOR.c.id,
        _DISTRIBUTOR.c.status == distributor_repo.ONLINE)
    with engine.connect() as connection:
        rows = connection.execute(sa.union_all(
            _count('clusters', _CLUSTER, _CLUSTER.c.provisioning_status),
            _count('health', _CLUSTER, _CLUSTER.c.operating_status),
            _count('members', _MEMBER, _MEMBER.c.state),
            _count('distributors', _DISTRIBUTOR, _DISTRIBUTOR.c.status,
                   _DISTRIBUTOR.c.enabled),
            _count_one('short', _CLUSTER, stays,
                       active < _CLUSTER.c.desired_size),
            _count_one('failing', _CLUSTER, stays,
                       active < _CLUSTER.c.min_size),
            _count_one('unreachable', _CLUSTER, stays, ~answers),
            # Nothing is recorded of one that was well all the time.
            _count('members_by_health', _MEMBER, sa.func.coalesce(
                _MEMBER.c.health, member_repo.HEALTHY), sa.or_(
                    _MEMBER.c.health.is_not(None), _MEMBER.c.state.in_(
                        (member_repo.ACTIVE, member_repo.STANDBY)))),
            _count('orders', _MEMBER, _MEMBER.c.ordered,
                   _MEMBER.c.ordered.is_not(None)),
            _count_one('without_standby', _CLUSTER, stays,
                       _count_members(member_repo.STANDBY) <
                       _CLUSTER.c.standby),
            sa.select(
                sa.literal('draining').label('name'),
                sa.literal('').label('label'), sa.func.coalesce(
                    sa.func.sum(_MEMBER.c.connections), 0).label('number'))
            .where(_MEMBER.c.state == member_repo.DRAINING),
            _count_one('drained', _DISTRIBUTOR,
                       _DISTRIBUTOR.c.drained),
            _count('booted', _BOOTED, _BOOTED.c.state),
            sa.select(
                sa.literal('active_vips').label('name'),
                _DISTRIBUTOR.c.name.label('label'),
                sa.func.count(_VIP.c.active).label('number'))
            .select_from(_DISTRIBUTOR.outerjoin(_VIP, sa.and_(
                _VIP.c.distributor_id == _DISTRIBUTOR.c.id,
                _VIP.c.active.is_(sa.true()))))
            .where(_DISTRIBUTOR.c.enabled).group_by(_DISTRIBUTOR.c.name),
            _count_one('behind', _VIP.join(
                _CLUSTER, _CLUSTER.c.id == _VIP.c.cluster_id),
                stays, sa.or_(
                    _VIP.c.applied_version.is_(None),
                    _VIP.c.applied_version != _CLUSTER.c.version)))).all()
    found: collections.defaultdict[str, dict[str, int]] = (
        collections.defaultdict(dict))
    for name, label, number in rows:
        found[name][label] = number
    values: dict[str, typing.Any] = {
        field.name: int(found[field.name]['']) if field.type is int
        else found[field.name] for field in dataclasses.fields(Figures)}
    return Figures(**values)
