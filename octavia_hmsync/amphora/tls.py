#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""One request over TLS, and its answer.

asyncio's own TLS transport takes a buffer of 256 KiB for each connection and
has ways to pause and resume; for some hundred connections at once that carry
one request each, that is most of the memory and a part of the time.
"""

import asyncio
from collections import abc
import ssl
import typing

_READ_SIZE = 16384


async def exchange(host: str, port: int, context: ssl.SSLContext,
                   server_name: str, request: bytes,
                   is_whole: abc.Callable[[bytes], bool]) -> bytes:
    """Send a request, and read the answer.

    :param host: an IP address.
    :param port: TCP port.
    :param context: an ssl.SSLContext.
    :param server_name: the name that the certificate has to have.
    :param request: bytes; sent in one write.
    :param is_whole: called with the answer so far; reading ends once it
                     returns True.
    :returns: the answer, bytes; as far as it came, if the connection ended
              before is_whole() was satisfied.
    :raises OSError: (ssl.SSLError is one) if no connection could be made, or
                     it broke before anything was answered.
    """
    loop = asyncio.get_running_loop()
    transport, connection = await loop.create_connection(
        lambda: _Connection(context, server_name, request, is_whole),
        host, port)
    try:
        return await connection.answer
    finally:
        transport.abort()


class _Connection(asyncio.Protocol):
    """A TLS client that sends first and then only reads."""

    def __init__(self, context: ssl.SSLContext, server_name: str,
                 request: bytes,
                 is_whole: abc.Callable[[bytes], bool]) -> None:
        self.answer: asyncio.Future[bytes] = (
            asyncio.get_running_loop().create_future())
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing,
                                     server_hostname=server_name)
        self._request: bytes | None = request
        self._is_whole = is_whole
        self._data = b''

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = typing.cast(asyncio.Transport, transport)
        self._advance()

    def data_received(self, data: bytes) -> None:
        self._incoming.write(data)
        self._advance()

    def eof_received(self) -> None:
        self._incoming.write_eof()
        self._advance()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(exc or ConnectionResetError('the connection was closed'))

    def _advance(self) -> None:
        """Go on as far as what has come allows."""
        try:
            if self._request is not None:
                self._tls.do_handshake()
                self._tls.write(self._request)
                self._request = None
            self._read()
        except ssl.SSLWantReadError:
            pass
        except OSError as e:
            self._end(e)
        # Also after an error: an alert tells the other side why.
        if self._outgoing.pending:
            self._transport.write(self._outgoing.read())

    def _read(self) -> None:
        while not self._is_whole(self._data):
            chunk = self._tls.read(_READ_SIZE)
            if not chunk:
                break
            self._data += chunk
        self._end()

    def _end(self, error: Exception | None = None) -> None:
        if self.answer.done():
            return
        # Broken off after the status came is an answer all the same.
        if error is None or self._data:
            self.answer.set_result(self._data)
        else:
            self.answer.set_exception(error)
            # Whoever waited may have given up meanwhile; asyncio would log
            # that nobody asked.
            self.answer.exception()
