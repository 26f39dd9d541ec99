# SPDX-License-Identifier: Apache-2.0

"""Reads ports of amphorae, and of distributors of clusters, from Neutron."""

import dataclasses
import datetime
import re

from openstack import exceptions as sdk_exc

from octavia_hmsync import cloud
from octavia_hmsync import compat
from octavia_hmsync.compat import compute as compat_compute

_ID = r'[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}'
# In the name of a VIP's port the load balancer's id follows "octavia-lb-".
_NAME = re.compile(
    f'(?:{"|".join(map(re.escape, compat_compute.PORT_PREFIXES))})({_ID})')
# The same as in cluster.distribution.ports, which is above this layer.
_OWNER = re.compile(f'lb-({_ID})')
_DISTRIBUTOR_NAME = re.compile(f'octavia-lb-distributor-({_ID})-.+')


@dataclasses.dataclass(frozen=True)
class Port:
    """A port whose name is that of an amphora's or a distributor's port.

    :param amphora_id: from its name; None for a distributor's port.
    :param cluster_id: from the name of a distributor's port.
    :param is_active: whether Neutron has wired it.
    :param vips: the addresses that it may have beside its own.
    """

    id: str
    name: str
    amphora_id: str | None
    device_id: str | None
    created_at: datetime.datetime | None
    cluster_id: str | None = None
    network_id: str | None = None
    is_active: bool = False
    vips: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class VIP:
    """The port of a VIP; a tenant's own does not tell load_balancer_id."""

    port_id: str
    load_balancer_id: str | None


# The fields of a Port.
_FIELDS = ['id', 'name', 'device_id', 'created_at', 'network_id', 'status',
           'allowed_address_pairs']


class Ports:
    """Reads ports from Neutron, or raises CloudUnavailable, CloudRefused."""

    def __init__(self, conf, connection):
        self._conf = conf
        self._connection = connection

    def exists(self, port_id):
        with cloud.reported(self._conf, f'read the port {port_id}'):
            try:
                self._connection.network.get_port(port_id)
            except sdk_exc.NotFoundException:
                return False
            return True

    def list_ports(self):
        """Return ports of amphorae or distributors, by their names."""
        with cloud.reported(self._conf, 'list the ports of amphorae'):
            project_id = self._connection.current_project_id
            filters = {'project_id': project_id} if project_id else {}
            return [port for found in self._connection.network.ports(
                fields=_FIELDS, **filters) if (port := _make(found))]

    def list_ports_of(self, amphora_id):
        """Return the ports named like those of one amphora."""
        with cloud.reported(self._conf, f'list the ports of {amphora_id}'):
            return [port for prefix in compat_compute.PORT_PREFIXES
                    for found in self._connection.network.ports(
                        name=f'{prefix}{amphora_id}', fields=_FIELDS)
                    if (port := _make(found))]

    def get_addresses(self, compute_id):
        """Return addresses of an instance's ports that Nova made."""
        with cloud.reported(self._conf, f'list the ports of the instance '
                                        f'{compute_id}'):
            return [ip['ip_address'] for port in
                    self._connection.network.ports(device_id=compute_id)
                    if _make(port) is None for ip in port.fixed_ips]

    def find_vip(self, network_id, address):
        """Find the VIP of an address, None if there is none any more."""
        with cloud.reported(self._conf, f'look for the port of {address}'):
            for port in self._connection.network.ports(
                    network_id=network_id,
                    fixed_ips=f'ip_address={address}'):
                match = _OWNER.fullmatch(port.device_id or '')
                return VIP(port.id, match and match[1])
        return None

    def get(self, port_id):
        """Return the present Port; None if it is gone or named otherwise."""
        with cloud.reported(self._conf, f'read the port {port_id}'):
            try:
                return _make(self._connection.network.get_port(port_id))
            except sdk_exc.NotFoundException:
                return None

    def delete(self, port_id):
        """Delete a port; a missing one is no error."""
        with cloud.reported(self._conf, f'delete the port {port_id}'):
            self._connection.network.delete_port(port_id,
                                                 ignore_missing=True)


def _make(found):
    name = found.name or ''
    match = _NAME.fullmatch(name)
    of_cluster = _DISTRIBUTOR_NAME.fullmatch(name)
    if match is None and of_cluster is None:
        return None
    created_at = found.created_at and datetime.datetime.strptime(
        found.created_at, '%Y-%m-%dT%H:%M:%SZ')
    return Port(found.id, name, match and match[1], found.device_id or None,
                created_at or None, of_cluster and of_cluster[1],
                found.network_id, found.status == compat.ACTIVE, tuple(
                    pair['ip_address']
                    for pair in found.allowed_address_pairs or ()))
