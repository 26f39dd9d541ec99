# SPDX-License-Identifier: Apache-2.0

"""How a new list goes to the fleet: first to few, then to all. Pure rules."""

from collections import abc
import dataclasses
import enum

from octavia_hmsync.sync.rules import adoption
from octavia_hmsync.sync.rules import listening
from octavia_hmsync.sync.rules import member as mem
from octavia_hmsync.sync.rules import timing
from octavia_hmsync.sync.rules import zones as zn

# Statuses of a generation.
CANARY = 'CANARY'
WAVES = 'WAVES'
OPEN = 'OPEN'
ROLLED_BACK = 'ROLLED_BACK'
# Only admitted amphorae get a list with one of these.
TRIAL_STATUSES = (CANARY, WAVES)

# One in so many load balancers may fall silent for reasons of its own.
TOLERATED = 10


class Verdict(enum.Enum):
    """What to do after a look at the admitted amphorae."""

    WAIT = 'WAIT'
    GOOD = 'GOOD'
    BAD = 'BAD'
    # One load balancer's amphorae fell silent: admit those of others.
    ASK_OTHERS = 'ASK_OTHERS'
    # None of them took the list: nothing is proven.
    NO_ANSWER = 'NO_ANSWER'


@dataclasses.dataclass(frozen=True)
class Admitted:
    """An amphora that may have a list before the others.

    :param is_tried: whether the upload has ended, well or not.
    :param is_applied: whether its agent acknowledged the list.
    :param fell_silent: whether it has_fallen_silent() since, for a time.
    :param watched_for: seconds for which it was watched since.
    """

    load_balancer: str
    is_tried: bool
    is_applied: bool
    fell_silent: bool
    silence: float
    watched_for: float


def first_status(old: abc.Sequence[str], new: abc.Collection[str],
                 managers: listening.HealthManagers, canary_size: int,
                 wave_size: int, is_key_new: bool = False,
                 fresh: abc.Collection[str] | None = None) -> str:
    """Return the status with which a new list is published.

    :param old: the list that amphorae have, empty if that is not known.
    :param managers: who listens where, for the key of the old list.
    :param is_key_new: whether amphorae get another heartbeat key with it.
    :param fresh: what counts as new in it; None for what the old one lacks.
    :returns: CANARY, WAVES or OPEN.
    """
    if fresh is None:
        fresh = set(new) - set(old)
    if not fresh and not is_key_new:
        # No new address could be out of reach.
        return OPEN
    if listening.has_nothing_to_lose(old, new, managers):
        return OPEN
    if canary_size:
        return CANARY
    return WAVES if wave_size else OPEN


def first_status_by_zone(old: abc.Sequence[str], old_zones: zn.Zones,
                         new: abc.Sequence[str], new_zones: zn.Zones,
                         managers: listening.HealthManagers, canary_size: int,
                         wave_size: int, is_key_new: bool = False) -> str:
    """Return the most careful first_status() of all zones."""
    found = {first_status(
        zn.reachable(old, old_zones, names),
        zn.reachable(new, new_zones, names), managers, canary_size,
        wave_size, is_key_new,
        zn.find_fresh_in(old, old_zones, new, new_zones, names))
        for names in zn.views(old_zones, new_zones)}
    return next(status for status in (CANARY, WAVES, OPEN)
                if status in found)


def has_nothing_to_lose(old: abc.Sequence[str], old_zones: zn.Zones,
                        new: abc.Sequence[str], new_zones: zn.Zones,
                        managers: listening.HealthManagers) -> bool:
    """Tell whether a list can do no harm in any zone; old may be empty."""
    is_any = False
    for names in zn.views(old_zones, new_zones):
        before = zn.reachable(old, old_zones, names)
        after = zn.reachable(new, new_zones, names)
        if listening.has_nothing_to_lose(before, after, managers):
            is_any = True
        elif not before or zn.find_fresh_in(old, old_zones, new, new_zones,
                                            names):
            return False
    return is_any


def silence_limit(settings: timing.Settings) -> float:
    """Return the seconds of silence after which a list is to blame.

    It is one interval more than the longest gap of a list that is FINE.
    """
    return settings.heartbeat_timeout / 2 + settings.heartbeat_interval


def time_to_watch(canary_wait: float, length: int,
                  settings: timing.Settings) -> float:
    """Return for how many seconds admitted amphorae are watched.

    Long enough to notice an amphora that falls silent, and for each address
    to have its turn.
    """
    interval = settings.heartbeat_interval
    return max(canary_wait, silence_limit(settings) + 3 * interval,
               adoption.time_for_round(
                   min(length, settings.max_list_length), interval))


def _time_to_fall_silent(settings: timing.Settings) -> float:
    # One more heartbeat goes to the list that it had before.
    return silence_limit(settings) + 2 * settings.heartbeat_interval


def has_fallen_silent(silence: float, settings: timing.Settings) -> bool:
    """Tell whether an amphora was silent longer than a good list allows."""
    return silence > silence_limit(settings)


def judge(admitted: abc.Collection[Admitted], watch: float,
          settings: timing.Settings, can_ask: bool) -> Verdict:
    """Judge a list by the admitted amphorae.

    Load balancers count, not amphorae: a single load balancer never makes a
    list BAD as long as others can be asked.

    :param watch: seconds to watch each amphora, see time_to_watch().
    :param can_ask: whether amphorae of further load balancers could be
                    admitted.
    """
    applied = [a for a in admitted if a.is_applied]
    untried = {a.load_balancer for a in admitted if not a.is_tried}
    load_balancers = {a.load_balancer for a in applied}
    silent = {a.load_balancer for a in applied if a.fell_silent}
    others = [a for a in applied if a.load_balancer not in silent]
    if len(silent) > max(1, len(load_balancers) // TOLERATED):
        return Verdict.BAD
    if silent and TOLERATED * len(silent) > len(load_balancers | untried):
        if any(a.silence > silence_limit(settings) / 2 or
               a.watched_for < _time_to_fall_silent(settings)
               for a in others) or (untried and not others):
            # Soon it shows whether the others fall silent, too.
            return Verdict.WAIT
        if can_ask:
            return Verdict.ASK_OTHERS
        if not others:
            return Verdict.BAD
    if not all(a.is_tried for a in admitted):
        return Verdict.WAIT
    if not applied:
        return Verdict.NO_ANSWER
    if all(a.watched_for >= watch for a in others):
        return Verdict.GOOD
    return Verdict.WAIT


def get_suspects(found: abc.Mapping[str, float],
                 members: abc.Collection[mem.Member]) -> set[str]:
    """Return the addresses to leave out because of a roll back.

    An address returns when its health manager has registered anew since.

    :param found: {address: seconds since the roll back}.
    """
    return {address for address, age in found.items() if not any(
        m.address == address and m.online_for < age for m in members)}
