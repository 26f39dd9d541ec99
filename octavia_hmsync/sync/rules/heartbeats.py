# SPDX-License-Identifier: Apache-2.0

"""Heartbeats, seen by a value that each of them changes: no I/O, no clock.

Octavia records only the time of the last heartbeat, by the clock of the
controller that received it, and these clocks may be minutes apart. So the
watch compares values for a change, and measures time with its own clock.
"""

from collections import abc
import dataclasses
import typing

# In place of a value: the change was not a heartbeat's.
NO_NEWS = object()


@dataclasses.dataclass
class _Watched:
    begun: float
    value: typing.Any
    # The last sample before the last heartbeat, and the first one after it.
    not_before: float
    seen_at: float
    sampled_at: float
    longest_gap: float = 0.0
    first_seen_at: float | None = None
    listened: set[str] = dataclasses.field(default_factory=set)


class HeartbeatWatch:
    """Looks at the same values again and again."""

    def __init__(self) -> None:
        self._watched: dict[abc.Hashable, _Watched] = {}

    def sample(self, now: float, values: abc.Mapping[typing.Any, typing.Any],
               listening: abc.Iterable[str] = ()) -> None:
        """Look at {key: value or NO_NEWS}; other keys are dropped."""
        listening = frozenset(listening)
        self._watched = {key: self._next(key, now, value)
                         for key, value in values.items()}
        for watched in self._watched.values():
            watched.listened.update(listening)

    def _next(self, key: abc.Hashable, now: float,
              value: typing.Any) -> _Watched:
        watched = self._watched.get(key)
        if watched is None:
            return _Watched(begun=now, value=value, not_before=now,
                            seen_at=now, sampled_at=now)
        if value is not NO_NEWS and value != watched.value:
            watched.longest_gap = max(watched.longest_gap,
                                      now - watched.not_before)
            watched.value = value
            if watched.first_seen_at is None:
                watched.first_seen_at = now
            watched.not_before, watched.seen_at = watched.sampled_at, now
        watched.sampled_at = now
        return watched

    def watched_for(self, key: abc.Hashable) -> float:
        """Return the seconds for which a key was watched."""
        watched = self._watched[key]
        return watched.sampled_at - watched.begun

    def was_heard(self, key: abc.Hashable) -> bool:
        """Tell whether a heartbeat came since the watch began."""
        return self._watched[key].first_seen_at is not None

    def heard_for(self, key: abc.Hashable) -> float | None:
        """Return the seconds since the first heartbeat of a watch, or None."""
        watched = self._watched[key]
        if watched.first_seen_at is None:
            return None
        return watched.sampled_at - watched.first_seen_at

    def silence(self, key: abc.Hashable) -> float:
        """Return the least seconds possible since the last heartbeat."""
        watched = self._watched[key]
        return watched.sampled_at - watched.seen_at

    def longest_gap(self, key: abc.Hashable) -> float:
        """Return the most seconds possible between two heartbeats.

        The beginning and the end of the watch count as heartbeats.

        :returns: infinite if there was no heartbeat.
        """
        watched = self._watched[key]
        if not self.was_heard(key):
            return float('inf')
        return max(watched.longest_gap,
                   watched.sampled_at - watched.not_before)

    def listened(self, key: abc.Hashable) -> set[str]:
        """Return the addresses at which a health manager may have listened."""
        return self._watched[key].listened
