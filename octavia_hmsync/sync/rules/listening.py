# SPDX-License-Identifier: Apache-2.0

"""Who listens at an address, and how far a list is from the timeout.

The plan, the trial of a list, the failover guard and the adoption watch all
ask here, so that they cannot contradict each other.

An amphora sends each heartbeat to one address of its list, in turn
(octavia.amphorae.backends.health_daemon.health_sender). Dead addresses side by
side and lost datagrams make a gap; after heartbeat_timeout Octavia takes the
amphora for dead.
"""

import collections
from collections import abc
import enum
import functools
import math

from octavia_hmsync import addresses as addr
from octavia_hmsync.sync.rules import member as mem
from octavia_hmsync.sync.rules import subset
from octavia_hmsync.sync.rules import timing

# If the list is longer than what one amphora gets, the subsets of so many
# amphorae are sampled.
_SAMPLES = 2000
# The list is shortened at once if more than one in so many amphorae are near
# the timeout. The guard holds these amphorae meanwhile.
_TOLERATED = 10

# Most times restart_grace to wait for a health manager.
_LONGEST_GRACE = 3


def grace(member: mem.Member, others: abc.Iterable[mem.Member],
          gone_for: float, settings: timing.Settings) -> float:
    """Return for how many seconds a member that is gone may be restarting.

    Longer while its new process starts, or if recent restarts took longer;
    but limited, because a process may start again and again and never listen.

    :returns: less than 0 if there is no sign of a restart.
    """
    shortest = settings.restart_grace
    longest = _LONGEST_GRACE * shortest
    if _is_starting(member, settings):
        return longest
    took = max((seconds for seconds in _find_took(member, others, gone_for)
                # A far longer time was no restart, but an outage.
                if 0 < seconds <= longest), default=0.0)
    if member.status == mem.OFFLINE:
        return max(shortest, min(2 * took, longest))
    return min(2 * took, longest) if took else -math.inf


def _is_starting(member: mem.Member, settings: timing.Settings) -> bool:
    return member.starting_age is not None and not mem.is_silent(
        member.starting_age, settings.offline_after)


def _find_took(member: mem.Member, others: abc.Iterable[mem.Member],
               gone_for: float) -> abc.Iterator[float]:
    """Yield how many seconds comparable restarts took.

    Its own last restart, and those of others that came back since it left.
    """
    # Without a goodbye its process may have died instead.
    if member.status == mem.OFFLINE and member.restart_took is not None:
        yield member.restart_took
    for other in others:
        if (other.host != member.host and other.restart_took is not None and
                other.online_for <= gone_for):
            yield other.restart_took


class Level(enum.IntEnum):
    """How near an amphora is to the timeout because of dead addresses."""

    # Neither a lost heartbeat nor a new list makes it time out.
    FINE = 0
    # A lost heartbeat or a new list may: with a new list it begins a new
    # round, perhaps at the dead addresses.
    NEAR = 1
    # It times out: no health manager can hear it in time.
    LOST = 2


