# SPDX-License-Identifier: Apache-2.0

"""Repairs ports and security groups in Neutron that were deleted or changed.

The owner of a network may delete any port in it, and change its address pairs
and security groups; clean-up scripts do so. A distributor, or a VIP, gets a
new port. A member without its port has no front end any more, and is replaced.
"""

import collections
from collections import abc
import ipaddress
import typing

from oslo_log import log as logging

from octavia_hmsync.cluster.db import admission as admission_repo
from octavia_hmsync.cluster.db import distributor_vip as vip_repo
from octavia_hmsync.cluster.db import front as front_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster.db import vip as addresses_repo
from octavia_hmsync.cluster.distribution import groups as groups_
from octavia_hmsync.cluster.distribution import vip_port
from octavia_hmsync import compat
from octavia_hmsync import exceptions
from octavia_hmsync import periodic

LOG = logging.getLogger(__name__)

# What is repaired, for metrics, and for the log where a VIP lacks it.
DISTRIBUTOR_PORT, MEMBER_PORT, RULE = 'distributor_port', 'member_port', 'rule'
VIP_PORT, VIP_ADDRESS, GROUP = 'vip_port', 'vip_address', 'group'
REPAIRS = (DISTRIBUTOR_PORT, MEMBER_PORT, RULE, VIP_PORT, VIP_ADDRESS, GROUP)
_GONE = {VIP_PORT: 'port {} of the VIP', GROUP: 'security group of the VIP'}
# Octavia deletes the port of a VIP only with this owner.
_OWNER = 'Octavia'
# Of ports that a machine, or a router, has.
_PLUGGED = ('compute:', 'network:')


def find_changes(ports: abc.Mapping[str, typing.Any],
                 addresses: abc.Iterable[str],
                 groups: abc.Sequence[str],
                 foreign: abc.Collection[str] = ()
                 ) -> dict[str, dict[str, object]]:
    """Return the changes that ports of a cluster's members need. Pure.

    :param ports: {id: ports.State}, of the ports that exist.
    :param groups, foreign: see groups.choose().
    :returns: {id of a port: values, as the SDK takes them}.
    """
    found = {}
    for key, port in ports.items():
        values = _secure(port, groups, foreign)
        missing = [_write(address) for address in addresses
                   if not _may_send(port.pairs, address)]
        if missing and (port.is_secured or values):
            values['allowed_address_pairs'] = [
                {'ip_address': text} for text in (*port.pairs, *missing)]
        if not port.is_on:
            values['admin_state_up'] = True
        if values:
            found[key] = values
    return found


def find_changes_of_vip(port: typing.Any, vip: typing.Any,
                        groups: abc.Sequence[str],
                        foreign: abc.Collection[str] = ()
                        ) -> dict[str, object]:
    """Return the changes that the port of a VIP needs. Pure.

    Octavia made it switched off, and nobody sends to its MAC address.

    :param port: a ports.State.
    :param vip: a vip.Addresses; None for what Octavia made, with its
                addresses.
    """
    values = _secure(port, groups, foreign)
    if vip is None:
        return values
    if vip.is_owned and port.owner != _OWNER and not _is_plugged(port):
        values.update(device_owner=_OWNER,
                      device_id=groups_.get_name(vip.load_balancer_id))
    there, wanted = (_read(each) for each in (port.addresses, vip.subnets))
    # Others may have no address there that Octavia would take for the VIP.
    # Those of other subnets may be Neutron's own, from a router's prefix.
    right = {**{ip: subnet for ip, subnet in there.items()
                if subnet not in wanted.values()}, **wanted}
    if right.keys() != there.keys() and (
            vip.is_owned or not wanted.keys() <= there.keys()):
        values['fixed_ips'] = [
            {'ip_address': str(ip), **({'subnet_id': subnet} if subnet
                                       else {})}
            for ip, subnet in right.items()]
    return values


def _secure(port: typing.Any, groups: abc.Sequence[str],
            foreign: abc.Collection[str]) -> dict[str, object]:
    chosen = groups_.choose(port.groups, groups, foreign)
    values: dict[str, object] = {}
    # The API refuses clusters where port security was off.
    if groups and not port.is_secured:
        values['port_security_enabled'] = True
    if (groups or port.is_secured) and set(chosen) != set(port.groups):
        values['security_group_ids'] = chosen
    return values


def _is_plugged(port: typing.Any) -> bool:
    return port.owner.startswith(_PLUGGED)


