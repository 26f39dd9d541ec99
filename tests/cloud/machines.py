# SPDX-License-Identifier: Apache-2.0

"""Machines of tenants: members of pools, and clients."""

import itertools
import json
import os
import sys

import fixtures

from tests.cloud import probe
from tests.cloud import process
from tests.cloud import waiting

# Seconds to wait for an answer where members come and go: an Open vSwitch in
# user space loses packets of others when it gets a port, and Linux sends a SYN
# again after a second.
PATIENCE = 3
# Below those that the kernel chooses; for 500 connections each.
_FIRST_PORTS = itertools.cycle(range(10000, 32000, 500))
_PROBE = os.path.abspath(probe.__file__)
# One that answers with its name to whatever is asked, datagrams too, keeps
# connections, and begins a session by a cookie at /session.
_SERVER = """
import http.server, secrets, socket, sys, threading

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def do_GET(self):
        self.send_response(200)
        self.send_header('Content-Length', str(len(sys.argv[1])))
        if self.path == '/session' and 'Cookie' not in self.headers:
            self.send_header('Set-Cookie', 'session=' + secrets.token_hex(8))
        self.end_headers()
        self.wfile.write(sys.argv[1].encode())

    def log_message(self, *args):
        pass

class Server(http.server.ThreadingHTTPServer):
    # What is more than that waits for a second, and has failed then.
    request_queue_size = 200
    # And IPv4.
    address_family = socket.AF_INET6

def answer_datagrams():
    one = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    one.bind(('::', 80))
    while True:
        one.sendto(sys.argv[1].encode(), one.recvfrom(2048)[1])

threading.Thread(target=answer_datagrams, daemon=True).start()
Server(('::', 80), Handler).serve_forever()
"""


def _bracket(address):
    return f'[{address}]' if ':' in address else address


class Machine(fixtures.Fixture):
    """A machine with an address in a network, by a port of Neutron.

    .address is the first of its .addresses.

    :param octavia: an octavia.Octavia, or other tenants.Tenants.
    :param network: of Neutron; the tenant's where None is given.
    :param host: one of the fabric's.
    :param port: attributes of its port.
    """

    def __init__(self, octavia, name, network=None, host=None, **port):
        super().__init__()
        self._octavia = octavia
        self.name = name
        self._network = network or octavia.network
        self.host = host or octavia.fabric.hosts[0]
        self._attributes = {
            'security_group_ids': [octavia.open_group.id], **port}

    def _setUp(self):
        api = self._octavia.connection.network
        network = api.get_network(self._network.id)
        self.port = port = api.create_port(
            network_id=network.id, name=self.name,
            device_owner='compute:nova', binding_host_id=self.host,
            **self._attributes)
        subnets = {each['subnet_id']: api.get_subnet(each['subnet_id'])
                   for each in port.fixed_ips}
        self.mac = port.mac_address
        self.addresses = [each['ip_address'] for each in port.fixed_ips]
        self.address = self.addresses[0]
        self._plug(network, [
            f"{each['ip_address']}/"
            f"{subnets[each['subnet_id']].cidr.partition('/')[2]}"
            for each in port.fixed_ips])
        for subnet in subnets.values():
            if subnet.gateway_ip and subnet.gateway_ip not in self.addresses:
                self.namespace.run(
                    'ip', f'-{subnet.ip_version}', 'route', 'add', 'default',
                    'via', subnet.gateway_ip)
        self._octavia.fabric.wait_until_plugged(api, port)

    def _plug(self, network, addresses):
        """Make its namespace, with an interface.

        :param addresses: with the length of the prefix.
        """
        self.namespace = self._octavia.fabric.add_host(
            self.name, network.id, self.mac, *addresses,
            port_id=self.port.id, host=self.host, mtu=network.mtu)

    def describe_neighbours(self):
        """Return whose addresses it knows, in both families."""
        return ''.join(self.namespace.run('ip', family, 'neighbour').stdout
                       for family in ('-4', '-6'))

    def describe_waiting(self):
        """Return its connections that wait for an answer to a packet.

        With the time until it is sent again, and how often it was.
        """
        lines = self.namespace.run('ss', '-Htnioe').stdout
        return '\n'.join(line for line in lines.replace(
            '\n\t', ' ').splitlines() if 'timer:(on' in line)

    def _start(self, name, *command):
        return self.useFixture(process.ChildProcess(
            f'{name}-{self.name}', self.namespace.wrap(command),
            self._octavia.directory,
            env=process.environment(self._octavia.directory)))


