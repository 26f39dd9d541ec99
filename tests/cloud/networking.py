# SPDX-License-Identifier: Apache-2.0

"""Networks of a cloud: a real Neutron, and what carries its packets.

Each kind has .neutron, .fabric (a compute.fabric.Fabric) and, once it is
ready, .connection, of openstacksdk.
"""

import functools
import os

import fixtures

from tests.cloud.compute import fabric
from tests.cloud.compute import node_fabric
from tests.cloud import mariadb
from tests.cloud import ml2_ovs
from tests.cloud import neutron
from tests.cloud import nodes
from tests.cloud import ovn
from tests.cloud import rabbitmq
from tests.cloud import waiting

COMPUTES = ('compute1', 'compute2')
NETWORK_NODES = ('network1', 'network2')
GATEWAY = 'gateway'
EXTERNAL = 'external'
PROVIDER = 'provider'


class Bridges(fixtures.Fixture):
    """Each network is a bridge, which enforces nothing.

    :param how: what fabric.Fabric takes besides a directory.
    """

    def __init__(self, directory, options=None, **how):
        super().__init__()
        self._directory = directory
        self._options = options
        self._how = how

    def _setUp(self):
        self.neutron = self.useFixture(neutron.Neutron(
            self._directory, options=self._options))
        self.fabric = self.useFixture(fabric.Fabric(
            self._directory, **self._how))

    def wait_until_ready(self):
        self.neutron.wait_until_ready()
        for host in self.fabric.hosts:
            self.neutron.add_agent(host)


class _Nodes(fixtures.Fixture):
    """Open vSwitch in user space on each of some nodes.

    .chassis has a nodes.Node for each: those of COMPUTES run instances and
    machines, NETWORK_NODES distributors alone. Machines in EXTERNAL are at
    GATEWAY.

    :param provider: the name of a physical network that all of them have.
    :param gateways: the nodes that route into EXTERNAL; others than
                     GATEWAY need it as their provider network.
    """

    def __init__(self, directory, options=None, provider=None,
                 gateways=(GATEWAY,)):
        super().__init__()
        self._directory = directory
        self._options = options
        self._provider = provider
        self._gateways = gateways
        self.chassis = {}

    def _setUp(self):
        self._make_neutron()
        underlay = nodes.make_underlay(self, self._directory)
        for number, host in enumerate(
                (*COMPUTES, *NETWORK_NODES, GATEWAY), 1):
            self.chassis[host] = self.useFixture(self._make_node(
                host, underlay, number, self._directory,
                external=EXTERNAL if host in self._gateways else None,
                provider=self._provider))
        self.fabric = self.useFixture(node_fabric.Fabric(
            self._directory, {host: self.chassis[host] for host in COMPUTES},
            self.chassis[GATEWAY]))

    @property
    def processes(self):
        """All that should not end as long as the network lives."""
        return [child for chassis in self.chassis.values()
                for child in (chassis.vswitch.vswitchd, *chassis.agents)]

    def describe(self, lines=25):
        """Return what the processes of the nodes said last."""
        return '\n'.join(f'--- {child.name}\n{child.log_tail(lines)}'
                         for child in self.processes)

    def wait_until_ready(self):
        self.neutron.wait_until_ready()
        for chassis in self.chassis.values():
            chassis.wait_until_ready()


class OVN(_Nodes):
    """OVN."""

    def _make_neutron(self):
        self.central = self.useFixture(ovn.Central(self._directory))
        self.neutron = self.useFixture(ovn.Neutron(
            self._directory, mariadb.shared_server(), self.central,
            options=self._options))

    def _make_node(self, host, *args, **kwargs):
        return ovn.Chassis(host, self.central, *args, **kwargs)


class OVS(_Nodes):
    """ML2/OVS: agents of Neutron's, tunnels, the firewall of Open vSwitch."""

    def _make_neutron(self):
        self.rabbitmq = self.useFixture(rabbitmq.RabbitMQServer(
            os.path.join(self._directory, 'neutron')))
        self.rabbitmq.wait_until_ready()
        self.neutron = self.useFixture(ml2_ovs.Neutron(
            self._directory, mariadb.shared_server(), self.rabbitmq,
            options=self._options))

    def _make_node(self, host, *args, **kwargs):
        return ml2_ovs.Node(host, self.rabbitmq, *args, **kwargs)

    def wait_until_ready(self):
        super().wait_until_ready()
        # Ports can be bound where Neutron knows of an agent.
        wanted = {(host, 'Open vSwitch agent') for host in self.chassis}
        wanted |= {(host, 'L3 agent') for host in self._gateways}
        with neutron.connect(self.neutron) as connection:
            waiting.wait_for(
                lambda: wanted == {
                    (agent.host, agent.agent_type)
                    for agent in connection.network.agents()
                    if agent.is_alive},
                'agents', processes=self.processes)


KINDS = {'bridges': Bridges,
         'bridges-two-hosts': functools.partial(Bridges, hosts=COMPUTES),
         'ovn': OVN, 'ovs': OVS,
         'ovn-provider': functools.partial(OVN, provider=PROVIDER)}
