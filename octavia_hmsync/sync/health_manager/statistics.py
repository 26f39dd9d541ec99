# SPDX-License-Identifier: Apache-2.0

"""The statistics driver ``hmsync``, by which Octavia shows us heartbeats.

Octavia calls it in separate processes, so that it never delays the
recording of heartbeats.
"""

import os
import time
import typing

from oslo_log import log as logging
from oslo_utils import uuidutils

from octavia_hmsync.amphora import heartbeat
from octavia_hmsync import compat
from octavia_hmsync.compat import heartbeats
from octavia_hmsync.db import api
from octavia_hmsync.sync.db import amphora_view as view_repo
from octavia_hmsync.sync.db import uncounted as uncounted_repo
from octavia_hmsync.sync.health_manager import observer
from octavia_hmsync.sync.health_manager import start

LOG = logging.getLogger(__name__)


class _Selective:
    """Notes heartbeats of few amphorae.

    At rest it runs one small query, .LOOKS times in each heartbeat_interval.
    """

    LOOKS: int

    def __init__(self, conf, engine, clock=time.monotonic):
        self._conf = conf
        self._engine = engine
        self._clock = clock
        self._watched = {}
        self._read_at = None

    def note(self, message):
        """Note a heartbeat, if it is of such an amphora.

        :raises DBError: if the database cannot be used.
        :raises KeyError, TypeError, AttributeError: if it is no heartbeat.
        """
        now = self._clock()
        if (self._read_at is None or now - self._read_at >=
                self._conf.health_manager.heartbeat_interval / self.LOOKS):
            # Before the query, so that a database that is down is asked less.
            self._read_at = now
            self._watched = self._read()
        watched = self._watched.get(message.get('id'))
        if watched is not None:
            self._note(message, watched)

    def _read(self):
        """Return {amphora id: what _note() is to be told of it}."""
        raise NotImplementedError

    def _note(self, message, watched):
        raise NotImplementedError


class ViewRecorder(_Selective):
    """Records heartbeats of load balancers whose amphorae are replaced."""

    LOOKS = 4

    def _read(self):
        return view_repo.get_watched(self._engine)

    def _note(self, message, load_balancer_id):
        view_repo.record(self._engine, uuidutils.generate_uuid(),
                         load_balancer_id, heartbeat.read(message))


class MemberCounter(_Selective):
    """Counts heartbeats that lack only listeners in ERROR; Octavia does not.

    Of members of clusters.
    """

    LOOKS = 1

    def _read(self):
        return uncounted_repo.get(self._engine)

    def _note(self, message, expected):
        # Octavia ignores a heartbeat that has waited for so long.
        is_late = (time.time() - message.get('recv_time', 0) >=
                   self._conf.health_manager.heartbeat_interval)
        listeners = message['listeners'].keys()
        if (not is_late and len(listeners) != expected.number and
                expected.listeners <= listeners):
            uncounted_repo.count(self._engine, message['id'])


class AdoptionStatisticsDriver(heartbeats.StatsDriverMixin):
    """Passes each heartbeat to the adoption observer and the recorder."""

    def __init__(self):
        super().__init__()
        self._observer: typing.Any = None
        self._recorder: typing.Any = None
        self._counter: typing.Any = None
        self._pid = None
        # {what is logged of a failure: the last one}
        self._problems: dict[str, str | None] = {}

    def update_stats(self, listener_stats, deltas=False):
        """Note the amphorae that sent these statistics.

        Never raises: Octavia would log it once per heartbeat.

        :param listener_stats: a list of Octavia's ListenerStatistics. Those
                               of a provider driver have no amphora_id.
        """
        if not self._is_here():
            return
        # The keepalive of this health manager logs a database that is down.
        self._try(self._observe, listener_stats,
                  'The adoption of lists is not observed: %s',
                  'octavia-hmsync: the adoption of lists is not observed:')
        # Called from here, because it inspects the call stack.
        message = heartbeats.find_message()
        if message is not None:
            # A replacement waits for a recorded heartbeat for a while, then
            # goes on without.
            self._try(self._record, message,
                      'What an amphora says is not recorded: %s',
                      'octavia-hmsync: what amphorae say while they are '
                      'replaced is not recorded:')

    def _try(self, function, argument, without_database, failure):
        """Call a function, and log what it raises; a failure once."""
        problem = None
        try:
            self._begin()
            function(argument)
        except Exception as e:
            problem = f'{type(e).__name__}: {e}'
            if api.is_database_error(e):
                LOG.debug(without_database, api.describe(e))
            elif problem != self._problems.get(failure):
                LOG.exception(failure)
        self._problems[failure] = problem

    def _observe(self, listener_stats):
        # An amphora without listeners sends no statistics and no id.
        arrived = {stats.amphora_id: stats.received_time
                   for stats in listener_stats if stats.amphora_id}
        self._observer.observe_any()
        for amphora_id, received_time in arrived.items():
            delay = time.time() - (received_time or time.time())
            self._observer.observe(amphora_id, max(0.0, delay))

    def _record(self, message):
        self._recorder.note(message)
        self._counter.note(message)

    def _is_here(self):
        """Tell whether this is a health manager that runs the plugin."""
        return (compat.service_name() == 'health_manager' and
                'hmsync' in compat.CONF)

    def _begin(self):
        # A database connection must not cross a fork.
        if self._pid == os.getpid():
            return
        engine = api.create_engine(compat.CONF)
        self._observer = observer.AdoptionObserver(compat.CONF, engine,
                                                   start.ID)
        self._recorder = ViewRecorder(compat.CONF, engine)
        self._counter = MemberCounter(compat.CONF, engine)
        self._pid = os.getpid()
