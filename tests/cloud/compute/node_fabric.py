# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Networks of nodes: what is plugged is a port, with its security groups."""

from tests.cloud.compute import fabric
from tests.cloud import waiting


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

    def keep_apart(self, network_id):
        """Have a network be a bridge: that of management."""
        self._bridged.add(network_id)

    def set_external(self, network_id):
        """Tell that a network is the physical one."""
        self._external.add(network_id)

    def plug(self, namespace, network_id, mac, name, port_id=None, host=None):
        if network_id in self._bridged:
            return super().plug(namespace, network_id, mac, name)
        if network_id in self._external:
            chassis, bridge = self._gateway, 'br-ex'
        else:
            chassis, bridge = self._computes[host], 'br-int'
        tap = chassis.plug(namespace, name, port_id, mac, bridge, up=False)
        self._chassis[tap] = chassis
        return tap

    def wait_until_plugged(self, network, port):
        if port.network_id not in self._bridged | self._external:
            waiting.wait_for(
                lambda: network.get_port(port.id).status == 'ACTIVE',
                f'ACTIVE port {port.name}', 30)

    def unplug(self, tap):
        chassis = self._chassis.pop(tap, None)
        if chassis is None:
            super().unplug(tap)
        else:
            chassis.unplug(tap)
