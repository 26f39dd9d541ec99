# SPDX-License-Identifier: Apache-2.0

"""What a service answers to probes: whether it lives and is ready.

Kubernetes restarts a container that does not live. So a fault of all
containers at once, such as a database that is down or an invalid option, must
not count. A probe reads only memory and /proc.
"""

import time

# Seconds beyond three intervals after which a thread's work is overdue. A
# thread pauses for longer after long work, see periodic.PeriodicThread.
_GRACE = 30


class Probes:
    """The reasons for which a service does not live, or is not ready.

    Each reason is a line of text without secrets, because every client that
    reaches the address can read it. The log has the details.

    :param find_faults: called without arguments, returns a list of reasons
                        for a restart.
    :param find_lacks: likewise, returns a list of reasons why it is not
                       ready.
    """

    def __init__(self, find_faults, find_lacks):
        self._find_faults = find_faults
        self._find_lacks = find_lacks

    def find_faults(self):
        """Return why the service does not live, a list."""
        return self._find_faults()

    def find_lacks(self):
        """Return why the service is not ready, a list."""
        return [*self._find_faults(), *self._find_lacks()]


def find_ended(threads):
    """Return a reason for each periodic thread that has ended, a list."""
    return [f'The thread "{thread.name}" has ended.' for thread in threads
            if not thread.is_alive()]


def find_overdue(threads, interval, now=time.time):
    """Return a reason for each thread whose succeeded_at is too long ago."""
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
