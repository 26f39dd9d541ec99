# SPDX-License-Identifier: Apache-2.0

"""Networks of nodes: what is plugged is a port, with its security groups."""

from tests.cloud.compute import fabric
from tests.cloud import waiting

# The host of what is in a provider network, and none of the cloud's.
OUTSIDE = 'outside'


class Fabric(fabric.Fabric):
    """Plugs namespaces into the vswitches of compute nodes.

    :param computes: {host: nodes.Node}.
    :param gateway: the nodes.Node at which machines outside are.
    """

    def __init__(self, directory, computes, gateway):
        super().__init__(directory, tuple(computes))
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

    def set_trunk(self, port_id, parent, tag):
        """Tell that a port is a VLAN of a trunk.

        :param parent: a port of Neutron, which is bound.
        """
        self._trunks[port_id] = parent, tag

    def plug(self, namespace, network_id, mac, name, port_id=None, host=None):
        if network_id in self._bridged:
            return super().plug(namespace, network_id, mac, name)
        tag = None
        if network_id in self._external:
            chassis = self._gateway
            bridge = chassis.external_bridge
        elif host == OUTSIDE:
            chassis, bridge = self._gateway, 'br-provider'
            tag = self._tags.get(network_id)
        else:
            chassis, bridge = self._computes[host], 'br-int'
            if port_id in self._trunks:
                parent, tag = self._trunks[port_id]
                bridge = _add_trunk(chassis.vswitch, parent)
        tap = chassis.plug(namespace, name, port_id, mac, bridge, up=False)
        self._chassis[tap] = chassis
        if tag:
            chassis.vswitch.vsctl('set', 'Port', tap, f'tag={tag}')
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


def _add_trunk(vswitch, parent):
    """Plug a bridge in, whose VLANs are those of a trunk; returns its name.

    It stands for the VLAN devices of a virtual machine, which not every kernel
    has.
    """
    inner = f'vm{parent.id[:8]}'
    # That of ML2/OVS is made by Nova.
    outer = parent.binding_vif_details.get('bridge_name', 'br-int')
    for bridge in {inner, outer} - {'br-int'}:
        vswitch.vsctl('add-br', bridge, '--', 'set', 'Bridge', bridge,
                      'datapath_type=netdev')
    ends = f'{inner}-in', f'{inner}-out'
    for bridge, end, peer in ((inner, *ends), (outer, *reversed(ends))):
        vswitch.vsctl('add-port', bridge, end, '--', 'set', 'Interface', end,
                      'type=patch', f'options:peer={peer}')
    vswitch.vsctl('set', 'Interface', ends[1],
                  f'external_ids:iface-id={parent.id}',
                  f'external_ids:attached-mac="{parent.mac_address}"',
                  'external_ids:iface-status=active')
    return inner
