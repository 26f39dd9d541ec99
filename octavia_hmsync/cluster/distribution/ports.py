# SPDX-License-Identifier: Apache-2.0

"""The Neutron ports of distributors.

A cluster has one port for each of its distributors, on the network of its
VIP. It is found by its name, its owner and its network. Neutron lets two
ports have the same name, but not the same MAC address in a network. So each
request to create a port has the same MAC address: a late or a concurrent
request cannot create a second port.
"""

from collections import abc
import dataclasses
import functools
import hashlib
import ipaddress

from openstack import exceptions as sdk_exc
from oslo_utils import uuidutils

from octavia_hmsync import cloud
from octavia_hmsync.cluster.distribution import groups as cluster_groups
from octavia_hmsync import compat
from octavia_hmsync.compat import compute as compat_compute
from octavia_hmsync import exceptions

DEVICE_OWNER = 'Octavia:distributor'
_GROUP = cluster_groups.DISTRIBUTORS
GROUP_DESCRIPTION = ('Made by octavia-hmsync for the ports of distributors: '
                     'anything may pass, as members have groups of their '
                     'own. Stateless, because a distributor sees one half '
                     'of each connection.')

_NAME = 'octavia-lb-distributor-{}-{}'
# Neutron's limit for any name.
_NAME_LENGTH = 255
BINDING_FAILED = 'binding_failed'
# Neutron's agent type of an ovn-controller, without " Gateway" and the like.
OVN_AGENT = 'OVN Controller'
# The mechanism driver of neutron-openvswitch-agent.
_OVS = 'openvswitch'
# Ports in one request, and their fields.
_AT_ONCE = 50
_FIELDS = ('id', 'port_security_enabled', 'allowed_address_pairs',
           'security_groups', 'binding:vif_details', 'admin_state_up',
           'fixed_ips', 'device_owner', 'device_id')
# All addresses of clients; Neutron does not take ::/0.
_ANYBODY = {4: ('0.0.0.0/0',), 6: ('2000::/3', 'fc00::/7')}


@dataclasses.dataclass(frozen=True)
class Port:
    """A port as Neutron has it, and what its distributor needs to know.

    :param addresses: its own, in the subnets of the VIP.
    """

    id: str
    mac: str
    mtu: int
    addresses: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class State:
    """What may have been changed of a port.

    :param is_secured: whether its port security is on.
    :param pairs: addresses and networks that it may send from.
    :param groups: ids of its security groups, in order.
    :param is_ovs: whether neutron-openvswitch-agent has wired it.
    :param is_on: whether it may carry traffic at all.
    :param addresses: {each of its own: id of its subnet}.
    :param owner: who says to use it.
    :param device: what it is plugged into.
    """

    is_secured: bool
    pairs: tuple[str, ...]
    groups: tuple[str, ...]
    is_ovs: bool = False
    is_on: bool = True
    addresses: abc.Mapping[str, str | None] = dataclasses.field(
        default_factory=dict)
    owner: str = ''
    device: str = ''


def get_name(cluster_id, host):
    """Return the name of the port of a cluster at a node."""
    return _NAME.format(cluster_id, host)[:_NAME_LENGTH]


def get_description(cluster_id):
    """Return the description of the ports of a cluster."""
    return f'Made by octavia-hmsync for the cluster {cluster_id}.'


def make_mac(cluster_id, host):
    """Return the MAC address with which the port is created."""
    digest = hashlib.sha256(f'{cluster_id} {host}'.encode()).hexdigest()
    return f'fa:16:3e:{digest[:2]}:{digest[2:4]}:{digest[4:6]}'


def is_instance(host):
    """Tell whether a distributor is an instance: its name is a UUID then."""
    return uuidutils.is_uuid_like(host)


def get_pairs(addresses):
    """Return the address pairs of a distributor's port.

    :param addresses: of the load balancer, as Octavia writes them: from these
                      pairs OVN learns that the VIP may be at this port.
    """
    addresses = list(addresses)
    versions = sorted({ipaddress.ip_address(a).version for a in addresses})
    return [{'ip_address': text} for text in (
        *addresses, *(text for version in versions
                      for text in _ANYBODY[version]))]


