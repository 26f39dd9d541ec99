# SPDX-License-Identifier: Apache-2.0

"""Front ends of members in benchmarks: real haproxies in namespaces."""

import os

import fixtures

from tests.cloud import process
from tests.cloud import waiting

# Octavia's template in short; without a server it answers by itself.
_CONFIGURATION = """\
global
    maxconn 4000
    nbthread 1

defaults
    mode http
    no log
    option http-keep-alive
    timeout connect 5s
    timeout client 50s
    timeout server 50s
    timeout queue 50s

frontend front
    bind :{port}
{what}
"""
_ITSELF = '    http-request return status 200 content-type text/plain ' \
          'string "{name}"'
_SERVER = """\
    default_backend back

backend back
    http-reuse always
    server server {address}
"""


class Front(fixtures.Fixture):
    """The haproxy of a member.

    :param host: a fabric.Host.
    :param port: of its listener, on all of its addresses.
    :param directory: for its configuration and its log.
    :param server: address and port of what it asks; None has it answer with
                   the name of the host.
    """

    def __init__(self, host, port, directory, server=None):
        super().__init__()
        self._host = host
        self._port = port
        self._directory = directory
        self._server = server

    def _setUp(self):
        path = os.path.join(self._directory, f'haproxy-{self._host.name}.cfg')
        with open(path, 'w') as conf:
            conf.write(_CONFIGURATION.format(
                port=self._port,
                what=_SERVER.format(address=self._server) if self._server
                else _ITSELF.format(name=self._host.name)))
        self._process = self.useFixture(process.ChildProcess(
            f'haproxy-{self._host.name}', self._host.namespace.wrap(
                [process.system_program('haproxy'), '-db', '-f', path]),
            self._directory, cwd=self._directory))

    def wait_until_ready(self):
        """Wait until it takes connections."""
        waiting.wait_for(
            lambda: self._host.namespace.run(
                'ss', '-Htln', 'sport', '=', f':{self._port}').stdout,
            f'sign of {self._process.name}', 60, processes=[self._process])
