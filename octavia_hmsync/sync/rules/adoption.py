# SPDX-License-Identifier: Apache-2.0

"""Whether an amphora uses the list that it acknowledged: pure rules.

HTTP 202 is no proof: the agent of an image from before Octavia's change
69af193d0 (bug LP 2121691) says so and goes on with its old list until it
restarts. An amphora has adopted its list when its heartbeats rule out every
other list that it might be using.
"""

from collections import abc
import dataclasses
import enum

from octavia_hmsync.sync.rules import listening
from octavia_hmsync.sync.rules import timing

# Heartbeat intervals after which a sender that reads its list again has done
# so: one heartbeat still goes to the old list.
_INTERVALS_TO_ADOPT = 2
# heartbeat_timeouts after which it is said that an amphora has not adopted.
# A list takes less than one to go round.
_TIMEOUTS_TO_WAIT = 3
# Nearer than this, in intervals, two heartbeats are one that came twice.
_SAME = 0.5
# As many lists are told apart that one amphora may be using instead of its
# newest; of one with more nothing is known.
_MOST_PREVIOUS = 20


class Adoption(enum.Enum):
    """What is known of an amphora that acknowledged its list."""

    ADOPTED = 'ADOPTED'
    # It may still show.
    PENDING = 'PENDING'
    # It is heard, and not as its list would have it.
    NOT_ADOPTED = 'NOT_ADOPTED'
    # Nothing that was heard of it tells its lists apart.
    UNPROVEN = 'UNPROVEN'


@dataclasses.dataclass(frozen=True)
class Unknown:
    """In place of a list: any one that an amphora can have got somehow.

    :param before: number of the generation that it got first after that;
                   None if that is not known.
    """

    before: int | None = None


@dataclasses.dataclass(frozen=True)
class Doubt:
    """An amphora that may be using another list than its newest.

    :param addresses: the list that its agent acknowledged last.
    :param previous: the other lists that it may be using, a tuple of tuples
                     of addresses and of Unknown.
    :param age: seconds since it acknowledged.
    """

    addresses: tuple[str, ...]
    previous: tuple[tuple[str, ...] | Unknown, ...]
    age: float

    @property
    def others(self) -> list[tuple[str, ...]]:
        """The lists in previous that are known and differ."""
        # The order of a list does not show in where its heartbeats go.
        return [c for c in self.previous if not isinstance(c, Unknown) and
                set(c) != set(self.addresses)]

    @property
    def unknown(self) -> list[Unknown]:
        """The lists in previous that are not known."""
        return [c for c in self.previous if isinstance(c, Unknown)]


@dataclasses.dataclass(frozen=True)
class Use:
    """Which lists an amphora may be using while a batch has claimed it.

    :param addresses: the list that its agent acknowledged last, None if it
                      never did.
    :param previous: as Doubt.previous; empty if it was seen to use that one.
    :param is_certain: False if another upload was made since then of which it
                       is not known that it did not arrive.
    :param key_digest: of the heartbeat key that came with the list, None if
                       that is not known.
    """

    addresses: tuple[str, ...] | None
    previous: tuple[tuple[str, ...] | Unknown, ...]
    is_certain: bool
    key_digest: str | None = None

    def is_of(self, addresses: tuple[str, ...],
              key_digest: str | None = None) -> bool:
        """Tell whether acknowledging this list changes nothing.

        With another key the same list is another one: heartbeats have to
        show that it is in use.
        """
        return (self.is_certain and self.addresses == addresses and
                key_digest in (None, self.key_digest))


def after_acknowledged(use: Use, addresses: tuple[str, ...], number: int,
                       key_digest: str | None = None
                       ) -> tuple[tuple[str, ...] | Unknown, ...]:
    """Return what else an amphora may be using when it acknowledged a list.

    :param use: what is known of it from before.
    :param addresses: the list.
    :param number: the generation that it is of.
    :param key_digest: of the key that came with it.
    :returns: a tuple as Doubt.previous. None is left out that it may be
              using; an Unknown stands for all that are of older generations.
    """
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
    # The one with the highest number stands for all that the others do.
    unknown = (Unknown(max(before)),) if before else ()
    return (*unknown, *known)


def time_to_adopt(heartbeat_interval: float) -> float:
    """Return how long after its upload the old list may be in use.

    :param heartbeat_interval: seconds.
    :returns: seconds.
    """
    return _INTERVALS_TO_ADOPT * heartbeat_interval


def has_had_time(age: float, heartbeat_interval: float) -> bool:
    """Tell whether a heartbeat now can no longer be meant for the old list.

    :param age: seconds since the agent acknowledged the new one.
    :param heartbeat_interval: seconds.
    """
    return age >= time_to_adopt(heartbeat_interval)


