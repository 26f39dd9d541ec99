# SPDX-License-Identifier: Apache-2.0

"""Whether the control plane may cause an amphora's silence: pure rules.

Octavia declares an amphora dead when no heartbeat of it was recorded for
heartbeat_timeout. That proves something about the amphora only if health
managers listened at enough of its addresses all that time, so that one lost
heartbeat does not matter.
"""

import dataclasses

from octavia_hmsync.sync.rules import listening
from octavia_hmsync.sync.rules import timing

# Rounds of a trial: until the silence of one amphora is noticed, until other
# amphorae confirm it, and until the good list is back.
_ROUNDS_OF_TRIAL = 3


@dataclasses.dataclass(frozen=True)
class SilentAmphora:
    """An amphora that was not heard for a while; ages in seconds.

    :param addresses: the list that its agent last acknowledged, or None.
    :param others: lists that it may be using instead.
    :param applied_age: since its agent acknowledged, or None.
    :param is_gone: whether failed uploads prove it; see reach.is_believed().
    :param held_for: since it was first held back, None if it is not.
    :param is_on_trial: whether that list was not found good yet, or was
                        rolled back.
    :param key_digest: of the heartbeat key that came with its list, None if
                       that is not known.
    :param previous_key_digest: of the key that it may still use with one of
                                the others.
    """

    addresses: tuple[str, ...] | None
    others: tuple[tuple[str, ...], ...]
    applied_age: float | None
    is_gone: bool
    held_for: float | None
    is_on_trial: bool = False
    key_digest: str | None = None
    previous_key_digest: str | None = None


def time_in_question(settings: timing.Settings) -> float:
    """Return the seconds for which an amphora may be held for its new list.

    After that it is held only if too few health managers listen.
    """
    return _ROUNDS_OF_TRIAL * _time_to_be_heard(settings)


def _time_to_be_heard(settings: timing.Settings) -> float:
    return settings.heartbeat_timeout + 2 * settings.heartbeat_interval


def begun_before(silent_for: float, settings: timing.Settings) -> float:
    """Return how many seconds ago a hold that begins now counts as begun."""
    # As if the guard had looked after half a heartbeat_timeout of silence. At
    # the latest it counts from when Octavia would have begun the failover: a
    # longer silence means that Octavia could not look either.
    timeout = settings.heartbeat_timeout
    return max(0.0, min(silent_for, timeout) - timeout / 2)


def must_hold(amphora: SilentAmphora, managers: listening.HealthManagers,
              hold_max: float) -> bool:
    """Tell whether an amphora must not be failed over yet.

    :param hold_max: ``[hmsync] failover_hold_max``, seconds; no less than
                     heartbeat_timeout, the duration of one hold.
    """
    settings = managers.settings
    # A hold counts from half a timeout of silence and lasts a whole timeout:
    # with this limit the failover comes hold_max later than without a guard.
    longest = hold_max - settings.heartbeat_timeout / 2
    if amphora.held_for is not None and amphora.held_for > longest:
        return False
    if amphora.addresses is not None:
        if (amphora.applied_age is not None and
                amphora.applied_age <= _time_to_be_heard(settings)):
            # Its agent answered, so it is alive: give it a whole timeout to
            # send to its new addresses.
            return True
        if (amphora.is_on_trial and amphora.applied_age is not None and
                amphora.applied_age <= time_in_question(settings) and
                not amphora.is_gone):
            # The list may be to blame: others are being asked. If it is, the
            # last good list comes back.
            return True
        if all(_level(addresses, hearing) is listening.Level.FINE
               for addresses, hearing in _get_used(amphora, managers)):
            return False
    return not amphora.is_gone


def _get_used(amphora: SilentAmphora, managers: listening.HealthManagers
              ) -> list[tuple[tuple[str, ...], listening.HealthManagers]]:
    """Return the lists that it may be using, each with its managers."""
    own = managers.with_key(amphora.key_digest)
    used = [(addresses, own) for addresses in (
        amphora.addresses, *amphora.others) if addresses is not None]
    if amphora.previous_key_digest not in (None, amphora.key_digest):
        # It is not known which of the others came with which key.
        before = managers.with_key(amphora.previous_key_digest)
        used += [(addresses, before) for addresses in amphora.others]
    return used


def _level(addresses: tuple[str, ...],
           managers: listening.HealthManagers) -> listening.Level:
    """Tell how near it was to the timeout, for the whole timeout."""
    return listening.list_level(
        addresses, listening.find_unheard(addresses, managers.has_listened),
        managers.settings)
