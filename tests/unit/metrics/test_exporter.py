# SPDX-License-Identifier: Apache-2.0

import gzip
import http.client
import signal
import socket
import threading
import time
import urllib.request

import fixtures
import prometheus_client

from octavia_hmsync.metrics import export
from octavia_hmsync.metrics import probes
from tests.cloud import waiting
from tests.unit import base

OPTION = 'house_keeping_metrics_address'


class TestExporter(base.TestCase):

    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger(
            'octavia_hmsync', format='%(levelname)s %(message)s'))
        self.registry = prometheus_client.CollectorRegistry()
        prometheus_client.Gauge('answer', 'It.',
                                registry=self.registry).set(42)
        self.faults, self.lacks = [], []

    def free_port(self, host='127.0.0.1', family=socket.AF_INET):
        with socket.socket(family) as sock:
            sock.bind((host, 0))
            return sock.getsockname()[1]

    def make(self, address):
        subject = export.Exporter(
            OPTION, address, probes.Probes(lambda: self.faults,
                                           lambda: self.lacks), self.registry)
        self.addCleanup(subject.stop, 5)
        return subject

    def start(self, address=None):
        self.address = address or f'127.0.0.1:{self.free_port()}'
        subject = self.make(self.address)
        self.assertTrue(subject.start())
        self.wait_for(lambda: ' at http://' in self.log.output)
        return subject

    def wait_for(self, condition):
        waiting.wait_for(condition, lambda: f'such: {self.log.output}',
                         interval=0.02)

    def connect(self):
        host, _, port = self.address.rpartition(':')
        sock = socket.create_connection((host.strip('[]'), int(port)), 20)
        self.addCleanup(sock.close)
        return sock

    def scrape(self, **headers):
        request = urllib.request.Request(f'http://{self.address}/metrics',
                                         headers=headers)
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.read()

    def test_scrape(self):
        self.start()
        self.assertIn(b'\nanswer 42.0\n', self.scrape())
        self.assertIn(b'\nanswer 42.0\n', gzip.decompress(
            self.scrape(**{'Accept-Encoding': 'gzip'})))

    def ask(self, path, method='GET'):
        """Return status, body and headers of an answer."""
        connection = http.client.HTTPConnection(self.address, timeout=20)
        self.addCleanup(connection.close)
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), answer.headers

    def assertAnswers(self, status, body, path, **kwargs):
        self.assertEqual((status, body), self.ask(path, **kwargs)[:2])

    def test_probes(self):
        self.start()
        for path in ('/healthz', '/readyz', '/readyz?verbose'):
            self.assertAnswers(200, 'ok\n', path)
        # Not ready is no reason for a restart.
        self.lacks = ['no keepalive', 'no status']
        self.assertAnswers(200, 'ok\n', '/healthz')
        self.assertAnswers(503, 'no keepalive\nno status\n', '/readyz')
        self.faults = ['no listener']
        self.assertAnswers(503, 'no listener\n', '/healthz')
        self.assertAnswers(503, 'no listener\nno keepalive\nno status\n',
                           '/readyz')
        self.assertIn(b'answer', self.scrape())

    def test_head(self):
        self.start()
        for path, status in (('/healthz', 200), ('/readyz', 503),
                             ('/metrics', 200), ('/', 404)):
            self.lacks = ['no keepalive']
            self.assertAnswers(status, '', path, method='HEAD')
        for method in ('GET', 'HEAD'):
            self.assertEqual('13', self.ask('/readyz', method)[2][
                'Content-Length'])

    def test_unknown_paths(self):
        self.start()
        for path in ('/', '/metric', '/metrics/', '/healthz/x',
                     '/livez', '/%68ealthz'):
            status, body, _headers = self.ask(path)
            self.assertEqual((404, True), (status, '/readyz' in body), path)
        for method in ('POST', 'DELETE'):
            self.assertEqual(501, self.ask('/healthz', method)[0])

    def test_probes_without_metrics(self):
        """A scrape fails, so that Prometheus knows; the process lives."""
        self.registry, self.lacks = None, ['it is off']
        self.start()
        self.assertAnswers(200, 'ok\n', '/healthz')
        for path in ('/readyz', '/metrics'):
            self.assertAnswers(503, 'it is off\n', path)

    def test_probe_among_many_who_never_ask(self):
        """Whoever reaches the address could have the service restarted."""
        # As many again may be on their way out, which takes its time.
        self.patch(export, 'CONNECTIONS', 20)
        self.start()
        silent = [self.connect() for _ in range(20)]
        for _ in range(40):
            self.assertAnswers(200, 'ok\n', '/healthz')
            silent.append(self.connect())
        # The first ones had to go.
        self.assertEqual(b'', silent[0].recv(1))
        self.assertAnswers(200, 'ok\n', '/healthz')

    def test_signals_are_left_to_the_main_thread(self):
        """Or scrapes, each in a thread, keep a service from its end."""
        gauge = prometheus_client.Gauge('leaves_signals', 'It.',
                                        registry=self.registry)
        gauge.set_function(lambda: signal.SIGTERM in signal.pthread_sigmask(
            signal.SIG_BLOCK, ()))
        self.start()
        self.assertIn(b'\nleaves_signals 1.0\n', self.scrape())

    def test_ipv6(self):
        port = self.free_port('::1', socket.AF_INET6)
        self.start(f'[::1]:{port}')
        self.assertIn(b'answer', self.scrape())

    def test_off(self):
        self.assertFalse(self.make('').start())
        self.assertEqual('', self.log.output)

    def test_bad_addresses(self):
        for address in ('9100', ':9100', 'localhost:9100', '127.0.0.1:0',
                        '::1', '127.0.0.1:99999', '127.0.0.1'):
            before = self.log.output
            self.assertFalse(self.make(address).start())
            line, = self.log.output[len(before):].splitlines()
            self.assertIn(f'[hmsync] {OPTION} = {address} is not an address',
                          line)

    def test_port_in_use_is_said_once_and_tried_again(self):
        self.patch(export, 'RETRY_INTERVAL', 0.05)
        with socket.socket() as other:
            other.bind(('127.0.0.1', 0))
            other.listen()
            self.address = '127.0.0.1:%d' % other.getsockname()[1]
            subject = self.make(self.address)
            self.assertTrue(subject.start())
            self.wait_for(lambda: self.log.output)
            time.sleep(0.3)
            line, = self.log.output.splitlines()
            self.assertIn(self.address, line)
            self.assertIn('Address already in use', line)
        self.wait_for(lambda: 'are served' in self.log.output)
        self.assertIn(b'answer', self.scrape())

    def test_stop_gives_the_port_back(self):
        subject = self.start()
        subject.stop(5)
        self.assertRaises(ConnectionRefusedError, self.connect)
        self.assertNotIn('hmsync-metrics',
                         [t.name for t in threading.enumerate()])

    def test_stop_while_the_port_is_in_use(self):
        with socket.socket() as other:
            other.bind(('127.0.0.1', 0))
            other.listen()
            subject = self.make('127.0.0.1:%d' % other.getsockname()[1])
            subject.start()
            subject.stop(5)
        self.assertNotIn('hmsync-metrics',
                         [t.name for t in threading.enumerate()])

    def test_who_never_asks_is_cut_off(self):
        self.patch(export, 'PATIENCE', 0.3)
        self.start()
        silent = self.connect()
        self.assertIn(b'answer', self.scrape())
        self.assertEqual(b'', silent.recv(1))

    def test_who_asks_letter_by_letter_is_cut_off(self):
        self.patch(export, 'PATIENCE', 0.5)
        self.start()
        slow = self.connect()

        def send():
            for _ in range(400):
                slow.send(b'X')
                time.sleep(0.05)
        self.assertRaises(OSError, send)

    def test_who_never_reads_is_cut_off(self):
        self.patch(export, 'PATIENCE', 0.5)
        # More than the kernel takes for whoever does not read.
        prometheus_client.Gauge('large', 'x' * 30_000_000,
                                registry=self.registry)
        before = threading.enumerate()
        subject = self.start()
        deaf = self.connect()
        deaf.send(b'GET /metrics HTTP/1.0\r\n\r\n')

        def threads():
            return [t for t in threading.enumerate()
                    if 'process_request_thread' in t.name and
                    t not in before]
        self.wait_for(threads)
        self.wait_for(lambda: not threads())
        subject.stop(5)
        self.assertNotIn('ERROR', self.log.output)

    def test_no_more_than_some_at_once(self):
        """As many again may be about to end; no more than that."""
        self.patch(export, 'CONNECTIONS', 2)
        busy, go_on = threading.Semaphore(0), threading.Event()
        self.addCleanup(go_on.set)

        class Slow:
            def collect(self):
                busy.release()
                go_on.wait(60)
                return []

            def describe(self):
                return []

        self.registry.register(Slow())
        self.start()
        for _ in range(4):
            self.connect().send(b'GET /metrics HTTP/1.0\r\n\r\n')
            self.assertTrue(busy.acquire(timeout=20))
        self.assertRaises((OSError, http.client.HTTPException), self.ask,
                          '/healthz')
        go_on.set()

        def is_served():
            try:
                return b'answer' in self.scrape()
            except (OSError, http.client.HTTPException):
                return False
        self.wait_for(is_served)

    def test_collector_that_is_broken_is_logged(self):
        class Broken:
            def collect(self):
                raise ZeroDivisionError()

            def describe(self):
                return []

        self.registry.register(Broken())
        self.start()
        self.assertRaises((OSError, http.client.HTTPException), self.scrape)
        self.assertIn('metrics cannot be served', self.log.output)
        self.assertIn('ZeroDivisionError', self.log.output)
