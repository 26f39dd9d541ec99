# SPDX-License-Identifier: Apache-2.0

"""Which lists amphorae may be using, kept in memory: no I/O, no clock.

Amphorae need a hold only if an address that they may use was not heard. At
rest this is checked for each distinct list, which costs far less than a check
of each amphora.
"""

import dataclasses
import functools

from octavia_hmsync.sync.rules import listening
from octavia_hmsync.sync.rules import silence


@dataclasses.dataclass(frozen=True)
class Sending:
    """Lists that an amphora may use, and its key, now and with others."""

    addresses: tuple[str, ...]
    others: tuple[tuple[str, ...], ...] = ()
    key_digest: str | None = None
    previous_key_digest: str | None = None

    def as_silent(self) -> silence.SilentAmphora:
        """Return a silent amphora that uses it, with most reason for a hold.

        Other facts only speak against a hold, except for a list that it
        acknowledged just now.
        """
        return silence.SilentAmphora(
            addresses=self.addresses, others=self.others,
            applied_age=float('inf'), is_gone=False, held_for=None,
            key_digest=self.key_digest,
            previous_key_digest=self.previous_key_digest)


class Exposure:
    """The Sendings of all amphorae that acknowledged a list."""

    def __init__(self) -> None:
        self._sendings: dict[str, Sending] = {}
        # Many amphorae share a Sending.
        self._users: dict[Sending, set[str]] = {}

    def note(self, amphora_id: str, sending: Sending | None) -> None:
        """Record what an amphora uses now; None: gone, or no list."""
        old = self._sendings.get(amphora_id)
        if sending == old:
            return
        if old is not None:
            self._users[old].discard(amphora_id)
            if not self._users[old]:
                del self._users[old]
            del self._sendings[amphora_id]
        if sending is not None:
            # One object for all users, to save memory.
            users = self._users.setdefault(sending, set())
            if users:
                sending = self._sendings[next(iter(users))]
            users.add(amphora_id)
            self._sendings[amphora_id] = sending

    def between(self, after: str, last: str | None) -> set[str]:
        """Return ids above ``after`` ('': from the first) up to ``last``."""
        return {i for i in self._sendings
                if i > after and (last is None or i <= last)}

    def find_exposed(self, managers: listening.HealthManagers,
                     hold_max: float) -> set[str]:
        """Find the ids of amphorae to hold if they were silent."""
        with_key = functools.cache(managers.with_key)

        @functools.cache
        def has_listened(address: str, key_digest: str | None) -> bool:
            return with_key(key_digest).has_listened(address)

        exposed: set[str] = set()
        for sending, users in self._users.items():
            key_digest = sending.key_digest
            # Most lists are heard at every address and need no hold: skip
            # the rule, which costs more.
            if sending.previous_key_digest is None and all(
                    addresses and all(has_listened(address, key_digest)
                                      for address in addresses)
                    for addresses in (sending.addresses, *sending.others)):
                continue
            if silence.must_hold(sending.as_silent(), managers, hold_max):
                exposed |= users
        return exposed
