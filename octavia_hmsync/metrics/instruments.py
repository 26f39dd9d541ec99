# SPDX-License-Identifier: Apache-2.0

"""What a service counts while it works.

It counts whether Prometheus scrapes or not, at about a microsecond each. The
other modules of this package have the figures from the database.
"""

import contextlib
import math

import prometheus_client
from prometheus_client import core

from octavia_hmsync.amphora import upload_result
from octavia_hmsync import version

PUBLISHED = 'published'
UNCHANGED = 'unchanged'
HELD = 'held'
LOST_RACE = 'lost_race'

_SECONDS = (.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30)


class Instruments:
    """What both services, health_manager and house_keeping, count."""

    def __init__(self, service):
        self.registry = prometheus_client.CollectorRegistry()
        prometheus_client.Gauge(
            'octavia_hmsync_build_info', 'Release of the plugin; always 1.',
            ['service', 'version'], registry=self.registry).labels(
                service, version.version_string()).set(1)

    def watch(self, threads):
        """Measure periodic threads, such as periodic.PeriodicThread."""
        self.registry.register(_ThreadCollector(threads))


class HealthManagerInstruments(Instruments):
    """What a health manager counts."""

    def __init__(self):
        super().__init__('health_manager')
        self.listening = prometheus_client.Gauge(
            'octavia_hmsync_listening',
            'Whether this health manager listens for heartbeats.',
            registry=self.registry)
        self.last_keepalive = prometheus_client.Gauge(
            'octavia_hmsync_last_keepalive_timestamp_seconds',
            'When this health manager wrote its last keepalive, by its own '
            'clock; 0 for never.', registry=self.registry)
        self.clock_offset = prometheus_client.Gauge(
            'octavia_hmsync_clock_offset_seconds',
            'How far the clock of this controller is ahead of the '
            'database\'s, at the last keepalive.', registry=self.registry)
        self.clock_offset.set(math.nan)
        self.holds = prometheus_client.Counter(
            'octavia_hmsync_holds',
            'Holds that the failover guard of this health manager has begun.',
            registry=self.registry)


class HouseKeepingInstruments(Instruments):
    """What a housekeeper counts."""

    def __init__(self):
        super().__init__('house_keeping')
        self._uploads = prometheus_client.Histogram(
            'octavia_hmsync_upload_duration_seconds',
            'Uploads by this process that ended, by result.', ['result'],
            buckets=_SECONDS, registry=self.registry)
        self._uploads_of = {result: self._uploads.labels(result)
                            for result in upload_result.ALL}
        self.uploads_in_flight = prometheus_client.Gauge(
            'octavia_hmsync_uploads_in_flight',
            'Uploads by this process that are under way.',
            registry=self.registry)
        self._decisions = prometheus_client.Counter(
            'octavia_hmsync_plan_decisions',
            'Looks of this housekeeper at the membership, by what came of '
            'them.', ['decision'], registry=self.registry)
        for decision in (PUBLISHED, UNCHANGED, HELD, LOST_RACE):
            self._decisions.labels(decision)
        self._load_balancers = prometheus_client.Gauge(
            'octavia_hmsync_image_load_balancers',
            'Load balancers, by whether they have not their newest image; '
            'absent while this housekeeper cannot tell.', ['outdated'],
            registry=self.registry)
        self._outdated = prometheus_client.Gauge(
            'octavia_hmsync_image_outdated_load_balancers',
            'Load balancers that have not their newest image, by whether '
            'they may get it.', ['state'], registry=self.registry)
        self._full = prometheus_client.Gauge(
            'octavia_hmsync_distributor_full',
            'Whether a distributor remembers no more connections when members '
            'change, of one load balancer or of all, or its Open vSwitch has '
            'no room for more in its cache; absent while it does not answer '
            'this housekeeper.', ['distributor'],
            registry=self.registry)
        self._repairs = prometheus_client.Counter(
            'octavia_hmsync_cluster_repairs',
            'Ports and security groups of clusters that somebody deleted or '
            'changed in Neutron, and that this housekeeper has repaired.',
            ['what'], registry=self.registry)
        self.plan_held = prometheus_client.Gauge(
            'octavia_hmsync_plan_held',
            'Whether a change of the list that would be due is held back; '
            'NaN while this housekeeper cannot tell.',
            registry=self.registry)

    def on_upload_ended(self, answer, seconds):
        self._uploads_of[answer.result].observe(seconds)

    def on_decision(self, decision):
        """Count a look, PUBLISHED, UNCHANGED, HELD or LOST_RACE."""
        self._decisions.labels(decision).inc()

    def on_distributors(self, full):
        """Set {name of a distributor: whether it is full}."""
        self._full.clear()
        for name, is_full in full.items():
            self._full.labels(name).set(is_full)

    def on_repairs(self, repairs):
        """Count repairs in Neutron.

        :param repairs: {what was repaired: number}.
        """
        for what, number in repairs.items():
            self._repairs.labels(what).inc(number)

    def on_survey(self, load_balancers, outdated):
        """Set how many load balancers are outdated.

        :param load_balancers: {NO, YES, MIXED or UNKNOWN: number}; empty while
                               unknown.
        :param outdated: {READY, PENDING, BLOCKED or EXCLUDED: number},
                         likewise.
        """
        for gauge, numbers in ((self._load_balancers, load_balancers),
                               (self._outdated, outdated)):
            gauge.clear()
            for key, number in numbers.items():
                gauge.labels(key).set(number)


class _ThreadCollector:
    def __init__(self, threads):
        self._threads = threads

    def collect(self):
        succeeded = core.GaugeMetricFamily(
            'octavia_hmsync_thread_last_success_timestamp_seconds',
            'When a periodic thread did its work for the last time, by the '
            'clock of its controller; 0 for never.', labels=['thread'])
        failures = core.CounterMetricFamily(
            'octavia_hmsync_thread_failures',
            'How often a periodic thread could not do its work.',
            labels=['thread'])
        for thread in self._threads:
            succeeded.add_metric([thread.name], thread.succeeded_at)
            failures.add_metric([thread.name], thread.failures)
        return [succeeded, failures]


@contextlib.contextmanager
def unknown_if_it_fails(gauge):
    """Set a gauge to NaN when the work on it fails."""
    try:
        yield
    except Exception:
        gauge.set(math.nan)
        raise
