# SPDX-License-Identifier: Apache-2.0

import contextlib
import inspect
import json
import logging
import os
import socket
import ssl
import struct
import threading
import time

import fixtures
from gunicorn.workers import gthread
from oslo_config import cfg

from octavia_hmsync.distributor import api
from octavia_hmsync.distributor import client
from octavia_hmsync.distributor import conf as distributor_conf
from octavia_hmsync.distributor import server
from octavia_hmsync.distributor import tls
from octavia_hmsync import exceptions
from tests.cloud import certificates
from tests.cloud import waiting
from tests.unit import base
from tests.unit.distributor import examples

VIP_ID = examples.VIP_ID
HOST = '127.0.0.1'


def http(status, body, *headers):
    """Return what a server sends."""
    if not isinstance(body, bytes):
        body = json.dumps(body).encode()
    return '\r\n'.join([
        f'HTTP/1.1 {status} X', 'Content-Type: application/json',
        f'Content-Length: {len(body)}', *headers, '', '']).encode() + body


def hold(connection):
    """Say nothing, for as long as a client waits, or 20 s."""
    while connection.recv(65536):
        continue


class Server(fixtures.Fixture):
    """Answers over TLS, as a test has it.

    :ivar answer: what is sent, or a function that is called with the
                  connection.
    """

    def __init__(self, context):
        super().__init__()
        self._context = context
        self.requests = []
        self.answer = None

    def _setUp(self):
        self._listener = socket.create_server((HOST, 0))
        self.port = self._listener.getsockname()[1]
        self.addCleanup(self._listener.close)
        thread = threading.Thread(target=self._serve, daemon=True)
        thread.start()
        self.addCleanup(thread.join, 60)
        self.addCleanup(self._listener.shutdown, socket.SHUT_RDWR)

    def _serve(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection, contextlib.suppress(OSError):
                connection.settimeout(20)
                if self._context is None:
                    self.answer(connection)
                    continue
                with self._context.wrap_socket(
                        connection, server_side=True) as secure:
                    self._read(secure)
                    if callable(self.answer):
                        self.answer(secure)
                    else:
                        secure.sendall(self.answer)

    def _read(self, connection):
        head, _, body = b'', b'', b''
        while b'\r\n\r\n' not in head:
            part = connection.recv(65536)
            if not part:
                return
            head += part
        head, _, body = head.partition(b'\r\n\r\n')
        length = 0
        for line in head.split(b'\r\n'):
            if line.lower().startswith(b'content-length:'):
                length = int(line.partition(b':')[2])
        while len(body) < length:
            body += connection.recv(65536)
        self.requests.append((head.decode().split('\r\n'), body))


class ClientTestCase(base.TestCase):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.fixtures = contextlib.ExitStack()
        cls.addClassCleanup(cls.fixtures.close)
        directory = cls.fixtures.enter_context(fixtures.TempDir()).path
        cls.certificates, cls.others = (
            cls.fixtures.enter_context(certificates.Certificates(
                os.path.join(directory, name))) for name in ('a', 'b'))

    def make_server(self, name=HOST, own=None, client_ca=None, **options):
        """Start a server with the context that a distributor has."""
        conf = cfg.ConfigOpts()
        distributor_conf.register_opts(conf)
        conf([], default_config_files=[], default_config_dirs=[])
        for option, value in {
                'server_cert': (own or self.certificates).server_path(name),
                'client_ca': (client_ca or self.certificates)
                .client_authority.certificate_path, **options}.items():
            conf.set_override(option, value, distributor_conf.GROUP)
        return self.useFixture(Server(tls.create_context(conf)))

    def make_client(self, server, host=HOST, own=None, connect_timeout=5,
                    timeout=5):
        context = client.create_context(
            self.certificates.server_authority.certificate_path,
            own or self.certificates.client_path)
        return client.Client(f'https://{host}:{server.port}', context,
                             connect_timeout, timeout)

    def fails(self, kind, words, function, *args):
        error = self.assertRaises(exceptions.DistributorError, function,
                                  *args)
        self.assertIs(kind, type(error), error)
        self.assertRegex(str(error), words)
        self.assertRegex(str(error), r'\A[ -~]{1,500}\Z')
        self.assertIn(f'https://{HOST}:', str(error))
        return error


class TestClient(ClientTestCase):

    def setUp(self):
        super().setUp()
        self.server = self.make_server()
        self.client = self.make_client(self.server)

    def request(self):
        head, body = self.server.requests[-1]
        return head[0].removesuffix(' HTTP/1.1'), body

    def test_put(self):
        document = examples.make_document()
        for changed in (True, False):
            self.server.answer = http(200, {'version': 7, 'id': VIP_ID,
                                            'changed': changed})
            self.assertIs(changed, self.client.put_vip(VIP_ID, document))
        line, body = self.request()
        self.assertEqual(f'PUT /v1/vips/{VIP_ID}', line)
        self.assertEqual(examples.RAW, json.loads(body))
        head = self.server.requests[-1][0]
        self.assertIn('Content-Type: application/json', head)
        self.assertIn('User-Agent: octavia-hmsync', head)
        self.assertIn('Connection: close', head)

    def test_transition(self):
        found = {'version': 7, 'base': {}, 'current': {}, 'age': 1.5}
        self.server.answer = http(200, found)
        self.assertEqual(found, self.client.get_transition(VIP_ID))
        self.assertEqual(f'GET /v1/vips/{VIP_ID}/transition',
                         self.request()[0])
        self.server.answer = http(200, {'version': 7, 'changed': True})
        self.assertTrue(self.client.put_transition(VIP_ID, found))
        line, body = self.request()
        self.assertEqual((f'PUT /v1/vips/{VIP_ID}/transition', found),
                         (line, json.loads(body)))
        # It does not know the path.
        self.server.answer = http(404, {'error': 'x', 'code': 'NOT_FOUND'})
        self.assertRaises(exceptions.DistributorOtherVersion,
                          self.client.get_transition, VIP_ID)

    def test_probes(self):
        news = {'run': 'a', 'sequence': 3, 'whole': True, 'probes': []}
        self.server.answer = http(200, news)
        self.assertEqual(news, self.client.get_probes())
        self.assertEqual('GET /v1/probes?after=0&timeout=0',
                         self.request()[0])
        self.client.get_probes('a b', 3, 5)
        self.assertEqual('GET /v1/probes?after=3&timeout=5&run=a+b',
                         self.request()[0])
        self.server.answer = http(404, {'error': 'x', 'code': 'NOT_FOUND'})
        self.assertRaises(exceptions.DistributorOtherVersion,
                          self.client.get_probes)

    def test_delete(self):
        self.server.answer = b'HTTP/1.1 204 NO CONTENT\r\n\r\n'
        self.assertIsNone(self.client.delete_vip(VIP_ID))
        self.assertEqual(f'DELETE /v1/vips/{VIP_ID}', self.request()[0])
        self.client.delete_vip(VIP_ID, 9)
        self.assertEqual(f'DELETE /v1/vips/{VIP_ID}?version=9',
                         self.request()[0])

    def test_get(self):
        for call, line, answer, expected in (
                (self.client.get_versions, 'GET /',
                 {'software_version': '1', 'host': 'a', 'versions': []}, ...),
                (self.client.get_status, 'GET /v1/status',
                 {'status': 'ONLINE', 'host': 'a', 'more': 1}, ...),
                (self.client.list_vips, 'GET /v1/vips',
                 {'vips': [{'id': VIP_ID}]}, [{'id': VIP_ID}]),
                (lambda: self.client.get_vip(VIP_ID),
                 f'GET /v1/vips/{VIP_ID}',
                 {'document': {}, 'members': []}, ...),
                (lambda: self.client.get_statistics(VIP_ID),
                 f'GET /v1/vips/{VIP_ID}/statistics',
                 {'members': []}, ...),
                (self.client.get_traffic, 'GET /v1/traffic',
                 {'vips': [{'id': VIP_ID, 'members': [
                     {'id': 'a', 'packets': 7, 'bytes': 900}]}]},
                 {(VIP_ID, 'a'): (7, 900)})):
            with self.subTest(line):
                self.server.answer = http(200, answer)
                self.assertEqual(answer if expected is ... else expected,
                                 call())
                self.assertEqual((line, b''), self.request())

    def test_unknown(self):
        self.server.answer = http(404, {'error': 'x', 'code': 'UNKNOWN_VIP'})
        self.assertIsNone(self.client.get_vip(VIP_ID))
        self.assertIsNone(self.client.get_statistics(VIP_ID))

    def test_traffic_of_another_release(self):
        for members in (7, [{'id': 'a'}]):
            self.server.answer = http(200, {'vips': [
                {'id': VIP_ID, 'members': members}]})
            self.fails(exceptions.DistributorOtherVersion,
                       'does not say what it sent', self.client.get_traffic)

    def test_conflict(self):
        self.server.answer = http(409, {
            'error': 'version 7 is older', 'code': 'VERSION_CONFLICT',
            'in_force': 9})
        error = self.fails(exceptions.DistributorRefused,
                           'version 7 is older', self.client.put_vip, VIP_ID,
                           examples.make_document())
        self.assertEqual(9, error.in_force)

    def test_errors(self):
        for status, kind in ((400, exceptions.DistributorRejected),
                             (413, exceptions.DistributorRejected),
                             (415, exceptions.DistributorRejected),
                             (403, exceptions.DistributorUntrusted),
                             (404, exceptions.DistributorOtherVersion),
                             (405, exceptions.DistributorOtherVersion),
                             (409, exceptions.DistributorFailing),
                             (500, exceptions.DistributorFailing),
                             (503, exceptions.DistributorFailing),
                             (201, exceptions.DistributorFailing),
                             (301, exceptions.DistributorFailing)):
            for said, shown in (('it hangs', 'it hangs'),
                                ('a\n\x1b[31m\u20ac', r'a \\x1b\[31m\\u20ac'),
                                (None, 'no details'), (['x'], 'no details'),
                                ('a' * 5000, 'a' * 300)):
                with self.subTest(f'{status} {shown[:20]}'):
                    self.server.answer = http(
                        status, {'error': said, 'code': 'X'},
                        'Location: https://127.0.0.1:1/')
                    self.fails(kind, shown, self.client.put_vip, VIP_ID,
                               examples.make_document())

    def test_other_version(self):
        self.server.answer = http(200, {'vip': {}})
        self.fails(exceptions.DistributorOtherVersion, 'without "vips"',
                   self.client.list_vips)

    def test_no_json(self):
        for status in (200, 204, 403, 404, 500):
            for body in (b'', b'<html>', b'[]', b'"x"', b'\xff',
                         b'[' * 100000):
                with self.subTest(f'{status} {body[:9]}'):
                    self.server.answer = http(status, body)
                    self.fails(exceptions.DistributorUnreachable,
                               f'answered {status} with what is no JSON',
                               self.client.get_status)

    def test_hung_up(self):
        whole = http(200, {'status': 'ONLINE', 'host': 'a'})
        for length in (0, 5, 20, len(whole) - 1):
            with self.subTest(length):
                self.server.answer = whole[:length]
                self.fails(exceptions.DistributorUnreachable,
                           'closed|is no JSON', self.client.get_status)

    def test_no_http(self):
        for answer in (b'SSH-2.0-OpenSSH\r\n', b'\0' * 200000,
                       b'HTTP/1.1 200 X\r\n' + b'A: b\r\n' * 500 + b'\r\n',
                       b'HTTP/1.1 200 X\r\nContent-Length: x\r\n\r\n',
                       b'HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n'
                       b'\r\nzz\r\n'):
            with self.subTest(answer[:30]):
                self.server.answer = answer
                self.fails(exceptions.DistributorUnreachable, '.',
                           self.client.get_status)

    def test_answer_without_end(self):
        def answer(connection):
            connection.sendall(b'HTTP/1.1 200 X\r\n\r\n')
            for _ in range(100):
                connection.sendall(b' ' * 2 ** 20)

        self.server.answer = answer
        self.fails(exceptions.DistributorUnreachable, 'longer than',
                   self.client.get_status)

    def test_slow(self):
        """Who sends a letter now and then does not hold anybody."""
        slow = self.make_client(self.server, connect_timeout=.5, timeout=.5)
        whole = http(200, {'status': 'ONLINE', 'host': 'a'})

        def trickle(connection):
            for letter in whole:
                connection.sendall(bytes([letter]))
                time.sleep(.1)

        for answer in (trickle, hold):
            self.server.answer = answer
            self.fails(exceptions.DistributorUnreachable,
                       'did not answer within 1 s', slow.get_status)

    def test_threads(self):
        self.server.answer = http(200, {'vips': [{'id': VIP_ID}]})
        found = []
        threads = [threading.Thread(
            target=lambda: found.append(self.client.list_vips()))
            for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([[{'id': VIP_ID}]] * 8, found)

    def test_environment(self):
        """No proxy is asked, and no other authority believed."""
        self.server.answer = http(200, {'vips': []})
        for name in ('HTTPS_PROXY', 'https_proxy', 'ALL_PROXY'):
            self.useFixture(fixtures.EnvironmentVariable(
                name, 'http://127.0.0.1:1'))
        for name in ('REQUESTS_CA_BUNDLE', 'CURL_CA_BUNDLE',
                     'SSL_CERT_FILE'):
            self.useFixture(fixtures.EnvironmentVariable(
                name, self.others.server_authority.certificate_path))
        self.assertEqual([], self.client.list_vips())
        other = self.make_server(own=self.others)
        self.fails(exceptions.DistributorUntrusted, 'not vouched for',
                   self.make_client(other).list_vips)


class TestTLS(ClientTestCase):

    ANSWER = http(200, {'vips': []})

    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())

    def start(self, **kwargs):
        server = self.make_server(**kwargs)
        server.answer = self.ANSWER
        return server

    def test_name_in_place_of_address(self):
        server = self.start(name='localhost')
        self.assertEqual(
            [], self.make_client(server, host='localhost').list_vips())
        error = self.assertRaises(
            exceptions.DistributorUntrusted,
            self.make_client(server).list_vips)
        self.assertIn('the certificate of another name', str(error))
        self.assertEqual(1, len(server.requests))

    def test_other_name(self):
        for name in ('127.0.0.2', 'network2', examples.make_id(1)):
            server = self.start(name=name)
            self.fails(exceptions.DistributorUntrusted,
                       'the certificate of another name',
                       self.make_client(server).list_vips)
            self.assertEqual([], server.requests)

    def test_other_authority(self):
        server = self.start(own=self.others)
        self.fails(exceptions.DistributorUntrusted, 'not vouched for',
                   self.make_client(server).list_vips)
        self.assertEqual([], server.requests)

    def test_certificate_of_the_client(self):
        server = self.start(client_ca=self.others)
        self.fails(exceptions.DistributorUntrusted,
                   'does not take the certificate of this controller',
                   self.make_client(server).list_vips)
        self.assertEqual([], server.requests)
        waiting.wait_for(
            lambda: '127.0.0.1 was not let in' in self.log.output,
            'sign of it in the log')

    def test_no_certificate_of_the_client(self):
        server = self.start()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(
            self.certificates.server_authority.certificate_path)
        for version in (ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_2):
            context.maximum_version = version
            self.fails(exceptions.DistributorUntrusted,
                       'does not take the certificate of this controller',
                       client.Client(f'https://{HOST}:{server.port}',
                                     context).list_vips)
        self.assertEqual([], server.requests)

    def test_old_tls(self):
        server = self.start()
        context = client.create_context(
            self.certificates.server_authority.certificate_path,
            self.certificates.client_path)
        context.set_ciphers('ALL:@SECLEVEL=0')
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = ssl.TLSVersion.TLSv1_1
        self.assertRaises(exceptions.DistributorError, client.Client(
            f'https://{HOST}:{server.port}', context).list_vips)
        self.assertEqual([], server.requests)

    def test_no_tls(self):
        server = self.useFixture(Server(None))
        server.answer = lambda connection: connection.sendall(self.ANSWER)
        self.fails(exceptions.DistributorUnreachable, 'closed',
                   self.make_client(server).list_vips)

    def test_handshake_that_hangs(self):
        server = self.useFixture(Server(None))
        server.answer = hold
        hanging = self.make_client(server, connect_timeout=.5, timeout=.5)
        self.fails(exceptions.DistributorUnreachable, 'did not answer',
                   hanging.list_vips)

    def test_handshake_of_the_server(self):
        """Nor does a client that hangs hold the server."""
        server = self.start(request_timeout=1)
        with socket.create_connection((HOST, server.port)) as hanging:
            hanging.sendall(b'\x16')
            self.assertEqual([], self.make_client(
                server, connect_timeout=60, timeout=60).list_vips())

    def test_connection_that_is_gone(self):
        """It may be wrapped where an error would end the whole server."""
        context = self.start()._context
        with socket.create_server((HOST, 0)) as listener:
            for sent in (b'', b'abc'):
                gone = socket.create_connection(listener.getsockname())
                accepted, _ = listener.accept()
                gone.sendall(sent)
                gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                                struct.pack('ii', 1, 0))
                gone.close()
                wrapped = context.wrap_socket(accepted, server_side=True)
                self.assertRaises(ssl.SSLEOFError, wrapped.recv, 10)
                wrapped.setblocking(True)
                wrapped.close()

    def test_nobody(self):
        with socket.create_server((HOST, 0)) as listener:
            server = Server(None)
            server.port = listener.getsockname()[1]
        self.fails(exceptions.DistributorUnreachable, 'Connection refused',
                   self.make_client(server).list_vips)

    def test_name_that_nobody_knows(self):
        asked = client.Client('https://nobody.invalid:1',
                              ssl.create_default_context(), timeout=30)
        error = self.assertRaises(exceptions.DistributorUnreachable,
                                  asked.list_vips)
        self.assertIn('its name is not known', str(error))


