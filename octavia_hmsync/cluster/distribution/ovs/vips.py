# SPDX-License-Identifier: Apache-2.0

"""Puts the VIP of a cluster on distributors, and removes it.

Any process may repeat either after the process that began it has died.
"""

from concurrent import futures

from oslo_log import log as logging

from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import distributor as distributor_repo
from octavia_hmsync.cluster.db import distributor_vip as vip_repo
from octavia_hmsync.cluster.db import instance as booted_repo
from octavia_hmsync.cluster.db import vip as addresses_repo
from octavia_hmsync.cluster.distribution import backend
from octavia_hmsync.cluster.distribution import distributor_status
from octavia_hmsync.cluster.distribution import port_watch
from octavia_hmsync.cluster.distribution import ports as cluster_ports
from octavia_hmsync.cluster.rules import balance
from octavia_hmsync.conf import cluster as cluster_conf
from octavia_hmsync import exceptions

LOG = logging.getLogger(__name__)

# The name of the driver, in octavia.conf and in rows.
DRIVER = 'hmsync_ovs'
# Distributors of a cluster, where there are as many.
NUMBER = 2
_NONE = (f'none of those in [{cluster_conf.GROUP}] distributors answers; see '
         f'"octavia-hmsync distributor list".')


def get_wanted(conf, engine):
    """Return {name: URL} of distributors; raise InvalidConfiguration."""
    return {**{name: cluster_conf.make_url(address) for name, address
               in booted_repo.get_ready(engine).items()},
            **{one.name: one.url
               for one in cluster_conf.get_distributors(conf)}}


