# SPDX-License-Identifier: Apache-2.0

"""Which heartbeat key amphorae get, and who may upload it: pure rules.

A health manager hears an amphora only if both have the same key, and reads its
key once, when it starts. So a new key goes to amphorae together with a list of
health managers that listen with it. All housekeepers choose the same key for
the next list, because they choose by what all of them read.

Keys are compared by digests; None is a key that is not known.
"""

from collections import abc
import dataclasses
import enum

from octavia_hmsync.sync.rules import listening
from octavia_hmsync.sync.rules import member as mem


class Obstacle(enum.Enum):
    """Why a controller may not upload its own key now."""

    # No health manager would hear the amphorae that get it.
    NOBODY_LISTENS = 'NOBODY_LISTENS'
    # Other housekeepers have another key, and the list stays with that.
    OTHERS_DIFFER = 'OTHERS_DIFFER'
    # All housekeepers have this key; the list for it is not published yet.
    NO_LIST_YET = 'NO_LIST_YET'


@dataclasses.dataclass(frozen=True)
class Keys:
    """Which service has which key, by digests.

    :param keepers: keys of the housekeepers that are up, by host.
    :param suspects: addresses that a roll back found at fault.
    """

    published: str | None
    keepers: abc.Mapping[str, str | None]
    managers: listening.HealthManagers
    suspects: abc.Collection[str] = ()

    def choose(self) -> str | None:
        """Return the digest of the key for the next list.

        A new key is chosen only if all housekeepers that report a key have
        it, and a health manager that is not suspect listens with it. While
        housekeepers differ, the published key stays, unless no health manager
        listens with it any more and some do with exactly one of theirs.

        :returns: None if the key is not known.
        """
        known = {digest for digest in self.keepers.values() if digest}
        heard = {digest for digest in known
                 if self._is_heard(digest, self.suspects)}
        if len(known) == 1 and heard:
            return next(iter(heard))
        if self.published is not None and self._may_be_heard(self.published):
            return self.published
        # Suspect health managers are better than none.
        heard = heard or {d for d in known if self._is_heard(d)}
        return next(iter(heard)) if len(heard) == 1 else self.published

    def find_obstacle(self, own: str, wanted: str | None) -> Obstacle | None:
        """Tell why a controller may not upload a list with its key.

        :param wanted: digest of the key of the list, None if the list does
                       not name one.
        """
        if not self._could_be_heard(own):
            return Obstacle.NOBODY_LISTENS
        if own == (wanted or self._choose_untold(own)):
            return None
        if self.find_other_keepers(own):
            return Obstacle.OTHERS_DIFFER
        return Obstacle.NO_LIST_YET

    def _choose_untold(self, own: str) -> str | None:
        """Return the key for a list that was published before it was known.

        Its own, if no housekeeper is up, nor a health manager with another.
        """
        if any(self.keepers.values()) or self.find_other_managers(own):
            return self.choose()
        return own

    def find_other_managers(self, own: str) -> list[str]:
        """Return the hosts of health managers that are up with another key."""
        return sorted({m.host for m in self._up()
                       if m.key_digest not in (None, own)})

    def find_other_keepers(self, own: str) -> list[str]:
        """Return the hosts of housekeepers that are up with another key."""
        return sorted(host for host, digest in self.keepers.items()
                      if digest not in (None, own))

    def _up(self) -> list[mem.Member]:
        """Return the health managers that listen and do not drain."""
        found = ((self.managers.member(a), self.managers.state(a))
                 for a in self.managers.addresses)
        return [member for member, state in found
                if member is not None and state is mem.State.ALIVE]

    def _is_heard(self, digest: str,
                  suspects: abc.Container[str] = ()) -> bool:
        """Tell whether a health manager to publish listens with a key."""
        up = self._up()
        if any(m.key_digest for m in up):
            return any(m.key_digest == digest and m.address not in suspects
                       for m in up)
        return bool(up) or self._anybody_assumed()

    def _may_be_heard(self, digest: str) -> bool:
        """Tell whether a health manager has a key and listens, or may soon."""
        settings = self.managers.settings
        return self._anybody_assumed() or any(
            member.key_digest in (None, digest)
            for address in self.managers.addresses
            for member in [self.managers.member(address)]
            if member is not None and (
                self.managers.state(address) is not mem.State.DEAD or
                member.keepalive_age <= settings.removal_delay))

    def _could_be_heard(self, digest: str) -> bool:
        """Tell whether an amphora with a key is heard, now or later.

        If no health manager is up, all are expected to come back with the
        keys that they had.
        """
        if self._up() or self._anybody_assumed():
            return self._is_heard(digest)
        known = {member.key_digest for address in self.managers.addresses
                 for member in [self.managers.member(address)]
                 if member is not None and member.key_digest}
        return not known or digest in known

    def _anybody_assumed(self) -> bool:
        """Tell whether files pin health managers that do not register."""
        return any(self.managers.member(address) is None and
                   self.managers.listens(address)
                   for address in self.managers.addresses)
