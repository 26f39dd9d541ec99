# SPDX-License-Identifier: Apache-2.0

"""Connections of clients of a cluster, whatever becomes of it."""

import time

from oslotest import base
from testtools import content

from tests.cloud import clusters
from tests.cloud import machines

NUMBER = 100


class TestConnections(base.BaseTestCase):
    """Clients of the same subnet, and behind a router."""

    def setUp(self):
        super().setUp()
        self.cloud = self.useFixture(clusters.ClusterOctavia(
            workers=1, options={'hmsync_cluster': {'drain_timeout': 600}}))
        self.addOnException(lambda _: self.addDetail(
            'logs', content.text_content(self.describe())))
        self.cloud.wait_until_ready()
        self.api = self.cloud.connection.load_balancer
        hosts = self.cloud.fabric.hosts
        self.members = [
            self.useFixture(machines.Member(self.cloud, f'member-{host}',
                                            host=host)) for host in hosts]
        self.client = self.useFixture(machines.Client(
            self.cloud, 'client', host=hosts[0]))
        self.outside = self.useFixture(machines.Client(
            self.cloud, 'outside', self.cloud.external_network))

    def describe(self):
        return '\n'.join(
            f'--- {child.name}\n{child.log_tail(60)}'
            for child in (*self.cloud.workers,
                          *self.cloud.distributors.values(),
                          *self.cloud.house_keepers,
                          *self.cloud.compute.instances.values()))

    def opened(self):
        return set().union(*(each.report().opened for each in self.held))

    def broken(self):
        return set().union(*(each.report().broken for each in self.held))

    def assert_answers(self):
        for client, address in self.ways:
            self.assertEqual(
                {each.name for each in self.members},
                {client.get(address) for _ in range(16)})

    def test_connections(self):
        self.cluster = self.cloud.add_cluster('web', self.members,
                                              desired_size=3)
        self.ways = (
            (self.client, self.cluster.vip_address),
            (self.outside, self.cloud.add_floating_ip(
                self.cluster.vip_port_id)))
        self.assert_answers()
        self.held = [client.hold(address, NUMBER, rate=0.5).wait_until_open()
                     for client, address in self.ways]
        sessions = self.cloud.get_sessions(self.cluster)
        self.assertEqual(3, len(sessions))
        self.assertTrue(all(sessions.values()), sessions)
        self.assertEqual(2 * NUMBER, len(self.opened()))
        self.assertLessEqual(self.opened(), set().union(*sessions.values()))

        # The process of a distributor dies, and packets go on.
        for each in self.cloud.distributors.values():
            each.kill_tree()
        time.sleep(3)
        self.assert_answers()
        self.assert_broken(set())
        for each in self.cloud.distributors.values():
            each.start()
            each.wait_until_ready()

        # A member more, and one that leaves.
        self.cloud.set_size(self.cluster, 4)
        self.assert_answers()
        self.assert_broken(set())
        self.cloud.replace(self.cluster, min(sessions))
        self.assert_answers()
        self.assert_broken(set())

        # The node of that which answers for the VIP dies.
        active = self.cloud.get_active_distributor(self.cluster)
        self.cloud.kill_node(active.host)
        self.cloud.wait_for(
            lambda: self.cloud.get_active_distributor(self.cluster),
            'another distributor', 60)
        self.assert_answers()
        self.assert_broken(set())

        # An amphora dies, and nobody says so: its own connections, and no
        # other ones.
        amphora_id, lost = max(
            self.cloud.get_sessions(self.cluster).items(),
            key=lambda item: len(item[1] & self.opened()))
        lost &= self.opened()
        self.assertTrue(lost)
        self.cloud.compute.by_amphora(amphora_id).kill_tree()
        self.cloud.wait_until_replaced(self.cluster, amphora_id)
        self.assert_answers()
        # Until each has waited for an answer.
        self.cloud.wait_for(lambda: lost <= self.broken(),
                            'end of its connections')
        self.assert_broken(lost)
        # Of the members nobody has ever said that the VIP were its own.
        for each in self.cloud.distributors.values():
            self.assertNotIn('is its own address', each.log())

    def assert_broken(self, ports):
        # Each is used meanwhile.
        time.sleep(3)
        self.assertEqual(ports, self.broken(),
                         [each.report() for each in self.held])