class GunicornServer(fixtures.Fixture):
    """Has gunicorn's worker handle connections, one after the other.

    As it does in a process, in which one thread makes connections ready for
    all, and others handle them.
    """

    def __init__(self, conf, application):
        super().__init__()
        self._server = server.Server(conf)
        self._application = application
        self.problems = []

    def _setUp(self):
        config = self._server.cfg
        self._worker = gthread.ThreadWorker(
            1, os.getpid(), [], None, 60, config, config.logger_class(config))
        self.addCleanup(self._worker.tmp.close)
        self._worker.wsgi = self._application
        self._config = config
        self._listener = socket.create_server((HOST, 0))
        self.port = self._listener.getsockname()[1]
        self.addCleanup(self._listener.close)
        thread = threading.Thread(target=self._serve, daemon=True)
        thread.start()
        self.addCleanup(thread.join, 60)
        self.addCleanup(self._listener.shutdown, socket.SHUT_RDWR)

    def _serve(self):
        while True:
            try:
                accepted, peer = self._listener.accept()
            except OSError:
                return
            try:
                connection = gthread.TConn(self._config, accepted, peer,
                                           self._listener.getsockname())
                began = time.monotonic()
                if not _HANDLES_INIT:
                    connection.init()
                if time.monotonic() - began > .5:
                    self.problems.append('all others waited')
                self._worker.handle(connection)
                connection.close()
            except Exception as e:
                self.problems.append(repr(e))


