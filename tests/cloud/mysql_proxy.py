# SPDX-License-Identifier: Apache-2.0

"""A proxy between a client and MariaDB, which fails when it is told to."""

import contextlib
import socket
import threading

import fixtures

# The server is gone before it has done what it was asked for.
DIES = 'dies'
# It is gone when it has done it, and has not said so.
LOSES = 'loses'
# It takes everything, and answers nothing.
HANGS = 'hangs'

_QUIT = 1


class FaultyProxy(fixtures.Fixture):
    """Passes on what clients ask a server for, up to some point.

    .number counts what they asked for since fail_from().

    :param port: of the server, on the loopback address.
    """

    def __init__(self, port):
        super().__init__()
        self._server_port = port
        self._lock = threading.Lock()
        self._hanging = []
        self.heal()

    def _setUp(self):
        self._listener = socket.create_server(('127.0.0.1', 0), backlog=50)
        self.port = self._listener.getsockname()[1]
        self.addCleanup(self._listener.close)
        self.addCleanup(self._listener.shutdown, socket.SHUT_RDWR)
        threading.Thread(target=self._serve, daemon=True).start()

    def fail_from(self, number, fault):
        """Fail for good, counted from 1 and from now.

        :param number: the first request that fails; new connections fail
                       from then on, too.
        :param fault: one of those above.
        """
        with self._lock:
            self.number = 0
            self._first, self._fault = number, fault

    def heal(self):
        """Fail no more."""
        self.fail_from(float('inf'), None)

    def _serve(self):
        with contextlib.suppress(OSError):
            while True:
                client, _address = self._listener.accept()
                if self.number < self._first:
                    self._connect(client)
                elif self._fault == HANGS:
                    # Closed, it would be no riddle to the client.
                    self._hanging.append(client)
                else:
                    client.close()

    def _connect(self, client):
        server = socket.create_connection(('127.0.0.1', self._server_port))
        for target, pair in ((self._pass_requests, (client, server)),
                             (self._pass_answers, (server, client))):
            threading.Thread(target=target, args=pair, daemon=True).start()

    def _is_failing(self):
        with self._lock:
            self.number += 1
            return self.number >= self._first

    def _pass_requests(self, client, server):
        stream = client.makefile('rb')
        with contextlib.suppress(OSError):
            while header := stream.read(4):
                body = stream.read(int.from_bytes(header[:3], 'little'))
                # The handshake goes on from what the server has sent.
                is_request = header[3] == 0 and body[0] != _QUIT
                if is_request and self._is_failing():
                    if self._fault == LOSES:
                        server.sendall(header + body)
                    if self._fault in (HANGS, LOSES):
                        stream.read()
                    break
                server.sendall(header + body)
        for end in (client, server):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _pass_answers(self, server, client):
        with contextlib.suppress(OSError):
            while data := server.recv(65536):
                if self.number >= self._first and self._fault == LOSES:
                    break
                client.sendall(data)
        for end in (client, server):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
