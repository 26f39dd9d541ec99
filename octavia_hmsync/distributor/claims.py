# SPDX-License-Identifier: Apache-2.0

"""Finds other claims of an address of a VIP.

Only the distributor that answers for a VIP may claim its addresses. If a
member does, clients send their packets to it, past the distributor, and all
other members' connections break: the distributor contradicts it.
"""

from collections import abc
import contextlib
import ipaddress
import math
import struct

from oslo_log import log as logging

from octavia_hmsync.distributor import document as doc
from octavia_hmsync import exceptions

LOG = logging.getLogger(__name__)

# The error of a member that claims an address.
CLAIMS = 'it says that an address of the VIP is its own'
# Seconds for which a claim counts, so that an alert with a delay of minutes
# fires even for one frame.
_HELD = 1800
# Seconds before a member is contradicted again: the 10 s of RFC 5227 (2.4 c)
# less one, as the next frame that we get comes just then.
_DEFEND_INTERVAL = 9
_OTHERS = ''

_ARP, _IP6 = 0x0806, 0x86dd
_ICMPV6, _ADVERTISEMENT = 58, 136
_ARP_LENGTH, _ADVERTISEMENT_LENGTH = 42, 78


def read_claim(frame: bytes) -> tuple[str, str] | None:
    """Read a claim of an address. Pure.

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


class Claims:
    """Recent claims of one VIP's addresses. For one thread only.

    :param announce: called without arguments to announce the VIP again; it
                     may raise VswitchUnavailable.
    :param hear_partner: called with the MAC address of another distributor
                         that claims the VIP, and the time.
    """

    def __init__(self, vip_id: str, announce: abc.Callable[[str], None],
                 hear_partner: abc.Callable[[str, float], None]) -> None:
        self._vip_id = vip_id
        self._hear_partner = hear_partner
        self._announce = announce
        # {MAC address of a member: when it last claimed an address}.
        self._heard: dict[str, float] = {}
        self._defended = -math.inf

    def hear(self, frame: bytes, document: doc.Document, now: float) -> None:
        """Take a frame, which may be anything.

        :param frame: from any sender in the network of the VIP.
        :param now: seconds of any clock.
        """
        claim = read_claim(frame)
        if claim is None:
            return
        mac, address = claim
        if mac in document.partners:
            # The other distributor takes over the VIP.
            if address in document.addresses:
                self._hear_partner(mac, now)
            return
        member = next((each for each in document.members
                       if each.mac == mac), None)
        # Strangers share one key, as they may use any number of addresses.
        key = mac if member else _OTHERS
        if not self.holds(key, now):
            self._say(mac, address, member)
        self._heard[key] = now
        # A stranger may be a distributor that is not in the document yet.
        if member and now - self._defended >= _DEFEND_INTERVAL:
            self._defended = now
            with contextlib.suppress(exceptions.VswitchUnavailable):
                self._announce(self._vip_id)

    def _say(self, mac: str, address: str,
             member: doc.Member | None) -> None:
        whose, advice = (
            (f'the member {member.id} ({mac})', 'replace it') if member else
            (mac, 'find out whose it is, it is none of a member'))
        LOG.warning('VIP %s: %s says that %s is its own address, so that '
                    'clients send to it past the distributors: %s.',
                    self._vip_id, whose, address, advice)

    def holds(self, mac: str | None, now: float) -> bool:
        """Tell whether a member has claimed an address recently."""
        return mac in self._heard and now - self._heard[mac] <= _HELD
