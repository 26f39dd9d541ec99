# SPDX-License-Identifier: Apache-2.0

"""Turns failovers of amphorae, which Octavia cannot do, into orders.

'openstack loadbalancer amphora failover' goes to a worker of Octavia's, which
knows no clusters: it leaves the amphora and its load balancer in ERROR. Here
the amphora becomes an order, and the load balancer ACTIVE at once: the tenant
can use it while members are replaced.
"""

from oslo_log import log as logging

from octavia_hmsync.cluster.db import lock as lock_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster.managers import base
from octavia_hmsync.cluster.managers import situation
from octavia_hmsync import compat
from octavia_hmsync.compat import cluster as compat_cluster

LOG = logging.getLogger(__name__)


def take(work):
    """Record failovers as orders, and end the ERROR that they left.

    :returns: False if there are none.
    :raises Lost: if another process has claimed the cluster.
    """
    if lock_repo.get_status(work.engine, work.cluster_id) != compat.ERROR:
        return False
    found = situation.read(work.context, work.cluster_id)
    asked = base.find_failovers(found.cluster, found.members) if found else ()
    for member in asked:
        if member_repo.set_order(work.engine, member.id, base.REPLACE):
            LOG.info('Member %s of cluster %s is to be replaced: Octavia was '
                     'asked to fail it over.', member.id, work.cluster_id)
    if not asked or not work.lock(compat.ERROR):
        return False
    amphorae = {member.id: member.amphora_id for member in found.view.members}
    for member in asked:
        # A later ERROR is then a new failover.
        compat_cluster.set_amphora_right(amphorae[member.id])
    work.unlock()
    return True
