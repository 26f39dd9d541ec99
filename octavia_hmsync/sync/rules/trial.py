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
# Only amphorae that were admitted get it.
TRIAL_STATUSES = (CANARY, WAVES)

# Of as many that got a list one may fall silent for reasons of its own.
TOLERATED = 10


class Verdict(enum.Enum):
    """What is to be done after a look at those that were admitted."""

    WAIT = 'WAIT'
    GOOD = 'GOOD'
    BAD = 'BAD'
    # One load balancer's amphorae fell silent: more are to be asked.
    ASK_OTHERS = 'ASK_OTHERS'
    # None of them took the list: they tell nothing.
    NO_ANSWER = 'NO_ANSWER'


@dataclasses.dataclass(frozen=True)
class Admitted:
    """An amphora that may have a list before the others.

    :param load_balancer: whose amphora it is; its own id if it has none.
    :param is_tried: whether the upload has ended, one way or another.
    :param is_applied: whether its agent acknowledged the list.
    :param fell_silent: whether it has_fallen_silent() since, for a time.
    :param silence: seconds for which it was not heard.
    :param watched_for: seconds for which it was watched since.
    """

    load_balancer: str
    is_tried: bool
    is_applied: bool
    fell_silent: bool
    silence: float
    watched_for: float


def first_status(old: abc.Sequence[str], new: abc.Collection[str],
                 listeners: listening.Listeners, canary_size: int,
                 wave_size: int, is_key_new: bool = False,
                 fresh: abc.Collection[str] | None = None) -> str:
    """Tell how a list begins its way.

    :param old: the list that amphorae have, empty if that is not known.
    :param new: the list.
    :param listeners: who listens where, for the key of the old list.
    :param canary_size: ``[hmsync] canary_size``.
    :param wave_size: ``[hmsync] wave_size``.
    :param is_key_new: whether amphorae get another heartbeat key with it.
    :param fresh: what counts as new in it; None for what the old one lacks.
    :returns: CANARY, WAVES or OPEN.
    """
    if fresh is None:
        fresh = set(new) - set(old)
    if not fresh and not is_key_new:
        # Nothing in it that could be out of reach.
        return OPEN
    if listening.has_nothing_to_lose(old, new, listeners):
        return OPEN
    if canary_size:
        return CANARY
    return WAVES if wave_size else OPEN


def first_status_by_zone(old: abc.Sequence[str], old_zones: zn.Zones,
                         new: abc.Sequence[str], new_zones: zn.Zones,
                         listeners: listening.Listeners, canary_size: int,
                         wave_size: int, is_key_new: bool = False) -> str:
    """Tell how a list begins its way that is another one in each zone.

    As carefully as any of them needs it.

    :param old: as for first_status(); so are new and the rest.
    :param old_zones: zone by address of the list that amphorae have.
    :param new_zones: zone by address of the new one.
    :returns: CANARY, WAVES or OPEN.
    """
    found = {first_status(
        zn.reachable(old, old_zones, names),
        zn.reachable(new, new_zones, names), listeners, canary_size,
        wave_size, is_key_new,
        zn.find_fresh_in(old, old_zones, new, new_zones, names))
        for names in zn.views(old_zones, new_zones)}
    return next(status for status in (CANARY, WAVES, OPEN)
                if status in found)


def has_nothing_to_lose(old: abc.Sequence[str], old_zones: zn.Zones,
                        new: abc.Sequence[str], new_zones: zn.Zones,
                        listeners: listening.Listeners) -> bool:
    """Tell of each zone whether its list can do no harm, whatever is wrong.

    :param old: the list that amphorae have; empty if that is not known.
    :param old_zones: zone by address of it.
    :param new: the new one.
    :param new_zones: zone by address of it.
    :param listeners: who listens where.
    :returns: False as long as any zone whose list has new addresses has
              something to lose.
    """
    is_any = False
    for names in zn.views(old_zones, new_zones):
        before = zn.reachable(old, old_zones, names)
        after = zn.reachable(new, new_zones, names)
        if listening.has_nothing_to_lose(before, after, listeners):
            is_any = True
        elif not before or zn.find_fresh_in(old, old_zones, new, new_zones,
                                            names):
            return False
    return is_any


def silence_limit(settings: timing.Settings) -> float:
    """Return the seconds of silence from which on a list is to blame.

    One interval more than the longest gap of a list that counts as FINE.
    """
    return settings.heartbeat_timeout / 2 + settings.heartbeat_interval


def time_to_watch(canary_wait: float, length: int,
                  settings: timing.Settings) -> float:
    """Return for how long those that were admitted are watched.

    Long enough for one that never uses the list again to be noticed, and for
    each address to have its turn.

    :param canary_wait: ``[hmsync] canary_wait``, seconds.
    :param length: how many addresses the list has.
    :param settings: timing.Settings.
    :returns: seconds.
    """
    interval = settings.heartbeat_interval
    return max(canary_wait, silence_limit(settings) + 3 * interval,
               adoption.time_for_round(
                   min(length, settings.max_list_length), interval))


def _time_to_fall_silent(settings: timing.Settings) -> float:
    # One more heartbeat goes to the list before.
    return silence_limit(settings) + 2 * settings.heartbeat_interval


def has_fallen_silent(silence: float, settings: timing.Settings) -> bool:
    """Tell whether an amphora was silent for too long to be doing well.

    :param silence: seconds for which it was not heard.
    :param settings: timing.Settings.
    """
    return silence > silence_limit(settings)


def judge(admitted: abc.Collection[Admitted], watch: float,
          settings: timing.Settings, can_ask: bool) -> Verdict:
    """Judge a list by those that were admitted.

    By load balancers: what the amphorae of one do, whatever that is, makes
    no list a bad one as long as there are others to ask.

    :param admitted: a list of Admitted.
    :param watch: for how long each has to be watched, see time_to_watch().
    :param settings: timing.Settings.
    :param can_ask: whether amphorae of further load balancers could be
                    admitted.
    :returns: a Verdict.
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
            # Soon it will show whether they fall silent too.
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
    """Return the addresses that are left out because of a roll back.

    One whose health manager has registered anew since is not among them.

    :param found: {address: seconds since the roll back}.
    :param members: all registered health managers, a list of Member.
    :returns: a set.
    """
    return {address for address, age in found.items() if not any(
        m.address == address and m.online_for < age for m in members)}
