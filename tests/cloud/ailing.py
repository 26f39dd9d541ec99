# SPDX-License-Identifier: Apache-2.0

"""Amphorae whose agents misbehave."""

import socket
import ssl
import struct
import threading
import time

import fixtures

# No SYN is answered (the queue of the socket is full).
SILENT = 'silent'
# Nothing listens.
REFUSES = 'refuses'
# Accepts the connection, and never says a word of TLS.
BLACK_HOLE = 'black hole'
# Does the handshake, and never reads or answers the request.
HANGS = 'hangs'
# Reads the whole request, and never answers.
HANGS_IN_ANSWER = 'hangs in answer'
NOT_FOUND = 'not found'
SERVER_ERROR = 'server error'
# Resets the connection in the middle of the body of the request.
RESETS = 'resets'
# Resets the connection in the middle of its answer.
RESETS_IN_ANSWER = 'resets in answer'
# Has the certificate of another amphora.
IMPOSTOR = 'impostor'
# Answers with one byte in each TLS record, at once.
ONE_BYTE_RECORDS = 'one byte records'
# Says again and again that it may take a request.
ENDLESS_CONTINUE = 'endless continue'
# Answers with headers and no end.
ENDLESS_HEADERS = 'endless headers'
# Says one byte of a TLS record after the other, before the handshake.
ENDLESS_HANDSHAKE = 'endless handshake'
# Answers as it should, but late.
SLOW = 'slow'
# Answers as it should.
HEALTHY = 'healthy'

# What these say, as long as somebody listens.
ENDLESS = {ENDLESS_CONTINUE: (b'', b'HTTP/1.1 100 Continue\r\n\r\n'),
           ENDLESS_HEADERS: (b'HTTP/1.1 202 ACCEPTED\r\n', b'X: y\r\n'),
           ENDLESS_HANDSHAKE: (b'\x16\x03\x03\x40\x00', b'\x02')}
STATUS_LINES = {NOT_FOUND: '404 NOT FOUND',
                SERVER_ERROR: '500 INTERNAL SERVER ERROR'}


class AilingAmphora(fixtures.Fixture):
    """A TLS server in place of the agent of an amphora.

    .connections and .uploads count what came; .ailment may be changed while
    it serves, but for SILENT and REFUSES.

    :param delay: seconds that a SLOW one takes
    :param impostor_id: whose certificate an IMPOSTOR presents
    """

    def __init__(self, amphora_id, lb_network_ip, certificates, ailment,
                 port=9443, delay=5, impostor_id='impostor'):
        super().__init__()
        self.amphora_id = amphora_id
        self.lb_network_ip = lb_network_ip
        self.port = port
        self.ailment = ailment
        self.delay = delay
        self.connections = 0
        self.uploads = 0
        self._contexts = [
            self._context(certificates, name)
            for name in (amphora_id, impostor_id)]
        self._ended = threading.Event()

    @staticmethod
    def _context(certificates, name):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificates.server_path(name))
        context.load_verify_locations(
            certificates.client_authority.certificate_path)
        context.verify_mode = ssl.CERT_REQUIRED
        return context

    def _setUp(self):
        if self.ailment == REFUSES:
            return
        listener = socket.socket()
        self.addCleanup(listener.close)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((self.lb_network_ip, self.port))
        if self.ailment == SILENT:
            listener.listen(0)
            for _ in range(4):
                filler = socket.socket()
                self.addCleanup(filler.close)
                filler.setblocking(False)
                filler.connect_ex((self.lb_network_ip, self.port))
            return
        listener.listen(64)
        thread = threading.Thread(target=self._accept, args=(listener,),
                                  daemon=True)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(self._end, listener)

    def _end(self, listener):
        self._ended.set()
        listener.shutdown(socket.SHUT_RDWR)

    def _accept(self, listener):
        while not self._ended.is_set():
            try:
                connection = listener.accept()[0]
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(connection,),
                             daemon=True).start()

    def _serve(self, connection):
        try:
            with connection:
                self._answer(connection)
        except OSError:
            # The client went away, or a handshake failed: its right.
            return

    def _answer(self, connection):
        if self.ailment == BLACK_HOLE:
            self._ended.wait()
            return
        connection.settimeout(60)
        if self.ailment == ENDLESS_HANDSHAKE:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._go_on(connection, 0.01)
            return
        context = self._contexts[self.ailment == IMPOSTOR]
        with context.wrap_socket(connection, server_side=True) as tls:
            if self.ailment == HANGS:
                self._ended.wait()
            elif self.ailment == RESETS:
                self._read_request(tls, body=False)
                self._reset(tls)
            else:
                request_line = self._read_request(tls)
                if request_line.startswith('PUT '):
                    self.uploads += 1
                self._reply(tls, request_line)

    @staticmethod
    def _read_request(tls, body=True):
        """Read a request, or just its head, and return its first line."""
        data = b''
        while b'\r\n\r\n' not in data:
            chunk = tls.recv(4096)
            if not chunk:
                raise ConnectionResetError()
            data += chunk
        head, _, rest = data.partition(b'\r\n\r\n')
        length = 0
        for line in head.split(b'\r\n')[1:]:
            name, _, value = line.partition(b':')
            if name.lower() == b'content-length':
                length = int(value)
        left = length - len(rest)
        while body and left > 0:
            chunk = tls.recv(4096)
            if not chunk:
                raise ConnectionResetError()
            left -= len(chunk)
        return head.split(b'\r\n')[0].decode()

    def _go_on(self, connection, pause=0.0):
        first, rest = ENDLESS[self.ailment]
        connection.sendall(first)
        while not self._ended.wait(pause):
            connection.sendall(rest)

    def _reply(self, tls, request_line):
        if self.ailment in ENDLESS:
            self._go_on(tls)
            return
        if self.ailment == HANGS_IN_ANSWER:
            self._ended.wait()
            return
        if self.ailment == SLOW:
            self._ended.wait(self.delay)
        put = request_line.startswith('PUT ')
        status = STATUS_LINES.get(self.ailment,
                                  '202 ACCEPTED' if put else '200 OK')
        body = '{"message": "OK"}' if put else '{"api_version": "1.0"}'
        answer = (f'HTTP/1.1 {status}\r\nContent-Type: application/json\r\n'
                  f'Content-Length: {len(body)}\r\nConnection: close\r\n\r\n'
                  f'{body}').encode()
        if self.ailment == RESETS_IN_ANSWER:
            tls.sendall(answer[:-8])
            # The half answer has to arrive before the reset overtakes it.
            time.sleep(0.1)
            self._reset(tls)
        elif self.ailment == ONE_BYTE_RECORDS:
            for number in range(len(answer)):
                tls.sendall(answer[number:number + 1])
        else:
            tls.sendall(answer)

    @staticmethod
    def _reset(tls):
        tls.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                       struct.pack('ii', 1, 0))
        tls.close()