def time_for_round(length: int, heartbeat_interval: float) -> float:
    """Return how long after its upload each address of a list was used once.

    :param length: of the list.
    :param heartbeat_interval: seconds.
    :returns: seconds.
    """
    return (_INTERVALS_TO_ADOPT + length + 1) * heartbeat_interval


def is_same(period: float, heartbeat_interval: float) -> bool:
    """Tell whether two heartbeats are one that came twice, or are forged.

    :param period: seconds between them.
    :param heartbeat_interval: seconds.
    """
    return period < _SAME * heartbeat_interval


def time_to_wait(heartbeat_timeout: float) -> float:
    """Return the seconds within which adoption should show."""
    return _TIMEOUTS_TO_WAIT * heartbeat_timeout


def is_overdue(age: float, heartbeat_timeout: float) -> bool:
    """Tell whether adoption should have shown by now.

    :param age: seconds since the agent acknowledged the list.
    :param heartbeat_timeout: seconds.
    """
    return age > time_to_wait(heartbeat_timeout)


def judge(doubt: Doubt, was_heard: bool, observed: abc.Iterable[str],
          heartbeat_timeout: float) -> Adoption:
    """Tell what is known of an amphora that was not seen to use its list.

    :param doubt: a Doubt.
    :param was_heard: whether a health manager noted where it was heard since
                      its agent acknowledged.
    :param observed: addresses at which health managers hear amphorae and
                     tell which.
    :param heartbeat_timeout: seconds.
    :returns: an Adoption, not ADOPTED.
    """
    if not is_overdue(doubt.age, heartbeat_timeout):
        return Adoption.PENDING
    if was_heard and _could_show(doubt, set(observed)):
        return Adoption.NOT_ADOPTED
    return Adoption.UNPROVEN


def _could_show(doubt: Doubt, observed: set[str]) -> bool:
    """Tell whether it would have been proven if it had adopted."""
    addresses = set(doubt.addresses)
    if doubt.unknown and not addresses <= observed:
        return False
    return all((addresses - set(other)) & observed or
               len(other) > len(doubt.addresses) for other in doubt.others)


def is_proven_by_receivers(doubt: Doubt, address: str,
                           heard: abc.Iterable[str], period: float | None,
                           interval: float) -> bool:
    """Tell whether where and how often it is heard rules the others out.

    A list without one of the addresses at which the amphora was heard is not
    the one it uses. Nor is one so long that its turn would come later: each
    address has its turn once in as many intervals as the list is long.

    :param doubt: a Doubt.
    :param address: where it is heard now.
    :param heard: addresses at which it was heard since it has had time.
    :param period: seconds since it was heard at this address before, None if
                   it was not.
    :param interval: heartbeat_interval, seconds.
    """
    if address not in doubt.addresses:
        return False
    if period is not None and is_same(period, interval):
        period = None
    seen = (set(heard) | {address}) & set(doubt.addresses)
    if doubt.unknown and not (
            # Then the list has to be shown itself: all of it, and no more.
            seen == set(doubt.addresses) and
            _is_shorter(period, len(doubt.addresses) + 1, interval)):
        return False
    return all(any(a not in other for a in seen) or
               _is_shorter(period, len(other), interval)
               for other in doubt.others)


def _is_shorter(period: float | None, length: int, interval: float) -> bool:
    return period is not None and period < (length - 0.5) * interval


def is_worth_noting(doubt: Doubt, address: str, interval: float) -> bool:
    """Tell whether a heartbeat that proves nothing should be noted.

    :param doubt: a Doubt; it has had time.
    :param address: where the amphora was heard.
    :param interval: heartbeat_interval, seconds.
    """
    if (address not in doubt.addresses or doubt.unknown or
            any(set(doubt.addresses) <= set(c) for c in doubt.others)):
        return True
    # A heartbeat at another address is to prove it, and will soon.
    return doubt.age > time_for_round(len(doubt.addresses), interval)


def rule_out_by_gaps(doubt: Doubt, listened: abc.Iterable[str],
                     known_before: abc.Callable[[int | None], set[str]],
                     longest_gap: float, watched: float,
                     settings: timing.Settings
                     ) -> tuple[tuple[str, ...] | Unknown, ...]:
    """Return which lists are left, by how regularly the amphora is heard.

    For one without listeners, of which no health manager knows that it was
    the one to hear it. A list that holds addresses at which nobody listens
    would leave a gap when their turn comes.

    :param doubt: a Doubt.
    :param listened: addresses at which somebody may have listened while it
                     was watched.
    :param known_before: takes Unknown.before, returns the addresses that it
                         can have had then.
    :param longest_gap: longest time that there can have been between two of
                        its heartbeats, seconds; infinite if it was not heard.
    :param watched: seconds for which it was watched.
    :param settings: timing.Settings.
    :returns: a tuple as Doubt.previous; empty if it can only be using the
              list that it acknowledged.
    """
    if longest_gap == float('inf'):
        return doubt.previous
    # Where nobody listens at any address of then, it is not heard there.
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
