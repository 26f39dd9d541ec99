# SPDX-License-Identifier: Apache-2.0

"""The RPC methods for octavia-api, in octavia-workers."""

from oslo_log import log as logging

from octavia_hmsync.cluster.api import topics
from octavia_hmsync.cluster.worker import worker
from octavia_hmsync.compat import cluster as compat_cluster

LOG = logging.getLogger(__name__)


class Endpoints:
    """Creates, deletes and replaces load balancers on clusters.

    Messages are acknowledged first: what is lost with a dead worker,
    housekeeping finds in the database.
    """

    target = compat_cluster.make_target(topics.NAMESPACE, topics.VERSION)

    def __init__(self, conf):
        self._worker = worker.Worker(conf)
        compat_cluster.take_amphora_failovers(self._worker.failover_amphora)

    def create_load_balancer(self, context, load_balancer_id, flavor,
                             availability_zone):
        """Build a load balancer; its row exists, or will soon."""
        LOG.info('Creating load balancer %s on a cluster.', load_balancer_id)
        self._worker.create(load_balancer_id, flavor)

    def delete_load_balancer(self, context, load_balancer_id, cascade):
        """Delete a load balancer with all that belongs to it.

        Without ``cascade`` octavia-api has checked that it has no children.
        """
        LOG.info('Deleting load balancer %s and its cluster.',
                 load_balancer_id)
        self._worker.delete(load_balancer_id)

    def failover_load_balancer(self, context, load_balancer_id):
        """Replace each amphora of a load balancer, one after the other."""
        LOG.info('Replacing the amphorae of load balancer %s.',
                 load_balancer_id)
        self._worker.failover(load_balancer_id)
