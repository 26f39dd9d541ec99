# SPDX-License-Identifier: Apache-2.0

"""Nodes whose Open vSwitch the agents of Neutron have in hand."""

import contextlib

import fixtures

from tests.cloud import openvswitch
from tests.cloud import waiting


class Node(fixtures.Fixture):
    """A node: a namespace, and Open vSwitch.

    .namespace and .vswitch are those; an agent makes br-int.

    :param host: its name
    :param underlay: a Namespace with a bridge "underlay", to which each node
                     is connected
    :param number: its number in 10.99.0.0/24, the network between nodes
    :param external: the name of a physical network, for a node that routes
                     into it; it is the bridge br-ex
    :param provider: the name of a physical network that all nodes have, or
                     None; it is the bridge br-provider
    """

    def __init__(self, host, underlay, number, directory, external=None,
                 provider=None):
        super().__init__()
        self._external = external
        self._provider = provider
        self.host = host
        self._underlay = underlay
        self._number = number
        self._directory = directory

    @property
    def address(self):
        """Its own in the network between nodes."""
        return f'10.99.0.{self._number}'

    def _setUp(self):
        self.namespace = self.useFixture(openvswitch.Namespace(
            self.host, self._directory))
        self.vswitch = self.useFixture(openvswitch.OpenVswitch(
            self.namespace, self.host, self._directory, bridge=None))
        self.vswitch.bridge = 'br-int'
        self._connect()
        if self._external:
            self.vswitch.vsctl('add-br', 'br-ex', '--', 'set', 'Bridge',
                               'br-ex', 'datapath_type=netdev')
        if self._provider:
            self._connect_provider()

    @property
    def bridge_mappings(self):
        """Physical networks and their bridges, as agents have them."""
        # They may be one.
        bridges = {self._provider: 'br-provider', self._external: 'br-ex'}
        return ','.join(f'{name}:{bridge}'
                        for name, bridge in bridges.items() if name)

    def _connect_provider(self):
        name = f'p{self._number}'
        self._underlay.link(self.namespace, name, 'eth1')
        self._underlay.run('ip', 'link', 'set', name, 'master', 'provider')
        bridge = (self.external_bridge if self._provider == self._external
                  else 'br-provider')
        self.vswitch.vsctl(
            '--may-exist', 'add-br', bridge, '--', 'set', 'Bridge', bridge,
            'datapath_type=netdev', '--', 'add-port', bridge, 'eth1')

    def join_provider(self, name, address):
        """Give the node itself an interface in the provider network.

        :param address: with the length of the prefix.
        """
        end = f'h{self._number}'
        self._underlay.link(self.namespace, end, name)
        self._underlay.run('ip', 'link', 'set', end, 'master', 'provider')
        self.namespace.run('ip', 'address', 'add', address, 'dev', name)

    def _connect(self):
        # Tunnels of a vswitch in user space leave through a bridge of its.
        # Its port stays a device of the kernel's, which would answer ARP for
        # the address of the bridge with a MAC of its own: where that answer
        # comes last, all tunnels from one node to this one are dark.
        self.namespace.run('sysctl', '-q', '-w',
                           'net.ipv4.conf.all.arp_ignore=1')
        name = f'u{self._number}'
        self._underlay.link(self.namespace, name, 'eth0')
        self._underlay.run('ip', 'link', 'set', name, 'master', 'underlay')
        self.vswitch.vsctl(
            'add-br', 'br-phy', '--', 'set', 'Bridge', 'br-phy',
            'datapath_type=netdev', '--', 'add-port', 'br-phy', 'eth0')
        self.namespace.run('ip', 'address', 'add',
                           f'{self.address}/24', 'dev', 'br-phy')
        self.namespace.run('ip', 'link', 'set', 'br-phy', 'up')

    @property
    def external_bridge(self):
        """The bridge to which what is outside is connected."""
        return 'br-ex' if self._external else 'br-provider'

    @contextlib.contextmanager
    def cut_off(self, other):
        """Have no packets pass between it and another node meanwhile."""
        for end in ('nw_src', 'nw_dst'):
            self.vswitch.ofctl('add-flow', 'br-phy', f'priority=100,ip,'
                               f'{end}={other.address},actions=drop')
        yield
        self.vswitch.ofctl('del-flows', 'br-phy', 'ip')

    @contextlib.contextmanager
    def without_network(self):
        """Have no packet reach it or leave it meanwhile."""
        ends = [f'u{self._number}']
        if self._provider:
            ends.append(f'p{self._number}')
        for end in ends:
            self._underlay.run('ip', 'link', 'set', end, 'down')
        yield
        for end in ends:
            self._underlay.run('ip', 'link', 'set', end, 'up')

    @property
    def agents(self):
        """Those of Neutron's, or OVN's, that run here."""
        return []

    def is_ready(self):
        """Whether an agent has made the integration bridge."""
        return 'br-int' in self.vswitch.vsctl('list-br').split()

    def wait_until_ready(self):
        waiting.wait_for(self.is_ready, f'integration bridge of {self.host}',
                         processes=self.agents)

    def plug(self, namespace, name, port_id, mac, bridge='br-int', up=True):
        """Connect another namespace, such as an amphora, as a port.

        :returns: the end of it here, for unplug().
        """
        tap, peer = f'tap{port_id[:11]}', f'new{port_id[:11]}'
        run = self.namespace.run
        run('ip', 'link', 'add', tap, 'type', 'veth', 'peer', peer,
            'address', mac)
        # What a vswitch passes on gets no checksum from hardware that does
        # not exist.
        for end in (tap, peer):
            run('ethtool', '-K', end, 'tx', 'off')
        run('ip', 'link', 'set', tap, 'up')
        # As it is to be, where somebody may wait for it to come.
        run('ip', 'link', 'set', peer, 'netns', str(namespace.pid), 'name',
            name)
        if up:
            namespace.run('ip', 'link', 'set', name, 'up')
        self.vswitch.vsctl(
            'add-port', bridge, tap, '--', 'set', 'Interface', tap,
            # Nobody reads them elsewhere.
            f'external_ids:iface-id={port_id}',
            f'external_ids:attached-mac="{mac}"',
            'external_ids:iface-status=active')
        return tap

    def unplug(self, tap):
        """Take an interface away; that it has gone is no error."""
        # Nova deletes what was at a dead node without it.
        if not self.vswitch.server.running:
            return
        self.vswitch.vsctl('--if-exists', 'del-port', tap)
        self.namespace.run('ip', 'link', 'delete', tap, check=False)


def make_underlay(test, directory):
    """Return a namespace with the bridges that connect the nodes."""
    underlay = test.useFixture(openvswitch.Namespace('underlay', directory))
    for name in ('underlay', 'provider'):
        underlay.run('ip', 'link', 'add', name, 'type', 'bridge')
        underlay.run('ip', 'link', 'set', name, 'up')
    return underlay
