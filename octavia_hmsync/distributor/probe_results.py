# SPDX-License-Identifier: Apache-2.0

"""The results of probes of members, and which are news to a client.

Each change has a number, counted from the start of the process. The number is
valid with the name of the run. A client whose number is of another run, or too
old, gets everything.
"""

import collections
from collections import abc
import dataclasses
import math
import threading
import time
import uuid

from octavia_hmsync.distributor import probe_rules

UNKNOWN = 'UNKNOWN'
GONE = 'GONE'

# How many members that are not probed any more are remembered.
_MOST_GONE = 10000
# Seconds between two checks of a waiting thread whether the process ends.
_SLICE = 0.5


@dataclasses.dataclass(frozen=True)
class Result:
    """The state of the front end of a member.

    :ivar state: UP, DOWN, UNKNOWN, or GONE if it is not probed any more.
    :ivar error: what is wrong, or None.
    :ivar since: when it got that state, in seconds since the epoch.
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
    """The answer to a client.

    :ivar run: name of the run of this process.
    :ivar sequence: of the last change, for the next request.
    :ivar is_whole: whether it is everything, not only news.
    :ivar results: in the order of their changes.
    """

    run: str
    sequence: int
    is_whole: bool
    results: tuple[Result, ...]


class Results:
    """The results of this run. Threads may share it.

    :param most_waiting: how many clients may wait for news at once; a
                         further one gets its answer at once.
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
        # By VIP and member, in the order of their last changes.
        self._results: collections.OrderedDict[
            tuple[str, str], Result] = collections.OrderedDict()
        self._gone: collections.deque[Result] = collections.deque()
        self._sequence = 0
        # The sequence up to which results were forgotten.
        self._floor = 0
        self._is_ending: abc.Callable[[], bool] = lambda: False
        self._asked_at = -math.inf

    def end_when(self, is_ending: abc.Callable[[], bool]) -> None:
        """Stop all waiting once a function returns True."""
        self._is_ending = is_ending

    def note(self, vip_id: str, member_id: str, state: str,
             error: str | None = None) -> bool:
        """Record the result of a probe of a member.

        :param state: UP, DOWN or UNKNOWN; GONE forgets it.
        :returns: whether that is news.
        """
        key = (vip_id, member_id)
        with self._changed:
            before = self._results.get(key)
            known = before.state if before else GONE
            if (known, before.error if before else None) == (state, error):
                return False
            self._sequence += 1
            since = (before.since if before and known == state
                     else self._clock())
            result = Result(vip_id, member_id, state, error, since,
                            self._sequence)
            self._results[key] = result
            self._results.move_to_end(key)
            if state == GONE:
                self._gone.append(result)
                self._forget()
            self._changed.notify_all()
            return True

    def _forget(self) -> None:
        while len(self._gone) > self._most_gone:
            oldest = self._gone.popleft()
            self._floor = oldest.sequence
            key = (oldest.vip_id, oldest.member_id)
            # It may be probed again.
            if self._results.get(key) is oldest:
                del self._results[key]

    def is_down(self, vip_id: str, member_id: str) -> bool:
        """Tell whether a member was DOWN when it was last probed."""
        with self._changed:
            result = self._results.get((vip_id, member_id))
            return result is not None and result.state == probe_rules.DOWN

    def get_of_vip(self, vip_id: str) -> dict[str, Result]:
        """Return {id of a member: its Result} of probed members."""
        with self._changed:
            return {member_id: result for (key, member_id), result
                    in self._results.items()
                    if key == vip_id and result.state != GONE}

    def read(self, run: str | None, after: int, timeout: float) -> News:
        """Return what changed since, and wait for it if nothing has.

        :param run: the run of the number; None for a new client.
        :param after: the sequence of the client's last answer.
        :param timeout: seconds to wait at most.
        """
        self._asked_at = time.monotonic()
        deadline = self._asked_at + timeout
        with self._changed:
            is_whole = run != self.run or not (
                self._floor <= after <= self._sequence)
            if not is_whole and self._waiting < self._most_waiting:
                self._waiting += 1
                try:
                    self._wait(after, deadline)
                finally:
                    self._waiting -= 1
                # Results may have been forgotten meanwhile.
                is_whole = after < self._floor
            return News(self.run, self._sequence, is_whole, tuple(
                self._list_all() if is_whole else self._list_after(after)))

    def get_silence(self) -> float:
        """Return the seconds since a controller asked; inf if none has."""
        return time.monotonic() - self._asked_at

    def _wait(self, after: int, deadline: float) -> None:
        while self._sequence == after and not self._is_ending():
            left = deadline - time.monotonic()
            if left <= 0:
                return
            self._changed.wait(min(left, _SLICE))

    def _list_all(self) -> list[Result]:
        return [result for result in self._results.values()
                if result.state != GONE]

    def _list_after(self, after: int) -> list[Result]:
        found = []
        for result in reversed(self._results.values()):
            if result.sequence <= after:
                break
            found.append(result)
        return found[::-1]