class HealthManagers:
    """Who listens where, as far as is known.

    An address that a file pins counts as listening all the time if no health
    manager ever registered there: a health manager need not have the plugin.

    :param reader_steady_for: seconds for which the members have been read
                              without a gap, see member.state_of().
    :param clock_steady_for: seconds for which the database's clock has not
                             jumped, see steadiness.Steadiness.
    :param lapsing: addresses that no housekeeper seems to pin any more. Until
                    the reader is steady they count as pinned, and are not
                    published anew.
    :param key_digest: of the key with which an amphora signs. A health
                       manager with another key does not hear it. None for
                       any key.
    """

    def __init__(self, members: abc.Iterable[mem.Member],
                 pinned: abc.Iterable[str], settings: timing.Settings,
                 left: abc.Iterable[str] = (),
                 reader_steady_for: float = math.inf,
                 key_digest: str | None = None,
                 lapsing: abc.Iterable[str] = (),
                 clock_steady_for: float = math.inf) -> None:
        self.settings = settings
        self.clock_steady_for = clock_steady_for
        self._steady_for = reader_steady_for
        self._lapsing = frozenset(() if self.is_steady else lapsing)
        self.pinned = frozenset(pinned) | self._lapsing
        self.wanted = frozenset(pinned)
        self._left = frozenset(left)
        self._members = {m.address: m for m in members}
        self._key_digest = key_digest

    @property
    def is_steady(self) -> bool:
        """Whether every live service has written since the last read gap."""
        return self._steady_for > self.settings.offline_after

    def with_key(self, key_digest: str | None) -> 'HealthManagers':
        """Return the same, for amphorae that sign with another key."""
        return HealthManagers(
            self._members.values(), self.wanted, self.settings,
            self._left, self._steady_for, key_digest, self._lapsing,
            self.clock_steady_for)

    def among(self, addresses: abc.Container[str]) -> 'HealthManagers':
        """Return the same of some addresses only."""
        return HealthManagers(
            [m for a, m in self._members.items() if a in addresses],
            [a for a in self.wanted if a in addresses], self.settings,
            self._left, self._steady_for, self._key_digest,
            [a for a in self._lapsing if a in addresses],
            self.clock_steady_for)

    @property
    def members(self) -> list[mem.Member]:
        return list(self._members.values())

    @property
    def addresses(self) -> frozenset[str]:
        """All addresses that members hold or files pin."""
        return self.pinned | self._members.keys()

    def member(self, address: str) -> mem.Member | None:
        """Return the health manager that is registered at an address."""
        return self._members.get(address)

    def state(self, address: str) -> mem.State | None:
        """Return the state of an address, None if no member holds it."""
        member = self._members.get(address)
        if member is None:
            return None
        return mem.state_of(member, self.settings.offline_after,
                            self._steady_for, self.clock_steady_for)

    def has_key(self, address: str) -> bool:
        """Tell whether the health manager there has the amphorae's key."""
        member = self._members.get(address)
        return (member is None or self._key_digest is None or
                member.key_digest in (None, self._key_digest))

    def has_listened(self, address: str) -> bool:
        """Tell whether its health manager listened for heartbeat_timeout.

        One that is overloaded hears, and what it hears counts for nothing.
        """
        member = self._members.get(address)
        if member is None:
            return self._is_assumed(address)
        return (self.has_key(address) and
                not mem.is_overloaded(member,
                                      self.settings.heartbeat_timeout) and
                self.state(address) in (mem.State.ALIVE,
                                        mem.State.DRAINING) and
                member.online_for >= self.settings.heartbeat_timeout)

    def listens(self, address: str) -> bool:
        """Tell whether a health manager listens now; if unknown, say yes."""
        if address not in self._members:
            return self._is_assumed(address)
        return self.has_key(address) and (
            self.state(address) is not mem.State.DEAD)

    def may_listen(self, address: str) -> bool:
        """Tell whether a health manager listens, or is about to again.

        A health manager may be restarting if it said goodbye, if others that
        restarted are back, or if its new process has started.
        """
        if self.listens(address):
            return True
        member = self._members.get(address)
        if member is None or not self.has_key(address):
            return False
        gone_for = self.gone_for(address)
        return gone_for <= grace(member, self._members.values(),
                                 gone_for, self.settings)

    def gone_for(self, address: str) -> float:
        """Return seconds since keepalive or goodbye; inf without a member."""
        member = self._members.get(address)
        # Ages from before a jump of the database's clock are not known.
        return math.inf if member is None else min(member.keepalive_age,
                                                   self.clock_steady_for)

    def is_gone(self, address: str) -> bool:
        """Tell whether no member holds an address, and no file lists it."""
        return (address not in self._members and
                address not in self.pinned)

    def _is_assumed(self, address: str) -> bool:
        return address in self.pinned and address not in self._left