# Since 24; those of before do it in the thread that all wait for.
_HANDLES_INIT = 'conn.init()' in inspect.getsource(gthread.ThreadWorker.handle)


def answer_names(environ, start_response):
    """Tell the common names of who asks, as WSGI has it."""
    body = json.dumps({'vips': api.get_common_names(environ)}).encode()
    start_response('200 OK', [('Content-Type', 'application/json'),
                              ('Content-Length', str(len(body)))])
    return [body]


class TestGunicorn(ClientTestCase):
    """The server's side of TLS in the gunicorn that is installed."""

    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger(level=logging.INFO))
        conf = cfg.ConfigOpts()
        distributor_conf.register_opts(conf)
        conf([], default_config_files=[], default_config_dirs=[])
        for option, value in {
                'server_cert': self.certificates.server_path(HOST),
                'client_ca': self.certificates.client_authority
                .certificate_path, 'request_timeout': 1}.items():
            conf.set_override(option, value, distributor_conf.GROUP)
        self.server = self.useFixture(GunicornServer(conf, answer_names))

    def tearDown(self):
        self.assertEqual([], self.server.problems)
        self.assertNotIn('Traceback', self.log.output)
        super().tearDown()

    def test_request(self):
        for name in ('client', 'controller1'):
            asked = self.make_client(
                self.server, own=self.certificates.issue_client(name))
            self.assertEqual([name], asked.list_vips())

    def test_stranger(self):
        self.fails(exceptions.DistributorUntrusted,
                   'does not take the certificate of this controller',
                   self.make_client(self.server,
                                    own=self.others.client_path).list_vips)
        self.assertEqual(['client'],
                         self.make_client(self.server).list_vips())

    def test_those_who_hang_or_hang_up(self):
        context = client.create_context(
            self.certificates.server_authority.certificate_path,
            self.certificates.client_path)
        for sent in (b'\x16', b'GET / HTTP/1.1\r\n\r\n'):
            for hang_up in (False, True):
                sock = socket.create_connection((HOST, self.server.port))
                self.addCleanup(sock.close)
                sock.sendall(sent)
                if hang_up:
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                                    struct.pack('ii', 1, 0))
                    sock.close()
        for sent in (b'', b'GET /v1/vi'):
            sock = context.wrap_socket(
                socket.create_connection((HOST, self.server.port)),
                server_hostname=HOST)
            self.addCleanup(sock.close)
            sock.sendall(sent)
        asked = self.make_client(self.server, connect_timeout=30, timeout=30)
        self.assertEqual(['client'], asked.list_vips())


