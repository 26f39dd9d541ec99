# SPDX-License-Identifier: Apache-2.0

"""The Neutron port of a node.

Each host with a health manager has one, bound to that node. It is recognized
by its name, owner and network. A port with the same name but another owner or
network is left alone.
"""

import dataclasses
import hashlib
import re

from openstack import exceptions as sdk_exc

from octavia_hmsync import cloud
from octavia_hmsync.conf import network as network_conf
from octavia_hmsync import exceptions
from octavia_hmsync.network import marks
from octavia_hmsync.network import parts

DEVICE_OWNER = 'Octavia:health-mgr'
ACTIVE = 'ACTIVE'
BINDING_FAILED = 'binding_failed'
NOT_BOUND = 'could not be bound'
ROLE = 'port'

_NAME = 'octavia-health-manager-{}-listen-port'
_NAME_PATTERN = re.compile(_NAME.format('(.+)'))
# Neutron's limit for names, less the suffix.
_NAME_LENGTH = 255 - len(marks.ORPHANED_SUFFIX)


@dataclasses.dataclass(frozen=True)
class NodePort:
    """A port in Neutron.

    :param ip_addresses: its addresses in the management subnet, a tuple of
                         text. Addresses of SLAAC subnets, which Neutron adds
                         to every port, are left out, since not all amphorae
                         can send there.
    :param status: ACTIVE, DOWN or BUILD.
    :param binding_host: the node that it is bound to, '' if to none.
    :param vif_type: how; binding_failed if Neutron could not.
    """

    id: str
    name: str
    host: str
    mac: str
    ip_addresses: tuple
    status: str
    is_enabled: bool
    binding_host: str
    vif_type: str
    security_groups: frozenset
    tags: frozenset


def get_name(host):
    """Return a port's name; InvalidConfiguration if Neutron refuses it."""
    name = _NAME.format(host)
    if len(name) > _NAME_LENGTH:
        raise exceptions.InvalidConfiguration(
            f'[DEFAULT] host = {host} is too long for the name of a port: '
            f'take one of {_NAME_LENGTH - len(_NAME.format(""))} characters '
            f'at most.')
    return name


def make_mac(host):
    """Return the MAC address for the first attempt to make a node's port.

    Neutron permits two ports with one name, but not with one MAC address in
    one network. As every request has this address, none makes a second port,
    even if a request is carried out late or two processes send one.
    """
    digest = hashlib.sha256(host.encode()).hexdigest()
    return f'fa:16:3e:{digest[:2]}:{digest[2:4]}:{digest[4:6]}'


def check_binding(port, binding_host):
    """Raise NodeConflict if a port belongs to another node."""
    if port.binding_host not in ('', binding_host):
        raise exceptions.NodeConflict(
            f'The port of {port.host} ({port.id}) is bound to the node '
            f'{port.binding_host}, and this one is {binding_host}: if both '
            f'exist, give each a [DEFAULT] host of its own. If the other one '
            f'is gone or was renamed, run "octavia-hmsync network port '
            f'delete {port.host}" first.')


