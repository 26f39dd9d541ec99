# SPDX-License-Identifier: Apache-2.0

"""Serves metrics to Prometheus, and probes to Kubernetes, over HTTP.

No client may slow the service down: there are few connections at once, each
is short, and no request reads the database. Nor may a client shut out others:
Kubernetes restarts a service whose probe gets no answer.
"""

import contextlib
import http.server
import socket
import socketserver
import sys
import threading
import time
from urllib import parse

from oslo_log import log as logging
import prometheus_client

from octavia_hmsync import addresses as addr
from octavia_hmsync import exceptions
from octavia_hmsync.metrics import probes
from octavia_hmsync.metrics import reading
from octavia_hmsync import periodic

LOG = logging.getLogger(__name__)

# Seconds between two readings of the database: each costs some twenty SELECTs
# in each housekeeper, some of which go through all amphorae.
INTERVAL = 10

RETRY_INTERVAL = 10
# Connections at once, and seconds for which each may last.
CONNECTIONS = 16
PATIENCE = 10

METRICS = '/metrics'
ALIVE = '/healthz'
READY = '/readyz'

_TICK = 0.2


class Exporter:
    """Serves a registry in its own thread, while the service lasts.

    If the port is in use, it tries again, as the previous process may still
    have the port after a restart.

    :param address: its value, IPV4:PORT or [IPV6]:PORT; empty for none.
    :param registry: a prometheus_client.CollectorRegistry; None if there is
                     nothing to measure: then a scrape fails.
    """

    def __init__(self, option, address, answers, registry=None):
        self._option = option
        self._address = address.strip()
        self._registry = registry
        self._handler = type('Handler', (_Handler,), {
            'probes': answers, 'registry': registry})
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run,
                                        name='hmsync-metrics', daemon=True)

    def start(self):
        """Begin to serve, or log why not; without an address return False."""
        if not self._address:
            return False
        try:
            self._ip, self._port = addr.parse_address(self._address)
        except exceptions.InvalidAddress:
            LOG.error('[hmsync] %s = %s is not an address to serve metrics '
                      'at: write IPV4:PORT or [IPV6]:PORT and restart the '
                      'service. It runs without metrics, and answers no '
                      'probes.', self._option,
                      self._address)
            return False
        self._thread.start()
        return True

    def stop(self, timeout):
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(timeout)

    def _run(self):
        # The server starts a thread for each scrape.
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
                server = _Server(self._ip, self._port, self._handler)
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
                LOG.info('%s at http://%s%s.', *(
                    ('Metrics are served', self._address, METRICS)
                    if self._registry else
                    ('Probes alone are answered', self._address, ALIVE)))
                return server
        return None


class _Handler(prometheus_client.MetricsHandler):
    # Seconds for each read and each answer.
    timeout = PATIENCE
    # Set in a subclass for each server, like the registry.
    probes: probes.Probes

    # The names are http.server's.
    def do_HEAD(self):  # noqa: N802
        self._answer()

    def do_GET(self):  # noqa: N802
        self._answer()

    def _answer(self):
        path = parse.urlsplit(self.path).path
        if path == ALIVE:
            self._send_reasons(self.probes.find_faults())
        elif path == READY:
            self._send_reasons(self.probes.find_lacks())
        elif path != METRICS:
            self._send(404, f'Here are {METRICS}, {ALIVE} and {READY}.')
        elif self.registry is None:
            self._send_reasons(self.probes.find_lacks())
        elif self.command == 'HEAD':
            self._send(200, '')
        else:
            super().do_GET()

    def _send_reasons(self, reasons):
        self._send(503 if reasons else 200, '\n'.join(reasons or ['ok']))

    def _send(self, status, text):
        body = f'{text}\n'.encode()
        self.send_response(status)
        self.send_header('Content-Type', 'text/plain; charset=utf-8')
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        if self.command != 'HEAD':
            self.wfile.write(body)


class _Server(http.server.ThreadingHTTPServer):
    """Serves few connections in a thread each; OSError if it cannot bind."""

    timeout = _TICK

    def __init__(self, ip, port, handler):
        self.address_family = (socket.AF_INET6 if ip.version == 6
                               else socket.AF_INET)
        # When each connection began.
        self._connections = {}
        super().__init__((str(ip), port), handler)

    def server_bind(self):
        # HTTPServer's own would ask the DNS for a name that is not used.
        socketserver.TCPServer.server_bind(self)
        self.server_name = str(self.server_address[0])
        self.server_port = int(self.server_address[1])

    def get_request(self):
        try:
            return super().get_request()
        except OSError:
            # Without a free file descriptor accept() fails at once.
            time.sleep(_TICK)
            raise

    def process_request(self, request, client_address):
        # Idle connections must not keep out a probe.
        oldest_first = list(self._connections)
        for other in oldest_first[:max(0, len(oldest_first) -
                                       CONNECTIONS + 1)]:
            _cut_off(other)
        if len(oldest_first) >= 2 * CONNECTIONS:
            # Their threads have not ended yet.
            self.shutdown_request(request)
            return
        self._connections[request] = time.monotonic()
        super().process_request(request, client_address)

    def shutdown_request(self, request):
        self._connections.pop(request, None)
        super().shutdown_request(request)

    def close_overdue(self):
        """Cut off connections that last for too long."""
        now = time.monotonic()
        for request, begun in list(self._connections.items()):
            if now - begun > PATIENCE:
                _cut_off(request)

    def handle_error(self, request, client_address):
        # A client that went away before its answer is no problem here.
        if not isinstance(sys.exception(), OSError):
            LOG.exception('octavia-hmsync: metrics cannot be served:')


def _cut_off(request):
    """End a connection; the thread that serves it notices."""
    with contextlib.suppress(OSError):
        request.shutdown(socket.SHUT_RDWR)


class Export:
    """Serves what a service counts, and what it reads from the database.

    Does nothing while the address is not set.

    :param read: called without arguments, returns a list of metrics from the
                 database.
    """

    def __init__(self, conf, engine, option, measure, read, threads, probes):
        self._exporter = Exporter(option, conf.hmsync[option], probes,
                                  measure.registry)
        read_database = reading.DatabaseReading(read, INTERVAL)
        self._thread = periodic.PeriodicThread(
            'metrics', read_database.run_once, INTERVAL, engine)
        measure.registry.register(read_database)
        measure.watch([*threads, self._thread])

    def start(self):
        """Begin; a problem is logged, never raised."""
        if self._exporter.start():
            self._thread.start()

    def stop(self):
        """End, without waiting for a query that hangs."""
        self._thread.stop(timeout=1)
        self._exporter.stop(timeout=1)
