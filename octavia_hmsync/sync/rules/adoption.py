# SPDX-License-Identifier: Apache-2.0

"""Whether an amphora uses the list that it acknowledged: pure rules.

HTTP 202 is no proof: the agent of an image from before Octavia's change
69af193d0 (bug LP 2121691) answers so, too, but keeps its old list until it
restarts. An amphora has adopted its list when its heartbeats rule out every
other list that it might be using.
"""

from collections import abc
import dataclasses
import enum

from octavia_hmsync.sync.rules import listening
from octavia_hmsync.sync.rules import timing

# Heartbeat intervals until a sender has read its list again: one heartbeat
# still goes to the old list.
_INTERVALS_TO_ADOPT = 2
# heartbeat_timeouts after which an amphora counts as not having adopted. A
# list takes less than one to go round.
_TIMEOUTS_TO_WAIT = 3
# Two heartbeats closer than this, in intervals, are duplicates.
_SAME = 0.5
# Other lists per amphora that are remembered; an amphora with more may be
# using any list.
_MOST_PREVIOUS = 20


class Adoption(enum.Enum):
    """What is known of an amphora that acknowledged its list."""

    ADOPTED = 'ADOPTED'
    # Heartbeats may still prove it.
    PENDING = 'PENDING'
    # It is heard, but not as its list demands.
    NOT_ADOPTED = 'NOT_ADOPTED'
    # None of its heartbeats tells its lists apart.
    UNPROVEN = 'UNPROVEN'


@dataclasses.dataclass(frozen=True)
class Unknown:
    """Any list from before a generation; None if that is not known."""

    before: int | None = None


@dataclasses.dataclass(frozen=True)
class Doubt:
    """An amphora that may use a previous list; age: since it acknowledged."""

    addresses: tuple[str, ...]
    previous: tuple[tuple[str, ...] | Unknown, ...]
    age: float

    @property
    def others(self) -> list[tuple[str, ...]]:
        """The lists in previous that are known and differ."""
        # Heartbeats do not show the order of a list.
        return [c for c in self.previous if not isinstance(c, Unknown) and
                set(c) != set(self.addresses)]

    @property
    def unknown(self) -> list[Unknown]:
        """The lists in previous that are not known."""
        return [c for c in self.previous if isinstance(c, Unknown)]


@dataclasses.dataclass(frozen=True)
class Use:
    """Which lists an amphora may be using while a batch has claimed it.

    :param previous: as Doubt.previous; empty if it was seen to use addresses.
    :param is_certain: False if a later upload may have arrived.
    """

    addresses: tuple[str, ...] | None
    previous: tuple[tuple[str, ...] | Unknown, ...]
    is_certain: bool
    key_digest: str | None = None

    def is_of(self, addresses: tuple[str, ...],
              key_digest: str | None = None) -> bool:
        """Tell whether acknowledging this list changes nothing.

        The same list with another key does change something: heartbeats have
        to prove again that the amphora uses it.
        """
        return (self.is_certain and self.addresses == addresses and
                key_digest in (None, self.key_digest))


def after_acknowledged(use: Use, addresses: tuple[str, ...], number: int,
                       key_digest: str | None = None
                       ) -> tuple[tuple[str, ...] | Unknown, ...]:
    """Return Doubt.previous, with Unknown, after an acknowledgement."""
    if use.is_of(addresses, key_digest):
        return use.previous
    before = [number if p.before is None else p.before
              for p in use.previous if isinstance(p, Unknown)]
    known = dict.fromkeys(
        p for p in (*use.previous, use.addresses)
        if p is not None and not isinstance(p, Unknown))
    if use.addresses is None or len(known) > _MOST_PREVIOUS:
        return (Unknown(max([number, *before])),)
    if not use.is_certain:
        before.append(number)
    # The Unknown with the highest number covers the others.
    unknown = (Unknown(max(before)),) if before else ()
    return (*unknown, *known)


def time_to_adopt(heartbeat_interval: float) -> float:
    """Return for how many seconds after an upload the old list may be used."""
    return _INTERVALS_TO_ADOPT * heartbeat_interval


def has_had_time(age: float, heartbeat_interval: float) -> bool:
    """Tell whether an adopting amphora can no longer use its old list."""
    return age >= time_to_adopt(heartbeat_interval)


def time_for_round(length: int, heartbeat_interval: float) -> float:
    """Return the seconds after an upload until each address had its turn."""
    return (_INTERVALS_TO_ADOPT + length + 1) * heartbeat_interval


def is_same(period: float, heartbeat_interval: float) -> bool:
    """Tell whether two heartbeats are a duplicate, or forged."""
    return period < _SAME * heartbeat_interval


def time_to_wait(heartbeat_timeout: float) -> float:
    """Return the seconds within which adoption should show."""
    return _TIMEOUTS_TO_WAIT * heartbeat_timeout


def is_overdue(age: float, heartbeat_timeout: float) -> bool:
    """Tell whether adoption should have shown by now."""
    return age > time_to_wait(heartbeat_timeout)


def judge(doubt: Doubt, was_heard: bool, observed: abc.Iterable[str],
          heartbeat_timeout: float) -> Adoption:
    """Judge an amphora that was not seen to use its list.

    :param was_heard: whether a health manager noted where it was heard since
                      its agent acknowledged.
    :param observed: addresses of health managers that note which amphorae
                     they hear.
    :returns: any Adoption but ADOPTED.
    """
    if not is_overdue(doubt.age, heartbeat_timeout):
        return Adoption.PENDING
    if was_heard and _could_show(doubt, set(observed)):
        return Adoption.NOT_ADOPTED
    return Adoption.UNPROVEN


