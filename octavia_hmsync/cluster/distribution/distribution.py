# SPDX-License-Identifier: Apache-2.0

"""What is asked of the distributor driver, beside flows of which it is part.

Its subflows are Octavia's interface (octavia.distributor.drivers): here one
is run by itself.
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

# Of what is read of Octavia's load balancer, with all that belongs to it.
_OF_LOAD_BALANCER = frozenset((LOAD_BALANCER, compat_cluster.VIP))


def make_store(cluster, load_balancer):
    """Return what subflows of a driver are given.

    :param cluster: a Cluster.
    :param load_balancer: of compat.amphora.get_load_balancer(); None if it
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
    """Return what subflows take for the amphorae of some members."""
    return [{'id': member.amphora_id} for member in members]


def load_driver():
    """Load the distributor driver that octavia.conf names.

    :raises InvalidConfiguration: with what to do, if it is none of ours: it
                                  could not tell which members there are, and
                                  all of them would be deleted.
    """
    problem = backends.find_problem(compat.CONF)
    if problem:
        raise exceptions.InvalidConfiguration(problem)
    return compat_cluster.load_distributor_driver()


def prepare():
    """Load what run() needs: it takes a second, and may be urgent later.

    What is wrong is said when it is needed.
    """
    try:
        load_driver()
        compat_cluster.run(linear_flow.Flow('octavia-hmsync-prepare'), {})
    except Exception as e:
        LOG.debug('The distributor driver is not loaded yet: %r', e)


def run(work, name, members=()):
    """Run a subflow of the driver by itself.

    :param work: a Work.
    :param name: of it, as in ``get_remove_vip_subflow``.
    :param members: Members that it is about.
    :raises DistributorError: with the reason, if it is not done.
    :raises InvalidConfiguration: as load_driver().
    """
    driver = load_driver()
    subflow = getattr(driver, f'get_{name}_subflow')()
    if subflow is None:
        return
    flow = linear_flow.Flow(f'octavia-hmsync-{name}').add(subflow)
    cluster = work.read()
    # Clients wait meanwhile for a member that is dead: nothing is read that
    # nobody needs.
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
