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

"""Machines of tenants: members of pools, and clients."""

import itertools
import os
import sys

import fixtures

from tests.cloud import probe
from tests.cloud import process

_PROBE = os.path.abspath(probe.__file__)
# One that answers with its name to whatever is asked, and keeps connections.
_SERVER = """
import http.server, sys

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def do_GET(self):
        self.send_response(200)
        self.send_header('Content-Length', str(len(sys.argv[1])))
        self.end_headers()
        self.wfile.write(sys.argv[1].encode())

    def log_message(self, *args):
        pass

class Server(http.server.ThreadingHTTPServer):
    # What is more than that waits for a second, and has failed then.
    request_queue_size = 200

Server(('', 80), Handler).serve_forever()
"""


class Machine(fixtures.Fixture):
    """A machine with an address in a network, by a port of Neutron.

    :param octavia: an octavia.Octavia.
    :param network: of Neutron; the tenant's where None is given.
    """

    def __init__(self, octavia, name, network=None):
        super().__init__()
        self._octavia = octavia
        self.name = name
        self._network = network or octavia.network

    def _setUp(self):
        api = self._octavia.connection.network
        port = api.create_port(network_id=self._network.id, name=self.name)
        subnet = api.get_subnet(port.fixed_ips[0]['subnet_id'])
        self.address = port.fixed_ips[0]['ip_address']
        self.namespace = self._octavia.fabric.add_host(
            self.name, self._network.id, port.mac_address,
            f"{self.address}/{subnet.cidr.partition('/')[2]}")

    def _start(self, name, *command):
        return self.useFixture(process.ChildProcess(
            f'{name}-{self.name}', self.namespace.wrap(command),
            self._octavia.directory,
            env=process.environment(self._octavia.directory)))


class Member(Machine):
    """One that serves HTTP at port 80, with its name as the answer."""

    def _setUp(self):
        super()._setUp()
        self.server = self._start('http', sys.executable, '-ISc', _SERVER,
                                  self.name)


class Client(Machine):
    """One that uses a load balancer."""

    def __init__(self, octavia, name, network=None):
        super().__init__(octavia, name, network)
        self._numbers = itertools.count(1)

    def get(self, address, port=80):
        """Ask once, patiently; returns the answer."""
        return self.namespace.run(
            'curl', '-sS', '--max-time', '5', '--retry', '5',
            '--retry-all-errors', f'http://{address}:{port}/').stdout

    def start_probe(self, address, port=80, rate=50, timeout=1):
        """Use a load balancer from now on; see probe.py.

        :param rate: requests a second.
        :param timeout: seconds after which a request has failed.
        :returns: a Probe; stop it.
        """
        # Several at once write a file each.
        return Probe(self._start(
            f'probe-{next(self._numbers)}', sys.executable, '-ISu', _PROBE,
            f'http://{address}:{port}/', str(rate), str(timeout)))


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
