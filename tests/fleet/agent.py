# SPDX-License-Identifier: Apache-2.0

"""The agents: TLS, and as much of HTTP as a controller uses.

Every amphora listens on an address of its own, on a socket of its own, as
the real ones do. So a refused connection is refused by the kernel, real
agents can run beside the fleet, and, as with gunicorn's one worker, a
connection waits in the queue while the agent has another one.
"""

import asyncio
import collections
import contextlib
import functools
import re
import socket
import ssl
import struct
import time

from tests.cloud import ailing
from tests.fleet import amphora as fleet_amphora
from tests.fleet import configuration
from tests.fleet import routes

# As gunicorn's.
BACKLOG = 2048
IMPOSTOR_ID = 'impostor'
REASONS = {200: 'OK', 202: 'Accepted', 400: 'Bad Request', 404: 'Not Found',
           405: 'Method Not Allowed', 500: 'Internal Server Error'}
STATUSES = {ailment: int(line[:3])
            for ailment, line in ailing.STATUS_LINES.items()}


def _encode(status, content):
    kind, body = routes.encode(content)
    return (f'HTTP/1.1 {status} {REASONS[status]}\r\nServer: gunicorn\r\n'
            f'Connection: close\r\nContent-Type: {kind}\r\n'
            f'Content-Length: {len(body)}\r\n\r\n').encode() + body


def _error(status):
    return {'error': f'{status} {REASONS[status]}', 'http_code': status}


def _target(head):
    """Method and path of a request; slashes count once, as in Flask."""
    method, target, _version = head.split(b'\r\n', 1)[0].decode().split()
    return method, re.sub('/+', '/', target.partition('?')[0])


class Server:
    """All agents, and what they count; see the package for what it means.

    :param contexts: a certificates.Contexts.
    :param port: of every agent.
    :param delay: seconds that a SLOW one takes.
    """

    def __init__(self, contexts, port, delay):
        self.contexts = contexts
        self.delay = delay
        self.loop = asyncio.get_running_loop()
        self._port = port
        self._sockets = {}
        self.in_flight = 0
        self.reset()

    def reset(self):
        """Count from zero again."""
        self.max_in_flight = self.in_flight
        self.connections = 0
        self.uploads = 0
        self.first_upload = None
        self.last_upload = None
        self.aborted = 0
        self.answers = collections.Counter()

    def open(self, amphora):
        """Listen, or not, as the ailment of the amphora has it."""
        for sock in self._sockets.pop(amphora.id, ()):
            self.loop.remove_reader(sock)
            sock.close()
        if amphora.ailment == ailing.REFUSES:
            return
        address = amphora.lb_network_ip, self._port
        listener = socket.socket()
        self._sockets[amphora.id] = [listener]
        listener.setblocking(False)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        if amphora.ailment == ailing.SILENT:
            # One connection fills its queue.
            listener.listen(0)
            filler = socket.socket()
            self._sockets[amphora.id].append(filler)
            filler.connect(address)
        else:
            listener.listen(BACKLOG)
            self.resume(amphora, listener)

    def resume(self, amphora, listener):
        """Wait for the next connection, if the listener is still open."""
        if listener.fileno() >= 0:
            self.loop.add_reader(listener, self._accept, amphora, listener)

    def _accept(self, amphora, listener):
        try:
            sock = listener.accept()[0]
        except (BlockingIOError, ConnectionAbortedError):
            return
        self.loop.remove_reader(listener)
        self.connections += 1
        self.in_flight += 1
        self.max_in_flight = max(self.max_in_flight, self.in_flight)
        _Connection(self, amphora, listener, sock)

    def answer(self, amphora, method, path, body):
        """Do what a request asks for, and return the whole answer."""
        status, content = self._do(amphora, method, path, body)
        self.answers[status] += 1
        return _encode(status, content)

    def cut_off(self, amphora, method, path, body):
        """Do what half a request asks for.

        The agent takes the end of the connection for that of the body.
        """
        if (method, path) == ('PUT', routes.CONFIG):
            with contextlib.suppress(ValueError):
                amphora.take(configuration.parse(body))

    def _do(self, amphora, method, path, body):
        if (method, path) == ('PUT', routes.CONFIG):
            self.uploads += 1
            self.last_upload = amphora.last_upload = time.time()
            self.first_upload = self.first_upload or self.last_upload
            amphora.uploads += 1
        status = STATUSES.get(amphora.ailment)
        if status:
            return status, _error(status)
        status, content = routes.act(amphora, method, path, body)
        return status, _error(status) if content is None else content


