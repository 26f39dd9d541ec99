# SPDX-License-Identifier: Apache-2.0

"""Starts the metrics and probes of a service, for its extension."""

from octavia_hmsync.metrics import exporter
from octavia_hmsync.metrics import reading
from octavia_hmsync import periodic

# Seconds between two readings of the database: each costs some twenty SELECTs
# in each housekeeper, some of which go through all amphorae.
INTERVAL = 10


class Export:
    """Serves what a service counts, and what it reads from the database.

    Does nothing while the address is not set.

    :param read: called without arguments, returns a list of metrics from the
                 database.
    """

    def __init__(self, conf, engine, option, measure, read, threads, probes):
        self._exporter = exporter.Exporter(option, conf.hmsync[option],
                                           probes, measure.registry)
        read_database = reading.DatabaseReading(read, INTERVAL)
        self._thread = periodic.PeriodicThread(
            'metrics', read_database.run_once, INTERVAL, engine)
        measure.registry.register(read_database)
        measure.watch([*threads, self._thread])

    def start(self):
        """Begin; a problem is logged, never raised."""
        if self._exporter.start():
            self._thread.start()

    def stop(self):
        """End, without waiting for a query that hangs."""
        self._thread.stop(timeout=1)
        self._exporter.stop(timeout=1)
