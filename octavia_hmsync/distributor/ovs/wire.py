# SPDX-License-Identifier: Apache-2.0

"""OpenFlow on the wire, as far as frames go in and out of a bridge.

And meters, which bundles of ovs-ofctl do not have, and what each VIP needs
time and again. ovs-ofctl, which tells flows, would be a new process for each
frame, and for each of a thousand VIPs that are looked over. It is
OpenFlow 1.3, by the socket that ovs-vswitchd has for each bridge. A Line never
waits, save in wait_for().
"""

from collections import abc
import dataclasses
import select
import socket
import struct
import time
import typing

from octavia_hmsync.distributor.ovs import openflow
from octavia_hmsync import exceptions

_VERSION = 4
_HELLO, _ERROR, _ECHO_REQUEST, _ECHO_REPLY, _SET_CONFIG = 0, 1, 2, 3, 9
_PACKET_IN, _PACKET_OUT, _FLOW_MOD, _METER_MOD = 10, 13, 14, 29
_STATISTICS_REQUEST, _STATISTICS_REPLY, _AGGREGATE = 18, 19, 2
_AGGREGATED = struct.Struct('!H6xQQI4x')
_ALL_TABLES = 0xff
# Of a meter: it counts packets, has a burst and is counted; its one band
# drops. Of an error: what failed, and that the meter is there already.
_ADD, _METER_FLAGS, _DROP, _BAND_LENGTH = 0, 2 | 4 | 8, 1, 16
_METER_FAILED, _METER_EXISTS = 12, 1
# Of flows: those with any port and group, and a match of nothing.
_DELETE, _ANY, _OXM, _EMPTY = 3, 0xffffffff, 1, 4
# What matches a register of 64 bits: class, number, length and content.
_REGISTERS = 0x8001
_REGISTER = struct.Struct('!HBBQ')
_HEADER = struct.Struct('!BBHI')
_CODES = struct.Struct('!HH')
_METERS, _EMPTIED, _COUNTED = b'meters', b'emptied', b'counted'
_NO_BUFFER = 0xffffffff
# The bridge itself, a port as any other. What comes of none, of a controller,
# is dropped where it passes a patch port and then connection tracking: the
# firewall of a member on the same node.
_FROM_BRIDGE = 0xfffffffe
# What ovs-vswitchd sends us of a frame, and that it does at all.
_WHOLE = 0xffff
_PACKET_IN_FIXED = 24
# What a data path that takes nothing more may have waiting.
_LONGEST_QUEUE = 1 << 20
_READ = 1 << 16


def make_message(kind: int, body: bytes, number: int = 0) -> bytes:
    return _HEADER.pack(_VERSION, kind, _HEADER.size + len(body),
                        number) + body


def make_packet_out(frame: bytes, port: int) -> bytes:
    """Return what sends a frame out of an OpenFlow port."""
    return make_message(_PACKET_OUT, struct.pack(
        '!IIH6xHHIH6x', _NO_BUFFER, _FROM_BRIDGE, 16, 0, 16, port,
        0) + frame)


def make_meter_mod(meter: openflow.Meter) -> bytes:
    return make_message(_METER_MOD, struct.pack(
        '!HHIHHIII', _ADD, _METER_FLAGS, meter.id, _DROP, _BAND_LENGTH,
        meter.rate, meter.rate, 0))


def make_delete(table: int) -> bytes:
    """Return what deletes all flows of a table."""
    return make_message(_FLOW_MOD, struct.pack(
        '!QQBBHHHIIIHHHH4x', 0, 0, table, _DELETE, 0, 0, 0, _NO_BUFFER, _ANY,
        _ANY, 0, 0, _OXM, _EMPTY))


class Sum(typing.NamedTuple):
    """What there is of some flows, and what they have counted."""

    packets: int
    bytes: int
    flows: int


def make_sum(match: openflow.Match, number: int) -> bytes:
    """Return what asks for the Sum of flows.

    :param number: that the answer has.
    """
    table = _ALL_TABLES if match.table is None else match.table
    fields = b'' if match.register is None else _REGISTER.pack(
        _REGISTERS, match.register[0] << 1, 8, match.register[1])
    return make_message(_STATISTICS_REQUEST, struct.pack(
        '!HH4xB3xII4xQQHH', _AGGREGATE, 0, table, _ANY, _ANY, match.cookie,
        match.mask, _OXM, _EMPTY + len(fields)) + (fields or bytes(4)), number)


