# SPDX-License-Identifier: Apache-2.0

"""Reads an amphora agent's answer to one request as it arrives.

The sender may be hostile. So each byte is looked at a fixed number of times,
in whatever pieces they arrive, and only a limited number is kept.
"""

import re

from octavia_hmsync import exceptions

HEAD_LIMIT = 4096
# Bytes of the body to keep.
_KEPT = 1024
_STATUS = re.compile(rb'HTTP/1\.[01] ([2-9]\d\d)(?:[ \r]|$)')
_LENGTH = re.compile(rb'\r\ncontent-length:[ \t]*(\d{1,9})[ \t]*(?:\r|$)',
                     re.IGNORECASE)
_CHUNKED = re.compile(rb'\r\ntransfer-encoding:[ \t]*chunked', re.IGNORECASE)
_SIZE = re.compile(rb'(?:\r\n)?([0-9a-f]{1,6})[^\r\n]{0,99}\r\n',
                   re.IGNORECASE)


class AnswerReader:
    """Takes an answer piece by piece, until ``kept`` bytes of its body."""

    def __init__(self, kept: int = _KEPT) -> None:
        self._kept = kept
        # The head so far; once that is complete, the body.
        self._data = bytearray()
        self._status: int | None = None
        self._is_chunked = False
        self._wanted = kept

    @property
    def status(self) -> int:
        """The status code; raises StrangeAnswer if none has come."""
        status = self._status
        if status is None:
            # The connection ended in the head, after the status.
            status = _parse_status(bytes(self._data))
        return status

    @property
    def body(self) -> str:
        """The beginning of the body."""
        if self._status is None:
            return ''
        body = bytes(self._data[:self._kept])
        if self._is_chunked:
            body = _join_chunks(body)
        return body.decode(errors='replace')

    def feed(self, data: bytes) -> bool:
        """Take a piece, or raise StrangeAnswer; return True at the end."""
        searched = max(0, len(self._data) - 3)
        self._data += data[:HEAD_LIMIT + self._kept]
        if self._status is None:
            end = self._data.find(b'\r\n\r\n', searched)
            if end > HEAD_LIMIT or (end < 0 and
                                    len(self._data) > HEAD_LIMIT):
                raise exceptions.StrangeAnswer(
                    f'more than {HEAD_LIMIT} bytes of header')
            if end < 0:
                return False
            self._take_head(bytes(self._data[:end]))
            del self._data[:end + 4]
        return len(self._data) >= self._wanted

    def _take_head(self, head: bytes) -> None:
        self._status = _parse_status(head)
        length = _LENGTH.search(head)
        self._is_chunked = _CHUNKED.search(head) is not None
        if length and not self._is_chunked:
            self._wanted = min(self._wanted, int(length[1]))


def _parse_status(head: bytes) -> int:
    status = _STATUS.match(head)
    if status is None:
        raise exceptions.StrangeAnswer('no status' if head
                                       else 'no answer at all')
    return int(status[1])


def _join_chunks(body: bytes) -> bytes:
    joined, position = b'', 0
    while size := _SIZE.match(body, position):
        begin = size.end()
        position = begin + int(size[1], 16)
        joined += body[begin:position]
        if position == begin:
            break
    return joined
