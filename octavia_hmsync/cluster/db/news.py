# SPDX-License-Identifier: Apache-2.0

"""Events of clusters and distributors to notify of; see db.news."""

import sqlalchemy as sa

from octavia_hmsync import compat
from octavia_hmsync.db import models
from octavia_hmsync.db import news

_CLUSTER = models.Cluster.__table__
_MEMBER = models.ClusterMember.__table__

CREATED = 'cluster.created'
# The kind of the payload is that of the status.
STATUS = 'cluster.status'
VIP_MOVED = 'cluster.vip_moved'
MEMBER_ADDED = 'cluster_member.added'
MEMBER_DRAINED = 'cluster_member.drained'
MEMBER_DEAD = 'cluster_member.dead'
MEMBER_REPLACED = 'cluster_member.replaced'
DISTRIBUTOR_UP = 'distributor.up'
DISTRIBUTOR_DOWN = 'distributor.down'

# While a cluster is built or deleted, its members' events are not announced.
_UNTOLD = (compat.PENDING_CREATE, compat.PENDING_DELETE)


def add_of_cluster(connection, kind, cluster_id, **body):
    """Record an event, with the facts of its cluster."""
    row = connection.execute(
        sa.select(_CLUSTER).where(_CLUSTER.c.id == cluster_id)).first()
    if row is None or (row.provisioning_status in _UNTOLD and
                       kind != CREATED):
        return
    body = {'cluster_id': cluster_id,
            'load_balancer_id': row.load_balancer_id, **body}
    if kind in (CREATED, STATUS):
        if kind == STATUS:
            kind = f'cluster.{row.operating_status.lower()}'
        body.update(
            status=row.operating_status, desired_size=row.desired_size,
            min_size=row.min_size, active=connection.execute(
                sa.select(sa.func.count()).select_from(_MEMBER)
                .where(_MEMBER.c.cluster_id == cluster_id,
                       _MEMBER.c.state == 'ACTIVE',
                       _MEMBER.c.slot.is_not(None))).scalar())
    news.add(connection, kind, **body)
