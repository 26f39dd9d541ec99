# SPDX-License-Identifier: Apache-2.0

"""A proxy between a client and an API, which fails when it is told to."""

import contextlib
import http.client
import http.server
import threading

from tests.cloud import http_server
from tests.cloud import waiting

# Answers in place of the API, which never hears of the request.
REFUSES = 'refuses'
FORBIDS = 'forbids'
_STATUSES = {REFUSES: 503, FORBIDS: 403}
# Passes the request on when let_go() is called; the client waits.
HOLDS = 'holds'
# Passes the request on, and loses the answer.
LOSES = 'loses'
# Passes the request on, and answers nonsense: JSON, or none.
LIES = 'lies'
BABBLES = 'babbles'
_NONSENSE = {LIES: b'{"networks": 7, "network": []}', BABBLES: b'<html>'}

_HOP_HEADERS = ('connection', 'transfer-encoding', 'keep-alive')
_OWN_HEADERS = (*_HOP_HEADERS, 'content-length')


class FaultyProxy(http_server.HTTPServer):
    """Passes requests on to an API, all but some.

    .requests lists (method, path) of those that came since fail_at().

    :param port: of the API, on the loopback address.
    """

    def __init__(self, port):
        super().__init__()
        self._port = port
        self.requests = []
        self._failing = range(0)
        self._fault = None
        self._let_go = threading.Event()
        self._passed = threading.Event()
        # Asked by clients: one at a time.
        self._lock = threading.Lock()

    def _setUp(self):
        super()._setUp()

    def fail_at(self, number, fault=REFUSES, for_good=False):
        """Fail a request, counted from 1 and from now.

        :param number: which.
        :param fault: one of those above.
        :param for_good: fail all after it, too.
        """
        with self._lock:
            self.requests = []
            self._fault = fault
            self._failing = (range(number, 10 ** 9) if for_good
                             else range(number, number + 1))

    def let_go(self):
        """Pass on what is held, and wait until the API has done it."""
        self._let_go.set()
        waiting.happens(self._passed)

    def heal(self):
        """Fail no more requests."""
        self.fail_at(0)

    def _next_fault(self, method, path):
        with self._lock:
            self.requests.append((method, path))
            return (self._fault if len(self.requests) in self._failing
                    else None)

    def _handler(self):
        proxy = self

        class Handler(http.server.BaseHTTPRequestHandler):

            def _serve(self):
                length = int(self.headers.get('Content-Length') or 0)
                body = self.rfile.read(length)
                fault = proxy._next_fault(self.command, self.path)
                if fault in _STATUSES:
                    self.send_error(_STATUSES[fault])
                    return
                if fault == HOLDS:
                    waiting.happens(proxy._let_go)
                status, headers, content = proxy._pass_on(
                    self.command, self.path, body, self.headers)
                if fault == HOLDS:
                    proxy._passed.set()
                if fault == LOSES:
                    return
                # The client may have given up.
                with contextlib.suppress(ConnectionError):
                    self._answer(status, headers,
                                 _NONSENSE.get(fault, content))

            def _answer(self, status, headers, content):
                self.send_response(status)
                for name, value in headers:
                    if name.lower() not in _OWN_HEADERS:
                        self.send_header(name, value)
                self.send_header('Content-Length', str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = do_PUT = do_DELETE = _serve

            def log_message(self, *args):
                """Say nothing."""

        return Handler

    def _pass_on(self, method, path, body, headers):
        connection = http.client.HTTPConnection('127.0.0.1', self._port,
                                                timeout=60)
        try:
            connection.request(method, path, body, {
                name: value for name, value in headers.items()
                if name.lower() not in _HOP_HEADERS})
            response = connection.getresponse()
            return response.status, response.getheaders(), response.read()
        finally:
            connection.close()
