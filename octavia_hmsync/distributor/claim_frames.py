# SPDX-License-Identifier: Apache-2.0

"""Frames by which a sender claims an IP address. Pure."""

import ipaddress
import struct

_ARP, _IP6 = 0x0806, 0x86dd
_ICMPV6, _ADVERTISEMENT = 58, 136
_ARP_LENGTH, _ADVERTISEMENT_LENGTH = 42, 78


def read(frame: bytes) -> tuple[str, str] | None:
    """Read a claim of an address.

    :param frame: any data, which an attacker may have made up.
    :returns: (MAC address of the sender, which Neutron's port security
              vouches for; claimed address); None if the frame claims none.
    """
    if len(frame) < _ARP_LENGTH:
        return None
    kind, = struct.unpack_from('!H', frame, 12)
    if kind == _ARP:
        address = frame[28:32]
    elif (kind == _IP6 and len(frame) >= _ADVERTISEMENT_LENGTH and
          (frame[20], frame[54]) == (_ICMPV6, _ADVERTISEMENT)):
        address = frame[62:78]
    else:
        return None
    return frame[6:12].hex(':'), str(ipaddress.ip_address(address))
