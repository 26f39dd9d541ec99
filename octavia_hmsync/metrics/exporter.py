#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""Serves metrics to Prometheus over HTTP.

Whoever scrapes, and however badly, must not cost the service anything: few
connections at once, each for a short time, and nothing in one reads the
database.
"""

import contextlib
import http.server
import socket
import socketserver
import sys
import threading
import time

from oslo_log import log as logging
import prometheus_client

from octavia_hmsync import exceptions
from octavia_hmsync.membership import addresses as addr
from octavia_hmsync import periodic

LOG = logging.getLogger(__name__)

RETRY_INTERVAL = 10
# Connections at once, and seconds for which each may last.
CONNECTIONS = 16
PATIENCE = 10

_TICK = 0.2


class Exporter:
    """Serves a registry, in a thread of its own, while the service lasts.

    A port that is in use is tried again: at a restart the process before may
    still have it.

    :param option: name of the option in ``[hmsync]``, for the log.
    :param address: its value, IPV4:PORT or [IPV6]:PORT; empty for none.
    :param registry: a prometheus_client.CollectorRegistry.
    """

    def __init__(self, option, address, registry):
        self._option = option
        self._address = address.strip()
        self._registry = registry
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run,
                                        name='hmsync-metrics', daemon=True)

    def start(self):
        """Begin to serve; a problem is logged, never raised.

        :returns: False if there is no address to serve at.
        """
        if not self._address:
            return False
        try:
            self._ip, self._port = addr.parse_address(self._address)
        except exceptions.InvalidAddress:
            LOG.error('[hmsync] %s = %s is not an address to serve metrics '
                      'at: write IPV4:PORT or [IPV6]:PORT and restart the '
                      'service. It runs without metrics.', self._option,
                      self._address)
            return False
        self._thread.start()
        return True

    def stop(self, timeout):
        """Serve no more.

        :param timeout: seconds to wait for it.
        """
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(timeout)

    def _run(self):
        # It starts a thread for each scrape.
        periodic.leave_signals_to_main_thread()
        server = self._wait_for_server()
        if server is None:
            return
        with server:
            while not self._stopping.is_set():
                server.handle_request()
                server.close_overdue()

    def _wait_for_server(self):
        problem = None
        while not self._stopping.is_set():
            try:
                server = _Server(self._ip, self._port, self._registry)
            except OSError as e:
                if str(e) != problem:
                    LOG.warning(
                        'octavia-hmsync serves no metrics at [hmsync] %s = '
                        '%s: %s. It is tried again every %d s; the service '
                        'runs on.', self._option, self._address,
                        e.strerror or e, RETRY_INTERVAL)
                problem = str(e)
                self._stopping.wait(RETRY_INTERVAL)
            else:
                LOG.info('Metrics are served at http://%s/metrics.',
                         self._address)
                return server
        return None


class _Handler(prometheus_client.MetricsHandler):
    # Seconds for each read and each answer.
    timeout = PATIENCE


class _Server(http.server.ThreadingHTTPServer):
    """A thread for each of few connections.

    :raises OSError: if the address cannot be had.
    """

    timeout = _TICK

    def __init__(self, ip, port, registry):
        self.address_family = (socket.AF_INET6 if ip.version == 6
                               else socket.AF_INET)
        # When each connection began.
        self._connections = {}
        super().__init__((str(ip), port), _Handler.factory(registry))

    def server_bind(self):
        # HTTPServer's would ask the DNS for a name that nobody needs.
        socketserver.TCPServer.server_bind(self)
        self.server_name = str(self.server_address[0])
        self.server_port = int(self.server_address[1])

    def get_request(self):
        try:
            return super().get_request()
        except OSError:
            # With no file descriptor left, the next try would be at once.
            time.sleep(_TICK)
            raise

    def process_request(self, request, client_address):
        if len(self._connections) >= CONNECTIONS:
            self.shutdown_request(request)
            return
        self._connections[request] = time.monotonic()
        super().process_request(request, client_address)

    def shutdown_request(self, request):
        self._connections.pop(request, None)
        super().shutdown_request(request)

    def close_overdue(self):
        """Cut off who has had a connection for too long."""
        now = time.monotonic()
        for request, begun in list(self._connections.items()):
            if now - begun > PATIENCE:
                with contextlib.suppress(OSError):
                    request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request, client_address):
        # One that went away before its answer is nobody's problem.
        if not isinstance(sys.exception(), OSError):
            LOG.exception('octavia-hmsync: metrics cannot be served:')
