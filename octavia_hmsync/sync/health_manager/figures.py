# SPDX-License-Identifier: Apache-2.0

"""Figures of one health manager and of its failover guard, from the database.
"""

from octavia_hmsync.metrics import reading
from octavia_hmsync.sync.db import health_manager as hm_repo
from octavia_hmsync.sync.db import hold as hold_repo
from octavia_hmsync.sync.rules import member as mem

ABSENT = 'ABSENT'

_STATUSES = (mem.ONLINE, mem.DRAINING, mem.OFFLINE, ABSENT)


class HealthManager:
    """Reads the row of this health manager, and the amphorae on hold."""

    def __init__(self, conf, engine, instance):
        self._conf = conf
        self._engine = engine
        self._instance = instance

    def read(self):
        """Return the figures, a list of metrics."""
        own = ABSENT
        member = hm_repo.find(self._engine, self._conf.host, self._instance)
        if member is not None:
            own = mem.effective_status(member.status, member.keepalive_age,
                                       self._conf.hmsync.offline_after)
        return [reading.gauge_by(
            'status', 'health_manager_status', 'How this health manager '
            'stands in the database: 1 for the status that it has.',
            {status: int(status == own) for status in _STATUSES}),
            reading.gauge(
                'held_amphorae', 'Amphorae that the failover guards of all '
                'health managers hold back from failover now.',
                hold_repo.count_held(
                    self._engine,
                    self._conf.health_manager.heartbeat_timeout))]