def check_network(network, vnic_type=None):
    """Check that distributors can carry traffic in a network.

    :param network: a dict, as Neutron's API shows it.
    :param vnic_type: of the ports of amphorae in it.
    :raises NotPossible: if they cannot, and why.
    """
    name = network.get('name') or network['id']
    if vnic_type == compat.DIRECT:
        raise exceptions.NotPossible(
            f'A cluster cannot have SR-IOV ports (vip_sriov) in the network '
            f'{name}: their traffic bypasses Open vSwitch, where '
            f'distributors are. Take a flavor without it.')
    if network.get('l2_adjacency') is False:
        raise exceptions.NotPossible(
            f'A cluster cannot be in the network {name}: it is a routed one, '
            f'whose segments are no common Ethernet, and distributors send '
            f'to members\' MAC addresses. Take a network with one segment '
            f'for the VIP.')


def _read(port):
    bound = (port.get('binding:vif_details') or {}).get('bound_drivers') or {}
    return State(
        bool(port.get('port_security_enabled', True)),
        tuple(pair['ip_address']
              for pair in port.get('allowed_address_pairs') or ()),
        tuple(sorted(port.get('security_groups') or ())),
        _OVS in bound.values(), bool(port.get('admin_state_up', True)),
        {ip['ip_address']: ip['subnet_id']
         for ip in port.get('fixed_ips') or ()},
        port.get('device_owner') or '', port.get('device_id') or '')


