# SPDX-License-Identifier: Apache-2.0

"""A lock for each name, for as long as it is needed."""

import contextlib
import threading
import typing


class Locks:
    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._locks: dict[str, tuple[threading.Lock, int]] = {}

    @contextlib.contextmanager
    def hold(self, name: str, timeout: float) -> typing.Iterator[bool]:
        """Hold the lock of a name.

        :param timeout: seconds to wait for it at most.
        :returns: a context manager; whether the lock was taken.
        """
        with self._guard:
            lock, users = self._locks.get(name, (threading.Lock(), 0))
            self._locks[name] = (lock, users + 1)
        taken = lock.acquire(timeout=timeout)
        try:
            yield taken
        finally:
            if taken:
                lock.release()
            with self._guard:
                lock, users = self._locks[name]
                if users == 1:
                    del self._locks[name]
                else:
                    self._locks[name] = (lock, users - 1)
