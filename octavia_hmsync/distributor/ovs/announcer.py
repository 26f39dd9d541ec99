# SPDX-License-Identifier: Apache-2.0

"""Announcing whose an address is, several times."""

import heapq
import itertools
import logging
import threading
import time

from octavia_hmsync import exceptions

LOG = logging.getLogger(__name__)

# Seconds after the beginning. The first frames get lost where the agent of
# the node has yet to connect the port; and for a second after it learned of
# an address, Linux believes nothing else of it.
DELAYS = (0, 0.3, 1.2, 2.5, 5, 10, 20, 40)


class Announcer:
    """A thread that sends, and is there only while it has something to send.

    :param send: called with a key and what was passed to start().
    """

    def __init__(self, send):
        self._send = send
        self._condition = threading.Condition()
        self._due = []
        self._current = {}
        self._numbers = itertools.count()
        self._thread = None

    def start(self, key, *args):
        """Begin to announce; what was begun for the same key ends."""
        with self._condition:
            number = next(self._numbers)
            self._current[key] = number
            now = time.monotonic()
            for delay in DELAYS:
                heapq.heappush(self._due, (now + delay, number, key, args))
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name='announcer', daemon=True)
                self._thread.start()
            self._condition.notify()

    def stop(self, key):
        """Announce nothing more for a key."""
        with self._condition:
            self._current.pop(key, None)

    def close(self):
        """Announce nothing more, and wait for what is being sent."""
        with self._condition:
            self._due.clear()
            self._current.clear()
            thread = self._thread
            self._condition.notify()
        if thread is not None:
            thread.join()

    def _run(self):
        while True:
            with self._condition:
                if not self._due:
                    self._thread = None
                    return
                due, number, key, args = self._due[0]
                wait = due - time.monotonic()
                if wait > 0:
                    self._condition.wait(wait)
                    continue
                heapq.heappop(self._due)
                if self._current.get(key) != number:
                    continue
            try:
                self._send(key, *args)
            except exceptions.VswitchUnavailable as e:
                LOG.warning('The addresses of VIP %s could not be announced: '
                            '%s', key, e)
            except Exception:
                LOG.exception('The addresses of VIP %s could not be '
                              'announced', key)
