# SPDX-License-Identifier: Apache-2.0

import asyncio
import os
import resource
import socket
import ssl
import threading

import fixtures

from octavia_hmsync.amphora import agent_client
from octavia_hmsync.amphora import tls
from octavia_hmsync.amphora import uploader
from octavia_hmsync import compat
from octavia_hmsync import exceptions
from tests.cloud import ailing
from tests.cloud import certificates
from tests.unit import base

BODY = '[health_manager]\nheartbeat_key = S3cret\n' + '# padding\n' * 300
ANSWERS_202 = (b'HTTP/1.1 202 ACCEPTED\r\nContent-Type: application/json\r\n'
               b'Content-Length: 16\r\n\r\n{"message":"OK"}')


class Answers(ailing.AilingAmphora):
    """Answers with the bytes given, piece by piece.

    :param keep_open: do not close the connection afterwards
    """

    def __init__(self, *args, pieces, keep_open=False, pause=0.0, **kwargs):
        super().__init__(*args, ailing.HEALTHY, **kwargs)
        self._pieces = pieces
        self._keep_open = keep_open
        self._pause = pause

    def _reply(self, tls, request_line):
        for piece in self._pieces:
            tls.sendall(piece)
            self._ended.wait(self._pause)
        if self._keep_open:
            self._ended.wait()


def upload_all(test, client, uploads, concurrency=64):
    """Upload as a batch does.

    :returns: an iterator of lists of (Upload, Answer)
    """
    subject = uploader.Uploader(concurrency)
    test.addCleanup(subject.close)
    return subject.upload_all(client, uploads, lambda: True, lambda: None)


class AgentClientTestCase(base.TestCase):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        directory = fixtures.TempDir()
        directory.setUp()
        cls.addClassCleanup(directory.cleanUp)
        cls.directory = directory.path
        cls.certificates = certificates.Certificates(directory.path)
        cls.certificates.setUp()
        cls.addClassCleanup(cls.certificates.cleanUp)

    def setUp(self):
        super().setUp()
        with socket.socket() as sock:
            sock.bind(('127.0.1.1', 0))
            self.port = sock.getsockname()[1]
        self.amphorae = []

    def make_client(self, timeout=15, **haproxy):
        return agent_client.create_client(
            self.make_client_conf(timeout, **haproxy))

    def make_client_conf(self, timeout=5, **haproxy):
        return self.make_conf(
            controller_worker={'amphora_driver': compat.REST_DRIVER},
            haproxy_amphora={
                'bind_port': self.port,
                'client_cert': self.certificates.client_path,
                'server_ca':
                    self.certificates.server_authority.certificate_path,
                **haproxy},
            hmsync={'upload_timeout': timeout})

    def add(self, ailment, certs=None, **kwargs):
        number = len(self.amphorae) + 1
        amphora = self.useFixture(ailing.AilingAmphora(
            f'amphora-{number}', f'127.0.1.{number}',
            certs or self.certificates, ailment, port=self.port, **kwargs))
        self.amphorae.append(amphora)
        return amphora

    def add_answering(self, *pieces, **kwargs):
        number = len(self.amphorae) + 1
        amphora = self.useFixture(Answers(
            f'amphora-{number}', f'127.0.1.{number}', self.certificates,
            port=self.port, pieces=pieces, **kwargs))
        self.amphorae.append(amphora)
        return amphora

    def upload(self, client=None, concurrency=64):
        """Upload to all amphorae.

        :returns: the Answer of each, in their order.
        """
        uploads = [agent_client.Upload(a.amphora_id, a.lb_network_ip, BODY)
                   for a in self.amphorae]
        answers = {}
        for chunk in upload_all(self, client or self.make_client(), uploads,
                                concurrency):
            for upload, answer in chunk:
                self.assertNotIn(upload.amphora_id, answers)
                self.assertNotIn('S3cret', repr(answer))
                answers[upload.amphora_id] = answer
        return [answers[a.amphora_id] for a in self.amphorae]

    def assertAnswer(self, result, words=None, client=None):
        answer, = self.upload(client)
        self.assertEqual(result, answer.result, answer)
        if words is None:
            self.assertIsNone(answer.error)
        else:
            self.assertIn(words, answer.error)
            self.assertNotIn('\n', answer.error)


