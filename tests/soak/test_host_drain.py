# SPDX-License-Identifier: Apache-2.0

"""A compute host that is emptied while clients use what is on it."""

import json
import time

import sqlalchemy as sa

from tests.soak import traffic


class TestHostDrain(traffic.TrafficTestCase):

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
        self.begin()
        self.command('drain', host, '--reason', 'disks')
        # A member that leaves keeps its connections, and the next one waits
        # for that.
        self.cloud.wait_for(self.count_draining, 'a member that drains', 300)
        time.sleep(20)
        self.assertEqual(1, self.count_draining())
        self.assertEqual([{}, {}], [each.report().broken
                                    for each in self.held['cluster']])
        for each in self.held['cluster']:
            each.stop()
        self.cloud.wait_for(lambda: self.read_state() != 'RUNNING',
                            lambda: f'end of {self.read_state()}', 900)
        self.assertEqual('DONE', self.read_state(), self.show())
        self.assertHardlyNoticed()
        self.cloud.wait_for(
            lambda: host not in {each.host for each in
                                 self.cloud.compute.instances.values()},
            'an empty host', 300)
        self.assertEqual(0, self.read_hosts()[host]['amphorae'])
        self.assertEqual(['cluster'] * 4 + ['pair'] * 2 + ['single'],
                         self.on_host(other))
        self.assertHealthy()