def _read(addresses: abc.Mapping[str, str | None]
          ) -> dict[typing.Any, str | None]:
    return {ipaddress.ip_address(text): subnet
            for text, subnet in addresses.items()}


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
        # {of what: why it is not repaired}, of this round and the last one.
        self._problems: dict[abc.Hashable, str] = {}
        self._said: dict[abc.Hashable, str] = {}

    def run_once(self):
        """Repair ports and groups, and find clusters that need new ports.

        :returns: ids of the clusters with a distributor without a port.
        :raises CloudUnavailable, CloudRefused: if Neutron does not answer.
        """
        groups = self._repaired[GROUP]
        without = self._check()
        if self._repaired[GROUP] > groups:
            # The ports of members need the new group, too.
            without = self._check()
        return without

    def _check(self):
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
            groups_.DISTRIBUTORS,
            *(groups_.get_name(each.load_balancer_id)
              for each in needed.values())}) if vips or needed else []
        self._problems = {}
        self._check_rules(needed, groups)
        by_name = {group.name: group.id for group in groups}
        own = {cluster_id: by_name.get(groups_.get_name(
            each.load_balancer_id)) for cluster_id, each in needed.items()}
        of_clusters = {cluster_id: (own[cluster_id], *each.groups)
                       for cluster_id, each in needed.items()
                       if own[cluster_id]}
        made = self._find_made(groups, ports, {
            *vip_ports.values(), *(front.port_id for front in fronts)})
        self._check_vips(needed, of_clusters, made, vip_ports, ports)
        self._repaired[DISTRIBUTOR_PORT] += forget_gone(
            self._engine, vips, ports)
        without = {vip.cluster_id for vip in vips
                   if vip.port_id not in ports}
        distributors = {group.id for group in groups
                        if group.name == groups_.DISTRIBUTORS}
        wrong = collections.defaultdict(list)
        for vip in vips:
            if (vip.port_id in ports and vip.cluster_id not in without and
                    not self._ports.is_right(ports[vip.port_id],
                                             distributors)):
                wrong[vip.cluster_id].append(vip.port_id)
        for cluster_id, port_ids in sorted(wrong.items()):
            self._repair(cluster_id, sorted(port_ids))
        self._check_members(fronts, ports, of_clusters, made)
        self._tell_problems()
        return without

    def _find_made(self, groups, ports, port_ids):
        """Return the ids of groups that are of Octavia, or of distributors."""
        known = {group.id for group in groups}
        more = {group_id for port_id in port_ids & ports.keys()
                for group_id in ports[port_id].groups} - known
        # Those of tenants are in another project, and not found.
        return known.union(
            group.id for group in self._ports.list_groups(more, 'id')
            if groups_.is_made(group.name)) if more else known

    def _tell_problems(self):
        for key in self._said.keys() | self._problems.keys():
            periodic.note_problem((self, key), self._problems.get(key))
        self._said = self._problems

    def take_repairs(self):
        """Return what was repaired since the last call, {what: number}."""
        found, self._repaired = self._repaired, collections.Counter()
        return found

    def _check_rules(self, needed, groups):
        by_name = {groups_.get_name(each.load_balancer_id): cluster_id
                   for cluster_id, each in needed.items()}
        for group in groups:
            cluster_id = by_name.get(group.name)
            if cluster_id is None:
                missing = groups_.find_missing_of_distributors(
                    group.rules)
            else:
                missing = groups_.find_missing(
                    needed[cluster_id], group.rules,
                    compat.opens_peers_to_group())
            whose = (f'the cluster {cluster_id}' if cluster_id
                     else 'distributors')
            try:
                added = [rule for rule in missing
                         if self._ports.add_rule(group.id, rule)]
            except exceptions.CloudRefused as e:
                # A quota of one group is no reason to leave the others.
                self._problems[group.name] = (
                    f'The security group {group.id} ({group.name}), of '
                    f'{whose}, lacks rules, and they are not added: {e}')
                continue
            if added:
                self._repaired[RULE] += len(added)
                LOG.warning('%d rules of the security group %s (%s), of %s, '
                            'were gone from Neutron, and are added again. '
                            'See who has deleted them.', len(added),
                            group.id, group.name, whose)

    def _check_vips(self, needed, groups, made, vip_ports, ports):
        for cluster_id, port_id in sorted(vip_ports.items()):
            port = ports.get(port_id)
            if port is None:
                self._restore(cluster_id, port_id, VIP_PORT)
            elif cluster_id in needed:
                self._check_vip(cluster_id, needed[cluster_id], port_id, port,
                                groups.get(cluster_id, ()), made)

    def _check_vip(self, cluster_id, needed, port_id, port, groups, made):
        vip = None
        if port.owner != _OWNER or (
                _read(port.addresses).keys() !=
                _read(dict.fromkeys(needed.addresses)).keys()):
            vip = addresses_repo.get(self._engine, needed.load_balancer_id)
        if _is_plugged(port):
            self._problems[_PLUGGED, cluster_id] = (
                f'The port {port_id} of the VIP of the cluster {cluster_id} '
                f'is plugged into {port.device} ({port.owner}), which '
                f'answers clients in its place. Detach it, as with '
                f'"openstack server remove port {port.device} {port_id}"; '
                f'within a minute it is as Octavia made it.')
        values = find_changes_of_vip(port, vip, groups,
                                     made.difference(groups))
        # First: Octavia may take another address for that of the VIP.
        if 'fixed_ips' in values:
            self._restore(cluster_id, port_id, VIP_ADDRESS, values=values)
        elif not groups:
            self._restore(cluster_id, port_id, GROUP, port, made)
        elif values:
            self._change(VIP_PORT, f'the VIP of the cluster {cluster_id}',
                         port_id, values)

    def _restore(self, cluster_id, old_port_id, what, port=None, made=(),
                 values=None):
        """Restore a VIP.

        :param port: its ports.State, if that stays.
        :param values: of the port, if these are all that it lacks.
        """
        try:
            port_id = self._vip_ports.restore(cluster_id, values)
            problem = None if port_id else (
                'another process works on it; it is tried again.')
            if port_id:
                self._keep_groups(port_id, port, made)
                self._set_right(cluster_id)
        except exceptions.CloudUnavailable:
            raise
        except exceptions.HMSyncException as e:
            problem = str(e)
        if what == VIP_ADDRESS:
            self._conclude(what, f'the VIP of the cluster {cluster_id}',
                           old_port_id, values, problem)
        elif problem:
            self._problems[cluster_id] = (
                f'The {_GONE[what].format(old_port_id)} of the cluster '
                f'{cluster_id} is gone from Neutron, and is not made anew: '
                f'{problem}')
        else:
            self._repaired[what] += 1
            LOG.warning('The %s of the cluster %s was gone from Neutron, and '
                        'is made anew%s. See who has deleted it.',
                        _GONE[what].format(old_port_id), cluster_id,
                        '' if port_id == old_port_id else
                        f': the VIP has the port {port_id}, with its '
                        f'address. Only a floating IP is not known any more: '
                        f'give it back with "openstack floating ip set '
                        f'--port {port_id} ADDRESS"')

    def _keep_groups(self, port_id, before, made):
        """Add what somebody had added: Octavia sets its own groups only."""
        now = self._ports.read({port_id}).get(port_id) if before else None
        if now is None:
            return
        groups = groups_.choose(before.groups, now.groups,
                                made.difference(now.groups))
        if set(groups) != set(now.groups):
            self._ports.change(port_id, {'security_group_ids': groups})

    def _repair(self, cluster_id, port_ids):
        try:
            self._set_right(cluster_id)
            self._repaired[DISTRIBUTOR_PORT] += 1
            LOG.warning('Ports of distributors for the cluster %s were '
                        'changed from outside, and are repaired: %s. See who '
                        'has changed them.', cluster_id, ', '.join(port_ids))
        except exceptions.HMSyncException as e:
            self._problems[DISTRIBUTOR_PORT, cluster_id] = (
                f'The ports of distributors for the cluster {cluster_id} are '
                f'repaired later: {e}')

    def _check_members(self, fronts, ports, groups, made):
        by_cluster = collections.defaultdict(list)
        for front in fronts:
            by_cluster[front.cluster_id].append(front)
            if front.port_id not in ports:
                self._replace(front)
        for cluster_id, own in by_cluster.items():
            there = {front.port_id: ports[front.port_id] for front in own
                     if front.port_id in ports}
            needed = groups.get(cluster_id, ())
            for port_id, values in find_changes(
                    there, own[0].addresses, needed,
                    made.difference(needed)).items():
                self._change(MEMBER_PORT,
                             f'a member of the cluster {cluster_id}', port_id,
                             values)

    def _change(self, what, whose, port_id, values):
        problem = None
        try:
            self._ports.change(port_id, values)
        except exceptions.CloudRefused as e:
            problem = str(e)
        self._conclude(what, whose, port_id, values, problem)

    def _conclude(self, what, whose, port_id, values, problem):
        changed = ', '.join(sorted(values))
        if problem:
            self._problems[whose, port_id] = (
                f'The port {port_id} of {whose} was changed from outside '
                f'({changed}), and is not repaired: {problem}')
            return
        self._repaired[what] += 1
        LOG.warning('The port %s of %s was changed from outside (%s), and is '
                    'repaired. See who has changed it.', port_id, whose,
                    changed)

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
