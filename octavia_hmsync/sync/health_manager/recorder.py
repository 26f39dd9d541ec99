# SPDX-License-Identifier: Apache-2.0

"""Records what amphorae say that a replacement looks at.

Runs where Octavia calls statistics drivers, so that it never delays what
records a heartbeat.
"""

import time

from oslo_utils import uuidutils

from octavia_hmsync.amphora import heartbeat
from octavia_hmsync.sync.db import amphora_view as view_repo

# How often in each heartbeat_interval it looks whom to listen to.
_LOOKS = 4


class ViewRecorder:
    """Records the heartbeats of load balancers of which one is replaced.

    Otherwise it writes nothing, and reads one small statement a few times in
    each heartbeat_interval.

    :param conf: a parsed oslo.config object.
    :param engine: an SQLAlchemy engine.
    :param clock: a monotonic clock, seconds.
    """

    def __init__(self, conf, engine, clock=time.monotonic):
        self._conf = conf
        self._engine = engine
        self._clock = clock
        self._watched = {}
        self._read_at = None

    def note(self, message):
        """Record a heartbeat, if there is who looks at it.

        :param message: a dict, as Octavia has unpacked it.
        :raises DBError: if the database cannot be used.
        :raises KeyError, TypeError, AttributeError: if it is no heartbeat.
        """
        now = self._clock()
        if (self._read_at is None or now - self._read_at >=
                self._conf.health_manager.heartbeat_interval / _LOOKS):
            # First, so that a database that is down is asked again later.
            self._read_at = now
            self._watched = view_repo.get_watched(self._engine)
        load_balancer_id = self._watched.get(message.get('id'))
        if load_balancer_id is not None:
            view_repo.record(self._engine, uuidutils.generate_uuid(),
                             load_balancer_id, heartbeat.read(message))
