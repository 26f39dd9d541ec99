# SPDX-License-Identifier: Apache-2.0

"""Who else says that an address of a VIP were his own.

Only the distributor that answers for a VIP may say so. A member that does has
clients send their packets to it, past the distributor, and breaks the
connections of all others: it is contradicted.
"""

from collections import abc
import contextlib
import math

from oslo_log import log as logging

from octavia_hmsync.distributor import claim_frames
from octavia_hmsync.distributor import document as doc
from octavia_hmsync import exceptions

LOG = logging.getLogger(__name__)

# What is wrong with a member that does.
CLAIMS = 'it says that an address of the VIP is its own'
# Seconds for which that counts: an alert of minutes hears of one frame, too.
_HELD = 1800
# Seconds before a member is contradicted again: those of RFC 5227 (2.4 c), but
# for one, as the next frame of it that is given to us comes just then.
_DEFEND_INTERVAL = 9
_OTHERS = ''


class Claims:
    """Who was heard to, a short while ago, of one VIP. One thread may use it.

    :param vip_id: its id.
    :param announce: called with that to have all hear anew whose its addresses
                     are; it may raise VswitchUnavailable.
    :param hear_partner: called with the MAC address of another distributor
                         that says so, and the time.
    """

    def __init__(self, vip_id: str, announce: abc.Callable[[str], None],
                 hear_partner: abc.Callable[[str, float], None]) -> None:
        self._vip_id = vip_id
        self._hear_partner = hear_partner
        self._announce = announce
        # When, by the MAC address of a member.
        self._heard: dict[str, float] = {}
        self._defended = -math.inf

    def hear(self, frame: bytes, document: doc.Document, now: float) -> None:
        """Take a frame, which may be anything.

        :param frame: that somebody in the network of the VIP has sent.
        :param document: of the VIP.
        :param now: seconds of any clock.
        """
        claim = claim_frames.read(frame)
        if claim is None:
            return
        mac, address = claim
        if mac in document.partners:
            # It takes the VIP over.
            if address in document.addresses:
                self._hear_partner(mac, now)
            return
        member = next((each for each in document.members
                       if each.mac == mac), None)
        # Others are one: there is no end to the addresses that they may use.
        key = mac if member else _OTHERS
        if not self.holds(key, now):
            self._say(mac, address, member)
        self._heard[key] = now
        # Who is none may be a distributor that this one was not told of yet.
        if member and now - self._defended >= _DEFEND_INTERVAL:
            self._defended = now
            with contextlib.suppress(exceptions.VswitchUnavailable):
                self._announce(self._vip_id)

    def _say(self, mac: str, address: str,
             member: doc.Member | None) -> None:
        whose, advice = (
            (f'the member {member.id} ({mac})', 'replace it') if member else
            (mac, 'find out whose it is, it is none of a member'))
        LOG.warning('VIP %s: %s says that %s is its own address, and has '
                    'clients send to it past the distributors: %s.',
                    self._vip_id, whose, address, advice)

    def holds(self, mac: str | None, now: float) -> bool:
        """Tell whether a member was heard to a short while ago.

        :param mac: its MAC address.
        :param now: seconds of the same clock.
        """
        return mac in self._heard and now - self._heard[mac] <= _HELD