class NodePorts(cloud.NeutronClient):
    """The nodes' ports in the management network.

    Every method asks Neutron. If that fails, it raises CloudUnavailable or
    CloudRefused with one line that says what to do.
    """

    def __init__(self, conf, connection, ids):
        super().__init__(conf, connection)
        self._ids = ids
        self._network_name = conf[network_conf.GROUP].network_name
        self._tags = frozenset(marks.Mark(self._network_name, ROLE).tags)

    def _to_port(self, port, host=None):
        return NodePort(
            id=port.id, name=port.name,
            host=host or _NAME_PATTERN.sub(r'\1', port.name),
            mac=port.mac_address.lower(),
            ip_addresses=tuple(
                f['ip_address'] for f in port.fixed_ips
                if f['subnet_id'] == self._ids.subnet_id),
            status=port.status, is_enabled=port.is_admin_state_up,
            binding_host=port.binding_host_id or '',
            vif_type=port.binding_vif_type or '',
            security_groups=frozenset(port.security_group_ids or ()),
            tags=frozenset(port.tags or ()))

    def get_all(self):
        """Return the NodePorts in the management network, by host."""
        with self._reported('list the ports of nodes'):
            found = list(self._api.ports(
                network_id=self._ids.network_id, device_owner=DEVICE_OWNER,
                limit=parts.PAGE))
        return sorted((self._to_port(p) for p in found
                       if _NAME_PATTERN.fullmatch(p.name)),
                      key=lambda port: (port.host, port.id))

    def find(self, host):
        """Find a node's port; PortConflict if there are two or not ours."""
        name = get_name(host)
        with self._reported(f'look for the port {name}'):
            # See parts.Parts.find().
            found = [p for p in self._api.ports(name=name, **self._scope)
                     if p.name == name]
        for foreign in found:
            if (foreign.device_owner, foreign.network_id) != (
                    DEVICE_OWNER, self._ids.network_id):
                raise exceptions.PortConflict(
                    f'The port {foreign.id} has the name {name} and is none '
                    f'of octavia-hmsync: its owner is '
                    f'"{foreign.device_owner}", its network '
                    f'{foreign.network_id}, instead of {DEVICE_OWNER} and '
                    f'{self._ids.network_id}. Rename or delete it.')
        if len(found) > 1:
            raise exceptions.PortConflict(
                f'There are {len(found)} ports of the name {name}: '
                f'{", ".join(sorted(p.id for p in found))}. Delete all but '
                f'the one that is in use ("ovs-vsctl get Interface '
                f'{self._conf.hmsync.address_interface} external_ids" on the '
                f'node tells which).')
        return self._to_port(found[0]) if found else None

    def find_known(self, host, port_id):
        """Find a port, perhaps renamed, by its id; None if gone or left."""
        with self._reported(f'look at the port {port_id}'):
            found = list(self._api.ports(
                id=port_id, network_id=self._ids.network_id))
        if not found or marks.is_orphaned(found[0]):
            return None
        return self._to_port(found[0], host)

    def get(self, port_id):
        """Read a NodePort again, None if it is gone."""
        with self._reported(f'look at the port {port_id}'):
            found = list(self._api.ports(id=port_id))
        return self._to_port(found[0]) if found else None

    def create(self, host, binding_host, mac=None, ip_addresses=()):
        """Make a node's port, with other addresses if its own are taken."""
        name = get_name(host)
        values = {
            'name': name, 'network_id': self._ids.network_id,
            'device_owner': DEVICE_OWNER, 'binding_host_id': binding_host,
            'security_group_ids': [
                self._ids.health_manager_security_group_id],
            'fixed_ips': [{'subnet_id': self._ids.subnet_id}]}
        with_mac = {**values, 'mac_address': mac or make_mac(host)}
        attempts = [with_mac]
        if ip_addresses:
            attempts.insert(0, {**with_mac, 'fixed_ips': [
                {'subnet_id': self._ids.subnet_id, 'ip_address': ip}
                for ip in ip_addresses]})
        if not mac:
            # Another port may have the derived MAC address. But only a lost
            # port itself can have its own one, if it was renamed or is hidden
            # from us: a second port would get another IP address.
            attempts.append(values)
        with self._reported(f'create the port {name}'):
            port_id = self._create_one_of(host, attempts)
        try:
            with self._reported(f'tag the port {name}'):
                made = self._api.get_port(port_id)
                self._api.set_tags(made, sorted({*self._tags, *made.tags}))
                return self._to_port(self._api.get_port(port_id))
        except exceptions.HMSyncException as e:
            # Not if amphorae may send to its old addresses.
            if not ip_addresses:
                self._take_back(port_id, e)
            raise

    def _create_one_of(self, host, attempts):
        while True:
            try:
                return self._api.create_port(**attempts.pop(0)).id
            except (sdk_exc.ConflictException, sdk_exc.BadRequestException):
                # An earlier request may just have been carried out; or other
                # ports have the addresses; or the subnet has changed. In any
                # other case the next request fails, too.
                found = self.find(host)
                if found:
                    return found.id
                if not attempts:
                    raise

    def _take_back(self, port_id, error):
        try:
            self.delete(port_id)
        except exceptions.HMSyncException as e:
            raise exceptions.CloudUnavailable(
                f'{error} Its port {port_id} could not be deleted again '
                f'({e}): the next "octavia-hmsync network port plug" on the '
                f'node takes it.') from None

    def get_differences(self, port, binding_host):
        """Return {difference, in words: attributes that repair it}."""
        differences = {}
        if port.name != get_name(port.host):
            differences[f'is called "{port.name}"'] = {
                'name': get_name(port.host)}
        group = self._ids.health_manager_security_group_id
        if group not in port.security_groups:
            differences['lacks its security group'] = {
                'security_group_ids': sorted(port.security_groups | {group})}
        if not port.binding_host:
            differences['is bound to no node'] = {
                'binding_host_id': binding_host}
        elif port.vif_type == BINDING_FAILED:
            # An agent may have started since; Neutron then tries again.
            differences[NOT_BOUND] = {
                'binding_host_id': port.binding_host}
        if not self.is_ours(port):
            differences['lacks its tags'] = {}
        return differences

    def repair(self, port, differences):
        """Repair a port; return it in its new state, None if it is gone."""
        values = {}
        for attributes in differences.values():
            values.update(attributes)
        with self._reported(f'repair the port of {port.host}'):
            if values:
                self._api.update_port(port.id, **values)
            if not self.is_ours(port):
                self._api.set_tags(self._api.get_port(port.id),
                                   sorted(port.tags | self._tags))
        return self.get(port.id)

    def delete(self, port_id):
        """Delete a port; a missing one is no error."""
        with self._reported(f'delete the port {port_id}'):
            self._api.delete_port(port_id)

    def is_ours(self, port):
        """Tell whether a port has our tags: it was made or adopted."""
        return self._tags <= port.tags

    def orphan(self, port):
        """Rename a port that is in use, and change its tags."""
        with self._reported(f'rename the port of {port.host}'):
            # The description first: alone it is enough, see marks.
            self._api.update_port(
                port.id, description=marks.orphaned_description(
                    self._network_name),
                name=f'{port.name}{marks.ORPHANED_SUFFIX}')
            self._api.set_tags(self._api.get_port(port.id), [
                *marks.without_ours(port.tags), marks.ORPHANED_TAG])

    def get_mtu(self):
        """Return the MTU of the management network, bytes."""
        with self._reported('look at the management network'):
            return cloud.read_mtu(
                self._api.get_network(self._ids.network_id).mtu)

    def get_prefix_length(self):
        """Return the length of the prefix of the management subnet."""
        with self._reported('look at the management subnet'):
            cidr = self._api.get_subnet(self._ids.subnet_id).cidr
        return int(cidr.partition('/')[2])

    def may_bind(self, host):
        """Tell whether Neutron may bind a node's port, as far as it shows."""
        agents = self.get_agents()
        return agents is None or any(
            name == host and is_alive for _kind, name, is_alive in agents)

    def get_agents(self):
        """Return (type, host, is alive) of agents; None if not permitted."""
        try:
            with self._reported('list agents'):
                found = list(self._api.agents())
        except exceptions.CloudRefused:
            return None
        return [(a.agent_type, a.host, a.is_alive) for a in found
                if a.agent_type == 'Open vSwitch agent' or
                a.agent_type.startswith('OVN Controller')]
