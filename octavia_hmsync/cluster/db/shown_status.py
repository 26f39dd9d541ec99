# SPDX-License-Identifier: Apache-2.0

"""The status that the Octavia API shows of a load balancer with a cluster.

Each heartbeat sets the status of its load balancer to what one amphora sees,
which does not know the others. So the status of the cluster is a limit: a
worse status stays, a better status is not written.
"""

import sqlalchemy as sa

from octavia_hmsync import compat
from octavia_hmsync.db import api
from octavia_hmsync.db import models

_CLUSTER = models.Cluster.__table__
_LB = compat.LOAD_BALANCER

# By status of the cluster: which statuses its load balancer must not show.
_BETTER = {
    compat.DEGRADED: (compat.ONLINE,),
    compat.ERROR: (compat.ONLINE, compat.DEGRADED),
}


def floor(status, cluster_status):
    """Return the status that a load balancer may show.

    :param status: from an amphora's heartbeat.
    :param cluster_status: operating_status of its cluster.
    """
    return (cluster_status if status in _BETTER.get(cluster_status, ())
            else status)


def select(table, whereclause):
    """Return the query for the statuses of a load balancer and its cluster.

    :param table: Octavia's table of load balancers, as in whereclause.
    """
    return (sa.select(table.c.operating_status,
                      _CLUSTER.c.operating_status.label('cluster_status'))
            .select_from(table)
            .join(_CLUSTER, _CLUSTER.c.load_balancer_id == table.c.id)
            .where(whereclause))


@api.retry
def lower(engine):
    """Lower the status of load balancers to that of their clusters.

    The next heartbeat raises it again when the cluster is better.

    :returns: {id of a changed load balancer: its new status}.
    """
    with engine.connect() as connection:
        # Healthy clusters, nearly all, cost one row each.
        clusters = dict(connection.execute(
            sa.select(_CLUSTER.c.load_balancer_id,
                      _CLUSTER.c.operating_status)
            .where(_CLUSTER.c.operating_status.in_(
                (*_BETTER, compat.OFFLINE)))).all())
        found = connection.execute(
            sa.select(_LB.c.id, _LB.c.operating_status, _LB.c.enabled)
            .where(_LB.c.id.in_(clusters))).all() if clusters else []
    lowered = {}
    for row in found:
        shown = _find_shown(row, clusters[row.id])
        if shown == row.operating_status:
            continue
        with engine.begin() as connection:
            if connection.execute(
                    sa.update(_LB)
                    .where(_LB.c.id == row.id,
                           _LB.c.operating_status == row.operating_status)
                    .values(operating_status=shown)).rowcount:
                lowered[row.id] = shown
    return lowered


def _find_shown(row, cluster_status):
    if row.enabled:
        return floor(row.operating_status, cluster_status)
    # Without amphorae no heartbeat sets a disabled load balancer to OFFLINE.
    return (compat.OFFLINE if cluster_status == compat.OFFLINE else
            row.operating_status)
