# SPDX-License-Identifier: Apache-2.0

"""Records the heartbeats that a replacement waits for.

Runs where Octavia calls statistics drivers, so that it never delays the
recording of a heartbeat.
"""

import time

from oslo_utils import uuidutils

from octavia_hmsync.amphora import heartbeat
from octavia_hmsync.sync.db import amphora_view as view_repo

# Looks in each heartbeat_interval for load balancers to record.
_LOOKS = 4


class ViewRecorder:
    """Records heartbeats of load balancers whose amphorae are replaced.

    Otherwise it writes nothing, and runs one small query a few times in each
    heartbeat_interval.

    :param clock: a monotonic clock, seconds.
    """

    def __init__(self, conf, engine, clock=time.monotonic):
        self._conf = conf
        self._engine = engine
        self._clock = clock
        self._watched = {}
        self._read_at = None

    def note(self, message):
        """Record a heartbeat, if a replacement waits for it.

        :param message: a dict, as Octavia has unpacked it.
        :raises DBError: if the database cannot be used.
        :raises KeyError, TypeError, AttributeError: if it is no heartbeat.
        """
        now = self._clock()
        if (self._read_at is None or now - self._read_at >=
                self._conf.health_manager.heartbeat_interval / _LOOKS):
            # Before the query, so that a database that is down is asked less.
            self._read_at = now
            self._watched = view_repo.get_watched(self._engine)
        load_balancer_id = self._watched.get(message.get('id'))
        if load_balancer_id is not None:
            view_repo.record(self._engine, uuidutils.generate_uuid(),
                             load_balancer_id, heartbeat.read(message))