class TestAilments(AgentClientTestCase):

    def test_applied(self):
        amphora = self.add(ailing.HEALTHY)
        self.assertAnswer('APPLIED')
        self.assertEqual((1, 1), (amphora.connections, amphora.uploads))

    def test_too_old(self):
        self.add(ailing.NOT_FOUND)
        self.assertAnswer('UNSUPPORTED', 'answered 404')

    def test_server_error(self):
        self.add(ailing.SERVER_ERROR)
        self.assertAnswer('REJECTED', 'answered 500')

    def test_resets_in_mid_body(self):
        self.add(ailing.RESETS)
        self.assertAnswer('UNREACHABLE', 'the agent at 127.0.1.1 port')

    def test_resets_in_answer(self):
        """That it took the file is what counts."""
        self.add(ailing.RESETS_IN_ANSWER)
        self.assertAnswer('APPLIED')

    def test_refuses(self):
        self.add(ailing.REFUSES)
        self.assertAnswer('UNREACHABLE', 'cannot be reached')

    def test_impostor(self):
        amphora = self.add(ailing.IMPOSTOR)
        self.assertAnswer('UNREACHABLE',
                          'presents the certificate of another amphora')
        self.assertEqual(0, amphora.uploads)

    def test_authority_that_is_not_trusted(self):
        other = self.useFixture(certificates.Certificates(
            os.path.join(self.directory, 'other')))
        amphora = self.add(ailing.HEALTHY, certs=other)
        self.assertAnswer('UNREACHABLE', 'server_ca does not vouch for')
        self.assertEqual(0, amphora.uploads)

    def test_client_certificate_that_is_not_trusted(self):
        other = self.useFixture(certificates.Certificates(
            os.path.join(self.directory, 'other_client')))
        amphora = self.add(ailing.HEALTHY)
        self.assertAnswer('UNREACHABLE', 'cannot be reached',
                          self.make_client(client_cert=other.client_path))
        self.assertEqual(0, amphora.uploads)

    def test_where_nobody_answers(self):
        for ailment in (ailing.REFUSES, ailing.BLACK_HOLE, ailing.SILENT):
            self.add(ailment)
        for answer in self.upload(self.make_client(timeout=1)):
            self.assertTrue(answer.is_unanswered, answer)
            self.assertGreaterEqual(answer.seconds, 0)

    def test_where_something_answers(self):
        """Whatever it is, a certificate that does not fit as well."""
        for ailment in (ailing.HEALTHY, ailing.SERVER_ERROR, ailing.IMPOSTOR,
                        ailing.RESETS, ailing.HANGS_IN_ANSWER):
            self.add(ailment)
        other = self.useFixture(certificates.Certificates(
            os.path.join(self.directory, 'other')))
        self.add(ailing.HEALTHY, certs=other)
        self.add_answering(b'SSH-2.0-OpenSSH\r\n')
        for answer in self.upload(self.make_client(timeout=3)):
            self.assertFalse(answer.is_unanswered, answer)

    def test_whether_there_is_a_way(self):
        conf = self.make_client_conf(timeout=1)
        dead = [self.add(ailment).lb_network_ip for ailment in
                (ailing.REFUSES, ailing.SILENT)]
        self.assertFalse(agent_client.does_anybody_answer(conf, dead))
        self.assertFalse(agent_client.does_anybody_answer(conf, []))
        self.assertFalse(agent_client.does_anybody_answer(conf, ['nonsense']))
        well = self.add(ailing.HEALTHY)
        self.assertTrue(agent_client.does_anybody_answer(
            conf, [*dead, well.lb_network_ip]))
        self.assertEqual(0, well.uploads)
        self.check_that_it_takes_an_upload(well)

    def check_that_it_takes_an_upload(self, amphora):
        """It takes an upload as ever."""
        self.amphorae = [amphora]
        self.assertAnswer('APPLIED')

    def test_slow_answer_within_the_time_limit(self):
        self.add(ailing.SLOW, delay=1)
        self.assertAnswer('APPLIED')

    def test_slow_answer_beyond_the_time_limit(self):
        self.add(ailing.SLOW, delay=30)
        self.assertAnswer('UNREACHABLE', 'did not answer within 1 s',
                          self.make_client(timeout=1))

    def test_silence(self):
        """An agent that is slow gets more time than a host that is dead."""
        client = self.make_client()

        def ask(amphora):
            return asyncio.run(client.ask(
                amphora.amphora_id, amphora.lb_network_ip, 'GET', 'info',
                timeout=60, silence=1))
        for ailment in (ailing.SILENT, ailing.BLACK_HOLE):
            error = self.assertRaises(exceptions.AgentUnreachable, ask,
                                      self.add(ailment))
            self.assertIn('did not answer within 1 s', str(error))
            self.assertTrue(error.is_unanswered)
        self.assertEqual(200, ask(self.add(ailing.SLOW, delay=3))[0])

    def test_answer_as_the_time_ends(self):
        async def exchange(host, port, context, name, request, reader, trace):
            try:
                await asyncio.sleep(60)
            finally:
                trace.note_answer()
        self.patch(tls, 'exchange', exchange)
        error = self.assertRaises(
            exceptions.AgentUnreachable, asyncio.run,
            self.make_client().ask('amphora', '127.0.1.1', 'GET', 'info',
                                   timeout=60, silence=0.1))
        self.assertIn('did not answer within', str(error))

    def test_those_that_hang_delay_nobody(self):
        ailments = [ailing.SILENT, ailing.BLACK_HOLE, ailing.HANGS,
                    ailing.HANGS_IN_ANSWER] * 2
        for ailment in [*ailments, ailing.HEALTHY, ailing.HEALTHY]:
            self.add(ailment)
        client = self.make_client(timeout=6)
        uploads = [agent_client.Upload(a.amphora_id, a.lb_network_ip, BODY)
                   for a in self.amphorae]
        ended = [(upload.amphora_id, answer.result)
                 for chunk in upload_all(self, client, uploads)
                 for upload, answer in chunk]
        # Those that are well came last, and are done first.
        self.assertEqual({(a.amphora_id, 'APPLIED')
                          for a in self.amphorae[-2:]}, set(ended[:2]))
        self.assertEqual({(a.amphora_id, 'UNREACHABLE')
                          for a in self.amphorae[:-2]}, set(ended[2:]))

    def test_endless_ones_end_at_once(self):
        for ailment in (ailing.ONE_BYTE_RECORDS, ailing.ENDLESS_CONTINUE,
                        ailing.ENDLESS_HEADERS, ailing.ENDLESS_HANDSHAKE):
            self.add(ailment)
        for answer in self.upload(self.make_client(timeout=60)):
            self.assertEqual('UNREACHABLE', answer.result)
            self.assertIn('gave a strange answer', answer.error)

    def test_few_places(self):
        """The time limit of an upload begins when it gets its place."""
        for _ in range(6):
            self.add(ailing.SLOW, delay=1)
        answers = self.upload(self.make_client(timeout=5), concurrency=1)
        self.assertEqual(['APPLIED'] * 6, [a.result for a in answers])

    def test_no_uploads(self):
        self.assertEqual([], self.upload())


