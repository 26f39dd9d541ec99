# SPDX-License-Identifier: Apache-2.0

"""Raw frames, in and out of a host."""

import ipaddress
import socket
import struct
import threading
import time

import fixtures

_ALL = 3
_OUTGOING = 4
# However small the system's limit is.
_SO_RCVBUFFORCE = 33
BROADCAST = 'ff:ff:ff:ff:ff:ff'


class Tap(fixtures.Fixture):
    """Sends frames from eth0 of a host, and hears what comes there."""

    def __init__(self, host):
        super().__init__()
        self.host = host

    def _setUp(self):
        self._socket = self.host.namespace.call(self._open)
        self.addCleanup(self._socket.close)

    @staticmethod
    def _open():
        one = socket.socket(socket.AF_PACKET, socket.SOCK_RAW,
                            socket.htons(_ALL))
        one.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, 64 * 1024 * 1024)
        one.bind(('eth0', 0))
        return one

    def send(self, frame):
        self._socket.send(frame)

    def hear_own(self, seconds):
        """One frame that the host sends, in a list, or none."""
        self._socket.settimeout(seconds)
        try:
            frame, address = self._socket.recvfrom(65536)
        except TimeoutError:
            return []
        return [frame] if address[2] == _OUTGOING else []

    def hear(self, wanted=None, seconds=5):
        """The frames that come, until one is wanted."""
        found, deadline = [], time.monotonic() + seconds
        while True:
            self._socket.settimeout(max(0.001, deadline - time.monotonic()))
            try:
                frame, address = self._socket.recvfrom(65536)
            except TimeoutError:
                return found
            if address[2] != _OUTGOING:
                found.append(frame)
                if wanted and wanted(frame):
                    return found


class Stutter(fixtures.Fixture):
    """Sends all that begins a connection of a host once more.

    As who hears no answer does; it may be on its way.

    :ivar sent: a set of frames
    """

    def __init__(self, host):
        super().__init__()
        self.host = host

    def _setUp(self):
        self._ends = False
        self.sent = set()
        self._tap = self.useFixture(Tap(self.host))
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self.addCleanup(self._stop)

    def _stop(self):
        self._ends = True
        self._thread.join()

    def _run(self):
        while not self._ends:
            for frame in self._tap.hear_own(0.2):
                if frame not in self.sent and is_syn(frame):
                    self.sent.add(frame)
                    self._tap.send(frame)


def is_syn(frame):
    """Whether a frame begins a TCP connection."""
    start, protocol = {b'\x08\x00': (34, frame[23]),
                       b'\x86\xdd': (54, frame[20])}.get(
                           frame[12:14], (0, 0))
    return protocol == 6 and frame[start + 13] & 0x12 == 0x02


def mac(text):
    return bytes.fromhex(text.replace(':', ''))


def ethernet(source, target, kind, payload, vlans=()):
    tags = b''.join(struct.pack('!HH', 0x8100, vlan) for vlan in vlans)
    return b''.join((mac(target), mac(source), tags,
                     struct.pack('!H', kind), payload))


def checksum(data):
    data += b'\0' * (len(data) % 2)
    total = sum(struct.unpack(f'!{len(data) // 2}H', data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


def arp(operation, sender, sender_ip, target, target_ip):
    return b''.join((
        struct.pack('!HHBBH', 1, 0x800, 6, 4, operation),
        mac(sender), socket.inet_aton(sender_ip),
        mac(target), socket.inet_aton(target_ip)))


def ipv4(source, target, protocol, payload, fragment=0, number=7):
    def head(check):
        return struct.pack(
            '!BBHHHBBH4s4s', 0x45, 0, 20 + len(payload), number, fragment,
            64, protocol, check, socket.inet_aton(source),
            socket.inet_aton(target))
    return head(checksum(head(0))) + payload


def ipv6(source, target, protocol, payload, hops=255):
    return struct.pack('!IHBB', 6 << 28, len(payload), protocol,
                       hops) + _ip6(source) + _ip6(target) + payload


def icmp(kind, code, rest):
    def message(check):
        return struct.pack('!BBH', kind, code, check) + rest
    return message(checksum(message(0)))


def icmp6(source, target, kind, rest, code=0, hops=255):
    """A whole IPv6 packet."""
    def message(check):
        return struct.pack('!BBH', kind, code, check) + rest
    pseudo = _ip6(source) + _ip6(target) + struct.pack(
        '!II', 4 + len(rest), 58)
    return ipv6(source, target, 58, message(checksum(pseudo + message(0))),
                hops)


def udp(source, target, payload):
    # Without a checksum, which IPv4 allows.
    return struct.pack('!HHHH', source, target, 8 + len(payload),
                       0) + payload


def tcp(source, target, flags, payload=b''):
    return struct.pack('!HHIIBBHHH', source, target, 1, 0, 0x50, flags,
                       1000, 0, 0) + payload


def _ip6(text):
    return ipaddress.ip_address(text).packed