class TestConfiguration(ClientTestCase):

    def test_urls(self):
        for url, expected in (
                ('https://network1', 'https://network1:9444'),
                ('https://network1:1/', 'https://network1:1'),
                (' https://10.0.0.7:443 ', 'https://10.0.0.7:443'),
                ('https://[fd00::7]', 'https://[fd00::7]:9444'),
                ('HTTPS://Network1', 'https://network1:9444')):
            self.assertEqual(expected, client.check_url(url))
        for url in ('', 'network1', 'http://network1', 'https://',
                    'https://a:0x', 'https://a:99999', 'https://a/v1',
                    'https://u:p@a', 'https://a?x', 'https://a#x',
                    'https://[::', 'https://a b', 'https://a\n'
                    'https://b'):
            error = self.assertRaises(exceptions.InvalidConfiguration,
                                      client.check_url, url)
            self.assertNotIn('\n', str(error))

    def test_certificates(self):
        right = (self.certificates.server_authority.certificate_path,
                 self.certificates.client_path)
        client.create_context(*right)
        empty = self.useFixture(fixtures.TempDir()).join('empty.pem')
        with open(empty, 'w'):
            pass
        for wrong in ((empty, right[1]), ('/nowhere.pem', right[1]),
                      (right[0], empty), (right[0], '/nowhere.pem'),
                      (right[0], right[0])):
            error = self.assertRaises(exceptions.InvalidConfiguration,
                                      client.create_context, *wrong)
            self.assertIn('cannot be used', str(error))
