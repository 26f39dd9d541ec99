# SPDX-License-Identifier: Apache-2.0

"""What those that try a list tell of each of its addresses. Pure rules.

One load balancer's amphorae alone are not believed against an address as
long as there are others to ask: they may be ailing, or hostile.
"""

from collections import abc
import dataclasses
import enum

from octavia_hmsync.sync.rules import member as mem
from octavia_hmsync.sync.rules import timing

# Heartbeats of which one will have been noted.
_INTERVALS_TO_NOTE = 3


class Word(enum.Enum):
    """What is known of an address that amphorae try."""

    # Nothing is known against it.
    FINE = 'FINE'
    MISSED = 'MISSED'
    # One load balancer's amphorae are not heard there; others are to be
    # asked.
    ASK = 'ASK'


def find_unheard(addresses: abc.Container[str],
                 members: abc.Iterable[mem.Member],
                 settings: timing.Settings) -> dict[str, float]:
    """Find addresses at which no heartbeat has come yet.

    :param addresses: among these.
    :param members: all registered health managers, a list of Member; one
                    that does not tell counts as heard.
    :param settings: timing.Settings.
    :returns: {address: seconds for which somebody has listened there}.
    """
    return {m.address: m.online_for for m in members
            if m.address in addresses and m.is_heard is False and
            mem.is_listening(m, settings.offline_after)}


@dataclasses.dataclass(frozen=True)
class Witness:
    """An amphora that acknowledged a list on trial, and what was seen of it.

    :param load_balancer: whose amphora it is.
    :param addresses: its part of the list.
    :param others: other lists that it may still be using.
    :param age: seconds since it acknowledged.
    :param has_adopted: whether it was seen to use its list.
    :param noted: addresses at which it was heard since; health managers note
                  that of an amphora that has not adopted in time.
    :param can_tell: False if it may be using any list, or gets another one.
    """

    load_balancer: str
    addresses: frozenset[str]
    others: tuple[frozenset[str], ...] = ()
    age: float = 0.0
    has_adopted: bool = False
    noted: frozenset[str] = frozenset()
    can_tell: bool = True


def judge(address: str, is_heard: bool,
          witnesses: abc.Collection[Witness], can_ask: bool) -> Word:
    """Tell what amphorae that try a list say of one of its new addresses.

    A health manager that changed its address may still be heard at the old
    one, where all other amphorae send; and anybody who has the heartbeat key
    can be heard anywhere. So it has to be those on trial.

    :param address: the address.
    :param is_heard: whether its health manager heard anybody there.
    :param witnesses: those that acknowledged the list and did not fall
                      silent, each watched for trial.time_to_watch().
    :param can_ask: whether amphorae of other load balancers could try it.
    :returns: a Word.
    """
    tried = {w.load_balancer for w in witnesses if address in w.addresses}
    against = tried
    if is_heard:
        concerned = _concerned(address, witnesses)
        if any(w.has_adopted or address in w.noted for w in concerned):
            # Others may have an image that never follows a list.
            return Word.FINE
        against = {w.load_balancer for w in concerned if w.noted}
    if not against:
        return Word.FINE
    if len(against) > 1:
        return Word.MISSED
    if can_ask:
        return Word.ASK
    return Word.MISSED if against == tried else Word.FINE


def may_yet_be_noted(address: str, witnesses: abc.Collection[Witness],
                     watch: float, settings: timing.Settings) -> bool:
    """Tell whether witnesses may soon be able to tell of an address.

    What they show begins to be noted when they have been watched.

    :param address: as for judge().
    :param witnesses: likewise.
    :param watch: see trial.time_to_watch().
    :param settings: timing.Settings.
    """
    latest = watch + _INTERVALS_TO_NOTE * settings.heartbeat_interval
    concerned = _concerned(address, witnesses)
    return (not any(w.has_adopted for w in concerned) and
            any(not w.noted and w.age < latest for w in concerned))


def _concerned(address: str, witnesses: abc.Iterable[Witness]
               ) -> list[Witness]:
    # One that may have sent there before proves nothing; nor does one that
    # is heard where only another list would have it.
    return [w for w in witnesses if w.can_tell and address in w.addresses and
            w.noted <= w.addresses and
            not any(address in other for other in w.others)]


def find_suspects(fresh: abc.Collection[str],
                  silent: abc.Mapping[str, abc.Collection[str]],
                  unheard: abc.Container[str],
                  witnesses: abc.Iterable[Witness]) -> set[str]:
    """Find which addresses to blame for silence.

    Those that at least two load balancers had that fell silent, where there
    are two; of these, those at which nobody was ever heard, or else those at
    which nobody on trial was.

    :param fresh: the new addresses of the list.
    :param silent: {load balancer: new addresses that its amphorae on trial
                   had}, of those that fell silent.
    :param unheard: addresses at which no heartbeat ever came.
    :param witnesses: those that did not fall silent.
    :returns: a set, not empty unless there is no new address.
    """
    shown = {a for a in fresh if sum(
        a in part for part in silent.values()) >= min(2, len(silent))}
    shown = shown or set(fresh)
    heard = set().union(*(w.noted for w in witnesses))
    return ({a for a in shown if a in unheard} or shown - heard or shown)