class Ports(cluster_groups.GroupsClient):
    """Creates and deletes the ports of distributors. Threads may share it.

    Every method calls Neutron, and raises CloudUnavailable or CloudRefused,
    with one line that says what to do.

    :param connection: an openstack.connection.Connection; made on first use
                       by default.
    :param load_compute: loads Octavia's compute driver by its name.
    """

    def __init__(self, conf, connection=None,
                 load_compute=compat_compute.load_driver):
        super().__init__(conf, connection)
        self._load_compute = load_compute

    @functools.cached_property
    def _compute(self):
        return self._load_compute(self._conf.controller_worker.compute_driver)

    def get_network(self, network_id):
        """Return a network as a dict, as Neutron's API shows it."""
        with self._reported(f'look at the network {network_id}'):
            answer = self._api.get(f'/networks/{network_id}')
            sdk_exc.raise_from_response(answer)
            network = answer.json()['network']
            return {**network, 'mtu': cloud.read_mtu(network['mtu'])}

    def ensure(self, cluster_id, host, network, subnets):
        """Ensure the port of a cluster at a node.

        :param host: the node, as Neutron's agents call it.
        :param network: of the VIP, from get_network().
        :param subnets: {address of the load balancer: id of its subnet}.
        :returns: a Port, bound to the node, or plugged into the instance.
        :raises PortConflict: if the port is bound elsewhere or not at all.
        """
        found = self._find(cluster_id, host, network['id'])
        if found is None:
            found = self._create(cluster_id, host, network, subnets)
        found = (self._attach(found, host) if is_instance(host)
                 else self._bind(found, host))
        self._repair(found, network, subnets)
        return Port(found.id, found.mac_address.lower(), network['mtu'],
                    tuple(one['ip_address'] for one in found.fixed_ips or ()))

    def _find(self, cluster_id, host, network_id):
        name = get_name(cluster_id, host)
        # Nova changes the owner of a port that it plugs.
        owner = {} if is_instance(host) else {'device_owner': DEVICE_OWNER}
        with self._reported(f'look for the port {name}'):
            found = list(self._api.ports(
                name=name, network_id=network_id, **owner, **self._scope))
        return found[0] if found else None

    def _attach(self, port, compute_id):
        """Ensure that a port is plugged into an instance; return it anew."""
        if port.device_id == compute_id:
            return port
        if port.device_id:
            raise exceptions.PortConflict(
                f'The port {port.id} of a distributor is plugged into '
                f'{port.device_id} and not into the instance {compute_id}: '
                f'delete it.')
        try:
            self._compute.attach_network_or_port(compute_id, port_id=port.id)
        except Exception as e:  # Each driver has its own.
            reason = ' '.join(str(e).split()) or type(e).__name__
            raise exceptions.PortConflict(
                f'The port {port.id} could not be plugged into the instance '
                f'{compute_id} of a distributor ({reason}): see whether the '
                f'instance runs, and how many interfaces it may have.') from e
        with self._reported(f'look at the port {port.id}'):
            return self._api.get_port(port.id)

    def _create(self, cluster_id, host, network, subnets):
        name = get_name(cluster_id, host)
        # Nova takes a port with an owner to be in use.
        place = {} if is_instance(host) else {
            'device_owner': DEVICE_OWNER,
            'device_id': f'distributor-{cluster_id}', 'binding_host_id': host}
        values = {
            **place, 'name': name, 'network_id': network['id'],
            'description': get_description(cluster_id),
            'mac_address': make_mac(cluster_id, host),
            'fixed_ips': [{'subnet_id': subnet} for subnet in sorted(
                {subnet for subnet in subnets.values() if subnet})],
            **self._security(network, subnets)}
        try:
            with self._reported(f'make the port {name}'):
                return self._api.create_port(**values)
        except (exceptions.CloudRefused, exceptions.CloudUnavailable):
            # Another process made it a moment ago, or the answer was lost.
            found = self._find(cluster_id, host, network['id'])
            if found is None:
                raise
            return found

    def _security(self, network, subnets):
        """Return the groups and pairs of a port, as Neutron takes them."""
        if network.get('port_security_enabled') is False:
            return {}
        return {'security_group_ids': [self._ensure_group()],
                'allowed_address_pairs': get_pairs(subnets)}

    def _ensure_group(self):
        """Ensure the security group of all such ports, and return its id."""
        found = self._find_group()
        if found is None:
            try:
                with self._reported(f'make the security group {_GROUP}'):
                    made = self._api.create_security_group(
                        name=_GROUP, description=GROUP_DESCRIPTION,
                        stateful=False, **self._scope)
            except exceptions.CloudUnavailable:
                # Perhaps only the answer was lost.
                made = self._find_group()
                if made is None:
                    raise
            # If two processes made one each, all take the first.
            found = self._find_group() or made
            if made.id != found.id:
                with self._reported(f'delete the security group {made.id}'):
                    self._api.delete_security_group(made.id)
        for rule in cluster_groups.find_missing_of_distributors(
                cluster_groups.read_rules(found.security_group_rules)):
            self.add_rule(found.id, rule)
        return found.id

    def _find_group(self):
        with self._reported(f'look for the security group {_GROUP}'):
            found = [group for group in self._api.security_groups(
                name=_GROUP, **self._scope) if not group.stateful]
        return min(found, key=lambda group: (group.created_at or '',
                                             group.id), default=None)

    def _bind(self, port, host):
        """Ensure that a port is bound to a node; return it anew."""
        if port.binding_vif_type == BINDING_FAILED:
            # Its agent may run by now: an update makes Neutron bind again.
            with self._reported(f'bind the port {port.id}'):
                port = self._api.update_port(port.id, binding_host_id=host)
        self._check_binding(port, host)
        return port

    def _check_binding(self, port, host):
        if port.binding_vif_type == BINDING_FAILED:
            raise exceptions.PortConflict(
                f'Neutron could not bind the port {port.id} of a distributor '
                f'to the node {host}: see whether its agent runs there, '
                f'whether the network {port.network_id} reaches that node, '
                f'and whether {host} is its name in "openstack network agent '
                f'list"; NAME=URL in [hmsync_cluster] distributors gives '
                f'another one.')
        if (port.binding_host_id or host) != host:
            raise exceptions.PortConflict(
                f'The port {port.id} of a distributor is bound to the node '
                f'{port.binding_host_id} and not to {host}: delete it, or '
                f'bind it to {host}.')

    def _repair(self, port, network, subnets):
        """Repair what was changed, or left unfinished by a dead process."""
        values: dict[str, object] = {}
        if not port.is_admin_state_up:
            values['admin_state_up'] = True
        bound = (port.binding_vif_details or {}).get('bound_drivers') or {}
        if _OVS in bound.values():
            # Its firewall tracks connections, and would see only one half of
            # each at a distributor.
            if port.is_port_security_enabled:
                values.update(port_security_enabled=False,
                              security_group_ids=[],
                              allowed_address_pairs=[])
        elif port.is_port_security_enabled:
            wanted = self._security(network, subnets)
            there = port.allowed_address_pairs or []
            missing = [pair for pair in wanted.get(
                'allowed_address_pairs', ()) if pair['ip_address'] not in {
                    one['ip_address'] for one in there}]
            if missing:
                values['allowed_address_pairs'] = [*there, *missing]
            groups = port.security_group_ids or []
            if wanted and groups != wanted['security_group_ids']:
                values['security_group_ids'] = wanted['security_group_ids']
        if values:
            with self._reported(f'repair the port {port.id}'):
                self._api.update_port(port.id, **values)

    def read(self, port_ids):
        """Return {id: State} of the ports that exist.

        A port counts as gone only if Neutron answers 404 to a request for
        that port alone.
        """
        found = {}
        with self._reported('look at the ports of clusters'):
            if len(port_ids) > _AT_ONCE:
                # Fewer requests: list all ports of the project first.
                found = {key: state for key, state
                         in self._list(self._scope).items()
                         if key in port_ids}
            ids = sorted(set(port_ids) - set(found))
            for begin in range(0, len(ids), _AT_ONCE):
                found.update(self._list({'id': ids[begin:begin + _AT_ONCE]}))
            for port_id in ids:
                if port_id not in found:
                    answer = self._api.get(f'/ports/{port_id}')
                    if answer.status_code != 404:
                        sdk_exc.raise_from_response(answer)
                        found[port_id] = _read(answer.json()['port'])
        return found

    def _list(self, filters):
        """Return {id: State} of the ports that filters find."""
        found: dict[str, State] = {}
        marker: dict[str, object] = {}
        while True:
            answer = self._api.get('/ports', params={
                **filters, **marker, 'fields': list(_FIELDS)})
            sdk_exc.raise_from_response(answer)
            page = answer.json()
            found.update((port['id'], _read(port)) for port in page['ports'])
            if not page['ports'] or not any(
                    link['rel'] == 'next'
                    for link in page.get('ports_links', ())):
                return found
            marker = {'marker': page['ports'][-1]['id']}

    @staticmethod
    def is_right(state, own_groups):
        """Tell whether a port lets a distributor send what it must.

        :param own_groups: ids of the security groups of distributors.
        """
        if not state.is_secured:
            return True
        anybody = {text for texts in _ANYBODY.values() for text in texts}
        return bool(not state.is_ovs and state.groups and
                    own_groups.issuperset(state.groups) and
                    anybody.intersection(state.pairs))

    def find_holder(self, network_id, address):
        """Return the id of the port with an address, None without one."""
        with self._reported(f'look who has the address {address}'):
            return next((port.id for port in self._api.ports(
                network_id=network_id,
                fixed_ips=f'ip_address={address}')), None)

    def change(self, port_id, values):
        """Give a port what it lacks.

        :param values: of the port, as the SDK takes them.
        """
        with self._reported(f'repair the port {port_id}'):
            self._api.update_port(port_id, **values)

    def switch(self, port_id, is_on):
        """Switch a port on or off; a port that is gone is skipped."""
        with self._reported(f'look at the port {port_id}'):
            found = list(self._api.ports(id=port_id))
        if found and bool(found[0].is_admin_state_up) != is_on:
            with self._reported(f'switch the port {port_id} '
                                f'{"on" if is_on else "off"}'):
                self._api.update_port(port_id, admin_state_up=is_on)

    def get_switched_off(self):
        """Return the ids of the ports that are switched off, a set.

        Ports of instances are not found, because Nova gives them another
        owner: they are switched on when their distributor is told.
        """
        with self._reported('look for ports of distributors'):
            return {port.id for port in self._api.ports(
                device_owner=DEVICE_OWNER, is_admin_state_up=False,
                **self._scope)}

    def delete(self, cluster_id, host=None):
        """Delete the ports of a cluster, if any, at one node or all."""
        with self._reported(f'look for the ports of the cluster '
                            f'{cluster_id}'):
            found = list(self._api.ports(
                description=get_description(cluster_id), **self._scope))
        for port in found:
            if host is None:
                if not port.name.startswith(get_name(cluster_id, '')):
                    continue
            elif port.name != get_name(cluster_id, host):
                continue
            self._detach(port)
            with self._reported(f'delete the port {port.id}'):
                self._api.delete_port(port.id)

    def _detach(self, port):
        """Unplug a port from its instance; Nova does so later."""
        if is_instance(port.device_id):
            self._compute.detach_port(port.device_id, port.id)
