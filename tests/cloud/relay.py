# SPDX-License-Identifier: Apache-2.0

"""Services of this machine's loopback interface, in a network namespace."""

import contextlib
import socket
import socketserver
import threading

import fixtures


class Relay(fixtures.Fixture):
    """Makes 127.0.0.1:port of this process's namespace that of another one.

    A socket stays in the namespace in which it was made, whoever uses it.

    :param namespace: an openvswitch.Namespace
    :param port: a TCP port
    """

    def __init__(self, namespace, port):
        super().__init__()
        self._namespace = namespace
        self._port = port

    def _setUp(self):
        server = self._namespace.call(_Server, ('127.0.0.1', self._port),
                                      _Handler)
        self.addCleanup(server.server_close)
        thread = threading.Thread(target=server.serve_forever, args=(0.05,),
                                  daemon=True)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(server.shutdown)


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = 50


class _Handler(socketserver.BaseRequestHandler):

    def handle(self):
        try:
            other = socket.create_connection(self.server.server_address)
        except OSError:
            # As if nobody listened: the connection is closed.
            return
        with other:
            back = threading.Thread(target=_copy, args=(other, self.request),
                                    daemon=True)
            back.start()
            _copy(self.request, other)
            back.join()


def _copy(source, target):
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    # Both ways: who speaks HTTP or MySQL has nothing to say any more.
    for end in (source, target):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