class Member(Machine):
    """One that serves HTTP, and UDP, at port 80: it answers with its name."""

    def _setUp(self):
        super()._setUp()
        # While it looks whether somebody else has its addresses it sends
        # nothing by IPv6.
        waiting.wait_for(
            lambda: not self.namespace.run('ip', '-6', 'address', 'show',
                                           'tentative').stdout,
            f'IPv6 of {self.name}')
        self.server = self._start('http', sys.executable, '-ISc', _SERVER,
                                  self.name)
        # Who is told of it finds it ready.
        waiting.wait_for(
            lambda: ':80 ' in self.namespace.run('ss', '-Htln').stdout,
            f'server of {self.name}', processes=[self.server])

    def kill(self):
        """Cut its power: it sends nothing any more."""
        # The namespace lives as long as somebody is in it.
        self.namespace.run('ip', 'link', 'set', 'eth0', 'down')
        self.server.kill_tree()


class Client(Machine):
    """One that uses a load balancer."""

    def __init__(self, octavia, name, network=None, **kwargs):
        super().__init__(octavia, name, network, **kwargs)
        self._numbers = itertools.count(1)

    def get(self, address, port=80):
        """Ask once, patiently; returns the answer."""
        return self.namespace.run(
            'curl', '-sS', '--max-time', '5', '--retry', '5',
            '--retry-all-errors', f'http://{_bracket(address)}:{port}/').stdout

    def start_probe(self, address, port=80, rate=50, timeout=1,
                    scheme='http', path='/', **how):
        """Use a load balancer from now on; see probe.py.

        :param rate: requests a second.
        :param timeout: seconds after which a request has failed.
        :param scheme: http, https, or udp.
        :param how: what it has and expects.
        :returns: a Probe; stop it.
        """
        return Probe(self._start_probe(
            address, port, rate, timeout, '--how', json.dumps(how),
            scheme=scheme, path=path))

    def hold(self, address, number, port=80, rate=0.5, timeout=20,
             scheme='http', **how):
        """Open connections, and use them from now on; see probe.py.

        :param rate: requests a second, over each of them.
        :param timeout: seconds; packets that get lost come again, and break
                        no connection.
        :param scheme: http or udp.
        :param how: what it expects.
        :returns: a Connections; stop it.
        """
        # By their ports all of a test are told apart.
        first = next(_FIRST_PORTS)
        return Connections(self._start_probe(
            address, port, rate, timeout, number, first, '--how',
            json.dumps(how), scheme=scheme), number)

    def _start_probe(self, address, port, *arguments, scheme='http',
                     path='/'):
        # Several at once write a file each.
        return self._start(
            f'probe-{next(self._numbers)}', sys.executable, '-ISu', _PROBE,
            f'{scheme}://{_bracket(address)}:{port}{path}',
            *map(str, arguments))


class TrunkClient(Client):
    """A client whose network is a VLAN of the trunk that its interface is.

    :param parent_network: of Neutron, that of the trunk itself.
    """

    _TAG = 7

    def __init__(self, octavia, name, parent_network, **kwargs):
        super().__init__(octavia, name, **kwargs)
        self._parent_network = parent_network

    def _plug(self, network, addresses):
        api = self._octavia.connection.network
        parent = api.create_port(
            network_id=self._parent_network.id, name=f'{self.name}-parent',
            device_owner='compute:nova', **self._attributes)
        api.create_trunk(port_id=parent.id, sub_ports=[{
            'port_id': self.port.id, 'segmentation_type': 'vlan',
            'segmentation_id': self._TAG}])
        self._octavia.fabric.set_trunk(self.port.id, api.update_port(
            parent, binding_host_id=self.host), self._TAG)
        super()._plug(network, addresses)


class Probe:
    """Requests that go on; see Client.start_probe()."""

    def __init__(self, child):
        self._child = child

    @property
    def requests(self):
        """What was asked until now, in order."""
        # Its last line may not be whole.
        return probe.read(self._child.log().rpartition('\n')[0])

    def stop(self):
        """End it; returns the probe.Report of all."""
        self._child.stop()
        return self.report()

    def report(self):
        return probe.report(self.requests)


class Connections(Probe):
    """Many that are kept open; see Client.hold()."""

    def __init__(self, child, number):
        super().__init__(child)
        self._number = number

    def wait_until_open(self, timeout=waiting.LIMIT):
        """Wait until each has got an answer, or failed; returns self."""
        def all_open():
            held = self.report()
            return (len(held.opened) + len(held.refused)) >= self._number

        waiting.wait_for(all_open, f'{self._number} connections', timeout,
                         processes=[self._child])
        return self

    def report(self):
        """Return the probe.Held of them all."""
        return probe.report_held(self.requests)
