# SPDX-License-Identifier: Apache-2.0

"""A compute host that is emptied while clients use what is on it."""

import json
import sys
import time

from oslotest import base
import sqlalchemy as sa
from testtools import content

from tests.cloud import cluster_world
from tests.cloud import clusters
from tests.cloud import machines

# Open connections of each client.
NUMBER = 20


class TestHostDrain(base.BaseTestCase):
    """A SINGLE load balancer, a pair and a cluster of four, on OVN.

    One client is in their network, one comes by floating IPs.
    """

    TIMEOUT_SCALING_FACTOR = 3

    def setUp(self):
        super().setUp()
        self.cloud = self.useFixture(clusters.ClusterOctavia(
            workers=1, options={
                'hmsync_cluster': {'drain_timeout': 3600},
                # On a busy machine.
                'hmsync_image': {'proof_timeout': 300}}))
        self.addOnException(lambda _: self.addDetail(
            'logs', content.text_content('\n'.join(
                f'--- {child.name}\n{child.log_tail(200)}' for child in
                (*self.cloud.workers, *self.cloud.house_keepers)))))
        self.cloud.wait_until_ready()
        hosts = self.cloud.fabric.hosts
        # Members of pools do not move.
        members = [self.useFixture(machines.Member(
            self.cloud, f'member-{host}', host=host)) for host in hosts]
        self.clients = [
            self.useFixture(machines.Client(self.cloud, 'client',
                                            host=hosts[0])),
            self.useFixture(machines.Client(self.cloud, 'outside',
                                            self.cloud.external_network))]
        make = cluster_world.get_listeners(members, timeout=40000)
        self.load_balancers = {
            'single': self.cloud.add_load_balancer('single', listeners=make),
            'pair': self.cloud.add_load_balancer(
                'pair', 'ACTIVE_STANDBY', listeners=make),
            'cluster': self.cloud.add_cluster('cluster', listeners=make,
                                              desired_size=4, min_size=3)}
        self.ways = {
            name: list(zip(self.clients, (
                lb.vip_address, self.cloud.add_floating_ip(lb.vip_port_id)),
                strict=True))
            for name, lb in self.load_balancers.items()}
        for ways in self.ways.values():
            for client, address in ways:
                client.get(address)
        self.cloud.wait_for(lambda: self.statuses() == {'ONLINE'}, 'ONLINE')

    def statuses(self):
        api = self.cloud.connection.load_balancer
        return {api.get_load_balancer(lb.id).operating_status
                for lb in self.load_balancers.values()}

    def command(self, *arguments):
        return self.cloud.command('octavia-hmsync', 'host', *arguments)

    def read_hosts(self):
        return {row['name']: row for row in json.loads(
            self.command('list', '-f', 'json'))}

    def on_host(self, host):
        """Names of load balancers with an amphora there, one for each."""
        api = self.cloud.connection.load_balancer
        return sorted(
            name for name, lb in self.load_balancers.items()
            for amphora in api.amphorae(loadbalancer_id=lb.id)
            if amphora.status == 'ALLOCATED' and self.cloud.compute.instances[
                amphora.compute_id].host == host)

    def count_draining(self):
        with self.cloud.engine.connect() as connection:
            return connection.execute(sa.text(
                'SELECT COUNT(*) FROM hmsync_cluster_member '
                "WHERE state = 'DRAINING'")).scalar_one()

    def show(self):
        return json.loads(self.cloud.command(
            'octavia-hmsync', 'image', 'rollout', 'show', '-f', 'json'))

    def read_state(self):
        with self.cloud.engine.connect() as connection:
            return connection.execute(sa.text(
                'SELECT state FROM hmsync_image_rollout')).scalar_one()

    def test_drain(self):
        host, other = next(
            (host, [each for each in self.cloud.fabric.hosts
                    if each != host][0])
            for host in self.cloud.fabric.hosts
            if 'single' in self.on_host(host))
        self.assertEqual(['cluster', 'cluster', 'pair', 'single'],
                         self.on_host(host))
        found = self.read_hosts()[host]
        self.assertEqual(
            (4, 3, 1), (found['amphorae'], found['loadbalancers'],
                        found['only_here']))

        error = self.assertRaises(RuntimeError, self.command, 'drain', host)
        self.assertIn('takes new instances', str(error))
        self.cloud.compute.dead_hosts.add(host)
        held = {name: [client.hold(address, NUMBER, timeout=60,
                                   port=cluster_world.TCP_PORT)
                       for client, address in ways]
                for name, ways in self.ways.items()}
        for each in sum(held.values(), []):
            each.wait_until_open(60)
        probes = {name: [client.start_probe(address, rate=20, timeout=10)
                         for client, address in ways]
                  for name, ways in self.ways.items()}
        self.command('drain', host, '--reason', 'disks')
        # A member that leaves keeps its connections, and the next one waits
        # for that.
        self.cloud.wait_for(self.count_draining, 'a member that drains', 300)
        time.sleep(20)
        self.assertEqual(1, self.count_draining())
        self.assertEqual([{}, {}], [each.report().broken
                                    for each in held['cluster']])
        for each in held['cluster']:
            each.stop()
        self.cloud.wait_for(lambda: self.read_state() != 'RUNNING',
                            lambda: f'end of {self.read_state()}', 900)
        self.assertEqual('DONE', self.read_state(), self.show())
        reports = {name: [probe.stop() for probe in each]
                   for name, each in probes.items()}
        lost = {name: sum(len(each.report().broken) for each in held[name])
                for name in ('single', 'pair')}
        print(f'of {2 * NUMBER} each, lost {lost}; {reports}',
              file=sys.__stderr__)
        self.assertEqual([], [report for report in reports['cluster']
                              if report.failed])
        for name in ('single', 'pair'):
            for report in reports[name]:
                # A request that is under way as the VIP moves is cut.
                self.assertLessEqual(report.failed, 2, (name, report))
                self.assertLessEqual(report.dark, 1, (name, report))
        for name in ('single', 'pair'):
            for each in held[name]:
                each.stop()
        self.cloud.wait_for(
            lambda: host not in {each.host for each in
                                 self.cloud.compute.instances.values()},
            'an empty host', 300)
        self.assertEqual(0, self.read_hosts()[host]['amphorae'])
        self.assertEqual(['cluster'] * 4 + ['pair'] * 2 + ['single'],
                         self.on_host(other))
        for lb in self.load_balancers.values():
            self.cloud.wait_until_active(lb.id)
        self.cloud.wait_for(lambda: self.statuses() == {'ONLINE'}, 'ONLINE')
