# SPDX-License-Identifier: Apache-2.0

"""A small network around distributors: clients, members, no Neutron."""

import contextlib
import selectors
import socket
import threading
import time

import fixtures
from oslo_config import cfg

from octavia_hmsync.cluster.members import silent_vip
from octavia_hmsync.distributor import document as doc
from octavia_hmsync.distributor.ovs import bridges
from octavia_hmsync.distributor.ovs import conf as ovs_conf
from octavia_hmsync.distributor.ovs import openvswitch
from octavia_hmsync.distributor.ovs import pipeline
from octavia_hmsync.distributor.ovs import sharing
from octavia_hmsync.distributor.ovs import state as states
from tests.cloud import openvswitch as cloud_ovs

VIP = '10.0.0.5'
VIP6 = 'fd00::5'
PORT = 8000
# A busy machine takes its time.
_TIMEOUT = 20


def find_chosen(vswitch, vip_id, macs):
    """Return the MAC addresses of members that new connections go to.

    :param vswitch: of the node of a distributor.
    :param macs: of all members.
    """
    groups = vswitch.ofctl('dump-groups', bridges.Names.of(vip_id).bridge)
    current, = [line for line in groups.splitlines()
                if f'group_id={pipeline.CURRENT},' in line]
    return {mac for mac in macs if f'{sharing.to_number(mac):#x}' in current}


class Host(fixtures.Fixture):
    """A namespace with one interface, eth0, in br-int of a node.

    :param vswitch: of the node
    :param number: 10.0.0.NUMBER, fd00::NUMBER
    :param tag: its VLAN in br-int, as Neutron's agent keeps networks apart
    """

    def __init__(self, name, node, vswitch, number, directory, tag=1):
        super().__init__()
        self.name = name
        self.mac = f'fa:16:3e:00:{tag:02x}:{number:02x}'
        self.address = f'10.0.0.{number}'
        self.address6 = f'fd00::{number:x}'
        self._node = node
        self._vswitch = vswitch
        self._directory = directory
        self._tag = tag

    def _setUp(self):
        self.namespace = self.useFixture(cloud_ovs.Namespace(
            self.name, self._directory))
        tap = f'tap-{self.name}'
        self._node.link(self.namespace, tap, 'eth0')
        run = self.namespace.run
        run('ip', 'link', 'set', 'eth0', 'address', self.mac)
        run('ip', 'address', 'add', f'{self.address}/24', 'dev', 'eth0')
        run('ip', 'address', 'add', f'{self.address6}/64', 'dev', 'eth0',
            'nodad')
        self._vswitch.vsctl('add-port', 'br-int', tap, f'tag={self._tag}')

    def take_vip(self):
        """Have the addresses of the VIP, as a member of a cluster does."""
        run = self.namespace.run
        run('sysctl', '-w', 'net.ipv4.conf.all.arp_ignore=1',
            'net.ipv4.conf.all.arp_announce=2')
        run('ip', 'address', 'add', f'{VIP}/32', 'dev', 'lo')
        run('ip', 'address', 'add', f'{VIP6}/128', 'dev', 'lo', 'nodad')

    def hold_resets(self, is_old=False):
        """Bear packets of connections of others, as a member does.

        :param is_old: whether the kernel can only drop the answers.
        """
        self.namespace.run('sh', '-c', silent_vip.render_script(
            'none' if is_old else 'eth0', self.mac))

    def socket(self, family, kind):
        """A socket in there."""
        return self.namespace.call(socket.socket, family, kind)

    def get_neighbour(self, address):
        """The MAC address by which it knows somebody; None if not."""
        words = self.namespace.run('ip', 'neighbour', 'show',
                                   address).stdout.split()
        return words[words.index('lladdr') + 1] if 'lladdr' in words else None


