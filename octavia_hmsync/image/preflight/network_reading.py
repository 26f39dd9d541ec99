# SPDX-License-Identifier: Apache-2.0

"""Reads from Neutron what the checks of "image check" need.

It makes one request for each fifty ids, for any number of load balancers.
"""

import collections
import dataclasses
import ipaddress
import math

from openstack import exceptions as sdk_exc
from oslo_utils import uuidutils

from octavia_hmsync import cloud
from octavia_hmsync import exceptions
from octavia_hmsync.image.preflight import asking
from octavia_hmsync.image.preflight import facts

# Prefix of the name of the security group that Octavia makes for a VIP.
VIP_GROUP_PREFIX = 'lb-'

# Ids in one request: a server may take 4 kB for its first line.
_AT_ONCE = 50

# Ports in one answer.
_PAGE = 1000

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclasses.dataclass(frozen=True)
class Pools:
    """A subnet with the first and last address of each allocation pool."""

    network_id: str
    project_id: str | None
    version: int
    ranges: tuple[tuple[_Address, _Address], ...]

    @property
    def size(self) -> int:
        """The number of addresses in the pools."""
        return sum(int(last) - int(first) + 1 for first, last in self.ranges)

    def has(self, address: _Address) -> bool:
        """Tell whether an address is in a pool."""
        return any(int(first) <= int(address) <= int(last)
                   for first, last in self.ranges)


class AddressReader:
    """Asks Neutron which subnets have no free address."""

    def __init__(self, asker):
        self._asker = asker

    def find_full(self, pools):
        """Return ids of subnets without a free address; Hidden by a policy."""
        if not pools:
            return set()
        used = self._count_used(frozenset(
            subnet.network_id for subnet in pools.values()))
        if isinstance(used, facts.Hidden):
            return used
        # Used addresses outside of the pools count here, too, as a router's.
        maybe = {subnet_id for subnet_id, subnet in pools.items()
                 if subnet.ranges and used.get(subnet_id, 0) >= subnet.size}
        taken = self._count_taken(maybe, pools)
        return {subnet_id for subnet_id, subnet in pools.items()
                if not subnet.ranges or
                subnet_id in maybe and taken[subnet_id] >= subnet.size}

    def _count_used(self, network_ids):
        """Return how many addresses are used, by subnet."""
        found: dict = {}
        ids = sorted(network_ids)
        for n in range(0, len(ids), _AT_ONCE):
            part = self._asker.find(
                'read how many addresses are free',
                lambda answer: {
                    subnet['subnet_id']: int(subnet['used_ips'])
                    for network in answer['network_ip_availabilities']
                    for subnet in network['subnet_ip_availability']},
                '/network-ip-availabilities',
                network_id=ids[n:n + _AT_ONCE])
            if not part:
                # An extension, whose list is empty for unprivileged users.
                return facts.Hidden(
                    'Neutron does not tell the user of Octavia how many '
                    'addresses of a subnet are free '
                    '(network-ip-availability).')
            found |= part
        return found

    def _count_taken(self, subnet_ids, pools):
        """Count the addresses of pools that ports use, by subnet."""
        taken: dict = collections.Counter()
        ids = sorted(subnet_ids)
        for n in range(0, len(ids), _AT_ONCE):
            marker: dict = {}
            while True:
                ports = self._asker.get(
                    'read which addresses are taken',
                    lambda answer: [(port['id'], [
                        (ip['subnet_id'],
                         ipaddress.ip_address(ip['ip_address']))
                        for ip in port['fixed_ips']])
                        for port in answer['ports']], '/ports',
                    fields=['id', 'fixed_ips'], limit=_PAGE, sort_key='id',
                    sort_dir='asc',
                    fixed_ips=[f'subnet_id={subnet_id}'
                               for subnet_id in ids[n:n + _AT_ONCE]],
                    **marker)
                taken.update(
                    subnet_id for _port_id, ips in ports
                    for subnet_id, address in ips
                    if subnet_id in subnet_ids and
                    pools[subnet_id].has(address))
                if not ports or marker.get('marker') == ports[-1][0]:
                    break
                marker = {'marker': ports[-1][0]}
        return taken


