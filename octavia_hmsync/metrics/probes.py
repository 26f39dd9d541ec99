# SPDX-License-Identifier: Apache-2.0

"""What a service answers to whoever asks whether it lives and is ready.

Kubernetes restarts a container that does not live, so nothing that is wrong
in all of them at once, like a database that is down or an option that is not
valid, is a reason. A probe reads memory and /proc, and no more.
"""

import time

# Seconds beyond three intervals after which a thread's work is overdue. One
# that worked for long pauses for longer, see periodic.PeriodicThread.
_GRACE = 30


class Probes:
    """The reasons for which a service does not live, or is not ready.

    Each reason is a line of text without anything secret: whoever reaches the
    address reads it. The log says more.

    :param find_faults: called without arguments for the reasons for which it
                        has to be restarted, a list.
    :param find_lacks: the same for those for which it is not ready yet, or
                       not any more.
    """

    def __init__(self, find_faults, find_lacks):
        self._find_faults = find_faults
        self._find_lacks = find_lacks

    def find_faults(self):
        """Return why it does not live, a list, empty if it does."""
        return self._find_faults()

    def find_lacks(self):
        """Return why it is not ready, a list, empty if it is."""
        return [*self._find_faults(), *self._find_lacks()]


def find_ended(threads):
    """Return a reason for each periodic thread that has ended, a list."""
    return [f'The thread "{thread.name}" has ended.' for thread in threads
            if not thread.is_alive()]


def find_overdue(threads, interval, now=time.time):
    """Return a reason for each thread that has not done its work lately.

    :param threads: periodic threads.
    :param interval: seconds between two calls of theirs.
    :param now: called without arguments for the time as ``succeeded_at`` has
                it.
    """
    limit = 3 * interval + _GRACE
    reasons = []
    for thread in threads:
        age = now() - thread.succeeded_at
        if not thread.succeeded_at:
            reasons.append(f'The thread "{thread.name}" has not done its work '
                           f'yet.')
        elif age > limit:
            reasons.append(f'The thread "{thread.name}" has not done its work '
                           f'for {age:.0f} s, longer than {limit} s.')
    return reasons
