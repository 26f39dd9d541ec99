# SPDX-License-Identifier: Apache-2.0

"""What is seen of members, and what of that is news to whoever asks.

Each change has a number of its own, counted from the start of the process: a
number goes with the name of the run. Who comes with another run's, or with
one that is too old, is told all of it.
"""

import collections
from collections import abc
import dataclasses
import threading
import time
import uuid

UNKNOWN = 'UNKNOWN'
GONE = 'GONE'

# Of members that are looked at no more: how many of them are remembered.
_MOST_GONE = 10000
# Seconds after which a waiting one looks whether the process ends.
_SLICE = 0.5


@dataclasses.dataclass(frozen=True)
class Sight:
    """What is seen of the front end of a member.

    :ivar vip_id: of which VIP.
    :ivar member_id: of its member.
    :ivar state: UP, DOWN, UNKNOWN, or GONE if nobody looks at it any more.
    :ivar error: what is wrong, or None.
    :ivar since: when it became that, in seconds since the epoch.
    :ivar sequence: the number of this change.
    """

    vip_id: str
    member_id: str
    state: str
    error: str | None
    since: float
    sequence: int


@dataclasses.dataclass(frozen=True)
class News:
    """What somebody is told.

    :ivar run: name of the run of this process.
    :ivar sequence: of the last change, what to ask with next time.
    :ivar is_whole: whether it is all there is, and not what is new alone.
    :ivar sights: in the order of their changes.
    """

    run: str
    sequence: int
    is_whole: bool
    sights: tuple[Sight, ...]


class Sights:
    """The sights of this run. Threads may share it.

    :param most_waiting: how many may wait for news at once; who comes then
                         is answered at once.
    :param clock: seconds since the epoch.
    :param most_gone: see _MOST_GONE.
    """

    def __init__(self, most_waiting: int = 8,
                 clock: abc.Callable[[], float] = time.time,
                 most_gone: int = _MOST_GONE) -> None:
        self.run = uuid.uuid4().hex
        self._clock = clock
        self._most_gone = most_gone
        self._most_waiting = most_waiting
        self._waiting = 0
        self._changed = threading.Condition()
        # By VIP and member, the last change last.
        self._sights: collections.OrderedDict[
            tuple[str, str], Sight] = collections.OrderedDict()
        self._gone: collections.deque[Sight] = collections.deque()
        self._sequence = 0
        # Up to here something is forgotten.
        self._floor = 0
        self._is_ending: abc.Callable[[], bool] = lambda: False

    def end_when(self, is_ending: abc.Callable[[], bool]) -> None:
        """Have nobody wait any more once something is true."""
        self._is_ending = is_ending

    def note(self, vip_id: str, member_id: str, state: str,
             error: str | None = None) -> bool:
        """Note what is seen of a member.

        :param state: UP, DOWN or UNKNOWN; GONE forgets it.
        :returns: whether that is news.
        """
        key = (vip_id, member_id)
        with self._changed:
            before = self._sights.get(key)
            known = before.state if before else GONE
            if (known, before.error if before else None) == (state, error):
                return False
            self._sequence += 1
            since = (before.since if before and known == state
                     else self._clock())
            sight = Sight(vip_id, member_id, state, error, since,
                          self._sequence)
            self._sights[key] = sight
            self._sights.move_to_end(key)
            if state == GONE:
                self._gone.append(sight)
                self._forget()
            self._changed.notify_all()
            return True

    def _forget(self) -> None:
        while len(self._gone) > self._most_gone:
            oldest = self._gone.popleft()
            self._floor = oldest.sequence
            key = (oldest.vip_id, oldest.member_id)
            # It may have come back meanwhile.
            if self._sights.get(key) is oldest:
                del self._sights[key]

    def get_of_vip(self, vip_id: str) -> dict[str, Sight]:
        """Return {id of a member: its Sight} of those that are looked at."""
        with self._changed:
            return {member_id: sight for (key, member_id), sight
                    in self._sights.items()
                    if key == vip_id and sight.state != GONE}

    def read(self, run: str | None, after: int, timeout: float) -> News:
        """Return what changed since, and wait for it if nothing has.

        :param run: of which run the number is; None for anybody new.
        :param after: the sequence that he was told last.
        :param timeout: seconds to wait at most.
        """
        deadline = time.monotonic() + timeout
        with self._changed:
            is_whole = run != self.run or not (
                self._floor <= after <= self._sequence)
            if not is_whole and self._waiting < self._most_waiting:
                self._waiting += 1
                try:
                    self._wait(after, deadline)
                finally:
                    self._waiting -= 1
                # Much may have happened at once.
                is_whole = after < self._floor
            return News(self.run, self._sequence, is_whole, tuple(
                self._list_all() if is_whole else self._list_after(after)))

    def _wait(self, after: int, deadline: float) -> None:
        while self._sequence == after and not self._is_ending():
            left = deadline - time.monotonic()
            if left <= 0:
                return
            self._changed.wait(min(left, _SLICE))

    def _list_all(self) -> list[Sight]:
        return [sight for sight in self._sights.values()
                if sight.state != GONE]

    def _list_after(self, after: int) -> list[Sight]:
        found = []
        for sight in reversed(self._sights.values()):
            if sight.sequence <= after:
                break
            found.append(sight)
        return found[::-1]
