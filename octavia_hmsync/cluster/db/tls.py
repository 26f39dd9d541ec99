# SPDX-License-Identifier: Apache-2.0

"""Which clusters listen with TLS, and with which amphorae."""

import dataclasses

import sqlalchemy as sa

from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync import compat
from octavia_hmsync.db import models

_CLUSTER = models.Cluster.__table__
_LB = compat.LOAD_BALANCER
_LISTENER = compat.LISTENER
_MEMBER = models.ClusterMember.__table__
_AMPHORA = compat.AMPHORA

# In which nobody changes a load balancer, which serves.
AT_REST = (compat.ACTIVE, compat.ERROR)


@dataclasses.dataclass(frozen=True)
class Cluster:
    """One that does.

    :param id: its id.
    :param load_balancer_id: that of its load balancer.
    """

    id: str
    load_balancer_id: str


def get_all(engine):
    """Return those that nobody changes, by id.

    :param engine: an SQLAlchemy engine.
    :returns: a list of Cluster.
    """
    listens = sa.exists().where(
        _LISTENER.c.load_balancer_id == _LB.c.id,
        _LISTENER.c.protocol == compat.TERMINATED_HTTPS)
    with engine.connect() as connection:
        return [Cluster(*row) for row in connection.execute(
            sa.select(_CLUSTER.c.id, _LB.c.id)
            .join(_LB, _LB.c.id == _CLUSTER.c.load_balancer_id)
            .where(_LB.c.provisioning_status.in_(AT_REST), listens)
            .order_by(_CLUSTER.c.id)).all()]


def get_agents(engine, cluster_id):
    """Return the agents of who serves, or stands by, by slot.

    :param engine: an SQLAlchemy engine.
    :param cluster_id: of which cluster.
    :returns: a list of (id of the amphora, address of its agent).
    """
    with engine.connect() as connection:
        return [tuple(row) for row in connection.execute(
            sa.select(_AMPHORA.c.id, _AMPHORA.c.lb_network_ip)
            .join(_MEMBER, _MEMBER.c.amphora_id == _AMPHORA.c.id)
            .where(_MEMBER.c.cluster_id == cluster_id,
                   _MEMBER.c.state.in_((member_repo.ACTIVE,
                                        member_repo.STANDBY)),
                   _AMPHORA.c.lb_network_ip.is_not(None),
                   _AMPHORA.c.status.not_in(compat.DELETED_STATUSES))
            .order_by(_MEMBER.c.slot.is_(None), _MEMBER.c.slot,
                      _MEMBER.c.id)).all()]
