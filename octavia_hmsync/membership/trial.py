#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""How a new list goes to the fleet: first to few, then to all. Pure rules."""

from collections import abc
import dataclasses
import enum

from octavia_hmsync.membership import adoption
from octavia_hmsync.membership import member as mem
from octavia_hmsync.membership import plan

# Statuses of a generation.
CANARY = 'CANARY'
WAVES = 'WAVES'
OPEN = 'OPEN'
ROLLED_BACK = 'ROLLED_BACK'
# Only amphorae that were admitted get it.
TRIAL_STATUSES = (CANARY, WAVES)

# Of those that got a list so many may fall silent for reasons of their own.
_TOLERATED = 10
# Heartbeats of which one will have been noted.
_INTERVALS_TO_NOTE = 3


class Verdict(enum.Enum):
    """What is to be done after a look at those that were admitted."""

    WAIT = 'WAIT'
    GOOD = 'GOOD'
    BAD = 'BAD'
    # None of them took the list: they tell nothing.
    NO_ANSWER = 'NO_ANSWER'


@dataclasses.dataclass(frozen=True)
class Admitted:
    """An amphora that may have a list before the others.

    :param is_tried: whether the upload has ended, one way or another.
    :param is_applied: whether its agent acknowledged the list.
    :param silence: seconds for which it was not heard.
    :param watched_for: seconds for which it was watched since.
    """

    is_tried: bool
    is_applied: bool
    silence: float
    watched_for: float


def first_status(old: abc.Sequence[str], new: abc.Iterable[str],
                 unheard: abc.Container[str], canary_size: int,
                 wave_size: int, settings: plan.Settings) -> str:
    """Tell how a list begins its way.

    :param old: the list that amphorae have, empty if that is not known.
    :param new: the list.
    :param unheard: those of the old list at which nobody listens.
    :param canary_size: ``[hmsync] canary_size``.
    :param wave_size: ``[hmsync] wave_size``.
    :param settings: plan.Settings.
    :returns: CANARY, WAVES or OPEN.
    """
    if set(new) <= set(old):
        # Nothing in it that could be out of reach.
        return OPEN
    if old and is_lost(old, unheard, settings):
        return OPEN
    if canary_size:
        return CANARY
    return WAVES if wave_size else OPEN


def find_gone(addresses: abc.Iterable[str], members: abc.Iterable[mem.Member],
              pinned: abc.Iterable[str], settings: plan.Settings) -> set[str]:
    """Find addresses at which nobody listens and nobody is about to again.

    :param addresses: among these.
    :param members: all registered health managers, a list of Member; one
                    that said goodbye lately may just be restarting.
    :param pinned: addresses that configuration files list.
    :param settings: plan.Settings.
    :returns: a set.
    """
    return set(addresses) - set(pinned) - {
        m.address for m in members
        if not mem.is_silent(m.keepalive_age, settings.offline_after)}


def is_lost(old: abc.Sequence[str], unheard: abc.Container[str],
            settings: plan.Settings) -> bool:
    """Tell whether amphorae with a list cannot be heard in time any more.

    Then a new list can do no harm.

    :param old: the list.
    :param unheard: those of its addresses at which nobody listens.
    :param settings: plan.Settings.
    """
    return (plan.heartbeat_gap(old, unheard, settings) >=
            settings.heartbeat_timeout)


def silence_limit(settings: plan.Settings) -> float:
    """Return the seconds of silence from which on a list is to blame.

    One interval more than what the plan puts up with in a list.
    """
    return settings.heartbeat_timeout / 2 + settings.heartbeat_interval


def time_to_watch(canary_wait: float, length: int,
                  settings: plan.Settings) -> float:
    """Return for how long those that were admitted are watched.

    Long enough for one that never uses the list again to be noticed, and for
    each address to have its turn.

    :param canary_wait: ``[hmsync] canary_wait``, seconds.
    :param length: how many addresses the list has.
    :param settings: plan.Settings.
    :returns: seconds.
    """
    interval = settings.heartbeat_interval
    return max(canary_wait, silence_limit(settings) + 3 * interval,
               adoption.time_for_round(
                   min(length, settings.max_list_length), interval))


