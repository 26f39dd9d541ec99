# SPDX-License-Identifier: Apache-2.0

"""The machines that tempest asks Nova for: namespaces, in place of Nova's."""

import http.server
import itertools
import json
import sys
import threading
import urllib.parse

from tests.cloud import http_server
from tests.cloud import machines
from tests.cloud import waiting
from tests.tempest import suite


class _WebServer(machines.Machine):

    def serve(self, number):
        for port, answer in ((80, number), (81, number + 1)):
            self._start(f'web-{port}', sys.executable, '-ISu',
                        str(suite.HERE / 'webserver.py'), str(port),
                        str(answer))
        waiting.wait_for(
            lambda: all(f':{port} ' in self.namespace.run(
                'ss', '-Hltn').stdout for port in (80, 81)),
            f'web servers of {self.name}', 60)


class WebServers(http_server.HTTPServer):
    """Makes them for the suite, which asks at .url; see patches.

    :param cloud: an octavia.Octavia.
    """

    def __init__(self, cloud):
        super().__init__()
        self._cloud = cloud
        self._made = {}
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    def _setUp(self):
        super()._setUp()
        self.port = urllib.parse.urlsplit(self.url).port
        self.addCleanup(self._delete_all)

    def _delete_all(self):
        for name in list(self._made):
            self.delete(name)

    def make(self, network_id):
        """Make a machine; returns its addresses, its name and its port."""
        with self._lock:
            number = next(self._numbers)
            hosts = self._cloud.fabric.hosts
            made = _WebServer(
                self._cloud, f'web{number}',
                self._cloud.connection.network.get_network(network_id),
                host=hosts[number % len(hosts)])
            made.setUp()
            self._made[made.name] = made
        return {'name': made.name, 'port_id': made.port.id, **{
            'ipv6' if ':' in address else 'ipv4': address
            for address in made.addresses}}

    def serve(self, name, number):
        """Have a machine answer with a number, and the next one at 81."""
        self._made[name].serve(int(number))

    def delete(self, name):
        """Delete a machine, if there is one."""
        made = self._made.pop(name, None)
        if made is not None:
            made.cleanUp()
            self._cloud.connection.network.delete_port(made.port.id)

    def _handler(self):
        calls = {'make': self.make, 'serve': self.serve,
                 'delete': self.delete}

        class Handler(http.server.BaseHTTPRequestHandler):

            def do_POST(self):
                arguments = json.loads(self.rfile.read(int(
                    self.headers['Content-Length'])))
                body = json.dumps(
                    calls[self.path.strip('/')](**arguments)).encode()
                self.send_response(200)
                self.send_header('Content-Length', str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args):
                """Say nothing."""

        return Handler
