# SPDX-License-Identifier: Apache-2.0

"""Where do amphorae really send their heartbeats? Nobody else knows."""

import collections
import ctypes
import ipaddress
import socket
import struct
import threading

import fixtures
from octavia.amphorae.backends.health_daemon import status_message

from tests.cloud import waiting

ETH_P_ALL = 3
SO_ATTACH_FILTER = 26
SO_TIMESTAMPNS = 35
# A packet on the loopback interface is seen twice: leave out the sending.
# (load packet type; 4 is outgoing; then UDP over IPv4, or UDP over IPv6)
UDP_FILTER = (
    (0x28, 0, 0, 0xfffff004),   # ldh packet type
    (0x15, 9, 0, 4),            # outgoing: drop
    (0x30, 0, 0, 0),            # ldb version and header length
    (0x54, 0, 0, 0xf0),         # and 0xf0
    (0x15, 0, 2, 0x40),         # IPv4?
    (0x30, 0, 0, 9),            # ldb protocol
    (0x15, 3, 4, 17),           # UDP: take
    (0x15, 0, 3, 0x60),         # IPv6?
    (0x30, 0, 0, 6),            # ldb next header
    (0x15, 0, 1, 17),           # UDP: take
    (0x06, 0, 0, 0x40000),      # take
    (0x06, 0, 0, 0),            # drop
)


class Heartbeat(collections.namedtuple(
        'Heartbeat', 'time amphora_id destination')):
    """One heartbeat; beat[1:] says who has sent where.

    .listeners has what it carries of each listener, by listener id.
    """

    def __new__(cls, *fields, listeners=None):
        beat = super().__new__(cls, *fields)
        beat.listeners = listeners or {}
        return beat


def _attach_filter(sock):
    program = b''.join(struct.pack('HBBI', *line) for line in UDP_FILTER)
    buffer = ctypes.create_string_buffer(program)
    header = struct.pack('HL', len(UDP_FILTER), ctypes.addressof(buffer))
    sock.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, header)


class Sniffer(fixtures.Fixture):
    """Records every heartbeat on the loopback interface; needs root.

    All times are those of time.time(), when the kernel saw the packet; a
    destination is 'ip:port', with brackets around an IPv6 address, as in
    controller_ip_port_list.

    :param network: only heartbeats to this IPv4 network, or to any IPv6
                    address, are decoded: those of others have another key
    """

    def __init__(self, heartbeat_key, network):
        super().__init__()
        self._keys = [heartbeat_key]
        self._network = network
        self._lock = threading.Lock()
        self._heartbeats = []
        self._stop = threading.Event()

    def _setUp(self):
        # Cooked (SOCK_DGRAM), so that a packet begins with its IP header.
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM,
                                     socket.htons(ETH_P_ALL))
        self.addCleanup(self._socket.close)
        _attach_filter(self._socket)
        self._socket.bind(('lo', ETH_P_ALL))
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        self._socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self._socket.settimeout(0.5)
        thread = threading.Thread(target=self._run, name='sniffer',
                                  daemon=True)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(self._stop.set)

    def _run(self):
        while not self._stop.is_set():
            try:
                packet, extra, *_rest = self._socket.recvmsg(
                    1 << 17, socket.CMSG_SPACE(struct.calcsize('ll')))
            except TimeoutError:
                continue
            # This thread may be late.
            seconds, nanoseconds = struct.unpack('ll', extra[0][2])
            heartbeat = self._decode(packet, seconds + nanoseconds / 1e9)
            if heartbeat:
                with self._lock:
                    self._heartbeats.append(heartbeat)

    def _decode(self, packet, seen_at):
        if packet[0] >> 4 == 4:
            address = ipaddress.ip_address(packet[16:20])
            if address not in self._network:
                return None
            udp, host = packet[(packet[0] & 0xf) * 4:], str(address)
        else:
            address = ipaddress.ip_address(packet[24:40])
            udp, host = packet[40:], f'[{address}]'
        port, length = struct.unpack('!HH', udp[2:6])
        for key in self._keys:
            try:
                message = status_message.unwrap_envelope(udp[8:length], key)
                amphora_id = message['id']
                listeners = message.get('listeners')
                break
            except Exception:
                # Not a heartbeat, or that of another cloud or key.
                continue
        else:
            return None
        return Heartbeat(seen_at, amphora_id, f'{host}:{port}',
                         listeners=listeners)

    def add_key(self, heartbeat_key):
        """Record heartbeats that are signed with another key, too."""
        self._keys = [*self._keys, heartbeat_key]

    def heartbeats(self, since=0):
        """All heartbeats recorded, oldest first."""
        with self._lock:
            return [beat for beat in self._heartbeats if beat.time >= since]

    def heard(self, amphora_id, address, since=0):
        """Time of the amphora's first heartbeat to the address, or None."""
        for beat in self.heartbeats(since):
            if beat[1:] == (amphora_id, address):
                return beat.time
        return None

    def last_heard(self, amphora_ids, addresses, since=0):
        """Time of the last heartbeat of any to any address, or None."""
        return max((beat.time for beat in self.heartbeats(since)
                    if beat.amphora_id in amphora_ids and
                    beat.destination in addresses), default=None)

    def destinations(self, amphora_id, since=0):
        """The addresses that the amphora has sent to."""
        return {beat.destination for beat in self.heartbeats(since)
                if beat.amphora_id == amphora_id}

    def missing(self, amphora_ids, addresses, since=0):
        """Pairs (amphora id, address) without any heartbeat."""
        seen = {beat[1:] for beat in self.heartbeats(since)}
        return {(amphora_id, address) for amphora_id in amphora_ids
                for address in addresses} - seen

    def wait_until_heard(self, amphora_ids, addresses, since=0,
                         timeout=waiting.LIMIT, processes=()):
        """Wait until each amphora has sent to each of the addresses.

        :returns: the time of the last of those first heartbeats
        """
        waiting.wait_for(
            lambda: not self.missing(amphora_ids, addresses, since),
            lambda: 'heartbeat of {}'.format(', '.join(
                f'{amphora_id} to {address}' for amphora_id, address
                in sorted(self.missing(amphora_ids, addresses, since)))),
            timeout, processes=processes)
        return max((self.heard(amphora_id, address, since)
                    for amphora_id in amphora_ids for address in addresses),
                   default=since)
