# SPDX-License-Identifier: Apache-2.0

"""Repairs ports and security groups in Neutron that were deleted or changed.

The owner of a network may delete any port in it, and change its address pairs
and security groups; clean-up scripts do so. A distributor, or a VIP, gets a
new port. A member without its port has no front end any more, and is replaced.
"""

import collections
from collections import abc
import dataclasses
import ipaddress
import typing

from oslo_log import log as logging

from octavia_hmsync.cluster.db import admission as admission_repo
from octavia_hmsync.cluster.db import distributor_vip as vip_repo
from octavia_hmsync.cluster.db import front as front_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster.distribution import groups as cluster_groups
from octavia_hmsync.cluster.distribution import vip_port
from octavia_hmsync import compat
from octavia_hmsync import exceptions

LOG = logging.getLogger(__name__)

# What is repaired, for metrics, and for the log where a VIP lacks it.
DISTRIBUTOR_PORT, MEMBER_PORT, RULE = 'distributor_port', 'member_port', 'rule'
VIP_PORT, VIP_ADDRESS, GROUP = 'vip_port', 'vip_address', 'group'
REPAIRS = (DISTRIBUTOR_PORT, MEMBER_PORT, RULE, VIP_PORT, VIP_ADDRESS, GROUP)
_GONE = {VIP_PORT: 'port {} of the VIP',
         VIP_ADDRESS: 'address of the port {} of the VIP',
         GROUP: 'security group of the VIP'}


@dataclasses.dataclass(frozen=True)
class Change:
    """What a port lacks.

    :param pairs: address pairs to add.
    :param groups: ids of its security groups; None to keep them.
    :param is_off: whether it is to be switched on.
    """

    pairs: tuple[str, ...] = ()
    groups: tuple[str, ...] | None = None
    is_off: bool = False

    def __bool__(self) -> bool:
        return bool(self.pairs or self.groups or self.is_off)


def find_changes(ports: abc.Mapping[str, typing.Any],
                 addresses: abc.Iterable[str],
                 groups: abc.Collection[str]) -> dict[str, Change]:
    """Return the changes that ports of a cluster's members need. Pure.

    :param ports: {id: ports.State}, of the ports that exist.
    :param groups: ids of the security groups that each must have; none if
                   they are not known.
    """
    found = {key: Change(
        tuple(_write(address) for address in addresses
              if port.is_secured and not _may_send(port.pairs, address)),
        tuple(sorted(groups)) if port.is_secured and
        not set(groups) <= set(port.groups) else None,
        not port.is_on) for key, port in ports.items()}
    return {key: change for key, change in found.items() if change}


def _write(address: str) -> str:
    # With a prefix Neutron does not take the port for a parent of the VIP's.
    ip = ipaddress.ip_address(address)
    return f'{ip}/{ip.max_prefixlen}'


def _may_send(pairs: abc.Iterable[str], address: str) -> bool:
    ip = ipaddress.ip_address(address)
    return any(ip in ipaddress.ip_network(pair, strict=False)
               for pair in pairs)


def _has(port: typing.Any, addresses: abc.Iterable[str]) -> bool:
    return {ipaddress.ip_address(text) for text in addresses} <= {
        ipaddress.ip_address(text) for text in port.addresses}


def forget_gone(engine, vips, ports):
    """Forget ports that Neutron has lost, so that they are created again.

    :param ports: what ports.Ports.read() returns.
    :returns: how many.
    """
    number = 0
    for vip in vips:
        if vip.port_id and vip.port_id not in ports and vip_repo.set_port(
                engine, vip.id, None, None):
            number += 1
            LOG.warning('The port %s of the distributor %s for the cluster '
                        '%s is gone from Neutron, and is created again. See '
                        'who has deleted it.', vip.port_id,
                        vip.distributor_name, vip.cluster_id)
    return number


