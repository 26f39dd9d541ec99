# SPDX-License-Identifier: Apache-2.0

"""Threads of one process that each work for one key, such as an id.

Each key has one thread at most, and a crew has a largest number of them. What
failed waits before it is tried again, each time longer.
"""

from collections import abc
import threading
import time
import typing

from octavia_hmsync import periodic

Key = typing.TypeVar('Key', bound=abc.Hashable)


class Crew(typing.Generic[Key]):
    """The threads for one kind of work.

    :param name: how the names of the threads begin.
    :param on_end: called with what the target returned, after its key is free.
    """

    def __init__(self, name: str, on_end: abc.Callable[
            [typing.Any], None] = lambda result: None) -> None:
        self._name = name
        self._on_end = on_end
        self._lock = threading.Lock()
        self._threads: dict[Key, threading.Thread] = {}

    def keys(self) -> set[Key]:
        """Return those that a thread works for now."""
        with self._lock:
            return set(self._threads)

    def begin(self, key: Key, target: abc.Callable[..., typing.Any],
              *args: typing.Any, about: str | None = None) -> None:
        """Start a thread, whose target raises nothing, for a free key.

        :param about: what its name tells for logs, in place of the key.
        """
        thread = threading.Thread(
            target=self._run, args=(key, target, *args),
            name=f'{self._name}-{about or key}', daemon=True)
        with self._lock:
            self._threads[key] = thread
        thread.start()

    def _run(self, key: Key, target: abc.Callable[..., typing.Any],
             *args: typing.Any) -> None:
        periodic.leave_signals_to_main_thread()
        result = None
        try:
            result = target(*args)
        finally:
            with self._lock:
                del self._threads[key]
            self._on_end(result)

    def join(self, timeout: float) -> set[Key]:
        """Wait for all threads; return the keys of those that still run."""
        deadline = time.monotonic() + timeout
        with self._lock:
            threads = list(self._threads.values())
        for thread in threads:
            thread.join(max(0, deadline - time.monotonic()))
        return self.keys()


class Pauses(typing.Generic[Key]):
    """When what failed may be tried again: pauses double up to the last."""

    def __init__(self, first: float, last: float,
                 clock: abc.Callable[[], float]) -> None:
        self._first = first
        self._last = last
        self._clock = clock
        self._lock = threading.Lock()
        # {key: (when it may be tried again, the pause after the next time)}
        self._pauses: dict[Key, tuple[float, float]] = {}

    def is_over(self, key: Key) -> bool:
        """Tell whether a key may be tried now."""
        with self._lock:
            return self._pauses.get(key, (0, 0))[0] <= self._clock()

    def note(self, key: Key, is_done: bool) -> None:
        """Record how a try ended."""
        with self._lock:
            _, pause = self._pauses.pop(key, (0, self._first))
            if not is_done:
                self._pauses[key] = (self._clock() + pause,
                                     min(2 * pause, self._last))

    def keep(self, is_kept: abc.Callable[[Key], bool]) -> None:
        """Forget all keys but some."""
        with self._lock:
            self._pauses = {key: value for key, value in self._pauses.items()
                            if is_kept(key)}