def find_unheard(addresses: abc.Iterable[str],
                 listens: abc.Callable[[str], bool]) -> frozenset[str]:
    """Return the addresses where HealthManagers.listens, or so, is False."""
    return frozenset(a for a in addresses if not listens(a))


def longest_gap(addresses: abc.Sequence[object],
                unheard: abc.Container[object], lost: int = 0) -> float:
    """Return the longest gap between two heartbeats that are heard.

    :param lost: heartbeats to the other addresses that are lost in a row.
    :returns: number of heartbeat_interval; infinite if all are unheard.
    """
    length = len(addresses)
    heard = [n for n, a in enumerate(addresses) if a not in unheard]
    if not heard:
        return math.inf
    gaps = [(following - n - 1) % length + 1
            for n, following in zip(heard, heard[1:] + heard[:1])]
    return max(sum(gaps[(n + k) % len(gaps)] for k in range(lost + 1))
               for n in range(len(gaps)))


def list_level(addresses: abc.Sequence[object],
               unheard: abc.Container[object],
               settings: timing.Settings) -> Level:
    """Tell how near an amphora is to the timeout."""
    if not any(a in unheard for a in addresses) and addresses:
        # Odd options alone may exceed the timeout: no address is to blame.
        return Level.FINE
    allowed = settings.heartbeat_timeout / settings.heartbeat_interval
    gap = longest_gap(addresses, unheard)
    if gap >= allowed:
        return Level.LOST
    if 2 * gap > allowed or longest_gap(addresses, unheard, 1) >= allowed:
        return Level.NEAR
    return Level.FINE


def published_level(addresses: abc.Sequence[str],
                    unheard: abc.Iterable[str],
                    settings: timing.Settings) -> Level:
    """Tell how near the amphorae with a published list are to the timeout.

    If the list is longer than what one amphora gets, typical subsets decide,
    not the worst possible one.

    :returns: LOST if all are unheard; NEAR if more than one in ten amphorae
              are near or worse.
    """
    dead = frozenset(unheard) & frozenset(addresses)
    if len(addresses) <= settings.max_list_length:
        return list_level(addresses, dead, settings)
    if len(dead) == len(addresses):
        return Level.LOST
    places = frozenset(
        n for n, a in enumerate(sorted(addresses, key=addr.sort_key))
        if a in dead)
    if _TOLERATED * _count_near(len(addresses), places, settings) > _SAMPLES:
        return Level.NEAR
    return Level.FINE


@functools.lru_cache(maxsize=16)
def _count_near(size: int, dead: frozenset[int],
                settings: timing.Settings) -> int:
    """Count the sampled amphorae that are near the timeout.

    :param size: how many addresses are published.
    :param dead: places in the published list at which none listens.
    """
    return sum(amphorae for chosen, amphorae
               in _sample(size, settings.max_list_length).items()
               if list_level(chosen, dead, settings) > Level.FINE)


@functools.lru_cache(maxsize=16)
def _sample(size: int, length: int) -> dict[tuple[int, ...], int]:
    """Count the amphorae by which places of the published list they have.

    Which addresses are at these places makes no difference, so that a list
    that changes is sampled again only if its size does.
    """
    return collections.Counter(
        tuple(sorted(sorted(range(size), key=functools.partial(
            subset.rank, f'sample-{n}'))[:length]))
        for n in range(_SAMPLES))


def has_nothing_to_lose(old: abc.Collection[str], new: abc.Container[str],
                        managers: HealthManagers) -> bool:
    """Tell whether a new list can do no harm, whatever is wrong with it.

    So if no health manager listens at the old addresses, and the list keeps
    the old addresses at which one may be about to listen again.

    :param old: the list that amphorae have; empty if that is not known.
    """
    return (bool(old) and not any(map(managers.listens, old)) and
            all(a in new for a in old if managers.may_listen(a)))