class _Connection:
    """One connection, from its acceptance to its end."""

    __slots__ = ('_server', '_amphora', '_listener', '_sock', '_go_on',
                 '_data', '_served')

    def __init__(self, server, amphora, listener, sock):
        self._server = server
        self._amphora = amphora
        self._listener = listener
        self._sock = sock
        self._go_on = self._start
        self._data = b''
        self._served = False
        self._step()

    def _step(self):
        """Go on until there is nothing more to read."""
        try:
            self._go_on()
        except (BlockingIOError, ssl.SSLWantReadError):
            # There will be more.
            return
        except (OSError, ValueError):
            # The client went away, is none of ours, or speaks no HTTP.
            self._end()

    def _start(self):
        self._sock.setblocking(False)
        ailment = self._amphora.ailment
        if ailment == ailing.BLACK_HOLE:
            self._go_on = self._discard
        else:
            self._go_on = self._shake_hands
            self._sock = self._server.contexts.get(
                IMPOSTOR_ID if ailment == ailing.IMPOSTOR else
                self._amphora.id).wrap_socket(
                    self._sock, server_side=True,
                    do_handshake_on_connect=False)
        self._server.loop.add_reader(self._sock, self._step)

    def _shake_hands(self):
        self._sock.do_handshake()
        self._go_on = (self._discard if self._amphora.ailment == ailing.HANGS
                       else self._read)
        # What came along with its end is not announced again.
        self._go_on()

    def _discard(self):
        """Hear nothing but the end."""
        while self._sock.recv(65536):
            pass
        self._end()

    def _read(self):
        while True:
            chunk = self._sock.recv(65536)
            self._data += chunk
            head, separator, body = self._data.partition(b'\r\n\r\n')
            if not chunk:
                if separator:
                    self._server.cut_off(self._amphora, *_target(head), body)
                self._end()
                return
            if not separator:
                continue
            if self._amphora.ailment == ailing.RESETS:
                self._reset()
                return
            length = re.search(rb'\r\ncontent-length: *(\d+)', head,
                               re.IGNORECASE)
            if len(body) >= (int(length[1]) if length else 0):
                self._serve(head, body)
                return

    def _serve(self, head, body):
        self._served = True
        answer = self._server.answer(self._amphora, *_target(head), body)
        ailment = self._amphora.ailment
        # An impostor that is not found out is no worse than others.
        if ailment in (*fleet_amphora.ANSWERING, ailing.IMPOSTOR):
            self._answer(answer)
            return
        self._go_on = self._discard
        if ailment == ailing.SLOW:
            self._later(self._server.delay,
                        functools.partial(self._answer, answer))
        elif ailment == ailing.RESETS_IN_ANSWER:
            self._sock.send(answer[:-8])
            # The half answer has to arrive before the reset overtakes it.
            self._later(0.1, self._reset)

    def _later(self, delay, go_on):
        def call():
            # Unless the client has gone meanwhile.
            if self._sock.fileno() >= 0:
                self._go_on = go_on
                self._step()
        self._server.loop.call_later(delay, call)

    def _answer(self, answer):
        # It fits into the buffer of the socket.
        self._sock.send(answer)
        self._end()

    def _reset(self):
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                              struct.pack('ii', 1, 0))
        self._end()

    def _end(self):
        # Wrapping the socket of a client which has gone may close it.
        if self._sock.fileno() >= 0:
            self._server.loop.remove_reader(self._sock)
            self._sock.close()
        self._server.in_flight -= 1
        if self._data and not self._served:
            self._server.aborted += 1
            self._amphora.aborted += 1
        self._server.resume(self._amphora, self._listener)
