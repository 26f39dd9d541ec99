# SPDX-License-Identifier: Apache-2.0

"""Networks of nodes: what is plugged is a port, with its security groups."""

from tests.cloud.compute import fabric
from tests.cloud import waiting

# The host of what is in a provider network, and none of the cloud's.
OUTSIDE = 'outside'


class Fabric(fabric.Fabric):
    """Plugs namespaces into the vswitches of compute nodes.

    :param computes: {host: nodes.Node}.
    :param gateway: the nodes.Node whose br-ex is the physical network.
    """

    def __init__(self, directory, computes, gateway):
        super().__init__(directory)
        self.hosts = tuple(computes)
        self._computes = computes
        self._gateway = gateway
        self._bridged = set()
        self._external = set()
        self._chassis = {}
        self._tags = {}
        self._trunks = {}

    def keep_apart(self, network_id):
        """Have a network be a bridge: that of management."""
        self._bridged.add(network_id)

    def set_external(self, network_id):
        """Tell that a network is the physical one."""
        self._external.add(network_id)

    def set_tag(self, network_id, tag):
        """Tell the VLAN of a provider network, for machines at OUTSIDE."""
        self._tags[network_id] = tag

    def set_trunk(self, port_id, bridge):
        """Tell the bridge of a trunk, which Nova makes."""
        self._trunks[port_id] = bridge

    def plug(self, namespace, network_id, mac, name, port_id=None, host=None):
        if network_id in self._bridged:
            return super().plug(namespace, network_id, mac, name)
        if network_id in self._external:
            chassis, bridge = self._gateway, 'br-ex'
        elif host == OUTSIDE:
            chassis, bridge = self._gateway, 'br-provider'
        else:
            chassis = self._computes[host]
            bridge = self._trunks.get(port_id, 'br-int')
            chassis.vswitch.vsctl('--may-exist', 'add-br', bridge, '--',
                                  'set', 'Bridge', bridge,
                                  'datapath_type=netdev')
        tap = chassis.plug(namespace, name, port_id, mac, bridge, up=False)
        self._chassis[tap] = chassis
        if host == OUTSIDE and self._tags.get(network_id):
            chassis.vswitch.vsctl('set', 'Port', tap,
                                  f'tag={self._tags[network_id]}')
        return tap

    def wait_until_plugged(self, network, port):
        if (port.network_id not in self._bridged | self._external and
                port.binding_host_id != OUTSIDE):
            waiting.wait_for(
                lambda: network.get_port(port.id).status == 'ACTIVE',
                f'ACTIVE port {port.name}')

    def unplug(self, tap):
        chassis = self._chassis.pop(tap, None)
        if chassis is None:
            super().unplug(tap)
        else:
            chassis.unplug(tap)
