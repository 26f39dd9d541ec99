# SPDX-License-Identifier: Apache-2.0

"""What the Octavia API shows of a load balancer that has a cluster.

Each heartbeat says that its load balancer is as well as what the amphora that
sent it sees, which knows nothing of the others. So the status of the cluster
is a floor: what is worse than it stays, what is better is not written.
"""

import sqlalchemy as sa

from octavia_hmsync import compat
from octavia_hmsync.db import api
from octavia_hmsync.db import models

_CLUSTER = models.Cluster.__table__
_LB = compat.LOAD_BALANCER

# What a cluster says, and what its load balancer must not show then.
_BETTER = {
    compat.DEGRADED: (compat.ONLINE,),
    compat.ERROR: (compat.ONLINE, compat.DEGRADED),
}


def floor(status, cluster_status):
    """Return what a load balancer shows.

    :param status: what an amphora's heartbeat says of it.
    :param cluster_status: operating_status of its cluster.
    """
    return (cluster_status if status in _BETTER.get(cluster_status, ())
            else status)


def select(table, whereclause):
    """Return the query for what is shown, and what the cluster has.

    :param table: Octavia's of load balancers, as whereclause has it.
    :param whereclause: which load balancer.
    """
    return (sa.select(table.c.operating_status,
                      _CLUSTER.c.operating_status.label('cluster_status'))
            .select_from(table)
            .join(_CLUSTER, _CLUSTER.c.load_balancer_id == table.c.id)
            .where(whereclause))


@api.retry
def lower(engine):
    """Have load balancers show no more than their clusters have.

    Nothing raises them here: the next heartbeat does.

    :param engine: an SQLAlchemy engine.
    :returns: {id of a load balancer: what it shows from now on}.
    """
    with engine.connect() as connection:
        # Those that are well, nearly all, cost a row of ours and no more.
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
    # Of one whose amphorae are all gone nobody else says that.
    return (compat.OFFLINE if cluster_status == compat.OFFLINE else
            row.operating_status)
