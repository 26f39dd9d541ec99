# SPDX-License-Identifier: Apache-2.0

"""What was read from the database for the metrics, as long as it is true.

A scrape is served from memory. While the database is down nothing is served
of what was read before: an alert must not be calmed by old figures.
"""

import time

from prometheus_client import core

PREFIX = 'octavia_hmsync_'

# Seconds for which figures count as new after the next reading is due.
_GRACE = 30
# A thread that read for long pauses for longer, see periodic.PeriodicThread.
_PAUSE = 12


def gauge(name, text, value=None):
    """Make a metric without labels.

    :param name: without the prefix.
    :param text: what it says.
    :param value: a number, None if there is none now.
    """
    return core.GaugeMetricFamily(PREFIX + name, text, value=value)


def gauge_by(label, name, text, values):
    """Make a metric with one label.

    :param label: its name.
    :param name: without the prefix.
    :param text: what it says.
    :param values: number by value of the label.
    """
    family = core.GaugeMetricFamily(PREFIX + name, text, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family


class DatabaseReading:
    """A collector of what run_once() has read.

    :param read: called without arguments for a list of metrics.
    :param interval: seconds between two calls of run_once().
    :param clock: a monotonic clock, seconds.
    """

    def __init__(self, read, interval, clock=time.monotonic):
        self._read = read
        self._interval = interval
        self._clock = clock
        # (metrics, time of the reading, good until), or None.
        self._last: tuple[list, float, float] | None = None

    def run_once(self):
        """Read.

        :raises Exception: what the reading raised.
        """
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
        """Return what is known now."""
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
        """Return nothing: the names are known when it was read once."""
        return []
