# SPDX-License-Identifier: Apache-2.0

"""Frames of a probe of a TCP port: a SYN, and a RST for its answer. Pure.

At a listener's port the member never gets a whole connection: the RST comes
before haproxy hears of it.
"""

import dataclasses
import ipaddress
import struct

_IP4, _IP6 = 0x0800, 0x86dd
_TCP = 6
_TTL = 64
_ETHERNET = 14
_TCP_HEADER = 20
_WINDOW = 64240
_MINIMUM = 60
FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16


@dataclasses.dataclass(frozen=True)
class Segment:
    """A TCP segment with its frame.

    :ivar source: IP address of the sender, text.
    :ivar target: IP address of the receiver, text.
    :ivar acknowledged: the next sequence that the sender expects.
    :ivar flags: FIN, SYN, RST, PSH, ACK.
    :ivar payload: the received part of the payload.
    :ivar tos: of IPv4, the traffic class of IPv6; not read.
    """

    source_mac: str
    target_mac: str
    source: str
    target: str
    source_port: int
    target_port: int
    sequence: int
    acknowledged: int
    flags: int
    payload: bytes = b''
    tos: int = 0

    def to_frame(self) -> bytes:
        """Return the Ethernet frame."""
        source = ipaddress.ip_address(self.source)
        target = ipaddress.ip_address(self.target)
        tcp = struct.pack(
            '!HHIIBBHHH', self.source_port, self.target_port, self.sequence,
            self.acknowledged, _TCP_HEADER // 4 << 4, self.flags, _WINDOW,
            0, 0) + self.payload
        check = checksum(source.packed + target.packed + struct.pack(
            '!II', len(tcp), _TCP) + tcp + b'\0' * (len(tcp) % 2))
        tcp = tcp[:16] + struct.pack('!H', check) + tcp[18:]
        if source.version == 4:
            kind, ip = _IP4, struct.pack(
                '!BBHHHBBH4s4s', 0x45, self.tos, 20 + len(tcp), 0, 0x4000,
                _TTL, _TCP, 0, source.packed, target.packed)
            ip = ip[:10] + struct.pack('!H', checksum(ip)) + ip[12:]
        else:
            kind, ip = _IP6, struct.pack(
                '!IHBB', 6 << 28 | self.tos << 20, len(tcp), _TCP, _TTL) + (
                    source.packed + target.packed)
        frame = b''.join((pack_mac(self.target_mac),
                          pack_mac(self.source_mac),
                          struct.pack('!H', kind), ip, tcp))
        return frame.ljust(_MINIMUM, b'\0')


def parse(frame: bytes) -> Segment | None:
    """Read a frame.

    :param frame: any data, which an attacker may have made up.
    :returns: None if it is no TCP segment, or a fragment.
    """
    try:
        return _parse(frame)
    except struct.error:
        return None


def _parse(frame: bytes) -> Segment | None:
    kind, = struct.unpack_from('!H', frame, 12)
    if kind == _IP4:
        version, total, fragment, protocol = struct.unpack_from(
            '!BxHxxHxB', frame, _ETHERNET)
        length = (version & 15) * 4
        # All bits except "do not fragment".
        if (version >> 4, protocol) != (4, _TCP) or fragment & 0xbfff or (
                length < 20):
            return None
        begin = _ETHERNET + 12
        size = 4
    elif kind == _IP6:
        version, total, protocol = struct.unpack_from('!BxxxHB', frame,
                                                      _ETHERNET)
        if (version >> 4, protocol) != (6, _TCP):
            return None
        begin, size, length = _ETHERNET + 8, 16, 40
        total += length
    else:
        return None
    (source_port, target_port, sequence, acknowledged, offset, flags
     ) = struct.unpack_from('!HHIIBB', frame, _ETHERNET + length)
    content = _ETHERNET + length + (offset >> 4) * 4
    return Segment(
        frame[6:12].hex(':'), frame[:6].hex(':'),
        str(ipaddress.ip_address(frame[begin:begin + size])),
        str(ipaddress.ip_address(frame[begin + size:begin + 2 * size])),
        source_port, target_port, sequence, acknowledged, flags,
        frame[content:max(content, _ETHERNET + total)])


def make_reset(answer: Segment) -> Segment:
    """Return the RST for a connection that was accepted."""
    return Segment(answer.target_mac, answer.source_mac, answer.target,
                   answer.source, answer.target_port, answer.source_port,
                   answer.acknowledged, 0, RST)


def pack_mac(mac: str) -> bytes:
    return bytes.fromhex(mac.replace(':', ''))


def checksum(data: bytes) -> int:
    total: int = sum(struct.unpack(f'!{len(data) // 2}H', data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff
