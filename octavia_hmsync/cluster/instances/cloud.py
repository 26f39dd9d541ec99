# SPDX-License-Identifier: Apache-2.0

"""The instances and ports of distributors that controllers boot.

All are found by their name, which has the id of the row: so any controller
finds what a dead one left.
"""

import dataclasses
import functools

from octavia_hmsync import cloud
from octavia_hmsync.compat import compute as compat_compute
from octavia_hmsync import compute as image_compute
from octavia_hmsync.conf import cluster as cluster_conf
from octavia_hmsync import exceptions

_NAME = 'octavia-hmsync-distributor-{}'


@dataclasses.dataclass(frozen=True)
class Options:
    """What an instance needs: see read_options()."""

    image_tag: str
    image_owner: str | None
    flavor_id: str
    network_id: str
    security_groups: tuple[str, ...]
    server_group: str | None
    key_name: str | None


def read_options(conf):
    """Read the Options of instances; raise InvalidConfiguration."""
    own = conf[cluster_conf.GROUP]
    workers = conf.controller_worker
    networks = workers.amp_boot_network_list
    network_id = own.distributor_network_id or (networks and networks[0])
    for name, value in (
            ('distributor_flavor_id', own.distributor_flavor_id),
            ('distributor_secgroup_list', own.distributor_secgroup_list),
            ('distributor_network_id', network_id),
            ('distributor_image_tag', own.distributor_image_tag)):
        if not value:
            raise exceptions.InvalidConfiguration(
                f'[{cluster_conf.GROUP}] {name} is not set: set it, as no '
                f'distributor can be booted without it, and '
                f'distributor_instances asks for some.')
    return Options(
        own.distributor_image_tag, workers.amp_image_owner_id or None,
        own.distributor_flavor_id, network_id,
        tuple(own.distributor_secgroup_list),
        own.distributor_server_group or None,
        workers.amp_ssh_key_name or None)


def get_name(instance_id):
    """Return the name of an instance and of its port."""
    return _NAME.format(instance_id)


class InstanceCloud(cloud.NeutronClient):
    """Creates and deletes them. Threads may share it.

    Each method raises CloudUnavailable or CloudRefused, in one line, if a
    service does not do its part.

    :param connection: an openstack.connection.Connection to Neutron; made
                       on first use by default.
    :param compute: a compute.Compute; likewise.
    :param load_driver: loads Octavia's compute driver by its name.
    """

    def __init__(self, conf, connection=None, compute=None,
                 load_driver=compat_compute.load_driver):
        super().__init__(conf, connection)
        self._given_compute = compute
        self._load_driver = load_driver

    @functools.cached_property
    def _compute(self):
        return self._given_compute or image_compute.connect(self._conf)

    def _find_ports(self, instance_id):
        name = get_name(instance_id)
        with self._reported(f'look for the port {name}'):
            return list(self._api.ports(name=name, **self._scope))

    def plug(self, instance_id):
        """Create the port of an instance in the management network.

        :returns: its id, and its address.
        :raises InvalidConfiguration: if an option is missing.
        """
        options = read_options(self._conf)
        name = get_name(instance_id)
        with self._reported(f'make the port {name}'):
            port = self._api.create_port(
                name=name, network_id=options.network_id,
                description='Made by octavia-hmsync for a distributor.',
                security_group_ids=list(options.security_groups))
        if not port.fixed_ips:
            raise exceptions.CloudRefused(
                f'The port {port.id} of a distributor has no address: the '
                f'network {options.network_id} has no subnet. Set '
                f'[{cluster_conf.GROUP}] distributor_network_id to the '
                f'management network.')
        return port.id, port.fixed_ips[0]['ip_address']

    def boot(self, instance_id, port_id, user_data):
        """Boot an instance.

        :param port_id: of its port in the management network.
        :returns: its id in the compute service.
        :raises BuildFailed: if the compute service rejects it, or does not
                             answer.
        """
        options = read_options(self._conf)
        name = self._conf.controller_worker.compute_driver
        try:
            return self._load_driver(name).build(
                name=get_name(instance_id),
                amphora_flavor=options.flavor_id,
                image_tag=options.image_tag,
                image_owner=options.image_owner, key_name=options.key_name,
                port_ids=[port_id], user_data=user_data,
                server_group_id=options.server_group)
        except Exception as e:  # Each driver has its own.
            reason = ' '.join(str(e).split()).rstrip('.') or type(e).__name__
            raise exceptions.BuildFailed(
                f'the compute service does not boot the distributor '
                f'{instance_id} ({reason})') from e

    def get_status(self, compute_id):
        """Return the status of an instance; None if it does not exist."""
        return self._compute.get_status(compute_id)

    def find(self, instance_id, compute_id=None):
        """Return the ids of all instances of a row in the compute service.

        :param compute_id: a known id, or None.
        :returns: a set.
        """
        found = {port.device_id for port in self._find_ports(instance_id)}
        found |= set(self._compute.find(get_name(instance_id)))
        return (found | {compute_id}) - {None, ''}

    def delete(self, compute_id):
        """Delete an instance; it is no error if there is none."""
        self._compute.delete(compute_id)

    def unplug(self, instance_id):
        """Delete the port of an instance; it is no error if there is none."""
        for port in self._find_ports(instance_id):
            with self._reported(f'delete the port {port.id}'):
                self._api.delete_port(port.id)
