# SPDX-License-Identifier: Apache-2.0

"""What amphorae on trial show about each address of a list. Pure rules.

The amphorae of a single load balancer may be faulty or hostile: they do not
condemn an address as long as those of other load balancers can be asked.
"""

from collections import abc
import dataclasses
import enum

from octavia_hmsync.sync.rules import member as mem
from octavia_hmsync.sync.rules import timing

# Heartbeat intervals within which a health manager notes at least one.
_INTERVALS_TO_NOTE = 3


class Word(enum.Enum):
    """What is known about an address that amphorae try."""

    # Nothing speaks against it.
    FINE = 'FINE'
    MISSED = 'MISSED'
    # One load balancer's amphorae are not heard there: ask others.
    ASK = 'ASK'


def find_unheard(addresses: abc.Container[str],
                 members: abc.Iterable[mem.Member],
                 settings: timing.Settings) -> dict[str, float]:
    """Find addresses at which no heartbeat has arrived yet.

    :param members: all registered health managers. A member that does not
                    report what it hears counts as heard.
    :returns: {address: seconds for which its health manager has listened}.
    """
    return {m.address: m.online_for for m in members
            if m.address in addresses and m.is_heard is False and
            mem.is_listening(m, settings.offline_after)}


@dataclasses.dataclass(frozen=True)
class Witness:
    """An amphora that acknowledged a list on trial, and how it behaves.

    :param addresses: its part of the list.
    :param age: seconds since it acknowledged.
    :param noted: addresses at which it was heard since; health managers note
                  these if the amphora has not adopted in time.
    :param can_tell: False if it may be using any list, or gets another list.
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
    """Judge one of the new addresses of a list by the amphorae on trial.

    :param is_heard: whether its health manager heard any heartbeat there.
    :param witnesses: amphorae that acknowledged the list and did not fall
                      silent, each watched for trial.time_to_watch().
    :param can_ask: whether amphorae of other load balancers could try it.
    """
    # Only amphorae on trial count. A health manager that changed its address
    # may still hear the others at the old one, and any holder of the
    # heartbeat key can send anywhere.
    tried = {w.load_balancer for w in witnesses if address in w.addresses}
    against = tried
    if is_heard:
        concerned = _concerned(address, witnesses)
        if any(w.has_adopted or address in w.noted for w in concerned):
            # Amphorae that are not heard may have an image that never
            # follows a list.
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
    """Tell whether witnesses may soon prove something about an address.

    Health managers begin to note where they are heard after the watch.

    :param watch: see trial.time_to_watch().
    """
    latest = watch + _INTERVALS_TO_NOTE * settings.heartbeat_interval
    concerned = _concerned(address, witnesses)
    return (not any(w.has_adopted for w in concerned) and
            any(not w.noted and w.age < latest for w in concerned))


def _concerned(address: str, witnesses: abc.Iterable[Witness]
               ) -> list[Witness]:
    # An amphora that may have sent there before proves nothing. Nor does an
    # amphora that is heard at an address outside its list.
    return [w for w in witnesses if w.can_tell and address in w.addresses and
            w.noted <= w.addresses and
            not any(address in other for other in w.others)]


def find_suspects(fresh: abc.Collection[str],
                  silent: abc.Mapping[str, abc.Collection[str]],
                  unheard: abc.Container[str],
                  witnesses: abc.Iterable[Witness]) -> set[str]:
    """Find which addresses to blame for silence.

    First, the addresses that at least two silent load balancers share, if two
    are silent. Of these, the addresses at which no heartbeat ever arrived; if
    there are none, those at which no amphora on trial was heard.

    :param silent: {silent load balancer: new addresses that its amphorae on
                   trial had}.
    :param witnesses: amphorae that did not fall silent.
    :returns: not empty unless there is no new address.
    """
    shown = {a for a in fresh if sum(
        a in part for part in silent.values()) >= min(2, len(silent))}
    shown = shown or set(fresh)
    heard = set().union(*(w.noted for w in witnesses))
    return ({a for a in shown if a in unheard} or shown - heard or shown)
