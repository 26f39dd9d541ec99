# SPDX-License-Identifier: Apache-2.0

"""Brings the rows of a cluster to OVN.

For the driver ``hmsync_ovn`` it is what distributors.Distributors and
vips.VIPs are for ``hmsync_ovs``. One row of a distributor stands for all of
OVN, because all its nodes follow one database.
"""

import dataclasses
import threading

from oslo_log import log as logging

from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import distributor as distributor_repo
from octavia_hmsync.cluster.db import distributor_vip as vip_repo
from octavia_hmsync.cluster.db import front as front_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster.distribution import backend
from octavia_hmsync.cluster.distribution.ovn import connections
from octavia_hmsync.cluster.distribution.ovn import northbound as northbound_
from octavia_hmsync.cluster.distribution.ovn import plan
from octavia_hmsync.cluster.distribution.ovn import ports as ovn_ports
from octavia_hmsync.cluster.distribution import ports as cluster_ports
from octavia_hmsync import exceptions

LOG = logging.getLogger(__name__)

# The name of the driver, in octavia.conf and in rows.
DRIVER = 'hmsync_ovn'
# The distributor that stands for all of OVN.
NAME = 'ovn'
_ATTEMPTS = 12
# States of members that OVN probes.
_PROBED = (member_repo.ACTIVE, member_repo.DRAINING, member_repo.STANDBY)


@dataclasses.dataclass(frozen=True)
class Applied:
    """What OVN was told last of a cluster, and the inputs of that.

    :param source_port_id: of the port from which OVN probes members.
    :param ports: of listeners.
    :param members: {port: id of a member} of the members that OVN probes.
    :param serving: ids of the members that get new connections.
    :param scene: what describe() returned.
    """

    version: int
    network_id: str
    vip_port_id: str
    source_port_id: str
    ports: frozenset[int]
    members: dict[str, str]
    serving: frozenset[str]
    scene: tuple[object, ...]

    @property
    def port_ids(self):
        """All ports whose addresses matter, without that of the VIP."""
        return [self.source_port_id, *self.members]


def describe(scene, addresses):
    """Return the part of a Scene on which a load balancer depends. Pure."""
    return (scene.switch, scene.is_silent, scene.floating, scene.addresses,
            scene.switch and plan.find_places(
                scene.links, scene.switch, addresses))