class Servers(fixtures.Fixture):
    """Echo servers on the VIP in members, all in one thread of this process.

    What comes first says who it is.
    """

    def _setUp(self):
        self._selector = selectors.DefaultSelector()
        self._ends = False
        self._sockets = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self.addCleanup(self._stop)

    def serve(self, host):
        host.take_vip()
        for family, address in ((socket.AF_INET, VIP),
                                (socket.AF_INET6, VIP6)):
            server = host.socket(family, socket.SOCK_STREAM)
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            server.bind((address, PORT))
            server.listen(1024)
            server.setblocking(False)
            self._sockets.append(server)
            self._selector.register(server, selectors.EVENT_READ,
                                    (self._accept, host.name))
            datagrams = host.socket(family, socket.SOCK_DGRAM)
            datagrams.bind((address, PORT))
            datagrams.setblocking(False)
            self._sockets.append(datagrams)
            self._selector.register(datagrams, selectors.EVENT_READ,
                                    (self._answer, host.name))

    def _run(self):
        while not self._ends:
            for key, _ in self._selector.select(0.2):
                function, name = key.data
                with contextlib.suppress(OSError):
                    function(key.fileobj, name)

    def _accept(self, server, name):
        one, _ = server.accept()
        one.setblocking(False)
        self._sockets.append(one)
        one.send(name.encode() + b'\n')
        self._selector.register(one, selectors.EVENT_READ,
                                (self._echo, name))

    def _echo(self, one, name):
        try:
            data = one.recv(65536)
        except OSError:
            data = b''
        if data:
            one.send(data)
        else:
            self._selector.unregister(one)
            one.close()

    def _answer(self, one, name):
        _, sender = one.recvfrom(65536)
        one.sendto(name.encode() + b'\n', sender)

    def _stop(self):
        self._ends = True
        self._thread.join()
        for one in self._sockets:
            one.close()
        self._selector.close()


class Connection:
    """A connection to the VIP.

    :ivar member: the name of who took it
    """

    def __init__(self, host, address=VIP, port=0, timeout=_TIMEOUT):
        family = socket.AF_INET6 if ':' in address else socket.AF_INET
        self.socket = host.socket(family, socket.SOCK_STREAM)
        self.socket.settimeout(timeout)
        if port:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.socket.bind(('', port))
        try:
            self.socket.connect((address, PORT))
            self.member = self._receive()
        except OSError:
            self.socket.close()
            raise
        self._said = 0

    def _receive(self):
        data = b''
        while not data.endswith(b'\n'):
            part = self.socket.recv(4096)
            if not part:
                raise ConnectionResetError('closed')
            data += part
        return data.decode().strip()

    def say(self):
        self._said += 1
        self.socket.send(f'{self._said}\n'.encode())

    def hear(self, deadline):
        """Whether the echo came."""
        self.socket.settimeout(max(0.01, deadline - time.monotonic()))
        return self._receive() == str(self._said)

    def close(self):
        self.socket.close()


class Clients(fixtures.Fixture):
    """Connections that stay open."""

    def __init__(self, host):
        super().__init__()
        self.host = host
        self.connections = []

    def _setUp(self):
        self.addCleanup(lambda: [one.close() for one in self.connections])

    def open(self, count, addresses=(VIP, VIP6)):
        """Open connections, alternately to each address; return them."""
        new = [Connection(self.host, addresses[number % len(addresses)])
               for number in range(count)]
        self.connections += new
        return new

    def find_broken(self, timeout=_TIMEOUT):
        """Say something on each connection; return those without an echo."""
        broken = []
        for one in self.connections:
            with contextlib.suppress(OSError):
                one.say()
        deadline = time.monotonic() + timeout
        for one in self.connections:
            try:
                heard = one.hear(deadline)
            except OSError:
                heard = False
            if not heard:
                broken.append(one)
        return broken

    def close(self, *connections):
        for one in connections:
            one.close()
            self.connections.remove(one)