def read_packet_in(body: bytes) -> bytes | None:
    """Return the frame of a message, without its header; None if broken."""
    if len(body) < _PACKET_IN_FIXED - _HEADER.size + 4:
        return None
    at = _PACKET_IN_FIXED - _HEADER.size
    length, = struct.unpack_from('!H', body, at + 2)
    return body[at + (length + 7) // 8 * 8 + 2:]


@dataclasses.dataclass
class Heard:
    """What came of a bridge.

    :ivar frames: that it gave us.
    :ivar marks: that it has come to, see Line.send().
    :ivar is_more: whether there may be more.
    :ivar errors: what it refused, pairs of a type and a code of OpenFlow.
    :ivar sums: of flows, by the number of the question.
    """

    frames: list[bytes]
    marks: list[bytes]
    is_more: bool = False
    errors: list[tuple[int, int]] = dataclasses.field(default_factory=list)
    sums: dict[int, Sum] = dataclasses.field(default_factory=dict)


class Line:
    """A connection to a bridge. One thread may use it. Time-outs are seconds.

    :param path: of the socket of the bridge.
    :param port: the OpenFlow port by which frames leave.
    :raises VswitchUnavailable: if it is not taken; so do all methods, and
                                after that it is of no use.
    """

    def __init__(self, path: str, port: int) -> None:
        self._path = path
        self._port = port
        self._in = b''
        self._out = b''
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.setblocking(False)
        try:
            self._socket.connect(path)
        except OSError as e:
            raise self._fail(e) from e
        self._write(make_message(_HELLO, b'') + make_message(
            _SET_CONFIG, struct.pack('!HH', 0, _WHOLE)))

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def send(self, frames: abc.Iterable[bytes],
             mark: bytes | None = None) -> None:
        """Have the bridge send frames.

        :param mark: is heard of once it has done all that it was told
                     before, and has given us all that it had by then.
        """
        text = b''.join(make_packet_out(frame, self._port)
                        for frame in frames)
        if mark is not None:
            text += make_message(_ECHO_REQUEST, mark)
        self._write(text)

    def _write(self, text: bytes) -> None:
        self._out += text
        try:
            while self._out:
                self._out = self._out[self._socket.send(self._out):]
        except BlockingIOError:
            if len(self._out) > _LONGEST_QUEUE:
                raise self._fail('it takes nothing any more') from None
        except OSError as e:
            raise self._fail(e) from e

    def receive(self) -> Heard:
        """Return what came, no more than a part of it at once."""
        heard = Heard([], [])
        try:
            data = self._socket.recv(_READ)
        except BlockingIOError:
            return heard
        except OSError as e:
            raise self._fail(e) from e
        if not data:
            raise self._fail('it closed the connection')
        heard.is_more = len(data) == _READ
        self._in += data
        answers = self._read(heard)
        # What could not be sent before may be sent now.
        if answers or self._out:
            self._write(answers)
        return heard

    def add_meters(self, meters: abc.Iterable[openflow.Meter],
                   timeout: float) -> bool:
        """Add meters that are not there yet, and wait until they are.

        :returns: False if the data path has none.
        """
        self._write(b''.join(map(make_meter_mod, meters)) + make_message(
            _ECHO_REQUEST, _METERS))
        return set(self.wait_for(_METERS, timeout).errors) <= {
            (_METER_FAILED, _METER_EXISTS)}

    def empty(self, table: int, timeout: float) -> None:
        """Delete all flows of a table, and wait until they are."""
        self._write(make_delete(table) + make_message(_ECHO_REQUEST, _EMPTIED))
        self.wait_for(_EMPTIED, timeout)

    def sum(self, matches: abc.Sequence[openflow.Match],
            timeout: float) -> list[Sum]:
        """Sum up flows; return a Sum of each match."""
        self._write(b''.join(
            make_sum(match, number) for number, match in enumerate(matches)
        ) + make_message(_ECHO_REQUEST, _COUNTED))
        sums = self.wait_for(_COUNTED, timeout).sums
        if len(sums) < len(matches):
            raise self._fail('it does not say how many flows there are')
        return [sums[number] for number in range(len(matches))]

    def wait_for(self, mark: bytes, timeout: float) -> Heard:
        """Wait until a mark is heard of. Frames that come before are lost.

        :param mark: that send() was given.
        :param timeout: seconds; it has failed then.
        :returns: what came before, without frames.
        """
        deadline = time.monotonic() + timeout
        poll = select.poll()
        poll.register(self, select.POLLIN)
        before = Heard([], [])
        while True:
            heard = self.receive()
            before.errors += heard.errors
            before.sums |= heard.sums
            if mark in heard.marks:
                return before
            left = deadline - time.monotonic()
            if left <= 0:
                raise self._fail(f'no answer within {timeout} s')
            poll.poll(left * 1000)

    def _read(self, heard: Heard) -> bytes:
        at, answers = 0, b''
        while len(self._in) - at >= _HEADER.size:
            _, kind, length, number = _HEADER.unpack_from(self._in, at)
            if length < _HEADER.size:
                raise self._fail('it does not speak OpenFlow')
            if len(self._in) - at < length:
                break
            body = self._in[at + _HEADER.size:at + length]
            at += length
            if kind == _PACKET_IN:
                frame = read_packet_in(body)
                if frame:
                    heard.frames.append(frame)
            elif kind == _ERROR and len(body) >= _CODES.size:
                heard.errors.append(_CODES.unpack_from(body))
            elif kind == _STATISTICS_REPLY and len(body) == _AGGREGATED.size:
                heard.sums[number] = Sum(*_AGGREGATED.unpack(body)[1:])
            elif kind == _ECHO_REPLY:
                heard.marks.append(body)
            elif kind == _ECHO_REQUEST:
                answers += make_message(_ECHO_REPLY, body, number)
        self._in = self._in[at:]
        return answers

    def _fail(self, reason: object) -> exceptions.VswitchUnavailable:
        self._socket.close()
        return exceptions.VswitchUnavailable(
            f'ovs-vswitchd cannot be asked at {self._path} ({reason}).')
