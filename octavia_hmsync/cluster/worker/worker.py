# SPDX-License-Identifier: Apache-2.0

"""Carries out the requests of octavia-api, from what the database has.

A late or repeated message finds a claimed cluster, or a load balancer in
another state, and changes nothing.
"""

import time

from oslo_log import log as logging
from oslo_utils import uuidutils

from octavia_hmsync.cluster.api import readiness
from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import lock as lock_repo
from octavia_hmsync.cluster.distribution import distribution
from octavia_hmsync.cluster.rules import flavor as flavors
from octavia_hmsync.cluster.rules import sizes
from octavia_hmsync.cluster import work as work_
from octavia_hmsync.cluster.worker import flows
from octavia_hmsync.cluster.worker import tasks
from octavia_hmsync import compat
from octavia_hmsync.compat import amphora as compat_amphora
from octavia_hmsync.compat import cluster as compat_cluster
from octavia_hmsync.conf import cluster as cluster_conf
from octavia_hmsync import exceptions

LOG = logging.getLogger(__name__)

# Seconds: octavia-api commits after it has sent the message.
_PATIENCE = 60
_PAUSE = 0.5

# Inputs that building flows provide themselves.
PROVIDED = (compat_cluster.VIP, distribution.DISTRIBUTOR_ID)


class Worker:
    """Creates, deletes and replaces load balancers on clusters."""

    def __init__(self, conf):
        self._conf = conf
        self._run = compat_cluster.make_runner()

    def create(self, load_balancer_id, flavor):
        """Build a load balancer.

        :param load_balancer_id: its row exists, or will soon.
        :param flavor: a dict, with the sizes that octavia-api has chosen.
        """
        _, cluster = self._take(load_balancer_id, compat.PENDING_CREATE,
                                flavor)
        if cluster is not None:
            self._carry_out('create', load_balancer_id, cluster,
                            flows.get_create_load_balancer_flow,
                            without=PROVIDED)

    def delete(self, load_balancer_id):
        """Delete a load balancer with all that belongs to it."""
        load_balancer, cluster = self._take(load_balancer_id,
                                            compat.PENDING_DELETE)
        if cluster is None:
            return
        # The claim owner sees this status and releases the cluster.
        cluster_repo.set_status(work_.get_context().engine, cluster.id,
                                compat.PENDING_DELETE)
        listeners, pools = compat_cluster.describe_children(load_balancer)
        self._carry_out(
            'delete', load_balancer_id, cluster,
            flows.get_delete_load_balancer_flow,
            compat_cluster.describe_load_balancer(load_balancer), listeners,
            pools, **compat_cluster.make_deletion_store(load_balancer))

    def failover(self, load_balancer_id):
        """Replace each amphora of a load balancer."""
        _, cluster = self._take(load_balancer_id, compat.PENDING_UPDATE)
        if cluster is not None:
            self._carry_out('failover', load_balancer_id, cluster,
                            flows.get_failover_load_balancer_flow,
                            without=PROVIDED)

    def failover_amphora(self, amphora_id):
        """Order that an amphora be replaced, if it is a member.

        Its load balancer stays PENDING_UPDATE until it is.

        :returns: False if it belongs to no cluster.
        """
        amphora = compat_cluster.get_amphora(amphora_id)
        if amphora is None or amphora.role != compat.ROLE_IN_CLUSTER:
            return False
        load_balancer_id = amphora.load_balancer_id
        load_balancer, cluster = self._take(load_balancer_id,
                                            compat.PENDING_UPDATE)
        if load_balancer is None:
            return True
        if cluster is not None and lock_repo.begin_failover(
                work_.get_context().engine, cluster.id, amphora_id):
            LOG.info('Amphora %s of load balancer %s is to be replaced.',
                     amphora_id, load_balancer_id)
        else:
            LOG.info('Amphora %s of load balancer %s has no slot: the load '
                     'balancer does not wait until it is replaced.',
                     amphora_id, load_balancer_id)
        return True

    def _take(self, load_balancer_id, status, flavor=None):
        """Wait for a load balancer, and ensure its cluster.

        :returns: both; None for what is not there.
        """
        load_balancer = self._wait_for(load_balancer_id, status)
        return load_balancer, load_balancer and ensure_cluster(
            self._conf, load_balancer, flavor or {})

    @staticmethod
    def _wait_for(load_balancer_id, status):
        """Wait until a load balancer is in a status.

        :returns: Octavia's data model of it; None after too long.
        """
        deadline = time.monotonic() + _PATIENCE
        while True:
            found = compat_amphora.get_load_balancer(load_balancer_id)
            if found is not None and found.provisioning_status == status:
                return found
            if time.monotonic() >= deadline:
                LOG.warning('Load balancer %s is not %s: what octavia-api '
                            'asked for is not done.', load_balancer_id,
                            status)
                return None
            time.sleep(_PAUSE)

    def _carry_out(self, what, load_balancer_id, cluster, factory, *args,
                   without=(), **store):
        load_balancer = compat_amphora.get_load_balancer(load_balancer_id)
        store = {**make_store(cluster, load_balancer), **store}
        for name in without:
            del store[name]
        try:
            self._run(factory, *args, store=store)
        except exceptions.Interrupted as e:
            LOG.info('Load balancer %s, %s: is left to another process: %s.',
                     load_balancer_id, what, type(e).__name__)
            return
        except Exception as e:
            problem = compat_cluster.describe_failure(e)
            LOG.debug('The flow failed:', exc_info=True)
            LOG.error('Load balancer %s, %s: %s.', load_balancer_id, what,
                      problem)
            return
        LOG.info('Load balancer %s, %s: done.', load_balancer_id, what)


def make_store(cluster, load_balancer):
    """Return the store of a flow of a cluster."""
    return {**distribution.make_store(cluster, load_balancer),
            tasks.CLUSTER_ID: cluster.id,
            compat_cluster.LOADBALANCER_ID: load_balancer.id}


def ensure_cluster(conf, load_balancer, flavor):
    """Ensure that a load balancer has a cluster.

    :param load_balancer: from compat.amphora.get_load_balancer().
    :param flavor: its sizes, if the cluster is new.
    :returns: the Cluster; None if it cannot have one and is set to ERROR.
    """
    engine = work_.get_context().engine
    found = cluster_repo.get_by_load_balancer(engine, load_balancer.id)
    if found is not None:
        # Options that have changed since do not matter.
        return found
    try:
        size = sizes.resolve(flavor, readiness.get_defaults(conf))
    except sizes.Refused as e:
        LOG.error('Load balancer %s cannot be built: %s.', load_balancer.id,
                  e.operator.rstrip('.'))
        compat_cluster.update_load_balancer(
            load_balancer.id, provisioning_status=compat.ERROR)
        return None
    compat_cluster.update_load_balancer(
        load_balancer.id, topology=compat.TOPOLOGY_ACTIVE_ACTIVE)
    options = conf[cluster_conf.GROUP]
    cluster_repo.add(engine, cluster_repo.New(
        uuidutils.generate_uuid(), load_balancer.id,
        load_balancer.name or load_balancer.id, size.desired, size.minimum,
        conf.controller_worker.distributor_driver,
        sizes.choose_affinity(size.affinity, load_balancer.pools),
        options.peer_group_size, options.cooldown, options.standby,
        load_balancer.enabled,
        flavor.get(flavors.MANAGER, options.cluster_manager)))
    found = cluster_repo.get_by_load_balancer(engine, load_balancer.id)
    if found is None:
        raise exceptions.NotPossible(
            f'The cluster of load balancer {load_balancer.id} is gone.')
    return found
