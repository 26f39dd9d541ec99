# SPDX-License-Identifier: Apache-2.0

"""Whether an amphora's silence may be the control plane's doing: pure rules.

Octavia declares an amphora dead when no heartbeat of it was recorded for
heartbeat_timeout. That says something of the amphora only if so many listened
at its addresses all that time that one lost heartbeat does not matter.
"""

import dataclasses

from octavia_hmsync.sync.rules import listening
from octavia_hmsync.sync.rules import timing

# In the time in which a list should show: until the silence of one amphora on
# trial is noticed, until others that are asked then show it too, and until
# the good list is back.
_ROUNDS_OF_TRIAL = 3


@dataclasses.dataclass(frozen=True)
class SilentAmphora:
    """An amphora that nobody has heard for a while; ages in seconds.

    :param addresses: the list that its agent last acknowledged, None if it
                      never did.
    :param others: lists that it may be using instead, a tuple of tuples.
    :param applied_age: since it did, None if it never did.
    :param is_gone: whether uploads in vain prove it; see
                    reach.is_believed().
    :param held_for: since it was first held back, None if it is not.
    :param is_on_trial: whether nobody has found that list good so far, or it
                        was rolled back.
    :param key_digest: of the heartbeat key that it got with its list, None if
                       that is not known.
    :param previous_key_digest: of the one with which it may go on signing,
                                with one of the others.
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
    """Return for how long whoever acknowledged a list may be held for that.

    After that only for want of listeners.

    :param settings: timing.Settings.
    :returns: seconds.
    """
    return _ROUNDS_OF_TRIAL * _time_to_be_heard(settings)


def _time_to_be_heard(settings: timing.Settings) -> float:
    return settings.heartbeat_timeout + 2 * settings.heartbeat_interval


def begun_before(silent_for: float, settings: timing.Settings) -> float:
    """Tell how long ago a hold that begins now counts as begun.

    As if the guard had looked at half a heartbeat_timeout of silence. It may
    come later, as far as to the moment at which Octavia would do it; of what
    was before that, because Octavia could not look either, nothing counts.

    :param silent_for: seconds since the last heartbeat.
    :param settings: timing.Settings.
    :returns: seconds.
    """
    timeout = settings.heartbeat_timeout
    return max(0.0, min(silent_for, timeout) - timeout / 2)


def must_hold(amphora: SilentAmphora, listeners: listening.Listeners,
              hold_max: float) -> bool:
    """Tell whether an amphora must not be failed over yet.

    :param amphora: a SilentAmphora.
    :param listeners: who listens where.
    :param hold_max: ``[hmsync] failover_hold_max``, seconds; no less than
                     heartbeat_timeout, which is as long as one hold lasts.
    :returns: True to hold it back.
    """
    settings = listeners.settings
    # It counts as held from half a timeout of silence on, and a hold lasts a
    # whole one: with this it is failed over hold_max later than without.
    longest = hold_max - settings.heartbeat_timeout / 2
    if amphora.held_for is not None and amphora.held_for > longest:
        return False
    if amphora.addresses is not None:
        if (amphora.applied_age is not None and
                amphora.applied_age <= _time_to_be_heard(settings)):
            # Its agent answered: it is alive, and has a whole timeout to be
            # heard at its new addresses.
            return True
        if (amphora.is_on_trial and amphora.applied_age is not None and
                amphora.applied_age <= time_in_question(settings) and
                not amphora.is_gone):
            # The list may be to blame: others are being asked, and if it is
            # the last good one comes back.
            return True
        if all(_level(addresses, hearing) is listening.Level.FINE
               for addresses, hearing in _get_used(amphora, listeners)):
            return False
    return not amphora.is_gone


def _get_used(amphora: SilentAmphora, listeners: listening.Listeners
              ) -> list[tuple[tuple[str, ...], listening.Listeners]]:
    """Return the lists that it may be using, each with who hears it then."""
    own = listeners.with_key(amphora.key_digest)
    used = [(addresses, own) for addresses in (
        amphora.addresses, *amphora.others) if addresses is not None]
    if amphora.previous_key_digest not in (None, amphora.key_digest):
        # Which of the others came with which key is not known.
        before = listeners.with_key(amphora.previous_key_digest)
        used += [(addresses, before) for addresses in amphora.others]
    return used


def _level(addresses: tuple[str, ...],
           listeners: listening.Listeners) -> listening.Level:
    """Tell how far it was from the timeout, for as long as that is."""
    return listening.list_level(
        addresses, listening.find_unheard(addresses, listeners.has_listened),
        listeners.settings)