class TestAnswers(AgentClientTestCase):

    def test_garbage(self):
        for garbage in (b'\x00\xff garbage', b'SSH-2.0-OpenSSH\r\n', b'\r\n',
                        b'HTTP/1.1\r\n\r\n', b'HTTP/1.1 abc OK\r\n\r\n', b''):
            self.add_answering(garbage)
        for answer in self.upload():
            self.assertEqual('UNREACHABLE', answer.result)
            self.assertIn('the agent at 127.0.1.', answer.error)

    def test_huge_body(self):
        self.add_answering(b'HTTP/1.1 500 BAD\r\nContent-Length: 99999999\r\n'
                           b'\r\n', *[b'x' * 65536] * 100)
        answer, = self.upload()
        # As it came with its head or after it.
        self.assertIn(answer.result, ('REJECTED', 'UNREACHABLE'))
        self.assertLess(len(answer.error), 1000)

    def assertStrange(self, words=''):
        self.assertAnswer('UNREACHABLE', f'gave a strange answer: {words}')

    def test_huge_header(self):
        self.add_answering(b'HTTP/1.1 500 BAD\r\n', b'X: ' + b'y' * 10 ** 6)
        self.assertStrange()

    def test_thousands_of_headers(self):
        self.add_answering(b'HTTP/1.1 202 OK\r\n', b'X: y\r\n' * 5000)
        self.assertStrange()

    def test_endless_answer(self):
        """An agent is not asked to tell that it may take a request."""
        # Fewer bytes than are too many, should they come all at once.
        self.add_answering(*[b'HTTP/1.1 100 Continue\r\n\r\n'] * 500)
        self.assertStrange('no status')

    def test_http_0_9(self):
        self.add_answering(b'{"message":"OK"}')
        self.assertStrange('no status')

    def test_says_nothing(self):
        self.add_answering()
        self.assertAnswer('UNREACHABLE', 'the agent at')

    def test_byte_by_byte(self):
        """Each record costs time; an agent takes one to four of them."""
        self.add_answering(*[ANSWERS_202[n:n + 1]
                             for n in range(len(ANSWERS_202))])
        self.assertStrange('64 records')

    def test_in_some_pieces(self):
        self.add_answering(*[ANSWERS_202[n:n + 4] for n in range(
            0, len(ANSWERS_202), 4)], pause=0.01)
        self.assertAnswer('APPLIED')

    def test_chunked_body(self):
        self.add_answering(b'HTTP/1.1 500 BAD\r\nTransfer-Encoding: chunked'
                           b'\r\n\r\n4\r\nfull\r\n5\r\n disk\r\n0\r\n\r\n')
        self.assertAnswer('REJECTED', 'answered 500: full disk.')

    def test_connection_that_stays_open(self):
        """The answer is whole; nobody need wait for its end."""
        self.add_answering(ANSWERS_202, keep_open=True)
        self.assertAnswer('APPLIED', client=self.make_client(timeout=30))

    def test_lengths_beyond_measure(self):
        """What one of them says must not end the uploads to the others."""
        for head in (b'Content-Length: ' + b'9' * 20,
                     b'Content-Length: ' + b'9' * 5000,
                     b'Transfer-Encoding: chunked'):
            self.add_answering(b'HTTP/1.1 202 OK\r\n' + head +
                               b'\r\n\r\n' + b'f' * 16 + b'\r\nx')
        for answer in self.upload(self.make_client(timeout=2)):
            self.assertIn(answer.result, ('APPLIED', 'UNREACHABLE'))

    def test_details_hold_no_secret(self):
        """An agent may say what it was sent."""
        for said in (b'no heartbeat_key = "a"', b'my key is S3cret!'):
            self.add_answering(b'HTTP/1.1 500 BAD\r\n\r\n' + said)
        conf = self.make_client_conf()
        conf.set_override('heartbeat_key', 'S3cret', 'health_manager')
        for answer in self.upload(agent_client.create_client(conf)):
            self.assertIn('answered 500: it repeats', answer.error)

    def test_details_fit_every_database(self):
        """MySQL's utf8 refuses the whole statement for one such character."""
        self.add_answering('HTTP/1.1 500 BAD\r\n\r\n\U0001f4a5 \x1b[31m'
                           .encode() + b'\xff\x00')
        answer, = self.upload()
        self.assertEqual('REJECTED', answer.result)
        self.assertTrue(answer.error.isascii() and answer.error.isprintable(),
                        ascii(answer.error))

    def test_redirect_is_not_followed(self):
        self.add_answering(b'HTTP/1.1 302 FOUND\r\nLocation: https://a/\r\n'
                           b'Content-Length: 0\r\n\r\n')
        self.assertAnswer('REJECTED', 'answered 302')


