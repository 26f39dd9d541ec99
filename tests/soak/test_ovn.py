# SPDX-License-Identifier: Apache-2.0

"""What the management network's tests take for granted of their OVN."""

import socket
import struct
import sys

import fixtures
from oslotest import base

from tests.cloud import nodes
from tests.cloud import openvswitch
from tests.cloud import ovn
from tests.cloud import process
from tests.cloud import waiting

HOSTS = ('node1', 'compute')
PORT = 9443
# Takes what it is sent, and sends it back until the other end closes.
SERVER = f"""
import socket
server = socket.create_server(('', {PORT}))
while True:
    connection, _ = server.accept()
    try:
        while data := connection.recv(100):
            connection.sendall(data)
    except ConnectionResetError:
        pass
    connection.close()
"""


class TestSecurityGroups(base.BaseTestCase):
    """Two instances on two nodes, and stateful rules as Neutron makes them."""

    def setUp(self):
        super().setUp()
        directory = self.useFixture(fixtures.TempDir()).path
        self.central = self.useFixture(ovn.Central(directory))
        underlay = nodes.make_underlay(self, directory)
        self.chassis = [self.useFixture(ovn.Chassis(
            host, self.central, underlay, number, directory))
            for number, host in enumerate(HOSTS, 1)]
        self.switches = [c.vswitch.vswitchd for c in self.chassis]
        self.nbctl('ls-add', 'management')
        for number, chassis in enumerate(self.chassis, 1):
            waiting.wait_for(chassis.is_ready, 'integration bridge')
            mac, ip = f'fa:16:3e:00:00:0{number}', f'172.31.0.{number}'
            name = f'port{number}'
            self.nbctl('lsp-add', 'management', name)
            self.nbctl('lsp-set-addresses', name, f'{mac} {ip}')
            namespace = self.useFixture(openvswitch.Namespace(
                f'instance{number}', directory))
            chassis.plug(namespace, 'eth0', name, mac)
            namespace.run('ip', 'link', 'set', 'eth0', 'mtu', '1400')
            namespace.run('ip', 'address', 'add', f'{ip}/24', 'dev', 'eth0')
            if number == 1:
                self.client = namespace
            else:
                self.useFixture(process.ChildProcess(
                    'server', namespace.wrap([sys.executable, '-c', SERVER]),
                    directory))
        self.nbctl('pg-add', 'group', 'port1', 'port2')
        for direction, port in (('from-lport', 'inport'),
                                ('to-lport', 'outport')):
            self.nbctl('acl-add', 'group', direction, '1002',
                       f'{port} == @group && ip4', 'allow-related')
            self.nbctl('acl-add', 'group', direction, '1001',
                       f'{port} == @group && ip', 'drop')

    def nbctl(self, *arguments):
        process.run('ovn-nbctl', f'--db={self.central.connection("nb")}',
                    *arguments)

    def exchange(self, port=0):
        """Connect from a port, send and receive, and reset the connection.

        :returns: whether that was possible.
        """
        with socket.socket() as sock:
            sock.settimeout(3)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                            struct.pack('ii', 1, 0))
            try:
                sock.bind(('172.31.0.1', port))
                sock.connect(('172.31.0.2', PORT))
                sock.sendall(b'here')
                return sock.recv(4) == b'here'
            except OSError:
                return False

    def test_ports_are_used_again_after_a_reset(self):
        waiting.wait_for(lambda: self.client.call(self.exchange), 'answer',
                         processes=self.switches)
        for _ in range(20):
            waiting.wait_for(lambda: self.client.call(self.exchange, 40000),
                             'answer to the same port',
                             processes=self.switches)
