# SPDX-License-Identifier: Apache-2.0

"""Notes that Octavia ignores what this health manager hears.

Octavia ignores a heartbeat that has waited for heartbeat_interval in a queue
of an overloaded health manager. Amphorae that are well grow silent by that,
and many at once. The failover guard is to know.
"""

import os
import time

from oslo_log import log as logging

from octavia_hmsync.compat import heartbeats
from octavia_hmsync.db import api
from octavia_hmsync.sync.db import health_manager as hm_repo
from octavia_hmsync.sync.health_manager import start

LOG = logging.getLogger(__name__)

# One late heartbeat in so many makes it likely that some amphora in a large
# fleet has none in time.
_ONE_IN = 10


class Lateness:
    """Counts late heartbeats in each process that handles some.

    :param conf: the oslo.config object that Octavia reads.
    """

    def __init__(self, conf, clock=time.monotonic):
        self._conf = conf
        self._clock = clock
        self._pid = None
        self._engine = None
        self._since = None
        self._all = self._late = 0
        self._written_at = None
        self._is_told = False

    def register(self):
        """Look at each heartbeat, in this process's children, too."""
        try:
            heartbeats.watch_delays(self.note)
        except (AttributeError, ImportError) as e:
            # All else works as well without it.
            LOG.warning('The failover guard cannot see whether this health '
                        'manager is overloaded: the installed Octavia has '
                        'no method that it knows (%s). Report it, with the '
                        'release of Octavia.', e)

    def note(self, delay):
        """Note one heartbeat; never raises.

        :param delay: seconds from its arrival until it was handled.
        """
        interval = self._conf.health_manager.heartbeat_interval
        now = self._clock()
        if self._since is None or now - self._since >= interval:
            self._since, self._all, self._late = now, 0, 0
        self._all += 1
        if delay < interval:
            return
        self._late += 1
        if self._late * _ONE_IN < self._all:
            return
        if self._written_at is None or now - self._written_at >= interval:
            # Before the statement, so that a database that is down is not
            # asked with each heartbeat.
            self._written_at = now
            self._write(delay)

    def _write(self, delay):
        try:
            if self._pid != os.getpid():
                # A database connection must not cross a fork.
                self._engine = api.create_engine(self._conf)
                self._pid = os.getpid()
            hm_repo.set_late(self._engine, self._conf.host, start.ID)
        except Exception as e:
            # Octavia cannot record heartbeats then either, and says so.
            LOG.debug('Late heartbeats are not recorded: %s', api.describe(e))
        if not self._is_told:
            LOG.warning('This health manager is overloaded: a heartbeat '
                        'waited for %d s, and Octavia ignores it. Failovers '
                        'of amphorae that only it hears are held back '
                        'meanwhile. Give it more CPU, or run more health '
                        'managers.', delay)
        self._is_told = True
