# SPDX-License-Identifier: Apache-2.0

"""One request over TLS, and its answer.

asyncio's own TLS transport takes a buffer of 256 KiB for each connection and
has ways to pause and resume; for some hundred connections at once that carry
one request each, that is most of the memory and a part of the time.
"""

import asyncio
from collections.abc import Callable
import dataclasses
import ssl
import typing

from octavia_hmsync import exceptions

_READ_SIZE = 16384
# An agent answers in one to four records, and some KiB with its certificates.
# Any more is cut off, because it costs time that other exchanges need.
_READS = 64
_ARRIVALS = 256
_BYTES = 65536


class Reader(typing.Protocol):
    """Takes an answer."""

    def feed(self, data: bytes) -> bool:
        """Take a piece; return True once nothing more is needed."""


@dataclasses.dataclass
class Trace:
    """How far an exchange came.

    :param on_answer: called when anything comes from there.
    """

    on_answer: Callable[[], object] | None = None
    is_answered: bool = False

    def note_answer(self) -> None:
        if not self.is_answered and self.on_answer is not None:
            self.on_answer()
        self.is_answered = True


async def exchange(host: str, port: int, context: ssl.SSLContext,
                   server_name: str, request: bytes, reader: Reader,
                   trace: Trace | None = None) -> None:
    """Send a request, and read the answer.

    :param request: bytes; sent in one write.
    :param reader: gets the answer as it arrives, or the part that arrived
                   before the connection ended.
    :raises OSError: (ssl.SSLError is one) if no connection could be made, or
                     it broke before any answer.
    :raises StrangeAnswer: if the other side sends what no agent does.
    """
    loop = asyncio.get_running_loop()
    transport, connection = await loop.create_connection(
        lambda: _Connection(context, server_name, request, reader,
                            trace or Trace()),
        host, port)
    try:
        await connection.answer
    finally:
        transport.abort()


class _Connection(asyncio.Protocol):
    """A TLS client that sends first and then only reads."""

    def __init__(self, context: ssl.SSLContext, server_name: str,
                 request: bytes, reader: Reader, trace: Trace) -> None:
        self._trace = trace
        self.answer: asyncio.Future[None] = (
            asyncio.get_running_loop().create_future())
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing,
                                     server_hostname=server_name)
        self._request: bytes | None = request
        self._reader = reader
        self._has_data = False
        self._arrivals = 0
        self._bytes = 0
        self._reads = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = typing.cast(asyncio.Transport, transport)
        self._advance()

    def data_received(self, data: bytes) -> None:
        self._trace.note_answer()
        self._arrivals += 1
        self._bytes += len(data)
        if self._arrivals > _ARRIVALS or self._bytes > _BYTES:
            self._end(exceptions.StrangeAnswer(
                f'{self._bytes} bytes in {self._arrivals} pieces and no end'))
        if self.answer.done():
            return
        self._incoming.write(data)
        self._advance()

    def eof_received(self) -> None:
        self._incoming.write_eof()
        self._advance()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(exc or ConnectionResetError('the connection was closed'))

    def _advance(self) -> None:
        """Go on as far as the received data allows."""
        try:
            if self._request is not None:
                self._tls.do_handshake()
                self._tls.write(self._request)
                self._request = None
            self._read()
        except ssl.SSLWantReadError:
            pass
        except (OSError, exceptions.StrangeAnswer) as e:
            self._end(e)
        # Also after an error: an alert tells the other side why.
        if self._outgoing.pending:
            self._transport.write(self._outgoing.read())

    def _read(self) -> None:
        while chunk := self._tls.read(_READ_SIZE):
            self._has_data = True
            self._reads += 1
            if self._reader.feed(chunk):
                break
            if self._reads >= _READS:
                raise exceptions.StrangeAnswer(
                    f'{self._reads} records and no end')
        self._end()

    def _end(self, error: Exception | None = None) -> None:
        if self.answer.done():
            return
        # If it broke after some data, that data is the answer.
        if error is None or (self._has_data and isinstance(error, OSError)):
            self.answer.set_result(None)
        else:
            self.answer.set_exception(error)
            # The caller may have given up meanwhile. Without this call asyncio
            # would log an exception that was never retrieved.
            self.answer.exception()