def _could_show(doubt: Doubt, observed: set[str]) -> bool:
    """Tell whether heartbeats would have proven adoption by now."""
    addresses = set(doubt.addresses)
    if doubt.unknown and not addresses <= observed:
        return False
    return all((addresses - set(other)) & observed or
               len(other) > len(doubt.addresses) for other in doubt.others)


def find_receiver(doubt: Doubt, own: abc.Sequence[str]) -> str | None:
    """Return at which of its addresses a health manager heard an amphora.

    A health manager does not see to which of its addresses a heartbeat was
    sent. An amphora sends to that in its list, or in an earlier one.

    :param own: its addresses, the first one for an amphora with no list that
                has one of them.
    :returns: None if its lists do not tell.
    """
    if len(own) == 1:
        return own[0]
    listed = [a for a in own if a in doubt.addresses]
    before = [a for a in own if any(a in other for other in doubt.others)]
    if not listed:
        return (before or own)[0]
    return listed[0] if {*listed, *before} == {listed[0]} else None


def is_proven_by_receivers(doubt: Doubt, address: str,
                           heard: abc.Iterable[str], period: float | None,
                           interval: float) -> bool:
    """Tell whether heartbeats at health managers rule out all other lists.

    A list is ruled out if it lacks an address at which the amphora was heard,
    or if it is too long for the same address to have its turn so soon: each
    has its turn once in as many intervals as the list is long.

    :param heard: addresses at which it was heard since has_had_time().
    :param period: seconds since it was last heard at this address, or None.
    """
    if address not in doubt.addresses:
        return False
    if period is not None and is_same(period, interval):
        period = None
    seen = (set(heard) | {address}) & set(doubt.addresses)
    if doubt.unknown and not (
            # Any other list is possible: heartbeats have to show the whole
            # list, and no more.
            seen == set(doubt.addresses) and
            _is_shorter(period, len(doubt.addresses) + 1, interval)):
        return False
    return all(any(a not in other for a in seen) or
               _is_shorter(period, len(other), interval)
               for other in doubt.others)


def _is_shorter(period: float | None, length: int, interval: float) -> bool:
    return period is not None and period < (length - 0.5) * interval


def is_worth_noting(doubt: Doubt, address: str, interval: float) -> bool:
    """Tell if a heartbeat that proves nothing by itself is worth noting."""
    if (address not in doubt.addresses or doubt.unknown or
            any(set(doubt.addresses) <= set(c) for c in doubt.others)):
        return True
    # A heartbeat at another address should prove it soon.
    return doubt.age > time_for_round(len(doubt.addresses), interval)


def rule_out_by_gaps(doubt: Doubt, listened: abc.Iterable[str],
                     known_before: abc.Callable[[int | None], set[str]],
                     longest_gap: float, watched: float,
                     settings: timing.Settings
                     ) -> tuple[tuple[str, ...] | Unknown, ...]:
    """Return which other lists remain, by how regularly an amphora is heard.

    For amphorae whose heartbeats no health manager notes. A list with dead
    addresses would leave a gap when their turn comes.

    :param listened: addresses at which a health manager may have listened
                     during the watch.
    :param known_before: takes Unknown.before, returns the addresses that the
                         amphora can have had then.
    :param longest_gap: longest possible gap between two of its heartbeats,
                        seconds; infinite if it was not heard.
    :returns: as Doubt.previous; empty if it can only be using the list that
              it acknowledged.
    """
    if longest_gap == float('inf'):
        return doubt.previous
    # It was heard: not with a list at whose addresses no one listened.
    unknown = [u for u in doubt.unknown
               if known_before(u.before) & set(listened)]
    others = [c for c in doubt.others if not _would_leave_gap(
        c, listened, longest_gap, watched, settings)]
    return (*unknown, *others)


def _would_leave_gap(other: tuple[str, ...], listened: abc.Iterable[str],
                     longest_gap: float, watched: float,
                     settings: timing.Settings) -> bool:
    unheard = set(other) - set(listened)
    interval = settings.heartbeat_interval
    gap = listening.longest_gap(other, unheard) * interval
    if gap == float('inf'):
        return True
    return (watched >= 2 * len(other) * interval and
            longest_gap < gap - interval / 2)


class Standing(enum.Enum):
    """What is known of an amphora and a draining address; for people."""

    # Its list holds the address, or is not known.
    HAS_IT = 'does not have the new list yet'
    # Its agent acknowledged a list without it, and may need a moment.
    MAY_SEND = 'was not seen to use its new list yet'
    SENDS = 'has the new list and does not use it'
    GONE = 'no longer sends'


def judge_sender(address: str, addresses: abc.Collection[str] | None,
                 doubt: Doubt | None, heard_ago: float | None,
                 settings: timing.Settings) -> Standing:
    """Judge whether an amphora still sends to a draining address.

    :param doubt: None if the amphora was seen to use that list.
    :param heard_ago: seconds since the draining health manager noted a
                      heartbeat that the new list rules out, or None.
    """
    if addresses is None or address in addresses:
        return Standing.HAS_IT
    if doubt is None:
        return Standing.GONE
    if not doubt.unknown and not any(
            address in other for other in doubt.others):
        return Standing.GONE
    interval = settings.heartbeat_interval
    longest = max([settings.max_list_length,
                   *map(len, doubt.others)])
    turn = time_for_round(longest, interval)
    if heard_ago is not None and heard_ago <= turn:
        return Standing.SENDS
    return Standing.MAY_SEND if doubt.age <= turn else Standing.GONE