class Listening(ailing.AilingAmphora):
    """Notes what comes with the first look at a request."""

    first = None

    def _read_request(self, tls, body=True):
        self.first = tls.recv(1 << 16)
        return self.first.decode().splitlines()[0]


class TestRequest(AgentClientTestCase):

    def test_it_comes_whole_or_not_at_all(self):
        """An agent that reads half a body writes half a file."""
        with Listening('amphora-1', '127.0.1.1', self.certificates,
                       ailing.HEALTHY, port=self.port) as amphora:
            self.amphorae.append(amphora)
            self.assertAnswer('APPLIED')
        head, _, body = amphora.first.partition(b'\r\n\r\n')
        self.assertEqual(BODY.encode(), body)
        self.assertIn(b'PUT /1.0/config HTTP/1.1', head)
        self.assertIn(f'Content-Length: {len(BODY)}'.encode(), head)

    def test_tls_protocol(self):
        amphora = self.add(ailing.HEALTHY)
        for context in amphora._contexts:
            context.maximum_version = ssl.TLSVersion.TLSv1_2
        for protocol, expected in (('TLSv1.2', 'APPLIED'),
                                   ('TLSv1.3', 'UNREACHABLE')):
            conf = self.make_client_conf()
            conf.set_override('agent_tls_protocol', protocol,
                              'amphora_agent')
            answer, = self.upload(agent_client.create_client(conf))
            self.assertEqual(expected, answer.result)