def judge(admitted: abc.Collection[Admitted], watch: float,
          settings: plan.Settings) -> Verdict:
    """Judge a list by those that were admitted.

    :param admitted: a list of Admitted.
    :param watch: for how long each has to be watched, see time_to_watch().
    :param settings: plan.Settings.
    :returns: a Verdict.
    """
    applied = [a for a in admitted if a.is_applied]
    silent = [a for a in applied if a.silence > silence_limit(settings)]
    if len(silent) > len(applied) // _TOLERATED:
        return Verdict.BAD
    if not all(a.is_tried for a in admitted):
        return Verdict.WAIT
    if not applied:
        return Verdict.NO_ANSWER
    if all(a.watched_for >= watch for a in applied):
        return Verdict.GOOD
    return Verdict.WAIT


def find_unheard(addresses: abc.Container[str],
                 members: abc.Iterable[mem.Member],
                 settings: plan.Settings) -> dict[str, float]:
    """Find addresses at which no heartbeat has come yet.

    :param addresses: among these.
    :param members: all registered health managers, a list of Member; one
                    that does not tell counts as heard.
    :param settings: plan.Settings.
    :returns: {address: seconds for which somebody has listened there}.
    """
    return {m.address: m.online_for for m in members
            if m.address in addresses and m.is_heard is False and
            mem.is_listening(m, settings.offline_after)}


@dataclasses.dataclass(frozen=True)
class Witness:
    """An amphora that acknowledged a list on trial, and what was seen of it.

    :param addresses: its part of the list.
    :param others: other lists that it may still be using.
    :param age: seconds since it acknowledged.
    :param has_adopted: whether it was seen to use its list.
    :param noted: addresses at which it was heard since; health managers note
                  that of an amphora that has not adopted in time.
    """

    addresses: frozenset[str]
    others: tuple[frozenset[str], ...] = ()
    age: float = 0.0
    has_adopted: bool = False
    noted: frozenset[str] = frozenset()


def find_missed(addresses: abc.Iterable[str],
                witnesses: abc.Collection[Witness]) -> set[str]:
    """Find addresses at which amphorae that should send there are not heard.

    A health manager that changed its address may still be heard at the old
    one, where all other amphorae send. So it has to be those on trial.

    :param addresses: among these.
    :param witnesses: those that acknowledged the list, each watched for
                      time_to_watch().
    :returns: a set; an address of which no witness can tell is not in it.
    """
    missed = set()
    for address in addresses:
        concerned = _concerned(address, witnesses)
        if any(w.noted for w in concerned) and not any(
                w.has_adopted or address in w.noted for w in concerned):
            missed.add(address)
    return missed


def may_yet_be_noted(addresses: abc.Iterable[str],
                     witnesses: abc.Collection[Witness], watch: float,
                     settings: plan.Settings) -> bool:
    """Tell whether witnesses may soon be able to tell of an address.

    What they show begins to be noted when they have been watched.

    :param addresses: as for find_missed().
    :param witnesses: likewise.
    :param watch: see time_to_watch().
    :param settings: plan.Settings.
    """
    latest = watch + _INTERVALS_TO_NOTE * settings.heartbeat_interval
    return any(
        not w.noted and w.age < latest
        for address in addresses
        for concerned in [_concerned(address, witnesses)]
        if not any(w.has_adopted for w in concerned)
        for w in concerned)


def _concerned(address: str, witnesses: abc.Iterable[Witness]
               ) -> list[Witness]:
    # One that may have sent there before proves nothing; nor does one that
    # is heard where only another list would have it.
    return [w for w in witnesses if address in w.addresses and
            w.noted <= w.addresses and
            not any(address in other for other in w.others)]


def choose(concerned: abc.Mapping[str, abc.Iterable[str]],
           fresh: abc.Iterable[str], size: int) -> list[str]:
    """Choose which amphorae to admit next.

    As many more as it takes for each new address to be tried.

    :param concerned: {amphora id: the list that it would get}, those to be
                      chosen first come first.
    :param fresh: the new addresses.
    :param size: how many.
    :returns: a list of amphora ids.
    """
    chosen = list(concerned)[:size]
    missing = set(fresh).difference(*(concerned[c] for c in chosen))
    for amphora_id in list(concerned)[size:]:
        if missing & set(concerned[amphora_id]):
            chosen.append(amphora_id)
            missing -= set(concerned[amphora_id])
    return chosen


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
