# SPDX-License-Identifier: Apache-2.0

"""What runs in the main process of octavia-health-manager."""

import threading

from oslo_log import log as logging

from octavia_hmsync.cluster import member_watch
from octavia_hmsync.conf import sync as hmsync_conf
from octavia_hmsync.db import api
from octavia_hmsync import exceptions
from octavia_hmsync.metrics import export
from octavia_hmsync.metrics import instruments
from octavia_hmsync.notifications import outbox
from octavia_hmsync import periodic
from octavia_hmsync.sync import figures
from octavia_hmsync.sync.health_manager import address
from octavia_hmsync.sync.health_manager import guard
from octavia_hmsync.sync.health_manager import keepalive
from octavia_hmsync.sync.health_manager import listener
from octavia_hmsync.sync.health_manager import start

LOG = logging.getLogger(__name__)


class HealthManagerExtension:
    """Writes keepalives while the listener listens, and guards amphorae.

    :param get_pinned: not used here; every extension gets it.
    :raises HMSyncException: with the reason, if it cannot work.
    """

    def __init__(self, conf, get_pinned):
        process = listener.find_process()
        if process is None:
            raise exceptions.HMSyncException(
                'The listener of this health manager ended as it started: '
                'see above in this log for the reason.')
        bind = conf.health_manager
        self._listener = listener.Listener(process, bind.bind_ip,
                                           bind.bind_port)
        self._engine = api.create_engine(conf)
        self._notifier = outbox.Outbox(conf)
        measure = instruments.HealthManagerInstruments()
        self._keepalive = keepalive.Keepalive(
            conf, self._engine, address.load_driver(conf), self._listener,
            start.ID, start_took=start.get_age())
        self._beats = periodic.PeriodicThread(
            'keepalive', self._keepalive.beat,
            conf.hmsync.keepalive_interval, self._engine)
        self._guard = periodic.PeriodicThread(
            'failover guard',
            guard.FailoverGuard(conf, self._engine, self._notifier,
                                measure).run_once,
            conf.hmsync.poll_interval, self._engine)
        self._members = periodic.PeriodicThread(
            'members of clusters',
            member_watch.MemberWatch(conf, self._engine).run_once,
            conf.hmsync.poll_interval, self._engine)
        self._threads = [self._beats, self._members]
        if hmsync_conf.hold_max(conf):
            self._threads.append(self._guard)
        measure.listening.set_function(self._listener.is_listening)
        measure.last_keepalive.set_function(
            lambda: self._keepalive.written_at)
        measure.clock_offset.set_function(
            lambda: self._keepalive.clock_offset)
        self._export = export.Export(
            conf, self._engine, 'health_manager_metrics_address', measure,
            figures.HealthManager(conf, self._engine, start.ID).read,
            self._threads, listener.make_probes(
                conf, listener.Processes(self._listener), self._keepalive,
                self._threads))
        self._watch = threading.Thread(
            target=self._watch_listener, name='hmsync-listener-watch',
            daemon=True)

    def start(self):
        for thread in self._threads:
            thread.start()
        self._watch.start()
        self._export.start()

    def stop(self):
        """Say goodbye."""
        self._guard.stop(timeout=5)
        self._members.stop(timeout=5)
        self._beats.stop(timeout=5)
        try:
            self._keepalive.say_goodbye()
        except Exception as e:
            # Other processes notice the missing keepalives.
            LOG.warning('octavia-hmsync could not say goodbye: %s',
                        api.describe(e))
        self._notifier.close()
        self._export.stop()

    def _watch_listener(self):
        """Wake the keepalive as soon as the listener is gone."""
        try:
            self._listener.wait_for_exit()
        except OSError as e:
            LOG.debug('The end of the listener is not awaited: %s.', e)
            return
        self._beats.wake()
