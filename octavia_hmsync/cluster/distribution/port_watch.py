# SPDX-License-Identifier: Apache-2.0

"""Repairs ports in Neutron that were deleted or changed.

The owner of a network may delete any port in it, and change its address pairs
and security groups; clean-up scripts do so. A distributor gets a new port. A
member without its port has no front end any more, and is replaced.
"""

import collections
from collections import abc
import dataclasses
import ipaddress
import typing

from oslo_log import log as logging

from octavia_hmsync.cluster.db import distributor_vip as vip_repo
from octavia_hmsync.cluster.db import front as front_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync import exceptions

LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Change:
    """What a port lacks.

    :param pairs: address pairs to add.
    :param groups: ids of its security groups; None to keep them.
    """

    pairs: tuple[str, ...] = ()
    groups: tuple[str, ...] | None = None

    def __bool__(self) -> bool:
        return bool(self.pairs or self.groups)


def find_changes(ports: abc.Mapping[str, typing.Any],
                 addresses: abc.Iterable[str]) -> dict[str, Change]:
    """Return the changes that ports of a cluster's members need. Pure.

    The security groups that most of the ports have are taken to be right.

    :param ports: {id: ports.State}, of the ports that exist.
    """
    secured = {key: port for key, port in ports.items() if port.is_secured}
    counted = collections.Counter(
        port.groups for port in secured.values() if port.groups)
    (usual, number), = counted.most_common(1) or [((), 0)]
    found = {}
    for key, port in secured.items():
        change = Change(
            tuple(_write(address) for address in addresses
                  if not _may_send(port.pairs, address)),
            # Of two different ports either may be the changed one.
            usual if not port.groups or port.groups != usual and
            number > 1 and counted[port.groups] == 1 else None)
        if change:
            found[key] = change
    return found


def _write(address: str) -> str:
    # With a prefix Neutron does not take the port for a parent of the VIP's.
    ip = ipaddress.ip_address(address)
    return f'{ip}/{ip.max_prefixlen}'


def _may_send(pairs: abc.Iterable[str], address: str) -> bool:
    ip = ipaddress.ip_address(address)
    return any(ip in ipaddress.ip_network(pair, strict=False)
               for pair in pairs)


def forget_gone(engine, vips, ports):
    """Forget ports that Neutron has lost, so that they are created again.

    :param ports: what ports.Ports.read() returns.
    """
    for vip in vips:
        if vip.port_id and vip.port_id not in ports and vip_repo.set_port(
                engine, vip.id, None, None):
            LOG.warning('The port %s of the distributor %s for the cluster '
                        '%s is gone from Neutron, and is created again. See '
                        'who has deleted it.', vip.port_id,
                        vip.distributor_name, vip.cluster_id)


class PortWatch:
    """Checks all ports of clusters, each time run_once() is called.

    :param set_right: repairs the ports of the distributors of a cluster; it
                      takes the id of the cluster.
    """

    def __init__(self, engine, ports, set_right):
        self._engine = engine
        self._ports = ports
        self._set_right = set_right
        # Lost ports of VIPs that were logged.
        self._said: set[str] = set()

    def run_once(self):
        """Repair ports, and find clusters that need new ones.

        :returns: ids of the clusters with a distributor without a port.
        :raises CloudUnavailable, CloudRefused: if Neutron does not answer.
        """
        # A VIP that was never told is being made right now.
        vips = [vip for vip in vip_repo.get_all(self._engine)
                if vip.applied_version is not None]
        fronts = front_repo.get_all(self._engine)
        vip_ports = front_repo.get_vip_ports(self._engine)
        ports = self._ports.read({
            *(vip.port_id for vip in vips if vip.port_id),
            *(front.port_id for front in fronts), *vip_ports.values()})
        self._check_vips(vip_ports, ports)
        forget_gone(self._engine, vips, ports)
        without = {vip.cluster_id for vip in vips
                   if vip.port_id not in ports}
        wrong = {vip.cluster_id for vip in vips
                 if vip.port_id in ports and not self._ports.is_right(
                     ports[vip.port_id])}
        for cluster_id in sorted(wrong - without):
            self._repair(cluster_id)
        self._check_members(fronts, ports)
        return without

    def _check_vips(self, vip_ports, ports):
        gone = {cluster_id: port_id for cluster_id, port_id
                in vip_ports.items() if port_id not in ports}
        for cluster_id, port_id in sorted(gone.items()):
            if port_id not in self._said:
                LOG.warning('The port %s of the VIP of the cluster %s is gone '
                            'from Neutron, which may give its address away, '
                            'and has no floating IP for it any more. Traffic '
                            'to the VIP goes on: move clients to another '
                            'load balancer, and delete this one.', port_id,
                            cluster_id)
        self._said = set(gone.values())

    def _repair(self, cluster_id):
        try:
            self._set_right(cluster_id)
            LOG.warning('The ports of distributors for the cluster %s were '
                        'changed from outside, and are repaired.', cluster_id)
        except exceptions.HMSyncException as e:
            LOG.info('The ports of distributors for the cluster %s are '
                     'repaired later: %s', cluster_id, e)

    def _check_members(self, fronts, ports):
        by_cluster = collections.defaultdict(list)
        for front in fronts:
            by_cluster[front.cluster_id].append(front)
            if front.port_id not in ports:
                self._replace(front)
        for cluster_id, own in by_cluster.items():
            there = {front.port_id: ports[front.port_id] for front in own
                     if front.port_id in ports}
            for port_id, change in find_changes(
                    there, own[0].addresses).items():
                LOG.warning('The port %s of a member of the cluster %s was '
                            'changed from outside, and is repaired.', port_id,
                            cluster_id)
                self._ports.change(port_id, there[port_id], change.pairs,
                                   change.groups)

    def _replace(self, front):
        if (front.state not in (member_repo.ACTIVE, member_repo.DRAINING,
                                member_repo.STANDBY) or
                not member_repo.set_order(self._engine, front.member_id,
                                          member_repo.REPLACE)):
            return
        LOG.warning('The port %s of the member %s of the cluster %s is gone '
                    'from Neutron: the member is replaced. See who has '
                    'deleted it.', front.port_id, front.member_id,
                    front.cluster_id)
