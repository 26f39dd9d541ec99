# SPDX-License-Identifier: Apache-2.0

"""The threads that look after clusters.

In octavia-housekeeping, or in octavia-hmsync-cluster-manager; any number of
either may run at once.
"""

import functools
import time

from octavia_hmsync.cluster.distribution import backends
from octavia_hmsync.cluster.instances import keeper as instance_keeper
from octavia_hmsync.cluster.keeping import hosts
from octavia_hmsync.cluster.keeping import keeper as cluster_keeper
from octavia_hmsync.cluster.members import ticket_rotation
from octavia_hmsync.cluster import work
from octavia_hmsync.conf import cluster as cluster_conf
from octavia_hmsync import periodic


class ClusterThreads:
    """Keeps clusters, watches distributors and records their reports.

    The owner of .threads, a list of PeriodicThread, starts them.

    :param engine: used only to look whether the tables exist.
    :param measure: instruments.HouseKeepingInstruments, None without an
                    exporter.
    """

    def __init__(self, conf, engine, measure=None):
        self._conf = conf
        self._measure = measure
        interval = conf[cluster_conf.GROUP].keeper_interval
        self._keeper_thread = periodic.PeriodicThread(
            'cluster keeper', lambda: self._keeper.run_once(), interval,
            engine)
        self.threads = [self._keeper_thread, periodic.PeriodicThread(
            'distributor watch', self._watch_distributors, interval, engine),
            periodic.PeriodicThread(
            'probe watch', lambda: self._probe_watch.run_once(), interval,
            engine), periodic.PeriodicThread(
            'distributor instances', self._keep_instances, interval, engine),
            periodic.PeriodicThread(
            'ticket rotation', lambda: self._ticket_rotation.run_once(),
            ticket_rotation.INTERVAL, engine), periodic.PeriodicThread(
            'member hosts', lambda: hosts.record(
                conf, work.get_context().engine), hosts.INTERVAL, engine)]

    def wake(self):
        """Look at clusters now."""
        self._keeper_thread.wake()

    def _watch_distributors(self):
        report = self._distributor_watch.run_once()
        if self._measure:
            self._measure.on_distributors(report.full)
            self._measure.on_repairs(report.repairs)

    def _keep_instances(self):
        # OVN has no distributors to boot.
        if not backends.is_ovn(self._conf):
            self._instance_keeper.run_once()

    # Made at first use, when the configuration has been parsed.

    @functools.cached_property
    def _keeper(self):
        return cluster_keeper.make(self.wake)

    @functools.cached_property
    def _distributor_watch(self):
        return backends.get().make_watch()

    @functools.cached_property
    def _probe_watch(self):
        return backends.get().make_probe_watch(self.wake)

    @functools.cached_property
    def _ticket_rotation(self):
        return ticket_rotation.TicketRotation(work.get_context())

    @functools.cached_property
    def _instance_keeper(self):
        return instance_keeper.make(self._conf, work.get_context().engine)

    def stop(self, timeout):
        """Stop running work at a point where another process can go on.

        :param timeout: seconds to wait.
        """
        if '_probe_watch' in vars(self):
            self._probe_watch.stop()
        deadline = time.monotonic() + timeout
        if '_instance_keeper' in vars(self):
            self._instance_keeper.begin_to_stop()
        if '_keeper' in vars(self):
            self._keeper.stop(timeout)
        if '_instance_keeper' in vars(self):
            self._instance_keeper.stop(max(0, deadline - time.monotonic()))
