# SPDX-License-Identifier: Apache-2.0

"""What distributes connections to clusters, as the rest of the plugin uses it.

Two packages beside this module implement it: ovs tells distributors in Open
vSwitch by their REST API, ovn tells OVN by its northbound database. The option
``[controller_worker] distributor_driver`` chooses one, see backends.
"""

from concurrent import futures
import dataclasses
import typing

from oslo_log import log as logging

from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import vip as addresses_repo
from octavia_hmsync import exceptions

LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The result of telling the distributors of a cluster.

    :param version: in force at the active one.
    :param active: the name of the active one.
    :param problems: {name: why} of others that lack it; housekeeping tells
                     them.
    """

    version: int
    active: str
    problems: dict[str, str]


@dataclasses.dataclass(frozen=True)
class Report:
    """The result of a round.

    :param problems: {name of a distributor: why it does not count}.
    :param told: the number of clusters whose distributors were told.
    :param failed: {id of a cluster: why its distributors were not told}.
    :param full: {name of a distributor: whether its table of connections is
                 full}, of the distributors that report it.
    :param repairs: {what, see port_watch: how often it was repaired}.
    """

    problems: dict[str, str]
    told: int
    failed: dict[str, str]
    full: dict[str, bool] = dataclasses.field(default_factory=dict)
    repairs: dict[str, int] = dataclasses.field(default_factory=dict)


class Watch(typing.Protocol):
    """Keeps what distributes at what rows say; housekeeping runs it."""

    def run_once(self) -> Report:
        """Tell of missed changes, and repair what was changed from outside.

        A distributor that does not answer is in the report.

        :raises InvalidConfiguration: if an option or a file that it names
                                      cannot be used.
        """


class ProbeWatch(typing.Protocol):
    """Records the results of probes of members, in threads of its own."""

    def run_once(self) -> None:
        """Ensure the threads."""

    def stop(self, timeout: float = 0) -> None:
        """End the threads.

        :param timeout: seconds to wait for them.
        """


class Backend(typing.Protocol):
    """Distributes new connections of a cluster to its members.

    What rows say counts: callers change rows, and call it then. Each call may
    be repeated, by another process, too. Threads may share it.
    """

    def sync(self) -> typing.Any:
        """Ensure a row for each distributor that is configured."""

    def add(self, cluster_id: str) -> Outcome:
        """Answer for the VIP of a cluster, and apply().

        :raises NotPossible: if the network of the VIP cannot have it, and why.
        :raises NoDistributor: if no distributor can have it, and why.
        :raises DistributorUnreachable: if OVN does not answer.
        :raises CloudUnavailable: if Neutron does not answer.
        :raises CloudRefused: if Neutron rejects a request.
        """

    def apply(self, cluster_id: str) -> Outcome:
        """Put in force what the rows of a cluster say.

        :raises UnknownCluster: if it is gone.
        :raises NoDistributor: if none took it: rows stay as they are, and the
                               watch goes on.
        """

    def remove(self, cluster_id: str) -> dict[str, str]:
        """Answer for the VIP of a cluster no more, and delete its ports.

        :param cluster_id: its row may be gone.
        :returns: {name: why} of distributors that the watch tells later.
        :raises CloudUnavailable: if Neutron does not answer.
        :raises CloudRefused: if Neutron rejects a request.
        """

    def make_watch(self) -> Watch:
        """Make the Watch of a process."""

    def make_probe_watch(self, wake: typing.Callable[[], None]) -> ProbeWatch:
        """Make the ProbeWatch of a process.

        :param wake: called when a result changed.
        """


def get_cluster(engine, cluster_id):
    """Return a Cluster; raise UnknownCluster if it is gone."""
    cluster = cluster_repo.get(engine, cluster_id)
    if cluster is None:
        raise exceptions.UnknownCluster(f'The cluster {cluster_id} is gone.')
    return cluster


def get_addresses(engine, cluster):
    """Return the Addresses of a cluster; raise NotPossible if it has none."""
    addresses = addresses_repo.get(engine, cluster.load_balancer_id)
    if addresses is None:
        raise exceptions.NotPossible(
            f'The load balancer {cluster.load_balancer_id} has no address '
            f'yet.')
    return addresses


def tell(backend, cluster_ids, at_once):
    """Tell the distributors of clusters what they are to know.

    :param at_once: the number of clusters at the same time.
    :returns: {id of a cluster: why that was not possible}.
    """
    def apply(cluster_id):
        try:
            backend.apply(cluster_id)
        except exceptions.UnknownCluster:
            return None
        except exceptions.HMSyncException as e:
            LOG.info('Cluster %s: %s', cluster_id, e)
            return str(e)
        return None

    if not cluster_ids:
        return {}
    with futures.ThreadPoolExecutor(
            min(len(cluster_ids), at_once)) as executor:
        return {cluster_id: problem for cluster_id, problem
                in zip(cluster_ids, executor.map(apply, cluster_ids))
                if problem}