class Balancers:
    """Tells OVN. Threads may share it.

    :param ports: an ovn.ports.SourcePorts; made here by default.
    """

    def __init__(self, conf, engine, ports=None, northbound=None):
        self._conf = conf
        self._engine = engine
        self.ports = ports or ovn_ports.SourcePorts(conf)
        self.northbound = northbound or northbound_.Northbound(conf)
        self._lock = threading.Lock()
        self._applied: dict[str, tuple[Applied, tuple[str, ...]]] = {}
        # {id of a member: name of its dead node}; replaced as a whole.
        self.on_dead_nodes: dict[str, str] = {}

    def sync(self):
        """Ensure the row of OVN, and return the Distributor."""
        remote = connections.get_remote(self._conf, connections.NORTHBOUND)
        row, = [row for row in distributor_repo.sync(
            self._engine, DRIVER, {NAME: remote[:255]}) if row.name == NAME]
        return row

    def add(self, cluster_id):
        """Make OVN answer for the VIP of a cluster; see backend.Backend."""
        row = self.sync()
        cluster, addresses = self._get(cluster_id)
        self._check(addresses, self.northbound.read(
            addresses.network_id, addresses.port_id, ()), is_silent=True)
        network = self.ports.get_network(addresses.network_id)
        cluster_ports.check_network(network, addresses.vnic_type)
        source = self.ports.ensure_source(cluster_id, network,
                                          addresses.subnets)
        vip = vip_repo.add(self._engine, cluster_id, row.id)
        if vip is None:
            raise exceptions.UnknownCluster(
                f'The cluster {cluster_id} is gone.')
        vip_repo.set_port(self._engine, vip.id, source.id, source.mac,
                          source.mtu)
        vip_repo.set_active(self._engine, cluster_id, row.id)
        # With the port there no port has the VIP as its own address.
        self._check(addresses, self.northbound.read(
            addresses.network_id, addresses.port_id, ()))
        return self.apply(cluster_id)

    def _get(self, cluster_id):
        cluster = backend.get_cluster(self._engine, cluster_id)
        if cluster.distributor != DRIVER:
            raise exceptions.NotPossible(
                f'The cluster {cluster_id} was made with [controller_worker] '
                f'distributor_driver = {cluster.distributor}: set it to that '
                f'again, or delete its load balancer first.')
        return cluster, backend.get_addresses(self._engine, cluster)

    @staticmethod
    def _check(addresses, scene, is_silent=False):
        problem = find_problem(addresses, scene, is_silent)
        if problem:
            raise exceptions.NotPossible(problem)

    def apply(self, cluster_id):
        """Tell OVN what the rows of a cluster say; see backend.Backend."""
        for _attempt in range(_ATTEMPTS):
            cluster, addresses = self._get(cluster_id)
            vip = self._get_vip(cluster_id)
            fronts = front_repo.get_of_cluster(self._engine, cluster_id)
            ports = front_repo.get_listener_ports(
                self._engine, [cluster_id]).get(cluster_id, frozenset())
            again = cluster_repo.get(self._engine, cluster_id)
            if again is None or again.version != cluster.version:
                continue
            try:
                problem = self._tell(cluster, addresses, vip, fronts, ports)
            except exceptions.DistributorRefused as e:
                # OVN has a version that this database has not reached, as
                # after a restore.
                cluster_repo.raise_version(self._engine, cluster_id,
                                           e.in_force)
                continue
            except exceptions.DistributorError as e:
                vip_repo.record_error(self._engine, vip.id, str(e),
                                      cluster.version)
                raise exceptions.NoDistributor(
                    f'OVN did not take the configuration of the cluster '
                    f'{cluster_id}: {e} Traffic goes on as before.') from e
            self._record(cluster, vip, problem)
            return backend.Outcome(
                cluster.version, NAME, {NAME: problem} if problem else {})
        raise exceptions.NoDistributor(
            f'OVN did not take the configuration of the cluster '
            f'{cluster_id}: other processes keep changing it. '
            f'Housekeeping tries it again.')

    def _get_vip(self, cluster_id):
        for vip in vip_repo.get_of_cluster(self._engine, cluster_id):
            if vip.distributor_name == NAME and vip.port_id:
                return vip
        raise exceptions.NoDistributor(
            f'The cluster {cluster_id} is not in OVN yet: its VIP is added '
            f'first.')

    def _tell(self, cluster, addresses, vip, fronts, ports):
        """Tell OVN.

        :returns: what is wrong with the network, or None.
        """
        probed = [front for front in fronts if front.state in _PROBED]
        scene = self.northbound.read(
            addresses.network_id, addresses.port_id,
            [vip.port_id, *(front.port_id for front in probed)])
        texts = list(addresses.subnets)
        places = plan.find_places(scene.links, scene.switch, texts)
        source = next((text for text in scene.addresses.get(vip.port_id, ())
                       if ':' not in text), None)
        backends = {front.member_id: plan.Backend(
            front.member_id, front.port_id, scene.addresses[front.port_id])
            for front in probed if front.port_id in scene.addresses}
        serving = [backends[front.member_id] for front in probed
                   if front.member_id in backends and
                   front.slot is not None and
                   front.state == member_repo.ACTIVE]
        main = plan.make(cluster.id, cluster.version, cluster.affinity,
                         [*texts, *([scene.floating] if scene.floating
                                    else [])], serving, ports, source)
        probe = plan.make_probe(cluster.id, cluster.version, backends.values(),
                                ports, source)
        if self.northbound.apply(cluster.id, cluster.version,
                                 [(main, places), (probe, None)]):
            LOG.info('OVN has version %d of the cluster %s: %d members, %d '
                     'switches, %d routers', cluster.version, cluster.id,
                     len(serving), len(places.switches), len(places.routers))
        with self._lock:
            self._applied[cluster.id] = (Applied(
                cluster.version, addresses.network_id, addresses.port_id,
                vip.port_id, ports,
                {front.port_id: front.member_id for front in probed},
                frozenset(one.member_id for one in serving),
                describe(scene, texts)), tuple(texts))
        return find_problem(addresses, scene)

    def _record(self, cluster, vip, problem):
        vip_repo.record_applied(self._engine, vip.id, cluster.version, True)
        if problem:
            vip_repo.record_error(self._engine, vip.id, problem)
            if problem != vip.error:
                LOG.warning('The cluster %s is not reached by all its '
                            'clients: %s', cluster.id, problem)

    def remove(self, cluster_id):
        """Remove a cluster from OVN, with its port; see backend.Backend."""
        with self._lock:
            self._applied.pop(cluster_id, None)
        vips = [vip for vip in vip_repo.get_of_cluster(
            self._engine, cluster_id) if vip.distributor_name == NAME]
        # The port first: housekeeping finds again what is left in OVN.
        self.ports.delete(cluster_id)
        left = {}
        try:
            self.northbound.remove(cluster_id)
        except exceptions.DistributorError as e:
            left[NAME] = str(e)
            LOG.info('The cluster %s is taken out of OVN later: %s',
                     cluster_id, e)
        for vip in vips:
            if left:
                vip_repo.record_error(self._engine, vip.id, left[NAME])
            else:
                vip_repo.delete(self._engine, vip.id)
        return left

    def get_applied(self):
        """Return {id of a cluster: (Applied, addresses)} of this process."""
        with self._lock:
            return dict(self._applied)

    def forget(self, cluster_ids):
        """Forget clusters that other processes have removed."""
        with self._lock:
            for cluster_id in cluster_ids:
                self._applied.pop(cluster_id, None)


def find_problem(addresses, scene, is_silent=False):
    """Return why OVN's load balancer cannot work in a network. Pure.

    :param addresses: a cluster.db.vip.Addresses.
    :param is_silent: whether to skip the check that no port has the VIP as
                      its own address.
    :returns: one line that says what to do, or None.
    """
    if scene.switch is None:
        return (f'OVN has no network {addresses.network_id}: the driver '
                f'{DRIVER} needs Neutron with ML2/OVN, and [ovn] '
                f'ovn_nb_connection that is Neutron\'s.')
    if not (is_silent or scene.is_silent):
        return (f'The VIP\'s port {addresses.port_id} has its address for '
                f'itself in OVN, so that clients of its own subnet would not '
                f'come to the cluster: the port may be bound to no host, and '
                f'no other port may have the VIP\'s address.')
    places = plan.find_places(scene.links, scene.switch,
                              addresses.subnets)
    if places.unrouted:
        subnets = sorted({addresses.subnets[text] or text
                          for text in places.unrouted})
        return (f'No router is in the subnet {", ".join(subnets)} of the '
                f'VIP: in OVN the router answers for the VIP of a cluster, '
                f'also to clients of the same subnet. Add the subnet to a '
                f'router, or choose another one.')
    return None
