# SPDX-License-Identifier: Apache-2.0

"""What each amphora may be sending to, kept at hand: no I/O, no clock.

At rest nobody's silence is to be explained, and to find that out must not
cost a look at each amphora. As long as somebody has listened at every address
that any of them may be sending to, none has to be held.
"""

import dataclasses
import functools

from octavia_hmsync.sync.rules import listening
from octavia_hmsync.sync.rules import silence


@dataclasses.dataclass(frozen=True)
class Sending:
    """What an amphora may be sending to, and how it signs.

    :param addresses: the list that its agent last acknowledged.
    :param others: lists that it may be using instead, a tuple of tuples.
    :param key_digest: of the heartbeat key that it signs with, None if that
                       is not known.
    :param previous_key_digest: of the one with which it may go on signing,
                                with one of the others.
    """

    addresses: tuple[str, ...]
    others: tuple[tuple[str, ...], ...] = ()
    key_digest: str | None = None
    previous_key_digest: str | None = None

    def as_silent(self) -> silence.SilentAmphora:
        """Return an amphora that uses it and is silent, at the worst.

        Whatever else there is to an amphora only tells against holding it,
        but that it acknowledged just now.
        """
        return silence.SilentAmphora(
            addresses=self.addresses, others=self.others,
            applied_age=float('inf'), is_gone=False, held_for=None,
            key_digest=self.key_digest,
            previous_key_digest=self.previous_key_digest)


class Exposure:
    """What all amphorae may be sending to that acknowledged a list."""

    def __init__(self) -> None:
        self._sendings: dict[str, Sending] = {}
        # The amphorae of each: it is the same one for many.
        self._users: dict[Sending, set[str]] = {}

    def note(self, amphora_id: str, sending: Sending | None) -> None:
        """Take note of what an amphora uses now.

        :param amphora_id: its id.
        :param sending: a Sending, None if it is gone, or never acknowledged
                        a list.
        """
        old = self._sendings.get(amphora_id)
        if sending == old:
            return
        if old is not None:
            self._users[old].discard(amphora_id)
            if not self._users[old]:
                del self._users[old]
            del self._sendings[amphora_id]
        if sending is not None:
            # One object for all.
            users = self._users.setdefault(sending, set())
            if users:
                sending = self._sendings[next(iter(users))]
            users.add(amphora_id)
            self._sendings[amphora_id] = sending

    def between(self, after: str, last: str | None) -> set[str]:
        """Return those whose ids are above one, and not above another.

        :param after: '' for the very first one.
        :param last: None for the very last one.
        """
        return {i for i in self._sendings
                if i > after and (last is None or i <= last)}

    def find_exposed(self, listeners: listening.Listeners,
                     hold_max: float) -> set[str]:
        """Find amphorae that would have to be held if they were silent.

        :param listeners: who listens where.
        :param hold_max: ``[hmsync] failover_hold_max``, seconds.
        :returns: their ids, a set.
        """
        with_key = functools.cache(listeners.with_key)

        @functools.cache
        def has_listened(address: str, key_digest: str | None) -> bool:
            return with_key(key_digest).has_listened(address)

        exposed: set[str] = set()
        for sending, users in self._users.items():
            key_digest = sending.key_digest
            # Few lists hold an address that is not heard, and only there the
            # rule, which costs more, has something to decide.
            if sending.previous_key_digest is None and all(
                    addresses and all(has_listened(address, key_digest)
                                      for address in addresses)
                    for addresses in (sending.addresses, *sending.others)):
                continue
            if silence.must_hold(sending.as_silent(), listeners, hold_max):
                exposed |= users
        return exposed
