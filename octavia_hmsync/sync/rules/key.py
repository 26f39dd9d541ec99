# SPDX-License-Identifier: Apache-2.0

"""Which heartbeat key amphorae get, and who may upload it: pure rules.

A health manager hears an amphora only if both have the same key, and reads its
own once, when it starts. So a new key goes to amphorae together with a list of
those that listen with it; and every housekeeper finds the same key for the
next list, because it is a function of what all of them read.

Keys are told apart by digests; None is one that is not known.
"""

from collections import abc
import dataclasses
import enum

from octavia_hmsync.sync.rules import listening
from octavia_hmsync.sync.rules import member as mem


class Obstacle(enum.Enum):
    """Why a controller may not upload its own key now."""

    # Amphorae that get it would be heard by nobody.
    NOBODY_LISTENS = 'NOBODY_LISTENS'
    # Other housekeepers have another one, with which the list goes on.
    OTHERS_DIFFER = 'OTHERS_DIFFER'
    # All have the same; the list of those that listen with it is to come.
    NO_LIST_YET = 'NO_LIST_YET'


@dataclasses.dataclass(frozen=True)
class Keys:
    """Who has which key.

    :param published: with which amphorae sign that have the newest list.
    :param keepers: of the housekeepers that are up, by host.
    :param listeners: listening.Listeners.
    :param suspects: addresses that a roll back found fault with.
    """

    published: str | None
    keepers: abc.Mapping[str, str | None]
    listeners: listening.Listeners
    suspects: abc.Collection[str] = ()

    def choose(self) -> str | None:
        """Return the key for which the next list is.

        A new one only if every housekeeper has it that is up and tells, and
        if somebody listens with it that was not found fault with. While they
        differ, that of the published list stays: unless nobody listens with
        it any more, and with only one of theirs.

        :returns: a digest; None if that cannot be told.
        """
        known = {digest for digest in self.keepers.values() if digest}
        heard = {digest for digest in known
                 if self._is_heard(digest, self.suspects)}
        if len(known) == 1 and heard:
            return next(iter(heard))
        if self.published is not None and self._may_be_heard(self.published):
            return self.published
        # With nothing left to lose, suspects are better than nobody.
        heard = heard or {d for d in known if self._is_heard(d)}
        return next(iter(heard)) if len(heard) == 1 else self.published

    def find_obstacle(self, own: str, wanted: str | None) -> Obstacle | None:
        """Tell why a controller may not upload a list with its key.

        :param own: digest of its key.
        :param wanted: the key that amphorae get with the list, None if the
                       list does not tell.
        :returns: an Obstacle, or None.
        """
        if not self._could_be_heard(own):
            return Obstacle.NOBODY_LISTENS
        if wanted is None:
            wanted = self._choose_untold(own)
        if own == wanted:
            return None
        if self.find_other_keepers(own):
            return Obstacle.OTHERS_DIFFER
        return Obstacle.NO_LIST_YET

    def _choose_untold(self, own: str) -> str | None:
        """Return the key for a list that does not tell.

        Of an earlier release, whose housekeepers do not tell theirs either.
        """
        if any(self.keepers.values()) or self.find_other_listeners(own):
            return self.choose()
        return own

    def find_other_listeners(self, own: str) -> list[str]:
        """Return the health managers that are up with another key.

        :param own: digest of a controller's key.
        :returns: their hosts, sorted.
        """
        return sorted(m.host for m in self._up()
                      if m.key_digest not in (None, own))

    def find_other_keepers(self, own: str) -> list[str]:
        """Return the housekeepers that are up with another key.

        :param own: digest of a controller's key.
        :returns: their hosts, sorted.
        """
        return sorted(host for host, digest in self.keepers.items()
                      if digest not in (None, own))

    def _up(self) -> list[mem.Member]:
        """Return the health managers that listen, and stay for now."""
        found = ((self.listeners.member(a), self.listeners.state(a))
                 for a in self.listeners.addresses)
        return [member for member, state in found
                if member is not None and state is mem.State.ALIVE]

    def _is_heard(self, digest: str,
                  suspects: abc.Container[str] = ()) -> bool:
        """Tell whether somebody listens with a key that can be published."""
        up = self._up()
        if any(m.key_digest for m in up):
            return any(m.key_digest == digest and m.address not in suspects
                       for m in up)
        return bool(up) or self._anybody_assumed()

    def _may_be_heard(self, digest: str) -> bool:
        """Tell whether somebody listens with a key, or may soon again."""
        settings = self.listeners.settings
        return self._anybody_assumed() or any(
            member.key_digest in (None, digest)
            for address in self.listeners.addresses
            for member in [self.listeners.member(address)]
            if member is not None and (
                self.listeners.state(address) is not mem.State.DEAD or
                member.keepalive_age <= settings.removal_delay))

    def _could_be_heard(self, digest: str) -> bool:
        """Tell whether an amphora with a key is heard, now or later.

        Where nobody is up, those that were are expected to come back as they
        were.
        """
        if self._up() or self._anybody_assumed():
            return self._is_heard(digest)
        known = {member.key_digest for address in self.listeners.addresses
                 for member in [self.listeners.member(address)]
                 if member is not None and member.key_digest}
        return not known or digest in known

    def _anybody_assumed(self) -> bool:
        """Tell whether files pin health managers that do not register."""
        return any(self.listeners.member(address) is None and
                   self.listeners.listens(address)
                   for address in self.listeners.addresses)
