# SPDX-License-Identifier: Apache-2.0

"""Whether a process listens for heartbeats."""

import ipaddress
import multiprocessing
import os
import select
import time

import psutil

from octavia_hmsync import compat

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
