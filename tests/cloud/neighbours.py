# SPDX-License-Identifier: Apache-2.0

"""Who has an address? ARP and neighbour discovery, packet by packet."""

import ipaddress
import socket
import struct
import threading
import time

import fixtures

_ETH_P_ALL = 3
_ARP = 0x0806
_IPV6 = 0x86dd
_SOLICITATION = 135
_ADVERTISEMENT = 136


def _mac_bytes(mac):
    return bytes.fromhex(mac.replace(':', ''))


def read(frame):
    """Read what a frame says of neighbours.

    :returns: (what, address that it is about, address of who says so), with
              what one of 'ask' and 'tell'; None for anything else.
    """
    kind, = struct.unpack('!H', frame[12:14])
    if kind == _ARP and len(frame) >= 42:
        operation, = struct.unpack('!H', frame[20:22])
        sender, target = (str(ipaddress.ip_address(frame[n:n + 4]))
                          for n in (28, 38))
        # A gratuitous one asks for what it tells.
        if operation == 2 or sender == target:
            return 'tell', sender, sender
        return 'ask', target, sender
    if kind == _IPV6 and len(frame) >= 78 and frame[20] == 58:
        sender, target = (str(ipaddress.ip_address(frame[n:n + 16]))
                          for n in (22, 62))
        what = {_SOLICITATION: 'ask', _ADVERTISEMENT: 'tell'}.get(frame[54])
        return what and (what, target, sender)
    return None


def _make_question(address, own_address, own_mac):
    """Make the frame that asks for an address, as the kernel would."""
    own_mac = _mac_bytes(own_mac)
    own, address = map(ipaddress.ip_address, (own_address, address))
    if address.version == 4:
        return (b'\xff' * 6 + own_mac + struct.pack(
            '!HHHBBH', _ARP, 1, 0x0800, 6, 4, 1) + own_mac + own.packed +
            bytes(6) + address.packed)
    group = ipaddress.ip_address(
        bytes.fromhex('ff0200000000000000000001ff') + address.packed[13:])
    body = struct.pack('!BBHI', _SOLICITATION, 0, 0, 0) + address.packed + (
        b'\x01\x01' + own_mac)
    summed = own.packed + group.packed + struct.pack(
        '!II', len(body), 58) + body
    total = sum(struct.unpack(f'!{len(summed) // 2}H', summed))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    body = body[:2] + struct.pack('!H', ~total & 0xffff) + body[4:]
    return (b'\x33\x33' + group.packed[12:] + own_mac + struct.pack(
        '!HIHBB', _IPV6, 6 << 28, len(body), 58, 255) + own.packed +
        group.packed + body)


def count_answers(interface, address, own_address, own_mac, times=3,
                  wait=0.7):
    """Ask for an address, and count who answers; in the right namespace."""
    question = _make_question(address, own_address, own_mac)
    answers = 0
    for _ in range(times):
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW,
                           socket.htons(_ETH_P_ALL)) as sock:
            sock.bind((interface, _ETH_P_ALL))
            sock.send(question)
            until = time.monotonic() + wait
            while (left := until - time.monotonic()) > 0:
                sock.settimeout(left)
                try:
                    frame, where = sock.recvfrom(2048)
                except TimeoutError:
                    break
                if (where[2] != socket.PACKET_OUTGOING and
                        (read(frame) or ())[:2] == ('tell', address)):
                    answers += 1
                    break
    return answers


class Listener(fixtures.Fixture):
    """Takes note of all that somebody says of neighbours.

    .said has what read() makes of it, in the order of time.

    :param namespace: an openvswitch.Namespace through which it goes.
    :param mac: who says it.
    """

    def __init__(self, namespace, mac):
        super().__init__()
        self._namespace = namespace
        self._mac = _mac_bytes(mac)
        self._ended = threading.Event()
        self.said = []

    def _setUp(self):
        # Of all interfaces, also of those to come.
        self._socket = self._namespace.call(
            socket.socket, socket.AF_PACKET, socket.SOCK_RAW,
            socket.htons(_ETH_P_ALL))
        self.addCleanup(self._socket.close)
        self._socket.settimeout(0.2)
        thread = threading.Thread(target=self._listen, daemon=True)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(self._ended.set)

    def _listen(self):
        while not self._ended.is_set():
            try:
                frame = self._socket.recv(2048)
            except TimeoutError:
                continue
            said = frame[6:12] == self._mac and read(frame)
            if said:
                self.said.append(said)

    def about(self, address):
        """Return what tells of an address, or in its name asks for others."""
        return [said for said in self.said
                if said[2] == address or said[:2] == ('tell', address)]
