# SPDX-License-Identifier: Apache-2.0

"""Whether a health manager lives, and whether amphorae can rely on it."""

import time

from octavia_hmsync import compat
from octavia_hmsync.metrics import probes
from octavia_hmsync.sync.health_manager import listener as hm_listener
from octavia_hmsync.sync.rules import member as mem

# Seconds until Octavia has started both of its processes, at the latest.
_START_TIMEOUT = 60


class Processes:
    """The two processes of octavia-health-manager that Octavia starts.

    When one of them dies, Octavia's main process lives on and says nothing.

    :param listener: a listener.Listener; None if it has ended before it was
                     seen.
    """

    def __init__(self, listener, clock=time.monotonic):
        self._listener = listener
        self._clock = clock
        self._started_at = clock()
        self._health_check = None

    def find_faults(self):
        """Return what has ended, a list of reasons for a restart."""
        faults = []
        if self._listener is None or not (self._listener.is_starting() or
                                          self._listener.is_listening()):
            faults.append('The process that receives heartbeats has ended, '
                          'or does not listen.')
        if self._has_health_check_ended():
            faults.append('The process that fails over amphorae has ended.')
        return faults

    def _has_health_check_ended(self):
        if self._health_check is None:
            # It was not there yet when this object was made.
            self._health_check = hm_listener.find_process(
                compat.HEALTH_CHECK_PROCESS)
        if self._health_check is None:
            return self._clock() - self._started_at > _START_TIMEOUT
        return not self._health_check.is_alive()


def make(conf, processes: Processes, keepalive, threads):
    """Make the probes of a health manager that runs the plugin."""
    limit = conf.hmsync.offline_after

    def find_faults():
        return [*processes.find_faults(), *probes.find_ended(threads)]

    def find_lacks():
        age = keepalive.get_age()
        status = keepalive.status
        if age is None or status is None:
            return ['It is not registered; its log says why.']
        if age > limit:
            return [f'It has written no keepalive for {age:.0f} s, longer '
                    f'than offline_after = {limit} s; its log says why.']
        if status != mem.ONLINE:
            return [f'It is {status}, and not {mem.ONLINE}.']
        return []

    return probes.Probes(find_faults, find_lacks)
