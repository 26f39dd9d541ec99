# SPDX-License-Identifier: Apache-2.0

"""What Prometheus is told of clusters."""

import prometheus_client

from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import distributor as distributor_repo
from octavia_hmsync.cluster.db import distributor_vip as vip_repo
from octavia_hmsync.cluster.db import instance as booted_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster import figures
from octavia_hmsync.metrics import reading
from tests.cloud import records
from tests.db_cases import base
from tests.db_cases.cluster import calls as cluster_calls


class ClusterFiguresCases(base.DatabaseTestCase):

    QUIET = {'cluster_members_by_health': {}, 'cluster_orders': {},
             'clusters_without_standby': 0,
             'cluster_connections_draining': 0, 'distributors_drained': 0,
             'distributor_instances': {}}

    def setUp(self):
        super().setUp()
        self.sent, self.now, self.asked = {}, 0, 0
        self.subject = figures.Figures(self.engine, self.ask,
                                       lambda: self.now)

    def ask(self):
        self.asked += 1
        return self.sent

    def values(self):
        """{name: number}, or {name: {label: number}} without zeros."""
        found = {}
        for family in self.subject.read():
            name = family.name.removeprefix(reading.PREFIX)
            for sample in family.samples:
                if not sample.labels:
                    found[name] = sample.value
                    continue
                labels = found.setdefault(name, {})
                if sample.value:
                    label, = sample.labels.values()
                    labels[label] = sample.value
        return found

    def make(self, number=1, active=3, status='ACTIVE', health='ONLINE'):
        """Have a cluster of three, at least two, on two distributors."""
        cluster_id = f'cluster{number}'
        cluster_repo.add(self.engine, cluster_calls.new(number,
                                                        desired_size=3))
        cluster_repo.set_status(self.engine, cluster_id, status, health)
        for n in range(3):
            member_id = f'member{number}{n}'
            member_repo.add(self.engine, cluster_id, member_id, 3)
            member_repo.set_state(
                self.engine, member_id, ('BUILDING',),
                'ACTIVE' if n < active else 'FAILED')
        self.distributors = distributor_repo.sync(
            self.engine, cluster_calls.DRIVER, cluster_calls.DISTRIBUTORS)
        for each in self.distributors:
            distributor_repo.set_status(self.engine, each.id, 'ONLINE')
            vip_repo.add(self.engine, cluster_id, each.id)
        vip_repo.set_active(self.engine, cluster_id, self.distributors[0].id)
        self.apply(cluster_id)
        return cluster_id

    def apply(self, cluster_id):
        version = cluster_repo.get(self.engine, cluster_id).version
        for vip in vip_repo.get_of_cluster(self.engine, cluster_id):
            vip_repo.record_applied(self.engine, vip.id, version, vip.active)

    def test_sent(self):
        """By each distributor, which is asked once in a minute."""
        self.values()
        self.assertEqual(0, self.asked)
        self.now += 60
        self.make()
        self.sent = {'network1': {('cluster1', 'amp10'): (2 ** 33, 2 ** 40),
                                  ('cluster9', 'amp90'): (5, 6)},
                     'network2': {('cluster1', 'amp10'): (3, 4)}}
        of = cluster_calls.new(1).load_balancer_id
        for number, name in enumerate(('packets', 'bytes')):
            found, = [one for one in self.subject.read()
                      if one.name == f'{reading.PREFIX}cluster_member_{name}']
            self.assertEqual(
                [({'loadbalancer_id': of, 'amphora_id': 'amp10',
                   'distributor': distributor}, counts[number])
                 for distributor, counts in (
                     ('network1', (2 ** 33, 2 ** 40)),
                     ('network2', (3, 4)))],
                [(one.labels, one.value) for one in found.samples])
        self.assertEqual(1, self.asked)
        self.now += 60
        self.subject.read()
        self.assertEqual(2, self.asked)

    def test_traffic(self):
        """Of each member, at all of its listeners."""
        self.make()
        amphora_id, other = records.new_id(), records.new_id()
        member_repo.assign_amphora(self.engine, 'member10', amphora_id)
        self.records.insert_all({'listener_statistics': [
            {'listener_id': records.new_id(), 'amphora_id': one,
             'bytes_in': 2 ** 33, 'bytes_out': 20, 'active_connections': 3,
             'total_connections': 40, 'request_errors': 0}
            # One of them is no member of a cluster.
            for one in (amphora_id, amphora_id, other)]})
        text = prometheus_client.generate_latest(
            _Collector(self.subject)).decode()
        labels = (f'{{amphora_id="{amphora_id}",'
                  f'loadbalancer_id="{cluster_calls.new(1).load_balancer_id}"'
                  f'}}')
        found = {
            name: float(number) for name, number in (
                line.rsplit(' ', 1) for line in text.splitlines())
            if name.startswith(f'{reading.PREFIX}cluster_member_')}
        self.assertEqual({
            f'{reading.PREFIX}cluster_member_{name}{labels}': number
            for name, number in (
                ('bytes_in_total', 2 ** 34), ('bytes_out_total', 40),
                ('connections_total', 80), ('active_connections', 6))},
            found)

    def test_empty(self):
        self.assertEqual({
            'clusters': {}, 'clusters_by_health': {}, 'cluster_members': {},
            'distributors': {}, 'clusters_below_desired_size': 0,
            'clusters_below_min_size': 0, 'clusters_unreachable': 0,
            'distributor_vips_behind': 0, **self.QUIET}, self.values())
        # What there is none of is 0, and not absent.
        text = prometheus_client.generate_latest(_Collector(self.subject))
        for line in (b'clusters{status="PENDING_CREATE"} 0.0',
                     b'clusters_by_health{status="DEGRADED"} 0.0',
                     b'cluster_members{state="STANDBY"} 0.0',
                     b'distributors{status="OFFLINE"} 0.0'):
            self.assertIn(line, text)

    def test_all_is_well(self):
        self.make()
        self.make(2)
        self.assertEqual({
            'clusters': {'ACTIVE': 2}, 'clusters_by_health': {'ONLINE': 2},
            'cluster_members': {'ACTIVE': 6}, 'distributors': {'ONLINE': 2},
            'clusters_below_desired_size': 0, 'clusters_below_min_size': 0,
            'clusters_unreachable': 0, 'distributor_vips_behind': 0,
            **self.QUIET, 'cluster_members_by_health': {'HEALTHY': 6},
            'distributor_active_vips': {'network1': 2}},
            self.values())

    def assertValues(self, **expected):
        found = self.values()
        self.assertEqual(expected, {name: found[name] for name in expected})

    def test_members_are_missing(self):
        self.make(1, active=2, health='DEGRADED')
        self.make(2, active=1, health='ERROR', status='ERROR')
        # Of those that come and go nothing is missing.
        self.make(3, active=0, status='PENDING_CREATE')
        self.make(4, active=0, status='PENDING_DELETE')
        self.assertValues(
            clusters={'ACTIVE': 1, 'ERROR': 1, 'PENDING_CREATE': 1,
                      'PENDING_DELETE': 1},
            clusters_by_health={'DEGRADED': 1, 'ERROR': 1, 'ONLINE': 2},
            cluster_members={'ACTIVE': 3, 'FAILED': 9},
            clusters_below_desired_size=2, clusters_below_min_size=1)

    def test_distributors(self):
        cluster_id = self.make()
        one, two = self.distributors
        cluster_repo.set_affinity(self.engine, cluster_id, 'SOURCE_IP')
        self.assertValues(distributor_vips_behind=2, clusters_unreachable=0)
        self.apply(cluster_id)
        # The second one is not active.
        distributor_repo.set_status(self.engine, two.id, 'OFFLINE')
        self.assertValues(distributors={'ONLINE': 1, 'OFFLINE': 1},
                          clusters_unreachable=0, distributor_vips_behind=0)
        # Open vSwitch has lost it.
        vip = vip_repo.get_of_cluster(self.engine, cluster_id)[0]
        vip_repo.forget_applied(self.engine, vip.id, vip.applied_version)
        self.assertValues(clusters_unreachable=1, distributor_vips_behind=1)
        self.apply(cluster_id)
        distributor_repo.set_status(self.engine, one.id, 'OFFLINE')
        self.assertValues(distributors={'OFFLINE': 2},
                          clusters_unreachable=1)

    def test_one_that_left_the_option(self):
        self.make()
        distributor_repo.sync(self.engine, cluster_calls.DRIVER,
                              {'network1': 'https://network1:9444'})
        self.assertValues(distributors={'ONLINE': 1})

    def test_what_is_ordered_and_seen(self):
        cluster_id = self.make()
        self.make(2)
        cluster_repo.set_sizes(self.engine, cluster_id, standby=1)
        member_repo.set_order(self.engine, 'member10', 'DRAIN')
        for member_id in ('member11', 'member21'):
            member_repo.set_order(self.engine, member_id, 'REPLACE')
        for member_id, health in (('member10', 'HEALTHY'),
                                  ('member11', 'SUSPECT'),
                                  ('member20', 'DEAD')):
            member_repo.set_health(self.engine, member_id, health)
        for member_id in ('member10', 'member11'):
            member_repo.record(self.engine, member_id, connections=7)
        member_repo.set_state(self.engine, 'member10', ('ACTIVE',),
                              'DRAINING')
        distributor_repo.drain(self.engine, self.distributors[0].id)
        self.assertValues(
            cluster_members_by_health={'HEALTHY': 4, 'SUSPECT': 1, 'DEAD': 1},
            cluster_orders={'DRAIN': 1, 'REPLACE': 2},
            clusters_without_standby=1, cluster_connections_draining=7,
            distributors_drained=1)

    def test_certificates(self):
        """When they end; of who does not say nothing is known."""
        self.make()
        one, two = self.distributors
        # 2030-01-01 in UTC.
        end = 1893456000
        for each in (end, end + 86400):
            distributor_repo.set_status(self.engine, one.id, 'ONLINE', None,
                                        each)
            distributor_repo.set_status(self.engine, two.id, 'ONLINE')
            self.assertValues(distributor_certificate_ends_timestamp_seconds={
                one.name: each})
        distributor_repo.set_status(self.engine, two.id, 'OFFLINE', None, end)
        self.assertValues(distributor_certificate_ends_timestamp_seconds={
            one.name: end + 86400, two.name: end})
        # The option does not name it any more.
        distributor_repo.sync(self.engine, one.driver, {one.name: one.url})
        self.assertValues(distributor_certificate_ends_timestamp_seconds={
            one.name: end + 86400})

    def test_booted(self):
        for number, state in enumerate(('BUILDING', 'READY', 'READY')):
            known = [one.id for one in booted_repo.get_all(self.engine)]
            instance_id = f'00000000-0000-4000-8000-00000000000{number}'
            booted_repo.reserve(self.engine, instance_id, known, 'owner', 60)
            booted_repo.record(self.engine, instance_id, 'owner', 60,
                               state=state)
        self.assertEqual({'BUILDING': 1, 'READY': 2},
                         self.values()['distributor_instances'])

    def test_three_statements(self):
        self.make()
        # Distributors were asked a moment ago.
        self.subject.read()
        with self.count_statements() as statements:
            self.subject.read()
        self.assertEqual(3, len(statements), statements)


class _Collector:

    def __init__(self, subject):
        self._subject = subject

    def collect(self):
        return self._subject.read()
