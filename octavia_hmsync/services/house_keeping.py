# SPDX-License-Identifier: Apache-2.0

"""What runs in octavia-housekeeping."""

import functools

from octavia_hmsync.cluster.distribution.ovs import traffic
from octavia_hmsync.cluster import figures as cluster_figures
from octavia_hmsync.cluster import image_replacement
from octavia_hmsync.cluster.keeping import threads as cluster_threads
from octavia_hmsync import compat
from octavia_hmsync.conf import cluster as cluster_conf
from octavia_hmsync.conf import image as image_conf
from octavia_hmsync.conf import network as network_conf
from octavia_hmsync.db import api
from octavia_hmsync.image import figures as image_figures
from octavia_hmsync.image import replacer
from octavia_hmsync.image.rollout import keeper as rollout_keeper
from octavia_hmsync.metrics import export
from octavia_hmsync.metrics import instruments
from octavia_hmsync.metrics import probes
from octavia_hmsync.network import port_retention
from octavia_hmsync.network import reconcile
from octavia_hmsync.notifications import outbox
from octavia_hmsync import periodic
from octavia_hmsync.services import announcer
from octavia_hmsync.sync import figures as sync_figures
from octavia_hmsync.sync.house_keeping import adoption_watch
from octavia_hmsync.sync.house_keeping import delegate
from octavia_hmsync.sync.house_keeping import planner
from octavia_hmsync.sync.house_keeping import synchronizer

# Connections for all batches together, and seconds for which a batch waits
# for one: a result that a batch cannot record means a second upload.
_BATCH_CONNECTIONS = 4
_PATIENCE = 60


class HouseKeepingExtension:
    """Plans lists, uploads them to amphorae, and checks their adoption.

    Each task has its own thread, so that a sync of a large fleet does not
    delay the next plan.

    :param get_pinned: called for the addresses that the configuration file
                       lists.
    :raises DatabaseUnavailable: if the database URL cannot be used.
    """

    def __init__(self, conf, get_pinned):
        self._conf = conf
        compat.limit_requests()
        self._engine = api.create_engine(conf)
        self._notifier = outbox.Outbox(conf)
        self._measure = instruments.HouseKeepingInstruments()
        self._planner = planner.Planner(conf, self._engine, get_pinned,
                                        notifier=self._notifier,
                                        measure=self._measure,
                                        purge=functools.partial(
                                            rollout_keeper.purge, conf,
                                            self._engine),
                                        get_problem=self._get_problem)
        self._sync_thread = self._thread('synchronizer', self._sync)
        self._threads = [
            self._thread('planner', self._plan), self._sync_thread,
            self._thread('adoption watch', adoption_watch.AdoptionWatch(
                conf, self._engine, notifier=self._notifier).run_once)]
        polling = list(self._threads)
        self._threads.append(self._thread(
            'announcer', announcer.Announcer(
                self._engine, self._notifier).run_once))
        self._replace_thread = self._thread(
            'replacer', lambda: self._replacer.run_once())
        self._threads.append(self._replace_thread)
        self._clusters = None
        if conf[cluster_conf.GROUP].keep_in_housekeeping:
            self._clusters = cluster_threads.ClusterThreads(
                conf, self._engine, self._measure)
            self._threads += self._clusters.threads
        interval = conf[network_conf.GROUP].reconcile_interval
        if interval:
            self._threads.append(periodic.PeriodicThread(
                'management network', reconcile.Reconciler(
                    conf, self._engine).run_once, interval, self._engine))
            self._threads.append(periodic.PeriodicThread(
                'port retention', port_retention.PortRetention(
                    conf, self._engine).run_once, interval, self._engine))
        if conf.hmsync.house_keeping_metrics_address.strip():
            self._threads.append(periodic.PeriodicThread(
                'image survey', image_figures.Survey(
                    conf, self._engine, self._measure).run_once,
                image_figures.INTERVAL, self._engine))
        self._delegate = None
        if conf.task_flow.jobboard_enabled:
            self._delegate = delegate.Delegate(conf, self._engine)
            self._jobboard_thread = self._thread('jobboard',
                                                 self._delegate.run_once)
            self._threads.append(self._jobboard_thread)
        self._export = export.Export(
            conf, self._engine, 'house_keeping_metrics_address',
            self._measure, self._make_reader(),
            self._threads, probes.Probes(
                lambda: probes.find_ended(self._threads),
                lambda: probes.find_overdue(
                    polling, conf.hmsync.poll_interval)))

    def _make_reader(self):
        readers = (sync_figures.Fleet(self._conf, self._engine).read,
                   image_figures.Figures(self._engine).read,
                   cluster_figures.Figures(
                       self._engine, lambda: traffic.ask(
                           self._conf, self._engine)).read)
        return lambda: [metric for read in readers for metric in read()]

    def _thread(self, name, function):
        return periodic.PeriodicThread(
            name, function, self._conf.hmsync.poll_interval, self._engine)

    @functools.cached_property
    def _synchronizer(self):
        return synchronizer.Synchronizer(
            self._conf, self._engine,
            api.create_engine(self._conf, _BATCH_CONNECTIONS, _PATIENCE),
            self._sync_thread.wake, self._delegate, self._notifier,
            self._measure)

    @functools.cached_property
    def _replacer(self):
        return replacer.Replacer(
            self._conf, api.create_engine(
                self._conf,
                self._conf[image_conf.GROUP].replacements_at_once + 1,
                _PATIENCE), self._replace_thread.wake,
            {compat.TOPOLOGY_ACTIVE_ACTIVE: image_replacement.Ordered})

    def start(self):
        for thread in self._threads:
            thread.start()
        self._export.start()

    def stop(self):
        """Let running batches end, and begin nothing more."""
        if self._delegate:
            self._delegate.stop()
        for thread in self._threads:
            thread.stop(timeout=5)
        # Made at first use; no thread can be started any more while the
        # interpreter ends.
        if '_synchronizer' in vars(self):
            self._synchronizer.stop()
        if '_replacer' in vars(self):
            self._replacer.stop(timeout=5)
        if self._clusters:
            self._clusters.stop(timeout=5)
        self._notifier.close()
        self._export.stop()

    def _plan(self):
        if self._planner.run_once():
            self._sync_thread.wake()
            if self._delegate:
                self._jobboard_thread.wake()

    def _sync(self):
        self._synchronizer.work()

    def _get_problem(self):
        # While the batches have no engine, the planner has none either.
        return (self._synchronizer.problem
                if '_synchronizer' in vars(self) else None)