class PortWatch:
    """Checks what clusters have in Neutron, each time run_once() is called.

    :param set_right: repairs the ports of the distributors of a cluster; it
                      takes the id of the cluster.
    :param vip_ports: a vip_port.VIPPorts.
    """

    def __init__(self, engine, ports, set_right, vip_ports):
        self._engine = engine
        self._ports = ports
        self._set_right = set_right
        self._vip_ports = vip_ports
        self._repaired: collections.Counter[str] = collections.Counter()
        # {id of a cluster: why its VIP is not repaired}, as was logged.
        self._said: dict[str, str] = {}

    def run_once(self):
        """Repair ports and groups, and find clusters that need new ports.

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
        needed = admission_repo.get_all(self._engine)
        groups = self._ports.list_groups({
            cluster_groups.DISTRIBUTORS,
            *(cluster_groups.get_name(each.load_balancer_id)
              for each in needed.values())}) if vips else []
        self._check_rules(needed, groups)
        by_name = {group.name: group.id for group in groups}
        own = {cluster_id: by_name.get(cluster_groups.get_name(
            each.load_balancer_id)) for cluster_id, each in needed.items()}
        self._check_vips(needed, own, vip_ports, ports)
        self._repaired[DISTRIBUTOR_PORT] += forget_gone(
            self._engine, vips, ports)
        without = {vip.cluster_id for vip in vips
                   if vip.port_id not in ports}
        distributors = {group.id for group in groups
                        if group.name == cluster_groups.DISTRIBUTORS}
        wrong = {vip.cluster_id for vip in vips
                 if vip.port_id in ports and not self._ports.is_right(
                     ports[vip.port_id], distributors)}
        for cluster_id in sorted(wrong - without):
            self._repair(cluster_id)
        self._check_members(fronts, ports, {
            cluster_id: (own[cluster_id], *needed[cluster_id].groups)
            for cluster_id in needed if own[cluster_id]})
        return without

    def take_repairs(self):
        """Return what was repaired since the last call, {what: number}."""
        found, self._repaired = self._repaired, collections.Counter()
        return found

    def _check_rules(self, needed, groups):
        by_name = {cluster_groups.get_name(each.load_balancer_id): cluster_id
                   for cluster_id, each in needed.items()}
        for group in groups:
            cluster_id = by_name.get(group.name)
            if cluster_id is None:
                missing = cluster_groups.find_missing_of_distributors(
                    group.rules)
            else:
                missing = cluster_groups.find_missing(
                    needed[cluster_id], group.rules,
                    compat.opens_peers_to_group())
            whose = (f'the cluster {cluster_id}' if cluster_id
                     else 'distributors')
            try:
                added = [rule for rule in missing
                         if self._ports.add_rule(group.id, rule)]
            except exceptions.CloudRefused as e:
                # A quota of one group is no reason to leave the others.
                LOG.warning('The security group %s (%s), of %s, lacks rules, '
                            'and they are not added: %s', group.id,
                            group.name, whose, e)
                continue
            if added:
                self._repaired[RULE] += len(added)
                LOG.warning('%d rules of the security group %s (%s), of %s, '
                            'were gone from Neutron, and are added again. '
                            'See who has deleted them.', len(added),
                            group.id, group.name, whose)

    def _check_vips(self, needed, own, vip_ports, ports):
        said = {}
        for cluster_id, port_id in sorted(vip_ports.items()):
            each = needed.get(cluster_id)
            if port_id not in ports:
                what = VIP_PORT
            elif each and not _has(ports[port_id], each.addresses):
                what = VIP_ADDRESS
            elif each and not own[cluster_id]:
                what = GROUP
            else:
                continue
            problem = self._restore(cluster_id, port_id, what)
            if problem:
                said[cluster_id] = problem
                if self._said.get(cluster_id) != problem:
                    LOG.warning('The %s of the cluster %s is gone from '
                                'Neutron, and is not made anew: %s',
                                _GONE[what].format(port_id), cluster_id,
                                problem)
        self._said = said

    def _restore(self, cluster_id, old_port_id, what):
        """Restore a VIP; return what hinders it, if anything does."""
        try:
            port_id = self._vip_ports.restore(cluster_id)
            if port_id is None:
                return 'another process works on it; it is tried again.'
            self._set_right(cluster_id)
        except exceptions.CloudUnavailable:
            raise
        except exceptions.HMSyncException as e:
            return str(e)
        self._repaired[what] += 1
        LOG.warning('The %s of the cluster %s was gone from Neutron, and is '
                    'made anew%s. See who has deleted it.',
                    _GONE[what].format(old_port_id), cluster_id,
                    '' if port_id == old_port_id else
                    f': the VIP has the port {port_id}, with its address. '
                    f'Only a floating IP is not known any more: give it '
                    f'back with "openstack floating ip set --port '
                    f'{port_id} ADDRESS"')
        return None

    def _repair(self, cluster_id):
        try:
            self._set_right(cluster_id)
            self._repaired[DISTRIBUTOR_PORT] += 1
            LOG.warning('The ports of distributors for the cluster %s were '
                        'changed from outside, and are repaired.', cluster_id)
        except exceptions.HMSyncException as e:
            LOG.info('The ports of distributors for the cluster %s are '
                     'repaired later: %s', cluster_id, e)

    def _check_members(self, fronts, ports, groups):
        by_cluster = collections.defaultdict(list)
        for front in fronts:
            by_cluster[front.cluster_id].append(front)
            if front.port_id not in ports:
                self._replace(front)
        for cluster_id, own in by_cluster.items():
            there = {front.port_id: ports[front.port_id] for front in own
                     if front.port_id in ports}
            for port_id, change in find_changes(
                    there, own[0].addresses,
                    groups.get(cluster_id, ())).items():
                self._change(cluster_id, port_id, there[port_id], change)

    def _change(self, cluster_id, port_id, state, change):
        try:
            self._ports.change(port_id, state, change.pairs, change.groups,
                               change.is_off)
        except exceptions.CloudRefused as e:
            LOG.warning('The port %s of a member of the cluster %s was '
                        'changed from outside, and is not repaired: %s',
                        port_id, cluster_id, e)
            return
        self._repaired[MEMBER_PORT] += 1
        LOG.warning('The port %s of a member of the cluster %s was changed '
                    'from outside, and is repaired.', port_id, cluster_id)

    def _replace(self, front):
        if (front.state not in (member_repo.ACTIVE, member_repo.DRAINING,
                                member_repo.STANDBY) or
                not member_repo.set_order(self._engine, front.member_id,
                                          member_repo.REPLACE)):
            return
        self._repaired[MEMBER_PORT] += 1
        LOG.warning('The port %s of the member %s of the cluster %s is gone '
                    'from Neutron: the member is replaced. See who has '
                    'deleted it.', front.port_id, front.member_id,
                    front.cluster_id)


def make(engine, ports, set_right, claims):
    """Make a PortWatch.

    :param claims: of clusters.
    """
    return PortWatch(engine, ports, set_right,
                     vip_port.VIPPorts(engine, ports, claims))
