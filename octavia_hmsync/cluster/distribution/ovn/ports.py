# SPDX-License-Identifier: Apache-2.0

"""The Neutron port of a cluster for OVN's load balancer.

No machine has it. OVN probes members from its addresses. It is also the
only port to which OVN may move the VIP: so no machine in the subnet has the
VIP, and the router answers for it.
"""

import dataclasses

from octavia_hmsync.cluster.distribution import ports
from octavia_hmsync import exceptions

# In place of the name of a node.
HOST = 'ovn'


@dataclasses.dataclass(frozen=True)
class Source:
    """The port from which OVN probes members."""

    id: str
    mac: str
    mtu: int


class SourcePorts(ports.Ports):
    """As ports.Ports, for ports that are not bound to a node."""

    def ensure_source(self, cluster_id, network, subnets):
        """Ensure the port of a cluster, with its address pairs.

        :param network: of the VIP, from get_network().
        :param subnets: {address of the load balancer: id of its subnet}.
        """
        found = self._find(cluster_id, HOST, network['id'])
        if found is None:
            found = self._make(cluster_id, network, subnets)
        there = {pair['ip_address']
                 for pair in found.allowed_address_pairs or ()}
        if there != set(subnets):
            with self._reported(f'repair the port {found.id}'):
                found = self._api.update_port(
                    found.id, allowed_address_pairs=_get_pairs(subnets))
        return Source(found.id, found.mac_address.lower(), network['mtu'])

    @staticmethod
    def is_right(state, own_groups):
        """As ports.Ports.is_right(); OVN needs the pair of the VIP."""
        return not state.is_secured or bool(state.pairs)

    def find_dead_node(self, port_id):
        """Return the node of a port if Neutron knows that it is dead.

        :returns: its name, or None.
        """
        with self._reported(f'look at the node of the port {port_id}'):
            host = next((port.binding_host_id for port in
                         self._api.ports(id=port_id)), None)
            # This request makes Neutron ping each node, too.
            alive = [agent.is_alive for agent in self._api.agents(host=host)
                     if (agent.agent_type or '').startswith(ports.OVN_AGENT)
                     ] if host else []
        return host if alive and not any(alive) else None

    def _make(self, cluster_id, network, subnets):
        name = ports.get_name(cluster_id, HOST)
        try:
            with self._reported(f'make the port {name}'):
                return self._api.create_port(
                    name=name, network_id=network['id'],
                    device_owner=ports.DEVICE_OWNER,
                    device_id=f'distributor-{cluster_id}',
                    # delete() finds it by this.
                    description=ports.get_description(cluster_id),
                    mac_address=ports.make_mac(cluster_id, HOST),
                    fixed_ips=[{'subnet_id': subnet} for subnet in sorted(
                        {subnet for subnet in subnets.values() if subnet})],
                    security_group_ids=[],
                    allowed_address_pairs=_get_pairs(subnets))
        except (exceptions.CloudRefused, exceptions.CloudUnavailable):
            # Another process made it a moment ago, or the answer was lost.
            found = self._find(cluster_id, HOST, network['id'])
            if found is None:
                raise
            return found


def _get_pairs(addresses):
    return [{'ip_address': address} for address in addresses]