class Node(fixtures.Fixture):
    """A network node: a namespace with Open vSwitch and a distributor's side.

    :ivar distributor: an OpenVSwitch
    :ivar mac: of the ports of distributors here
    """

    def __init__(self, name, number, directory):
        super().__init__()
        self.name = name
        self._directory = directory
        self.mac = f'fa:16:3e:00:99:{number:02x}'
        self.number = number

    def _setUp(self):
        self.namespace = self.useFixture(cloud_ovs.Namespace(
            self.name, self._directory))
        self.vswitch = self.useFixture(cloud_ovs.OpenVswitch(
            self.namespace, self.name, self._directory))
        self.distributor = self.make_distributor()

    def make_distributor(self, **options):
        """What a process that starts anew has, with other options."""
        conf = cfg.ConfigOpts()
        ovs_conf.register_opts(conf)
        conf([])
        for name, value in (
                ('ovsdb_connection', self.vswitch.connection),
                ('openvswitch_rundir', self.vswitch.directory),
                ('openvswitch_timeout', 60),
                ('datapath_type', 'netdev'), *options.items()):
            conf.set_override(name, value, ovs_conf.GROUP)
        made = openvswitch.OpenVSwitch(conf)
        self.addCleanup(made.close)
        return made

    def ofctl(self, *arguments):
        """Run ovs-ofctl; the bridge is the second argument."""
        command, bridge, *rest = arguments
        return cloud_ovs.process.run(
            'ovs-ofctl', '-O', 'OpenFlow15', '--timeout=60', command,
            f'unix:{self.vswitch.directory}/{bridge}.mgmt', *rest)


class Vip:
    """A VIP of one tenant, and what a controller knows of it.

    :param nodes: who distributes it; the first one answers
    :ivar shares: whether they know of each other
    :ivar probes: whether they probe members
    :ivar pin_timeout: seconds
    """

    def __init__(self, vip_id, *nodes, affinity=doc.FLOW, tag=1,
                 addresses=(VIP, VIP6)):
        self.id = vip_id
        self.nodes = nodes
        self.active = nodes[0]
        self.affinity = affinity
        self.tag = tag
        self.addresses = addresses
        self.members = {}
        self.shares = True
        self.probes = False
        self.pin_timeout = 3600
        self.states = {}
        self.version = 0
        self.now = time.time()

    def set(self, host, state, slot=None, peer_group=0):
        """Change a member, by its host; the slot if it is new."""
        if slot is None:
            slot = next(number for number, (other, *_) in
                        self.members.items() if other is host)
        self.members[slot] = (host, state, peer_group)
        self.version += 1

    def remove(self, host):
        self.members = {slot: member for slot, member
                        in self.members.items() if member[0] is not host}
        self.version += 1

    def document(self, node):
        return doc.Document(
            self.version, node is self.active, 'HASH', self.affinity,
            self.addresses,
            doc.Port(f'5f0c2f0e-0000-4000-8000-{node.mac[-2:]:0>12}',
                     self.get_mac(node), 1450),
            self.pin_timeout, tuple(doc.Member(
                f'00000000-0000-4000-8000-{slot:012}', slot, group, host.mac,
                state) for slot, (host, state, group)
                in sorted(self.members.items())),
            tuple(self.get_mac(other) for other in self.nodes
                  if other is not node and self.shares),
            doc.Probe((f'10.0.0.{node.number + 240}',
                      f'fd00::{node.number + 240:x}'), (PORT,))
            if self.probes else None)

    def get_mac(self, node):
        """That of its port at a node."""
        return node.mac[:12] + f'{self.tag:02x}' + node.mac[14:]

    def apply(self, *nodes):
        """Have nodes do it, all if none is named."""
        for node in nodes or self.nodes:
            self.states[node] = node.distributor.apply(
                self.id, self.document(node), self.states.get(node),
                self.now)
            # As the agent does.
            node.vswitch.vsctl('set', 'Port', self.peer, f'tag={self.tag}')

    def share(self, *nodes):
        """Have nodes that stand by go by what the active one has."""
        shared = states.share(self.states[self.active], self.now)
        pins = self.active.distributor.read_pins(self.id)
        for node in nodes:
            node.distributor.take_pins(self.id, self.document(node), pins)
            self.states[node] = states.adopt(
                self.document(node), self.states[node], shared, self.now)
            self.apply(node)

    @property
    def bridge(self):
        return openvswitch.bridges.Names.of(self.id).bridge

    @property
    def peer(self):
        return openvswitch.bridges.Names.of(self.id).peer

    def count_pins(self, node=None):
        return sum(one['pins'] for one in self.read_counters(node).values())

    def read_counters(self, node=None):
        """Return what went to members, by MAC address."""
        node = node or self.active
        return node.distributor.read_counters(self.id, [
            member.mac for member in self.document(node).members],
            self.now)['members']
