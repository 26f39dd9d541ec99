# SPDX-License-Identifier: Apache-2.0

"""Networks: a bridge for each network of Neutron."""

import fixtures

from tests.cloud import openvswitch


class Fabric(fixtures.Fixture):
    """A namespace with the bridges; what is plugged sees no other network.

    Bridges do not check what a port sends: port security is for OVN's tests.

    :param hosts: where Nova would run instances.
    """

    def __init__(self, directory, hosts=('compute',)):
        super().__init__()
        self._directory = directory
        self.hosts = hosts
        self._bridges = {}
        self._links = 0

    def _setUp(self):
        self.namespace = self.useFixture(
            openvswitch.Namespace('fabric', self._directory))

    def keep_apart(self, network_id):
        """Have a network be a bridge, whatever the others are: management."""

    def bridge(self, network_id):
        """Return the name of a network's bridge; make it where it lacks."""
        name = self._bridges.get(network_id)
        if name is None:
            name = self._bridges[network_id] = f'br{len(self._bridges)}'
            self.namespace.run('ip', 'link', 'add', name, 'type', 'bridge')
            self.namespace.run('ip', 'link', 'set', name, 'up')
        return name

    def plug(self, namespace, network_id, mac, name, port_id=None, host=None):
        """Connect a namespace; its new interface is down.

        :param port_id: of Neutron, for fabrics that enforce something.
        :param host: where the namespace is, one of .hosts.
        :returns: the other end, for unplug().
        """
        bridge = self.bridge(network_id)
        self._links += 1
        tap = f'tap{self._links}'
        # One that shall come up later must not be seen before it has its MAC.
        self.namespace.run(
            'ip', 'link', 'add', tap, 'type', 'veth', 'peer', name,
            'address', mac, 'netns', str(namespace.pid))
        self.namespace.run('ip', 'link', 'set', tap, 'master', bridge, 'up')
        return tap

    def wait_until_plugged(self, network, port):
        """Wait until packets of a port pass.

        :param network: the network proxy of a connection to Neutron.
        """

    def unplug(self, tap):
        """Take an interface away; that it has gone is no error."""
        self.namespace.run('ip', 'link', 'delete', tap, check=False)

    def add_host(self, name, network_id, mac, *addresses, port_id=None,
                 host=None, mtu=1500):
        """Add a machine with an interface in a network.

        :param addresses: with the length of the prefix.
        :returns: its openvswitch.Namespace.
        """
        machine = self.useFixture(
            openvswitch.Namespace(name, self._directory))
        self.plug(machine, network_id, mac, 'eth0', port_id, host)
        for address in addresses:
            # One that looks for a second owner first cannot be used at once.
            nodad = ('nodad',) if ':' in address else ()
            machine.run('ip', 'address', 'add', address, 'dev', 'eth0',
                        *nodad)
        machine.run('ip', 'link', 'set', 'eth0', 'mtu', str(mtu), 'up')
        return machine
