# SPDX-License-Identifier: Apache-2.0

"""Takes what Octavia was asked to do for members, and cannot: replace them.

'openstack loadbalancer amphora failover' asks a worker of Octavia's, which
knows no clusters: it leaves the amphora and its load balancer in ERROR. The
former is an order, and the latter is over as soon as that is recorded: the
tenant has the load balancer back while others are replaced.
"""

from oslo_log import log as logging

from octavia_hmsync.cluster.db import lock as lock_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster.managers import base
from octavia_hmsync.cluster.managers import situation
from octavia_hmsync.cluster import work as work_
from octavia_hmsync import compat
from octavia_hmsync.compat import cluster as compat_cluster

LOG = logging.getLogger(__name__)


def take(work):
    """Record them as orders, and end the ERROR that they left.

    :param work: a work.Work.
    :returns: False if there are none.
    :raises Lost: if somebody else has claimed the cluster.
    """
    if lock_repo.get_status(work.engine, work.cluster_id) != compat.ERROR:
        return False
    found = situation.read(work.context, work.cluster_id)
    asked = base.find_failovers(found.cluster, found.members) if found else ()
    for member in asked:
        if member_repo.set_order(work.engine, member.id, base.REPLACE):
            LOG.info('Member %s of cluster %s is to be replaced: Octavia was '
                     'asked to fail it over.', member.id, work.cluster_id)
    if not asked or not lock_repo.lock(
            work.engine, work.cluster_id, work.owner, work_.CLAIM_EXPIRY,
            compat.ERROR):
        return False
    amphorae = {member.id: member.amphora_id for member in found.view.members}
    for member in asked:
        # From now on an ERROR is another one.
        compat_cluster.set_amphora_right(amphorae[member.id])
    lock_repo.unlock(work.engine, work.cluster_id, work.owner,
                     work_.CLAIM_EXPIRY)
    return True
