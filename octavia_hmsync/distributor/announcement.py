# SPDX-License-Identifier: Apache-2.0

"""Frames with which an address is announced: gratuitous ARP, and an
unsolicited neighbour advertisement. Pure.
"""

import ipaddress
import struct

from octavia_hmsync.distributor import probe_frames

_BROADCAST = b'\xff' * 6
_ALL_NODES = ipaddress.ip_address('ff02::1').packed
_ALL_NODES_MAC = bytes.fromhex('333300000001')
_ICMPV6 = 58
_ADVERTISEMENT = 136
# Neighbours with another MAC address for it take this one.
_OVERRIDE = 0x20000000
_TARGET_LINK_LAYER = 2


def make_frames(address: str, mac: str) -> list[bytes]:
    """Return the frames by which the owner of an address announces it."""
    ip, sender = ipaddress.ip_address(address), probe_frames.pack_mac(mac)
    if ip.version == 6:
        return [_make_advertisement(ip.packed, sender)]
    # A request and an answer: not everybody believes both.
    return [_make_arp(operation, ip.packed, sender) for operation in (1, 2)]


def _make_arp(operation: int, ip: bytes, sender: bytes) -> bytes:
    target = b'\0' * 6 if operation == 1 else _BROADCAST
    return b''.join((
        _BROADCAST, sender, struct.pack('!H', 0x0806),
        struct.pack('!HHBBH', 1, 0x0800, 6, 4, operation),
        sender, ip, target, ip))


def _make_advertisement(ip: bytes, sender: bytes) -> bytes:
    body = (struct.pack('!I', _OVERRIDE) + ip +
            struct.pack('!BB', _TARGET_LINK_LAYER, 1) + sender)
    length = 4 + len(body)
    pseudo = ip + _ALL_NODES + struct.pack('!II', length, _ICMPV6)
    head = struct.pack('!BBH', _ADVERTISEMENT, 0, 0)
    head = head[:2] + struct.pack('!H', probe_frames.checksum(
        pseudo + head + body))
    return b''.join((
        _ALL_NODES_MAC, sender, struct.pack('!H', 0x86dd),
        struct.pack('!IHBB', 6 << 28, length, _ICMPV6, 255),
        ip, _ALL_NODES, head, body))
