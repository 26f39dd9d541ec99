# SPDX-License-Identifier: Apache-2.0

"""Octavia's lock of a load balancer that has a cluster.

The lock is Octavia's own status PENDING_UPDATE: other changes of the load
balancer have to wait. Octavia's row does not name the owner of the lock. So
the status of the cluster is written in the same transaction. While a cluster
is failing over, octavia-api has taken the lock for it, and each claim owner
may use it.
"""

import sqlalchemy as sa

from octavia_hmsync.cluster.db import claim as claim_repo
from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster.db import news as news_repo
from octavia_hmsync import compat
from octavia_hmsync.db import api
from octavia_hmsync.db import models
from octavia_hmsync.db import rows
from octavia_hmsync.db import types

_CLUSTER = models.Cluster.__table__
_MEMBER = models.ClusterMember.__table__
_LB = compat.LOAD_BALANCER

PENDING = (compat.PENDING_CREATE, compat.PENDING_UPDATE,
           compat.PENDING_DELETE)


def _is_of(cluster_id):
    return _LB.c.id == sa.select(_CLUSTER.c.load_balancer_id).where(
        _CLUSTER.c.id == cluster_id).scalar_subquery()


def _is_failing_over(cluster_id):
    return sa.exists().where(_CLUSTER.c.id == cluster_id,
                             _CLUSTER.c.is_failing_over)


def _is_replaced(cluster_id):
    """Return the condition of members that a failover has to replace."""
    return sa.and_(_MEMBER.c.cluster_id == cluster_id,
                   _MEMBER.c.slot.is_not(None),
                   _MEMBER.c.ordered == member_repo.REPLACE)


def _enter(connection, cluster_id, status, **values):
    return rows.change(
        connection, _CLUSTER, _CLUSTER.c.id == cluster_id,
        # A deletion of the cluster waits for the claim.
        _CLUSTER.c.provisioning_status != compat.PENDING_DELETE,
        provisioning_status=status, updated_at=types.utcnow(), **values)


def _leave(connection, cluster_id, status, *before):
    """Set the status of a load balancer that had one of these."""
    rows.change(connection, _LB, _is_of(cluster_id),
                _LB.c.provisioning_status.in_(before),
                provisioning_status=status, updated_at=types.utcnow())


@api.transaction
def lock(connection, cluster_id, owner, expiry, status=compat.ACTIVE):
    """Lock the load balancer of a cluster.

    :param status: the status that the load balancer must have, ACTIVE or
                   ERROR.
    :returns: False if the load balancer has another status or is gone.
    :raises Lost: if another owner has claimed the cluster.
    """
    claim_repo.CLAIMS.require(connection, cluster_id, owner, expiry)
    is_locked = _enter(
        connection, cluster_id, compat.PENDING_UPDATE) and rows.change(
        connection, _LB, _is_of(cluster_id), sa.or_(
            _LB.c.provisioning_status == status,
            sa.and_(status == compat.ACTIVE,
                    _LB.c.provisioning_status == compat.PENDING_UPDATE,
                    _is_failing_over(cluster_id))),
        provisioning_status=compat.PENDING_UPDATE,
        updated_at=types.utcnow())
    if not is_locked:
        connection.rollback()
    return is_locked


@api.transaction
def unlock(connection, cluster_id, owner, expiry, status=compat.ACTIVE):
    """Unlock the load balancer of a cluster.

    A load balancer that is not locked, or is to be deleted, stays as it is.
    While its cluster fails over, it stays locked until members are replaced.

    :param status: of both afterwards, ACTIVE or ERROR.
    :raises Lost: if another owner has claimed the cluster.
    """
    claim_repo.CLAIMS.require(connection, cluster_id, owner, expiry)
    before = connection.execute(
        sa.select(_CLUSTER.c.provisioning_status)
        .where(_CLUSTER.c.id == cluster_id)).scalar()
    if status == compat.ACTIVE and connection.execute(
            sa.select(_MEMBER.c.id).where(
                _is_replaced(cluster_id), _is_failing_over(cluster_id))
            .limit(1)).first():
        _enter(connection, cluster_id, status)
        return
    _enter(connection, cluster_id, status, is_failing_over=False)
    _leave(connection, cluster_id, status, compat.PENDING_CREATE,
           compat.PENDING_UPDATE)
    if (before, status) == (compat.PENDING_CREATE, compat.ACTIVE):
        news_repo.add_of_cluster(connection, news_repo.CREATED,
                                 cluster_id)


@api.transaction
def fail_deletion(connection, cluster_id, owner, expiry):
    """Set a load balancer that could not be deleted to ERROR.

    :raises Lost: if another owner has claimed the cluster.
    """
    claim_repo.CLAIMS.require(connection, cluster_id, owner, expiry)
    rows.change(connection, _CLUSTER, _CLUSTER.c.id == cluster_id,
                provisioning_status=compat.ERROR,
                updated_at=types.utcnow())
    _leave(connection, cluster_id, compat.ERROR, compat.PENDING_DELETE)


@api.transaction
def begin_failover(connection, cluster_id, amphora_id):
    """Order what octavia-api has locked the load balancer for.

    The member is replaced by the claim owner, and the load balancer stays
    locked until it is. It is unlocked at once if the member has no slot:
    no connection waits for what comes in its place.

    :returns: whether the load balancer stays locked.
    """
    cluster_repo.mark(connection, cluster_id)
    connection.execute(
        sa.update(_MEMBER)
        .where(_MEMBER.c.cluster_id == cluster_id,
               _MEMBER.c.amphora_id == amphora_id)
        .values(ordered=member_repo.REPLACE))
    is_replaced = connection.execute(
        sa.select(_MEMBER.c.id).where(
            _is_replaced(cluster_id),
            _MEMBER.c.amphora_id == amphora_id)).first() is not None
    if is_replaced:
        rows.change(connection, _CLUSTER, _CLUSTER.c.id == cluster_id,
                    is_failing_over=True)
    else:
        _leave(connection, cluster_id, compat.ACTIVE,
               compat.PENDING_UPDATE)
    return is_replaced


@api.transaction
def fail_failover(connection, cluster_id, owner, expiry):
    """Set a load balancer whose member could not be replaced to ERROR.

    So its client learns it. The order stays, and ends the ERROR when it is
    carried out. Does nothing if the cluster is not failing over.

    :raises Lost: if another owner has claimed the cluster.
    """
    claim_repo.CLAIMS.require(connection, cluster_id, owner, expiry)
    if rows.change(connection, _CLUSTER, _CLUSTER.c.id == cluster_id,
                   _CLUSTER.c.is_failing_over, is_failing_over=False):
        _leave(connection, cluster_id, compat.ERROR,
               compat.PENDING_UPDATE)


@api.transaction
def fail(connection, cluster_id, owner, expiry):
    """Set a load balancer that is ACTIVE, and cannot be mended, to ERROR.

    :raises Lost: if another owner has claimed the cluster.
    """
    claim_repo.CLAIMS.require(connection, cluster_id, owner, expiry)
    _leave(connection, cluster_id, compat.ERROR, compat.ACTIVE)


def get_status(engine, cluster_id):
    """Return the load balancer's provisioning status; None if it is gone."""
    row = rows.read_one(engine, sa.select(_LB.c.provisioning_status).where(
        _is_of(cluster_id)))
    return row and row.provisioning_status
