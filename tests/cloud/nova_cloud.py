# SPDX-License-Identifier: Apache-2.0

"""A whole Octavia whose amphorae are servers of a real Nova, by libvirt."""

import os
import pathlib

import fixtures

from tests.cloud.compute import machine
from tests.cloud import libvirt
from tests.cloud import networking
from tests.cloud import neutron
from tests.cloud import nova
from tests.cloud import octavia
from tests.cloud import process
from tests.cloud import relay

# MB; the disk's are GB.
_FLAVOR = {'ram': 640, 'vcpus': 1, 'disk': 2}


class Server(machine.Guest):
    """An amphora's server.

    :param compute: the Compute.
    :param server: of openstacksdk.
    """

    def __init__(self, compute, server):
        self.name = server.name
        self.host = server.compute_host
        self._libvirt = compute.hosts[self.host]
        self._domain = server.id
        self._console = (pathlib.Path(compute.nova.get_instances_path(
            self.host)) / server.id / 'console.log')
        self.agent = libvirt.GuestAgent(self._libvirt, self._domain)

    @property
    def running(self):
        return self._libvirt.virsh(
            'domstate', self._domain).strip() == 'running'

    def kill_tree(self):
        """Cut its power."""
        self._libvirt.virsh('destroy', self._domain)

    def log_tail(self, lines=60):
        return '\n'.join(self.console().splitlines()[-lines:])


class Compute(fixtures.Fixture):
    """Nova; .nova is that, .hosts the libvirt.Libvirt of each compute.

    :param cloud: the Octavia.
    """

    environment = {}

    def __init__(self, cloud):
        super().__init__()
        self._cloud = cloud
        self.hosts = {}

    def _setUp(self):
        cloud = self._cloud
        self.nova = self.useFixture(nova.Nova(
            cloud.directory, cloud.rabbitmq.url, cloud.neutron, cloud.glance,
            hosts=()))
        cloud.connection.config.config['compute_endpoint_override'] = (
            self.nova.url)
        self.nova.wait_until_served()
        self._api = cloud.connection.compute
        for host in networking.COMPUTES:
            node = cloud.networking.chassis[host]
            self.hosts[host] = self.useFixture(libvirt.Libvirt(
                node, cloud.directory))
            self.nova.add_libvirt(node, self.hosts[host].uri)
        self.nova.wait_until_ready(cloud.connection)
        self.useFixture(relay.Relay(cloud.namespace, self.nova.port))
        self._flavor_id = self._api.create_flavor(name='amphora',
                                                  **_FLAVOR).id

    def octavia_options(self):
        """Return what octavia.conf needs, as {group: {option: value}}."""
        return {**self.nova.octavia_options(), 'controller_worker': {
            'compute_driver': 'compute_nova_driver',
            'amp_flavor_id': self._flavor_id}}

    @property
    def instances(self):
        """Return {id: Server} of all servers that have a host."""
        return {each.id: Server(self, each) for each in self._api.servers()
                if each.compute_host}

    def by_amphora(self, amphora_id):
        """Return the Server of an amphora; None where there is none."""
        name = f'amphora-{amphora_id}'
        return next((each for each in self.instances.values()
                     if each.name == name), None)


class NovaOctavia(octavia.Octavia):
    """Octavia with Octavia's own compute driver, on OVN.

    Real are Nova, its libvirt driver and os-vif besides. The management
    network is one of Neutron's, in which controllers have ports.
    """

    def __init__(self, **kwargs):
        super().__init__(network='ovn', **kwargs)

    def _make_compute(self):
        return self.useFixture(Compute(self))

    def _make_management_network(self):
        super()._make_management_network()
        self.connection.network.create_security_group_rule(
            security_group_id=self._group.id, direction='ingress',
            project_id=neutron.PROJECT_ID, ethertype='IPv4', protocol='tcp',
            port_range_min=octavia.AMPHORA_PORT,
            port_range_max=octavia.AMPHORA_PORT)

    def _keep_management_apart(self):
        """It is on the nodes, as the others."""

    def _plug_controllers(self, port, name):
        api = self.connection.network
        port = api.update_port(
            port, binding_host_id=networking.GATEWAY,
            is_port_security_enabled=False, security_groups=[])
        self.networking.chassis[networking.GATEWAY].plug(
            self.namespace, name, port.id, port.mac_address)

    def add_image(self, name, tags=(octavia.IMAGE_TAG,), like=None):
        """Upload an image of amphorae; returns it. The newest one wins.

        :param like: a machine.Image.
        """
        files = like.files
        disk = os.path.join(self.directory, 'amphora.qcow2')
        if not os.path.exists(disk):
            process.run('qemu-img', 'convert', '-O', 'qcow2', files.disk,
                        disk)
        parts = {
            f'{kind}_id': self._upload(f'{name}-{kind}', form, form, path).id
            for kind, form, path in (('kernel', 'aki', files.kernel),
                                     ('ramdisk', 'ari', files.initrd))}
        image = self._upload(
            name, 'bare', 'qcow2', disk, hw_qemu_guest_agent='yes',
            os_command_line=like.kernel_arguments, **parts)
        for tag in tags:
            self.connection.image.add_tag(image, tag)
        return self.connection.image.get_image(image)

    def _upload(self, name, container_format, disk_format, path, **values):
        return self.connection.image.create_image(
            name=name, container_format=container_format,
            disk_format=disk_format, filename=str(path),
            validate_checksum=False, allow_duplicates=True, **values)
