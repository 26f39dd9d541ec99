# SPDX-License-Identifier: Apache-2.0

import asyncio
import ssl

import fixtures
from hypothesis import given
from hypothesis import strategies as st

from octavia_hmsync.amphora import answer
from octavia_hmsync.amphora import tls
from octavia_hmsync import exceptions
from tests.cloud import certificates
from tests.unit import base

HEAD = b'HTTP/1.1 500 BAD\r\nContent-Length: 16\r\n\r\n'
BODY = b'{"message":"no"}'
NAME = 'amphora-1'


def read(*pieces):
    """Feed pieces until the reader has enough.

    :returns: (the reader, how many it took)
    """
    reader = answer.AnswerReader()
    for number, piece in enumerate(pieces, 1):
        if reader.feed(piece):
            return reader, number
    return reader, len(pieces)


def bytewise(data):
    return [data[n:n + 1] for n in range(len(data))]


class TestAnswerReader(base.TestCase):

    def test_whole(self):
        reader, number = read(HEAD + BODY, b'more')
        self.assertEqual((500, BODY.decode(), 1),
                         (reader.status, reader.body, number))

    @given(st.lists(st.integers(0, len(HEAD + BODY)), max_size=9))
    def test_in_pieces(self, cuts):
        """However it is cut, it is the same, and ends at the same byte."""
        data, cuts = HEAD + BODY, sorted({0, *cuts, len(HEAD + BODY)})
        reader, number = read(*(data[a:b] for a, b in zip(cuts, cuts[1:])),
                              b'more')
        self.assertEqual((500, BODY.decode()), (reader.status, reader.body))
        self.assertEqual(len(cuts) - 1, number)

    def test_ends_early(self):
        for data in (b'HTTP/1.1 202 ACC', b'HTTP/1.0 202', HEAD[:-2]):
            reader, _ = read(data)
            self.assertIn(reader.status, (202, 500))
            self.assertEqual('', reader.body)

    def test_no_answer(self):
        for data in (b'', b'HTTP/1.1 20', b'HTTP/1.1 2020 OK', b'SSH-2.0-O',
                     b'<html>', b'HTTP/2 200'):
            reader, _ = read(data)
            self.assertRaises(exceptions.StrangeAnswer,
                              getattr, reader, 'status')

    def test_strange_heads(self):
        for data in (b'HTTP/1.1 100 Continue\r\n\r\n' + HEAD, b'\r\n\r\n',
                     b'\x00\xff\r\n\r\n', b'HTTP/1.1\r\n\r\n',
                     b'HTTP/1.1 200 OK\r\n' + b'X: y\r\n' * 1000,
                     b'HTTP/1.1 200 OK\r\nX: ' + b'y' * 5000 + b'\r\n\r\n'):
            self.assertRaises(exceptions.StrangeAnswer, read, data)
            self.assertRaises(exceptions.StrangeAnswer, read,
                              *bytewise(data))

    def test_body_is_kept_in_part(self):
        for head in (HEAD, HEAD.replace(b': 16', b': 999999'),
                     b'HTTP/1.1 500 BAD\r\n\r\n'):
            reader, number = read(head, *[b'x' * 100] * 1000)
            self.assertLessEqual(number, 12)
            self.assertLessEqual(len(reader.body), 1024)

    def test_chunks(self):
        head = b'HTTP/1.1 500 BAD\r\nTransfer-Encoding: chunked\r\n\r\n'
        for body, expected in (
                (b'3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n', 'abcde'),
                (b'ffffff\r\nabc', 'abc'), (b'fffffffff\r\nabc', 'abc'),
                (b'nonsense', ''), (b'0\r\n\r\n', '')):
            reader, _ = read(head + body)
            self.assertEqual(expected, reader.body)

    @given(st.binary(max_size=300), st.lists(st.binary(max_size=300),
                                             max_size=5))
    def test_anything(self, begin, pieces):
        try:
            reader, _ = read(HEAD[:len(begin)], begin, *pieces)
            reader.body.encode()
            self.assertIn(reader.status, range(200, 1000))
        except exceptions.StrangeAnswer:
            return


class Counting:
    """A reader that never has enough, and counts."""

    def __init__(self):
        self.calls = 0

    def feed(self, data):
        self.calls += 1
        return False


class Transport:
    """Brings what the client writes to a server in the same thread."""

    def __init__(self, server):
        self._server = server

    def write(self, data):
        self._server.incoming.write(data)


class Server:
    """The other end of a TLS connection, in memory."""

    def __init__(self, context):
        self.incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self.incoming, self._outgoing,
                                     server_side=True)

    def handshake(self):
        """Go on with it; returns what is to be sent."""
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return self._outgoing.read()
        return self._outgoing.read()

    def record(self, data):
        self._tls.write(data)
        return self._outgoing.read()


class TestExchange(base.TestCase):
    """What one connection costs is bounded, whatever the server sends."""

    def setUp(self):
        super().setUp()
        self.certificates = self.useFixture(certificates.Certificates(
            self.useFixture(fixtures.TempDir()).path))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificates.server_path(NAME))
        self.client_context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.client_context.load_verify_locations(
            self.certificates.server_authority.certificate_path)
        self.server = Server(context)
        self.reader = Counting()

    def exchange(self, data_of):
        """Connect, and give the client what the server sends.

        :param data_of: called with the server; yields bytes to be received
                        at once
        :returns: how many of these were taken before it came to an end
        """
        async def run():
            connection = tls._Connection(self.client_context, NAME,
                                         b'request', self.reader, tls.Trace())
            connection.connection_made(Transport(self.server))
            for number, data in enumerate(data_of(self.server)):
                if connection.answer.done():
                    return number, connection.answer.exception()
                connection.data_received(data)
            self.fail('it takes everything')
        return asyncio.run(run())

    @staticmethod
    def connect(server):
        yield server.handshake()
        yield server.handshake()

    def test_a_byte_in_each_record(self):
        def send(server):
            yield from self.connect(server)
            yield b''.join(server.record(b'x') for _ in range(1000))
            yield b''

        number, error = self.exchange(send)
        self.assertIsInstance(error, exceptions.StrangeAnswer)
        self.assertLessEqual(self.reader.calls, 64)
        self.assertEqual(3, number)

    def test_a_byte_in_each_piece(self):
        def send(server):
            yield from self.connect(server)
            for _ in range(1000):
                yield from bytewise(server.record(b'x' * 100))

        number, error = self.exchange(send)
        self.assertIsInstance(error, exceptions.StrangeAnswer)
        self.assertLess(number, 300)

    def test_endless_handshake(self):
        def send(server):
            # A record that is never whole.
            yield b'\x16\x03\x03\x40\x00'
            while True:
                yield b'\x02'

        number, error = self.exchange(send)
        self.assertIsInstance(error, exceptions.StrangeAnswer)
        self.assertLess(number, 300)
        self.assertEqual(0, self.reader.calls)

    def test_flood(self):
        def send(server):
            yield from self.connect(server)
            yield server.record(b'x') + b'\x17\x03\x03' + b'x' * 200000
            yield b''

        _, error = self.exchange(send)
        self.assertIsInstance(error, exceptions.StrangeAnswer)
        self.assertEqual(0, self.reader.calls)
