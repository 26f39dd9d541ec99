# SPDX-License-Identifier: Apache-2.0

"""Runs subflows of the distributor driver by themselves.

The subflows are Octavia's interface (octavia.distributor.drivers).
"""

from oslo_log import log as logging
from taskflow.patterns import linear_flow

from octavia_hmsync.cluster.distribution import backends
from octavia_hmsync import compat
from octavia_hmsync.compat import amphora as compat_amphora
from octavia_hmsync.compat import cluster as compat_cluster
from octavia_hmsync import exceptions

LOG = logging.getLogger(__name__)

# Names in the stores of subflows, by Octavia's abstract class.
DISTRIBUTOR_ID = 'distributor_id'
LOAD_BALANCER = 'load_balancer'
VIP_ALGORITHM = 'vip_alg'
VIP_PERSISTENCE = 'vip_persistence'
AMPHORAE = compat_cluster.AMPHORAE

HASH = 'HASH'

# Inputs for which Octavia's load balancer must be read.
_OF_LOAD_BALANCER = frozenset((LOAD_BALANCER, compat_cluster.VIP))


def make_store(cluster, load_balancer):
    """Return the store for subflows of a driver.

    :param load_balancer: from compat.amphora.get_load_balancer(); None if it
                          is gone.
    """
    store = {DISTRIBUTOR_ID: cluster.id, VIP_ALGORITHM: HASH,
             VIP_PERSISTENCE: cluster.affinity, LOAD_BALANCER: {},
             compat_cluster.VIP: {}}
    if load_balancer is not None:
        store[LOAD_BALANCER] = compat_cluster.describe_load_balancer(
            load_balancer)
        store[compat_cluster.VIP] = load_balancer.vip.to_dict()
    return store


def describe(members):
    """Return the amphorae of some members as subflows take them."""
    return [{'id': member.amphora_id} for member in members]


def load_driver():
    """Load the distributor driver that octavia.conf names.

    :raises InvalidConfiguration: with what to do, if it is none of ours: a
                                  foreign driver could not tell which members
                                  there are, and all would be deleted.
    """
    problem = backends.find_problem(compat.CONF)
    if problem:
        raise exceptions.InvalidConfiguration(problem)
    return compat_cluster.load_distributor_driver()


def prepare():
    """Load what run() needs: it takes a second, and may be urgent later.

    Errors are raised when run() is called.
    """
    try:
        load_driver()
        compat_cluster.run(linear_flow.Flow('octavia-hmsync-prepare'), {})
    except Exception as e:
        LOG.debug('The distributor driver is not loaded yet: %r', e)


def run(work, name, members=()):
    """Run a subflow of the driver by itself.

    :param name: the middle of its name, such as ``remove_vip``.
    :param members: the Members to pass as amphorae.
    :raises DistributorError: with the reason, if it fails.
    :raises InvalidConfiguration: as load_driver().
    """
    driver = load_driver()
    subflow = getattr(driver, f'get_{name}_subflow')()
    if subflow is None:
        return
    flow = linear_flow.Flow(f'octavia-hmsync-{name}').add(subflow)
    cluster = work.read()
    # Only what is needed is read: clients of a dead member wait meanwhile.
    store = make_store(cluster, compat_amphora.get_load_balancer(
        cluster.load_balancer_id) if _OF_LOAD_BALANCER & flow.requires
        else None)
    store[AMPHORAE] = describe(members)
    store = {key: value for key, value in store.items()
             if key in flow.requires}
    try:
        compat_cluster.run(flow, store)
    except (exceptions.HMSyncException, exceptions.Interrupted):
        raise
    except Exception as e:
        raise exceptions.DistributorError(
            f'The distributors of cluster {work.cluster_id} could not be '
            f'told ({name}): {compat_cluster.describe_failure(e)}.') from e
