# SPDX-License-Identifier: Apache-2.0

"""A compute host that is held while it has no power, and an evacuation."""

import datetime
import json
import sys
import time

from oslotest import base
from testtools import content

from tests.cloud import cluster_world
from tests.cloud import clusters
from tests.cloud import machines
from tests.cloud import records

SILENCE = 20


class TestHostHold(base.BaseTestCase):
    """A SINGLE load balancer, a pair, and a cluster of four, on OVN.

    A last one has no listeners.
    """

    TIMEOUT_SCALING_FACTOR = 3

    def setUp(self):
        super().setUp()
        self.cloud = self.useFixture(clusters.ClusterOctavia(
            workers=1, options={
                'health_manager': {'heartbeat_timeout': SILENCE}}))
        self.addOnException(lambda _: self.addDetail(
            'logs', content.text_content('\n'.join(
                f'--- {child.name}\n{child.log_tail(200)}' for child in
                self.cloud.controllers))))
        self.cloud.wait_until_ready()
        self.hosts = self.cloud.fabric.hosts
        member = self.useFixture(machines.Member(self.cloud, 'member',
                                                 host=self.hosts[0]))
        self.client = self.useFixture(machines.Client(
            self.cloud, 'client', host=self.hosts[0]))
        make = cluster_world.get_listeners([member])
        self.lbs = {
            'single': self.cloud.add_load_balancer('single', listeners=make),
            'pair': self.cloud.add_load_balancer(
                'pair', 'ACTIVE_STANDBY', listeners=make),
            'cluster': self.cloud.add_cluster(
                'cluster', listeners=make, desired_size=4, min_size=2),
            'bare': self.cloud.add_load_balancer('bare')}

    def command(self, *arguments):
        return self.cloud.command('octavia-hmsync', 'host', *arguments)

    def evacuated(self):
        return [amphora_id for row in json.loads(self.command(
            'list', '-f', 'json', '--long')) for amphora_id in
            row['evacuated']]

    def amphorae(self, name):
        """{id: host} of amphorae that should serve."""
        return {
            amphora.id: self.cloud.compute.instances[amphora.compute_id].host
            for amphora in self.cloud.connection.load_balancer.amphorae(
                loadbalancer_id=self.lbs[name].id)
            if amphora.status == 'ALLOCATED' and
            amphora.compute_id in self.cloud.compute.instances}

    def wait_until_replaced(self, name, gone, size):
        self.cloud.wait_for(
            lambda: len(self.amphorae(name)) == size and not (
                set(gone) & set(self.amphorae(name))),
            lambda: f'new amphorae of {name} ({self.amphorae(name)})', 400)
        self.cloud.wait_until_active(self.lbs[name].id, 240)

    def say(self, text):
        print(f'{time.monotonic():9.1f} {text}', file=sys.__stderr__,
              flush=True)

    def test_hold(self):
        (single, host), = self.amphorae('single').items()
        before = {name: self.amphorae(name) for name in ('pair', 'cluster')}
        dead = {name: [amphora_id for amphora_id, place in known.items()
                       if place == host] for name, known in before.items()}
        self.assertEqual((1, 2), (len(dead['pair']), len(dead['cluster'])))
        self.say(self.command(
            'hold', host, '--until', (records.utcnow() + datetime.timedelta(
                hours=1)).isoformat(), '--reason', 'kernel'))
        self.cloud.compute.dead_hosts.add(host)
        probes = {name: self.client.start_probe(
            self.lbs[name].vip_address, rate=20, timeout=5)
            for name in before}
        for booted in list(self.cloud.compute.instances.values()):
            if booted.host == host:
                booted.kill_tree()
        self.say('no power')
        self.wait_until_replaced('single', [single], 1)
        self.say('single is replaced')
        time.sleep(3 * SILENCE)
        self.assertEqual(before, {name: self.amphorae(name)
                                  for name in before})
        for name, probe in probes.items():
            report = probe.stop()
            self.say(f'{name}: {report}')
            self.assertLess(report.dark, 10, report)
            self.client.get(self.lbs[name].vip_address)
        self.say(self.command('release', host))
        self.wait_until_replaced('pair', dead['pair'], 2)
        self.wait_until_replaced('cluster', dead['cluster'], 4)
        self.say('all are replaced')

        # An evacuation, from images.
        (bare, _), = self.amphorae('bare').items()
        one = min(self.amphorae('pair'))
        self.cloud.compute.dead_hosts.clear()
        for amphora_id in (bare, one):
            booted = self.cloud.compute.by_amphora(amphora_id)
            self.cloud.compute.evacuate(
                booted, next(each for each in self.hosts
                             if each != booted.host))
        self.say('evacuated')
        self.assertEqual({bare, one}, set(self.evacuated()))
        self.wait_until_replaced('pair', [one], 2)
        self.say('pair is replaced')
        time.sleep(SILENCE)
        self.assertEqual([bare], list(self.amphorae('bare')))
        self.assertEqual([bare], self.evacuated())
        self.assertEqual('ACTIVE', self.cloud.connection.load_balancer
                         .get_load_balancer(self.lbs['bare'].id)
                         .provisioning_status)
        self.assertNotIn('eth1', self.cloud.compute.by_amphora(
            bare).run_inside('ip', '-o', 'link').stdout)
        self.cloud.connection.load_balancer.failover_amphora(bare)
        self.wait_until_replaced('bare', [bare], 1)
        self.assertEqual([], self.evacuated())