class VIPs:
    """Puts VIPs on distributors. Threads may share it."""

    def __init__(self, conf, engine, distributors):
        self._conf = conf
        self._engine = engine
        self._distributors = distributors

    def sync(self):
        """Ensure a row for each configured and each booted distributor.

        :returns: a list of cluster.db.distributor.Distributor.
        :raises InvalidConfiguration: if the option cannot be used.
        """
        return distributor_repo.sync(
            self._engine, DRIVER, get_wanted(self._conf, self._engine))

    def add(self, cluster_id):
        """Put a cluster on two distributors, and tell them.

        A distributor that cannot have it is skipped, as long as another one
        can.
        """
        rows = self.sync()
        self._meet(rows)
        enabled = {row.id for row in rows if row.takes_vips}
        addresses = backend.get_addresses(
            self._engine, backend.get_cluster(self._engine, cluster_id))
        network = self._distributors.ports.get_network(addresses.network_id)
        cluster_ports.check_network(network, addresses.vnic_type)
        vips = vip_repo.get_of_cluster(self._engine, cluster_id)
        port_watch.forget_gone(
            self._engine, vips, self._distributors.ports.read(
                {vip.port_id for vip in vips if vip.port_id}))
        passed_over: set[str] = set()
        while True:
            problems = self._plug_all(cluster_id, network, addresses.subnets,
                                      enabled, passed_over)
            vips = [vip for vip in vip_repo.get_of_cluster(
                self._engine, cluster_id) if vip.port_id]
            if not vips:
                raise exceptions.NoDistributor(
                    f'No distributor can have the cluster {cluster_id}: '
                    f'{"; ".join(problems) or _NONE}')
            if not any(vip.active for vip in vips):
                vip_repo.set_active(self._engine, cluster_id, (
                    balance.choose_first(vips, vip_repo.count_active(
                        self._engine))))
            try:
                return self._distributors.apply(cluster_id)
            except exceptions.NoDistributor:
                # These may have died a moment ago, while others live.
                passed_over |= {vip.distributor_id for vip in vips}
                if not self._can_go_elsewhere(cluster_id, passed_over):
                    raise
                self._leave(cluster_id, vips)

    def _can_go_elsewhere(self, cluster_id, passed_over):
        return not any(
            vip.applied_version is not None for vip in
            vip_repo.get_of_cluster(self._engine, cluster_id)) and bool(
                distributor_repo.choose(self._engine, DRIVER, 1, passed_over))

    def _leave(self, cluster_id, vips):
        """Take a cluster off some distributors, also if they do not answer."""
        for vip in vips:
            self._distributors.ports.delete(cluster_id, vip.distributor_name)
            LOG.info('The cluster %s has left the distributor %s', cluster_id,
                     vip.distributor_name)
        left = self.forget(vips)
        for vip in vips:
            if vip.distributor_name in left:
                # Without its port it gets no traffic.
                vip_repo.delete(self._engine, vip.id)

    def _meet(self, rows):
        """Ask distributors that were never asked."""
        new = [row for row in rows if row.enabled and not row.last_seen]
        if new:
            with futures.ThreadPoolExecutor(min(len(new), 16)) as executor:
                for row, answer in zip(new, executor.map(
                        lambda row: distributor_status.ask(
                            self._distributors.client_of(row.url)), new)):
                    distributor_status.record(self._engine, row, answer)

    def _plug_all(self, cluster_id, network, subnets, enabled, passed_over):
        """Ensure a port on each distributor of a cluster.

        :param enabled: ids of distributors that count.
        :param passed_over: ids of distributors that cannot have it; more are
                            added.
        :returns: what is wrong with distributors that cannot have it.
        """
        problems: list[str] = []
        while True:
            vips = vip_repo.get_of_cluster(self._engine, cluster_id)
            there = {vip.distributor_id for vip in vips}
            chosen = distributor_repo.choose(
                self._engine, DRIVER, max(0, NUMBER - len(there & enabled)),
                there | passed_over)
            for distributor in chosen:
                vip_repo.add(self._engine, cluster_id, distributor.id)
            unplugged = [vip for vip in vip_repo.get_of_cluster(
                self._engine, cluster_id) if not vip.port_id]
            if not unplugged:
                return problems
            for vip in unplugged:
                problem = self._plug(vip, network, subnets)
                if problem:
                    problems.append(problem)
                    passed_over.add(vip.distributor_id)

    def _plug(self, vip, network, subnets):
        """Create the port of one VIP; return what is wrong, or None."""
        try:
            port = self._distributors.ports.ensure(
                vip.cluster_id, vip.distributor_name, network, subnets)
        except exceptions.PortConflict as e:
            LOG.warning('The distributor %s cannot have the cluster %s: %s',
                        vip.distributor_name, vip.cluster_id, e)
            self._distributors.ports.delete(vip.cluster_id,
                                            vip.distributor_name)
            vip_repo.delete(self._engine, vip.id)
            return str(e)
        vip_repo.set_port(self._engine, vip.id, port.id, port.mac, port.mtu,
                          port.addresses)
        return None

    def repair(self, cluster_id):
        """Repair ports of distributors of a cluster that were changed.

        :raises PortConflict, UnknownCluster: if that cannot be done.
        :raises CloudUnavailable, CloudRefused: if Neutron does not do it.
        """
        cluster = backend.get_cluster(self._engine, cluster_id)
        addresses = addresses_repo.get(self._engine, cluster.load_balancer_id)
        if addresses is None:
            return
        network = self._distributors.ports.get_network(addresses.network_id)
        for vip in vip_repo.get_of_cluster(self._engine, cluster_id):
            if vip.port_id:
                self._distributors.ports.ensure(
                    cluster_id, vip.distributor_name, network,
                    addresses.subnets)

    def settle(self, cluster_id, check=lambda: None):
        """Ensure that a cluster is on two distributors of the option.

        :param check: called before each step that waits for Neutron or
                      distributors; what it raises ends the work.
        :raises: as add().
        """
        check()
        self.add(cluster_id)
        check()
        enabled = {row.id for row in self.sync() if row.takes_vips}
        vips = vip_repo.get_of_cluster(self._engine, cluster_id)
        staying = [vip for vip in vips
                   if vip.distributor_id in enabled and vip.port_id]
        leaving = [vip for vip in vips if vip.distributor_id not in enabled]
        if not (staying and leaving):
            return
        if not any(vip.active for vip in staying):
            vip_repo.set_active(self._engine, cluster_id,
                                staying[0].distributor_id)
            if self._distributors.apply(cluster_id).active not in {
                    vip.distributor_name for vip in staying}:
                # The leaving distributor is still needed.
                return
            check()
        self._leave(cluster_id, leaving)

    def remove(self, cluster_id):
        """Remove a cluster from its distributors, and delete its ports.

        Housekeeping tells a distributor that does not answer now; without
        its port it gets no traffic.
        """
        cluster = cluster_repo.get(self._engine, cluster_id)
        vips = vip_repo.get_of_cluster(self._engine, cluster_id)
        version = None
        if cluster is not None and vips:
            # Distributors reject a late request with an older version.
            version = cluster.version + 1
            cluster_repo.raise_version(self._engine, cluster_id,
                                       cluster.version)
        self._distributors.ports.delete(cluster_id)
        return self.forget(vips, version)

    def forget(self, vips, version=None):
        """Tell distributors to forget VIPs, and delete their rows.

        :param vips: VIPs whose ports are deleted.
        :param version: of the deletion; None for any.
        :returns: {name: why} of distributors that are not told yet.
        """
        left: dict[str, str] = {}
        if not vips:
            return left
        clients = [self._distributors.client_of(vip.url) for vip in vips]
        with futures.ThreadPoolExecutor(min(len(vips), 16)) as executor:
            problems = list(executor.map(
                lambda vip, one: _delete(one, vip.cluster_id, version), vips,
                clients))
        for vip, problem in zip(vips, problems):
            if problem:
                left[vip.distributor_name] = problem
                vip_repo.record_error(self._engine, vip.id, problem)
            else:
                vip_repo.delete(self._engine, vip.id)
        if left:
            LOG.info('Distributors are told later that a cluster is gone: %s',
                     '; '.join(left.values()))
        return left


def _delete(distributor, cluster_id, version):
    try:
        distributor.delete_vip(cluster_id, version)
    except exceptions.DistributorError as e:
        return str(e)
    return None