class NetworkReader:
    """Reads what load balancers need from Neutron."""

    def __init__(self, conf, connection):
        self._asker = asking.Asker(conf, connection, 'network', cloud.NEUTRON)

    def read(self, all_facts):
        """Read it for all load balancers at once.

        :param all_facts: a list of Facts, not empty, with needs, builds and
                          settings.
        :raises CloudUnavailable: if there is no valid answer.
        :raises CloudRefused: if the answer is no, except by a policy.
        """
        needs = [one.needs for one in all_facts]
        settings = all_facts[0].settings
        boots = frozenset(network_id for one in all_facts
                          for network_id in one.build.boot_networks)
        project_id = self._asker.get_project_id()
        may = asking.unless_hidden
        places = may(self._get_places, needs, boots)
        subnets, networks, full = (
            (places,) * 3 if isinstance(places, facts.Hidden) else places)
        return facts.Network(
            may(self._get_ports, _union(n.port_ids for n in needs)),
            subnets, networks,
            may(self._count_choices, project_id)
            if settings.has_nova and project_id and not all(
                one.build.boot_networks for one in all_facts) else None,
            may(self._get_groups, _union(
                n.security_group_ids for n in needs) | {
                    name for name in settings.boot_groups if _is_id(name)}),
            may(self._count_groups, project_id, [
                name for name in settings.boot_groups if not _is_id(name)]),
            may(self._get_vip_groups, [
                f'{VIP_GROUP_PREFIX}{one.load_balancer.id}'
                for one in all_facts]),
            may(self._get_policies, {n.qos_policy_id for n in needs} -
                {None}),
            may(self._get_ports_left, project_id), full)

    def _get_places(self, needs, boots):
        """Return the subnets, the networks, and Hidden or None."""
        pools = self._get_pools(_union(n.subnet_ids for n in needs))
        plugged = _union(n.plugged_subnet_ids for n in needs)
        networks = self._get_networks(boots | {
            pools[subnet_id].network_id for subnet_id in plugged
            if subnet_id in pools})
        pools |= self._get_pools(_union(
            networks[network_id].subnet_ids for network_id in boots
            if network_id in networks) - pools.keys())
        full = asking.unless_hidden(
            AddressReader(self._asker).find_full, pools)
        hidden = full if isinstance(full, facts.Hidden) else None
        return {subnet_id: facts.Subnet(
            subnet.network_id, subnet.project_id, subnet.version,
            hidden is None and subnet_id in full)
            for subnet_id, subnet in pools.items()}, networks, hidden

    def _get_ports(self, ids):
        found = self._get('ports', 'the ports of VIPs', ids, 'fixed_ips')
        return {port_id: frozenset(
            ip['ip_address'] for ip in port['fixed_ips'])
            for port_id, port in found.items()}

    def _get_pools(self, ids):
        found = self._get('subnets', 'the subnets of VIPs and members', ids,
                          'network_id', 'project_id', 'ip_version',
                          'allocation_pools')
        return {subnet_id: Pools(
            subnet['network_id'], subnet.get('project_id'),
            subnet['ip_version'], tuple(
                (ipaddress.ip_address(pool['start']),
                 ipaddress.ip_address(pool['end']))
                for pool in subnet['allocation_pools']))
                for subnet_id, subnet in found.items()}

    def _get_networks(self, ids):
        found = self._get('networks', 'the networks of amphorae', ids,
                          'subnets', 'admin_state_up', 'project_id',
                          'port_security_enabled')
        return {network_id: facts.Net(
            tuple(network['subnets']), network['admin_state_up'],
            # Without the extension there is no port security.
            network.get('port_security_enabled', True),
            network.get('project_id'))
            for network_id, network in found.items()}

    def _count_choices(self, project_id):
        """Return how many networks Nova can choose from."""
        return len({network_id for filters in (
            {'project_id': project_id, 'shared': 'False'},
            {'shared': 'True'}) for network_id in self._asker.get(
                'read the networks', lambda answer: [
                    network['id'] for network in answer['networks']],
                '/networks', fields=['id'], **filters)})

    def _get_groups(self, ids):
        return frozenset(self._get('security-groups', 'the security groups',
                                   ids))

    def _count_groups(self, project_id, names):
        """Return how many security groups of a project have each name."""
        if not names:
            return {}
        filters = {'project_id': project_id} if project_id else {}
        return collections.Counter(self._asker.get(
            'read the security groups', lambda answer: [
                group['name'] for group in answer['security_groups']],
            '/security-groups', name=names, fields=['id', 'name'], **filters))

    def _get_vip_groups(self, names):
        found: set = set()
        for n in range(0, len(names), _AT_ONCE):
            part = self._asker.find(
                'read the security groups of VIPs', lambda answer: {
                    group['name'] for group in answer['security_groups']},
                '/security-groups', name=names[n:n + _AT_ONCE],
                fields=['id', 'name'])
            if part is None:
                # Security groups are an optional extension of Neutron.
                return None
            found |= part
        return frozenset(found)

    def _get_policies(self, ids):
        try:
            return frozenset(self._get(
                'qos/policies', 'the QoS policies of VIPs', ids))
        except exceptions.CloudRefused as e:
            if isinstance(e.__cause__, sdk_exc.NotFoundException):
                # QoS is an optional extension of Neutron.
                return None
            raise

    def _get_ports_left(self, project_id):
        """Return how many more ports the credentials' project may have."""
        if project_id is None:
            # Without Keystone there are no projects.
            return None

        def read(answer):
            ports = answer['quota']['port']
            left = ports['limit'] - ports['used'] - ports.get('reserved', 0)
            return math.inf if ports['limit'] < 0 else max(0, left)

        # An optional extension.
        left = self._asker.find('read the quota of ports', read,
                                f'/quotas/{project_id}/details.json')
        return None if left == math.inf else left

    def _get(self, resource, title, ids, *fields):
        """Return the existing ones of some ids, {id: dict}."""
        found: dict = {}
        ids = sorted(ids)
        for n in range(0, len(ids), _AT_ONCE):
            left = set(ids[n:n + _AT_ONCE])
            # pagination_max_limit may truncate an answer.
            while left:
                new = self._asker.get(
                    f'read {title}', lambda answer: {
                        item['id']: item
                        for item in answer[_plural(resource)]},
                    f'/{resource}', id=sorted(left), fields=['id', *fields])
                new = {thing_id: item for thing_id, item in new.items()
                       if thing_id in left}
                found |= new
                left -= new.keys()
                if not new:
                    break
        return found


def _plural(resource):
    return resource.rpartition('/')[2].replace('-', '_')


def _is_id(name):
    """Tell an id from a name, which may be anything."""
    return uuidutils.is_uuid_like(name)


def _union(sets):
    return frozenset().union(*sets)
