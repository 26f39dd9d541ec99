# SPDX-License-Identifier: Apache-2.0

"""Serves figures that were read from the database, while they are recent.

A scrape is served from memory. While the database is down, old figures are
not served, since they could silence an alert.
"""

import time

from prometheus_client import core

PREFIX = 'octavia_hmsync_'

# Seconds after the next reading is due until the figures are too old.
_GRACE = 30
# A thread pauses for longer after long work, see periodic.PeriodicThread.
_PAUSE = 12


def gauge(name, text, value=None):
    """Make a metric without labels, or without a value for None."""
    return core.GaugeMetricFamily(PREFIX + name, text, value=value)


def gauge_by(label, name, text, values):
    """Make a metric with one label, from {value of the label: number}."""
    family = core.GaugeMetricFamily(PREFIX + name, text, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family


class DatabaseReading:
    """A collector of the metrics that read() has returned to run_once()."""

    def __init__(self, read, interval, clock=time.monotonic):
        self._read = read
        self._interval = interval
        self._clock = clock
        # (metrics, time of the reading, good until), or None.
        self._last: tuple[list, float, float] | None = None

    def run_once(self):
        """Read the metrics; any error is raised."""
        begun = self._clock()
        try:
            metrics = self._read()
        except Exception:
            self._last = None
            raise
        now = self._clock()
        self._last = (metrics, time.time(), now + _PAUSE * (now - begun) +
                      self._interval + _GRACE)

    def collect(self):
        """Return the metrics, as far as they are recent."""
        last = self._last
        if last is None or self._clock() > last[2]:
            metrics, read_at, is_up = [], None, 0
        else:
            metrics, read_at, is_up = last[0], last[1], 1
        return [
            gauge('database_up', 'Whether the figures from the database are '
                  'up to date; without it they are not served.', is_up),
            gauge('database_read_timestamp_seconds', 'When the figures from '
                  'the database were read, by the clock of this controller.',
                  read_at),
            *metrics]

    def describe(self):
        """Return nothing: the names are unknown before the first reading."""
        return []