class TestAddresses(AgentClientTestCase):

    def test_link_local(self):
        """It is reached through the interface that Octavia's client takes."""
        hosts = []

        async def exchange(host, port, tls, name, request, reader, trace):
            hosts.append(host)
            reader.feed(ANSWERS_202)

        self.patch(tls, 'exchange', exchange)
        amphora = self.add(ailing.HEALTHY)
        client = self.make_client(lb_network_interface='o-hm0')
        for address in ('fe80::1', 'fe80::1%eth9', '2001:db8::1'):
            amphora.lb_network_ip = address
            self.assertAnswer('APPLIED', client=client)
        self.assertEqual(['fe80::1%o-hm0', 'fe80::1%eth9', '2001:db8::1'],
                         hosts)

    def test_ipv6(self):
        class IPv6Amphora(ailing.AilingAmphora):
            def _setUp(self):
                listener = socket.create_server(
                    ('::1', self.port), family=socket.AF_INET6)
                self._start(listener)

            def _start(self, listener):
                self.addCleanup(listener.close)
                thread = threading.Thread(
                    target=self._accept, args=(listener,), daemon=True)
                thread.start()
                self.addCleanup(thread.join)
                self.addCleanup(self._end, listener)

        with IPv6Amphora('amphora-1', '::1', self.certificates,
                         ailing.HEALTHY, port=self.port) as amphora:
            self.amphorae.append(amphora)
            self.assertAnswer('APPLIED')

    def test_no_address(self):
        amphora = self.add(ailing.HEALTHY)
        for address in ('hm1.example.org', '', '192.0.2.256'):
            amphora.lb_network_ip = address
            self.assertAnswer('REJECTED', f'lb_network_ip "{address}"')
        self.assertEqual(0, amphora.connections)

    def test_certificates_that_cannot_be_used(self):
        error = self.assertRaises(exceptions.InvalidConfiguration,
                                  self.make_client, server_ca='/none.pem')
        self.assertIn('server_ca = /none.pem', str(error))
        broken = os.path.join(self.directory, 'broken.pem')
        with open(broken, 'w') as pem:
            pem.write('broken')
        error = self.assertRaises(exceptions.InvalidConfiguration,
                                  self.make_client, client_cert=broken)
        self.assertIn('broken.pem', str(error))


class TestDriverAgentClient(base.TestCase):

    def upload(self, driver):
        client = agent_client.create_client(self.make_conf(
            controller_worker={'amphora_driver': driver}))
        self.assertIsInstance(client, agent_client.DriverAgentClient)
        uploads = [agent_client.Upload(f'amphora-{n}', f'192.0.2.{n}', BODY)
                   for n in range(20)]
        return {upload.amphora_id: answer
                for chunk in upload_all(self, client, uploads)
                for upload, answer in chunk}

    def test_noop_driver_of_octavia(self):
        answers = self.upload('amphora_noop_driver')
        self.assertEqual(20, len(answers))
        self.assertEqual({agent_client.Answer('APPLIED')},
                         set(answers.values()))

    def test_places(self):
        """Whoever waits for a thread would have begun already."""
        for driver, expected in (('amphora_noop_driver', 32),
                                 (compat.REST_DRIVER, 200)):
            conf = self.make_conf(
                controller_worker={'amphora_driver': driver},
                hmsync={'upload_concurrency': 200})
            self.assertEqual(expected, agent_client.concurrency(conf))
        files = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, files)
        resource.setrlimit(resource.RLIMIT_NOFILE, (200, files[1]))
        self.assertEqual(150, agent_client.concurrency(conf))

    def answers_of(self, error):
        class Driver:
            def update_amphora_agent_config(self, amphora, agent_config):
                if amphora.id != 'amphora-3':
                    raise error

        self.patch(compat, 'load_amphora_driver', lambda name: Driver())
        return self.upload('third_party')

    def test_driver_that_cannot(self):
        for error in (NotImplementedError(),
                      compat.UNSUPPORTED_ERRORS[0](
                          user_fault_string='', operator_fault_string='')):
            answers = self.answers_of(error)
            self.assertEqual('APPLIED', answers.pop('amphora-3').result)
            self.assertEqual({'UNSUPPORTED'},
                             {a.result for a in answers.values()})

    def test_driver_that_fails(self):
        """What it says may hold the configuration."""
        answers = self.answers_of(RuntimeError(f'cannot write {BODY}'))
        self.assertEqual('APPLIED', answers.pop('amphora-3').result)
        for answer in answers.values():
            self.assertEqual('UNREACHABLE', answer.result)
            self.assertIn('RuntimeError', answer.error)
            self.assertNotIn('S3cret', answer.error)
