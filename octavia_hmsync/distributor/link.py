# SPDX-License-Identifier: Apache-2.0

"""One request over two-way TLS with requests, with a limit for all of it.

The time-outs of requests are for each read: a server that sends a byte now and
then could hold its client for ever.
"""

import contextlib
import socket
import ssl
import threading
import types
import typing

import requests
import requests.adapters
from urllib3 import connection as urllib3_connection
from urllib3 import connectionpool
from urllib3 import poolmanager

_CHUNK = 65536


class TooLong(ValueError):
    """An answer without an end, or longer than the limit."""


class Link:
    """One connection for one request; a context manager.

    :param context: for TLS; it checks the server.
    :param connect_timeout: seconds until there is a connection.
    :param timeout: seconds for all that follows.
    """

    def __init__(self, context: ssl.SSLContext, connect_timeout: float,
                 timeout: float) -> None:
        self._connect_timeout = connect_timeout
        self._timeout = timeout
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._is_late = False
        self._timer = threading.Timer(connect_timeout + timeout, self._cut)
        self._timer.daemon = True
        self._session = requests.Session()
        # Ignore proxies, .netrc and authorities from the environment.
        self._session.trust_env = False
        self._session.mount('https://', _Adapter(context, self._hold))

    def __enter__(self) -> typing.Self:
        self._timer.start()
        return self

    def __exit__(self, kind: type[BaseException] | None,
                 error: BaseException | None,
                 traceback: types.TracebackType | None) -> None:
        self._timer.cancel()
        with self._lock:
            self._socket = None
        self._session.close()

    @property
    def is_late(self) -> bool:
        """Tell whether it was cut off because it took too long."""
        return self._is_late

    def exchange(self, method: str, url: str, headers: dict[str, str],
                 body: bytes | None, longest: int) -> tuple[int, bytes]:
        """Make the request.

        :param longest: bytes of an answer that are read at most.
        :returns: status and body.
        :raises requests.RequestException, OSError: if there is no answer.
        :raises TooLong: if the answer is too long.
        """
        with self._session.request(
                method, url, headers=headers, data=body, stream=True,
                allow_redirects=False,
                timeout=(self._connect_timeout, self._timeout)) as answer:
            parts, length = [], 0
            for part in answer.iter_content(_CHUNK):
                parts.append(part)
                length += len(part)
                if length > longest:
                    raise TooLong(f'it is longer than {longest} bytes')
            return answer.status_code, b''.join(parts)

    def _hold(self, held: socket.socket) -> None:
        with self._lock:
            self._socket = held

    def _cut(self) -> None:
        with self._lock:
            self._is_late = True
            if self._socket is not None:
                # On the plain socket: the other thread is reading from the TLS
                # object.
                with contextlib.suppress(OSError):
                    socket.socket.shutdown(self._socket, socket.SHUT_RDWR)


class _Adapter(requests.adapters.HTTPAdapter):
    """Uses its own TLS context, and reports the socket."""

    def __init__(self, context: ssl.SSLContext,
                 hold: typing.Callable[[socket.socket], None]) -> None:

        class Connection(urllib3_connection.HTTPSConnection):

            def connect(self) -> None:
                """Connect like urllib3, but with the context unchanged.

                urllib3 changes the contexts it is given, and 1.26 does not let
                OpenSSL check an IP address.
                """
                connected = self._new_conn()
                self.sock = context.wrap_socket(
                    connected, server_hostname=self.host.strip('[]'))
                hold(self.sock)
                self.is_verified = True

        class Pool(connectionpool.HTTPSConnectionPool):
            ConnectionCls = Connection

        self._pool = Pool
        super().__init__(max_retries=0)

    def init_poolmanager(self, *args: typing.Any,
                         **kwargs: typing.Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        manager: poolmanager.PoolManager = self.poolmanager
        manager.pool_classes_by_scheme = {'https': self._pool}

    def cert_verify(self, conn: typing.Any, url: str, verify: object,
                    cert: object) -> None:
        """Do not load the authorities of browsers."""

    def build_connection_pool_key_attributes(
            self, request: typing.Any, verify: typing.Any,
            cert: typing.Any = None) -> typing.Any:
        """Do not load them here, either: since requests 2.32."""
        host, _pool = super().build_connection_pool_key_attributes(
            request, verify, cert)
        return host, {}


def find_cause(error: BaseException,
               kind: type[BaseException]) -> typing.Any:
    """Find the error of a kind that caused an error of requests, or None.

    urllib3 and requests wrap an error of the kernel or of OpenSSL in several
    layers: as argument, as reason, or as cause.
    """
    waiting: list[object] = [error]
    seen: set[int] = set()
    while waiting:
        found = waiting.pop(0)
        if not isinstance(found, BaseException) or id(found) in seen:
            continue
        seen.add(id(found))
        # Every error of requests is an OSError, whatever its cause.
        if isinstance(found, kind) and not isinstance(
                found, requests.RequestException):
            return found
        waiting += [*found.args, getattr(found, 'reason', None),
                    found.__cause__, found.__context__]
    return None
