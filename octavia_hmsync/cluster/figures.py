# SPDX-License-Identifier: Apache-2.0

"""Figures of clusters for Prometheus, from the database.

Every housekeeper exports the same ones. What was sent to members distributors
tell it.
"""

import datetime
import time

from prometheus_client import core

from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import distributor as distributor_repo
from octavia_hmsync.cluster.db import figures as figures_repo
from octavia_hmsync.cluster.db import instance as booted_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster.db import traffic as traffic_repo
from octavia_hmsync import compat
from octavia_hmsync.metrics import reading

_PROVISIONING = (compat.ACTIVE, compat.PENDING_CREATE, compat.PENDING_UPDATE,
                 compat.PENDING_DELETE, compat.ERROR)
_OPERATING = (compat.ONLINE, compat.DEGRADED, compat.ERROR, compat.OFFLINE)
_HEALTHS = (member_repo.HEALTHY, member_repo.SUSPECT, member_repo.DEAD)
_ORDERS = (member_repo.DRAIN, member_repo.REPLACE)
_TRAFFIC = (
    (core.CounterMetricFamily, 'bytes_in', 'bytes_in', 'Bytes from clients '
     'to an amphora of a cluster, as Octavia has them.'),
    (core.CounterMetricFamily, 'bytes_out', 'bytes_out', 'Bytes from an '
     'amphora of a cluster to clients, as Octavia has them.'),
    (core.CounterMetricFamily, 'connections', 'total_connections',
     'Connections from clients to an amphora of a cluster, as Octavia has '
     'them.'),
    (core.GaugeMetricFamily, 'active_connections', 'active_connections',
     'Open connections of an amphora of a cluster, as Octavia has them.'))
_SENT = (('packets', 'Packets of clients that a distributor sent to an '
          'amphora of a cluster.'),
         ('bytes', 'Bytes of the packets that a distributor sent to an '
          'amphora of a cluster.'))
# Seconds until distributors are asked again: each counts at all of its VIPs.
_SENT_INTERVAL = 60
_DISTRIBUTORS = (distributor_repo.ONLINE, distributor_repo.OFFLINE)


class Figures:
    """Reads the figures, in three statements.

    And one more where distributors are asked.

    :param ask: called without arguments; asks as traffic.ask().
    """

    def __init__(self, engine, ask, clock=time.monotonic):
        self._engine = engine
        self._ask, self._clock = ask, clock
        self._sent, self._sent_until = [], 0

    def read(self):
        found = figures_repo.read(self._engine)
        return [
            _gauge_by('status', 'clusters', 'Load balancers that have a '
                      'cluster, by provisioning status of that.',
                      _PROVISIONING, found.clusters),
            _gauge_by('status', 'clusters_by_health', 'Clusters by operating '
                      'status.', _OPERATING, found.health),
            _gauge_by('state', 'cluster_members', 'Amphorae of clusters.',
                      member_repo.STATES, found.members),
            _gauge_by('status', 'distributors', 'Distributors, by whether '
                      'they answered when they were last asked.',
                      _DISTRIBUTORS, found.distributors),
            reading.gauge(
                'clusters_below_desired_size', 'Clusters with fewer ACTIVE '
                'members than desired_size.', found.short),
            reading.gauge(
                'clusters_below_min_size', 'Clusters with fewer ACTIVE '
                'members than min_size.', found.failing),
            reading.gauge(
                'clusters_unreachable', 'Clusters without a distributor that '
                'answers, and answers for their VIP.', found.unreachable),
            reading.gauge(
                'distributor_vips_behind', 'VIPs of clusters whose '
                'distributor lacks the newest version.', found.behind),
            _gauge_by('health', 'cluster_members_by_health', 'Amphorae of '
                      'clusters, by health.',
                      _HEALTHS, found.members_by_health),
            _gauge_by('order', 'cluster_orders', 'Amphorae of clusters with '
                      'an order.', _ORDERS, found.orders),
            reading.gauge(
                'clusters_without_standby', 'Clusters with fewer standbys '
                'than they are to have.',
                found.without_standby),
            reading.gauge(
                'cluster_connections_draining', 'Open connections of members '
                'that drain, as of the last look.', found.draining),
            reading.gauge(
                'distributors_drained', 'Distributors that an operator has '
                'drained.', found.drained),
            reading.gauge_by(
                'distributor',
                'distributor_certificate_ends_timestamp_seconds', 'When the '
                'first certificate of a distributor ends, as it told last.',
                self._read_certificate_ends()),
            _gauge_by('state', 'distributor_instances', 'Distributors that '
                      'housekeeping has booted, or boots.',
                      booted_repo.STATES, found.booted),
            _gauge_by('distributor', 'distributor_active_vips', 'VIPs of '
                      'clusters that clients reach by this distributor.', (),
                      found.active_vips),
            *self._read_traffic(), *self._read_sent()]

    def _read_certificate_ends(self):
        return {one.name: one.certificate_expires_at.replace(
            tzinfo=datetime.timezone.utc).timestamp()
            for one in distributor_repo.get_enabled(self._engine)
            if one.certificate_expires_at is not None}

    def _read_traffic(self):
        """Yield the figures that heartbeats of members tell."""
        found = traffic_repo.get_all(self._engine).values()
        for kind, name, field, text in _TRAFFIC:
            family = kind(f'{reading.PREFIX}cluster_member_{name}', text,
                          labels=['loadbalancer_id', 'amphora_id'])
            for one in found:
                family.add_metric([one.load_balancer_id, one.amphora_id],
                                  getattr(one, field))
            yield family

    def _read_sent(self):
        """Yield the figures that distributors tell."""
        if self._clock() >= self._sent_until:
            self._sent = self._ask_for_sent()
            self._sent_until = self._clock() + _SENT_INTERVAL
        for number, (name, text) in enumerate(_SENT):
            family = core.CounterMetricFamily(
                f'{reading.PREFIX}cluster_member_{name}', text,
                labels=['loadbalancer_id', 'amphora_id', 'distributor'])
            for labels, counted in self._sent:
                family.add_metric(labels, counted[number])
            yield family

    def _ask_for_sent(self):
        load_balancers = {
            one.id: one.load_balancer_id
            for one in cluster_repo.get_all(self._engine)}
        found = self._ask() if load_balancers else {}
        return [([load_balancers[cluster_id], amphora_id, distributor],
                 counted) for distributor, sent in found.items()
                for (cluster_id, amphora_id), counted in sent.items()
                if cluster_id in load_balancers]


def _gauge_by(label, name, text, all_labels, found):
    return reading.gauge_by(label, name, text,
                            {**dict.fromkeys(all_labels, 0), **found})
