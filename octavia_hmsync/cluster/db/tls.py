# SPDX-License-Identifier: Apache-2.0

"""Which clusters terminate TLS, and their amphorae."""

import dataclasses

import sqlalchemy as sa

from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync import compat
from octavia_hmsync.db import models
from octavia_hmsync.db import rows

_CLUSTER = models.Cluster.__table__
_LB = compat.LOAD_BALANCER
_LISTENER = compat.LISTENER
_MEMBER = models.ClusterMember.__table__
_AMPHORA = compat.AMPHORA

# Statuses of a load balancer that is not being changed, built or deleted.
AT_REST = (compat.ACTIVE, compat.ERROR)


@dataclasses.dataclass(frozen=True)
class Cluster:
    """A cluster that terminates TLS."""

    id: str
    load_balancer_id: str


def get_all(engine):
    """Return the Clusters that are not being changed, by id."""
    listens = sa.exists().where(
        _LISTENER.c.load_balancer_id == _LB.c.id,
        _LISTENER.c.protocol == compat.TERMINATED_HTTPS)
    return [Cluster(*row) for row in rows.read(
        engine, sa.select(_CLUSTER.c.id, _LB.c.id)
        .join(_LB, _LB.c.id == _CLUSTER.c.load_balancer_id)
        .where(_LB.c.provisioning_status.in_(AT_REST), listens)
        .order_by(_CLUSTER.c.id))]


def get_agents(engine, cluster_id):
    """Return [(id of an amphora, address of its agent)] by slot.

    Of members that are ACTIVE or STANDBY.
    """
    return [tuple(row) for row in rows.read(
        engine, sa.select(_AMPHORA.c.id, _AMPHORA.c.lb_network_ip)
        .join(_MEMBER, _MEMBER.c.amphora_id == _AMPHORA.c.id)
        .where(_MEMBER.c.cluster_id == cluster_id,
               _MEMBER.c.state.in_((member_repo.ACTIVE, member_repo.STANDBY)),
               _AMPHORA.c.lb_network_ip.is_not(None),
               _AMPHORA.c.status.not_in(compat.DELETED_STATUSES))
        .order_by(_MEMBER.c.slot.is_(None), _MEMBER.c.slot, _MEMBER.c.id))]
