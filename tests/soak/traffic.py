# SPDX-License-Identifier: Apache-2.0

"""Load balancers that clients use while their amphorae are replaced."""

import sys

from oslotest import base
from testtools import content

from tests.cloud import cluster_world
from tests.cloud import clusters
from tests.cloud import machines
from tests.cloud import octavia_conf

# Open connections of each client.
NUMBER = 20


class TrafficTestCase(base.BaseTestCase):
    """A SINGLE load balancer, a pair and a cluster, on OVN.

    One client is in their network, one comes by floating IPs.
    """

    TIMEOUT_SCALING_FACTOR = 3
    kind = clusters.ClusterOctavia
    options: dict = {}
    cluster_size = 4
    # Seconds.
    drain_timeout = 3600

    def setUp(self):
        super().setUp()
        self.cloud = self.useFixture(self.kind(
            workers=1, options=octavia_conf.merge({
                'hmsync_cluster': {'drain_timeout': self.drain_timeout},
                # On a busy machine.
                'hmsync_image': {'proof_timeout': 300}}, self.options)))
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
                                              desired_size=self.cluster_size,
                                              min_size=self.cluster_size - 1)}
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

    def begin(self):
        """Have clients hold connections, and ask all the time."""
        self.held = {name: [client.hold(address, NUMBER, timeout=60,
                                        port=cluster_world.TCP_PORT)
                            for client, address in ways]
                     for name, ways in self.ways.items()}
        for each in sum(self.held.values(), []):
            each.wait_until_open(60)
        self._probes = {name: [client.start_probe(address, rate=20, timeout=10)
                               for client, address in ways]
                        for name, ways in self.ways.items()}

    def assertHardlyNoticed(self):
        """No request to a cluster failed, and next to none to others.

        Connections that are held end with it, those of the cluster before.
        """
        reports = {name: [probe.stop() for probe in each]
                   for name, each in self._probes.items()}
        lost = {name: sum(len(each.report().broken)
                          for each in self.held[name])
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
            for each in self.held[name]:
                each.stop()

    def assertHealthy(self):
        for lb in self.load_balancers.values():
            self.cloud.wait_until_active(lb.id)
        self.cloud.wait_for(lambda: self.statuses() == {'ONLINE'}, 'ONLINE')
