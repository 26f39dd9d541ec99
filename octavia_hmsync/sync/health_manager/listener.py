# SPDX-License-Identifier: Apache-2.0

"""Whether a health manager lives, listens, and can be relied on."""

import ipaddress
import multiprocessing
import os
import select
import time

import psutil

from octavia_hmsync import compat
from octavia_hmsync.metrics import probes
from octavia_hmsync.sync.rules import member as mem

# A busy node may take long to start or end a process. A listener that cannot
# bind ends at once.
_START_TIMEOUT = 60
_STOP_TIMEOUT = 10


class Listener:
    """The child process of the health manager that receives heartbeats.

    When it dies, octavia-health-manager lives on, hears nothing, and starts
    failovers. So the advertised address depends on this check.
    """

    def __init__(self, process, bind_ip, bind_port, clock=time.monotonic):
        self._process = process
        self._bind = (ipaddress.ip_address(str(bind_ip)), bind_port)
        self._clock = clock
        self._started_at = clock()
        self._has_listened = False

    def is_starting(self):
        """Tell whether it lives but has not bound its socket yet."""
        if (self._has_listened or not self._process.is_alive() or
                self._clock() - self._started_at > _START_TIMEOUT):
            return False
        self._has_listened = self.is_listening()
        return not self._has_listened

    def is_listening(self):
        """Tell whether it lives and holds the UDP socket itself.

        Its own children inherit the socket and may outlive it without ever
        reading it.
        """
        if not self._process.is_alive():
            return False
        try:
            sockets = psutil.Process(self._process.pid).net_connections('udp')
        except psutil.Error:
            return False
        return any(
            s.laddr and s.laddr.port == self._bind[1] and
            ipaddress.ip_address(s.laddr.ip) == self._bind[0]
            for s in sockets)

    def has_stopped(self):
        """Tell whether it has ended cleanly, on SIGTERM."""
        return self._process.exitcode == 0

    def is_stopping(self):
        """Tell whether it is ending cleanly, and wait for the end."""
        try:
            self.wait_for_exit(_STOP_TIMEOUT)
        except OSError:
            return False
        return self.has_stopped()

    def wait_for_exit(self, timeout=None):
        """Wait until it has ended, even if its children still hold its files.

        :raises OSError: if the kernel has no pidfd (before Linux 5.3).
        """
        try:
            pidfd = os.pidfd_open(self._process.pid)
        except ProcessLookupError:
            return
        try:
            select.select([pidfd], [], [], timeout)
        finally:
            os.close(pidfd)


def find_process(name=compat.LISTENER_PROCESS):
    """Find the listener, or a child of another name; None if it ended."""
    for process in multiprocessing.active_children():
        if process.name == name:
            return process
    return None


class Processes:
    """The two processes of octavia-health-manager that Octavia starts.

    When one of them dies, Octavia's main process lives on and says nothing.

    :param listener: a Listener; None if it has ended before it was seen.
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
            self._health_check = find_process(compat.HEALTH_CHECK_PROCESS)
        if self._health_check is None:
            return self._clock() - self._started_at > _START_TIMEOUT
        return not self._health_check.is_alive()


def make_probes(conf, processes: Processes, keepalive, threads):
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
