# SPDX-License-Identifier: Apache-2.0

"""A cluster in a whole Octavia, with OVN's load balancers."""

import sys
import time

from openstack import exceptions
from oslotest import base
from testtools import content

from tests.cloud import clusters
from tests.cloud import machines
from tests.cloud import process
from tests.functional import clusters as cluster_cases

NUMBER = 60


class TestCluster(base.BaseTestCase):
    """Clients of the same subnet, and behind a router."""

    def setUp(self):
        super().setUp()
        self.cloud = self.useFixture(clusters.OVNClusterOctavia(
            workers=1, options={'hmsync_cluster': {'drain_timeout': 600}}))
        self.addOnException(lambda _: self.addDetail(
            'logs', content.text_content(self.describe())))
        self.cloud.wait_until_ready()
        hosts = self.cloud.fabric.hosts
        self.members = [
            self.useFixture(machines.Member(self.cloud, f'member-{host}',
                                            host=host)) for host in hosts]
        self.client = self.useFixture(machines.Client(
            self.cloud, 'client', host=hosts[0]))
        self.outside = self.useFixture(machines.Client(
            self.cloud, 'outside', self.cloud.external_network))

    def nb(self, *arguments):
        central = self.cloud.networking.central
        return process.run(
            'ovn-nbctl', f'--db={central.connection("nb")}', *arguments)

    def describe(self):
        return self.nb('list', 'Load_Balancer') + '\n'.join(
            f'--- {child.name}\n{child.log_tail(60)}'
            for child in (*self.cloud.workers, *self.cloud.house_keepers,
                          *self.cloud.compute.instances.values()))

    def opened(self):
        return set().union(*(each.report().opened for each in self.held))

    def broken(self):
        return set().union(*(each.report().broken for each in self.held))

    def assert_answers(self):
        names = {each.name for each in self.members}
        for client, address in self.ways:
            self.cloud.wait_for(
                lambda: names == {client.get(address) for _ in range(16)},
                f'{names} for {client.name}', 60)

    def assert_broken(self, ports):
        # Each is used meanwhile.
        time.sleep(3)
        self.assertEqual(ports, self.broken(),
                         [each.report() for each in self.held])

    def test_life(self):
        network = self.cloud.add_network('alone', '10.77.0.0/24')[0]
        subnet = next(self.cloud.connection.network.subnets(
            network_id=network.id))
        e = self.assertRaises(
            exceptions.HttpException, self.cloud.add_cluster, 'alone',
            vip_subnet_id=subnet.id)
        self.assertIn('No router is in subnet', str(e))

        cluster = self.cloud.add_cluster('web', self.members, desired_size=2)
        self.ways = (
            (self.client, cluster.vip_address),
            (self.outside, self.cloud.add_floating_ip(cluster.vip_port_id)))
        self.assert_answers()
        self.held = [client.hold(address, NUMBER, rate=0.5).wait_until_open()
                     for client, address in self.ways]
        sessions = self.cloud.get_sessions(cluster)
        self.assertEqual(2, len(sessions))
        self.assertTrue(all(sessions.values()), sessions)
        self.assertEqual(2 * NUMBER, len(self.opened()))

        # A member more, and one that is replaced, which drains it.
        self.cloud.set_size(cluster, 3)
        self.assert_answers()
        self.assert_broken(set())
        self.cloud.replace(cluster, min(sessions))
        self.assert_answers()
        self.assert_broken(set())

        # An amphora dies: its own connections, and no other ones.
        amphora_id, lost = max(
            self.cloud.get_sessions(cluster).items(),
            key=lambda item: len(item[1] & self.opened()))
        lost &= self.opened()
        began = time.monotonic()
        self.cloud.compute.by_amphora(amphora_id).kill_tree()
        self.cloud.wait_for(lambda: self.is_down(amphora_id),
                            'probe of the dead', 60)
        self.addDetail('seen', content.text_content(
            f'{time.monotonic() - began:.1f} s'))
        self.assert_answers()
        self.assertLessEqual(self.broken(), lost)

        self.cloud.delete_cluster(cluster)
        self.assertEqual('', self.nb('--bare', 'list', 'Load_Balancer'))
        self.assertEqual([], [
            port.name for port in self.cloud.connection.network.ports()
            if port.device_owner == 'Octavia:distributor'])

    def read_vip_port(self):
        port = self.cloud.connection.network.get_port(self.port_id)
        return (port.device_owner, port.is_port_security_enabled,
                port.security_group_ids,
                {ip['ip_address'] for ip in port.fixed_ips})

    def test_port_of_the_vip(self):
        """Whatever is done to it by hand; only a floating IP is lost."""
        network = self.cloud.connection.network
        lb = self.cloud.add_cluster('web', self.members, desired_size=2)
        self.port_id = lb.vip_port_id
        self.ways = ((self.client, lb.vip_address),)
        self.assert_answers()
        right = self.read_vip_port()
        address = network.get_port(self.port_id).fixed_ips[0]
        other = {**address, 'ip_address': '10.1.0.250'}
        # Neutron refuses it once there is a floating IP.
        self.change_vip_port(right, fixed_ips=[other])
        floating = self.cloud.add_floating_ip(self.port_id)
        floating_id = next(network.ips(floating_ip_address=floating)).id
        self.ways = (*self.ways, (self.outside, floating))
        self.assert_answers()
        self.held = [client.hold(address, NUMBER, rate=0.5).wait_until_open()
                     for client, address in self.ways]
        self.change_vip_port(
            right, fixed_ips=[other, address], device_owner='',
            port_security_enabled=False, security_group_ids=[])
        self.assertEqual(self.port_id, network.get_ip(floating_id).port_id)
        self.assert_broken(set())
        self.do_to_vip_port(
            lambda: network.delete_port(self.port_id),
            lambda: self.get_port_id(lb) != self.port_id, 'deleted')
        self.port_id = self.get_port_id(lb)
        self.cloud.wait_for(lambda: self.read_vip_port() == right,
                            'port as it was', 60)
        network.update_ip(floating_id, port_id=self.port_id)
        self.assert_answers()
        self.assertIn(self.nb('get', 'Logical_Switch_Port', self.port_id,
                              'type').strip(), ('virtual', '"virtual"'))

    def change_vip_port(self, right, **changes):
        self.do_to_vip_port(
            lambda: self.cloud.connection.network.update_port(self.port_id,
                                                              **changes),
            lambda: self.read_vip_port() == right, changes)

    def get_port_id(self, lb):
        return self.cloud.connection.load_balancer.get_load_balancer(
            lb.id).vip_port_id

    def do_to_vip_port(self, change, is_right, what):
        """Of a client in the subnet, no connection fails or breaks."""
        probes = [client.start_probe(address, rate=10, timeout=3)
                  for client, address in self.ways]
        began = time.monotonic()
        change()
        self.cloud.wait_for(is_right, f'repair of {what}', 120)
        took = time.monotonic() - began
        reports = [each.stop() for each in probes]
        print(f'{what}: {took:.0f} s; {reports}', file=sys.__stderr__)
        self.assertEqual((0, 0), (reports[0].failed, reports[0].broken))

    def is_down(self, amphora_id):
        with self.cloud.engine.connect() as connection:
            return connection.exec_driver_sql(
                'SELECT hmsync_member_probe.state FROM hmsync_member_probe '
                'JOIN hmsync_cluster_member ON hmsync_cluster_member.id = '
                "member_id WHERE distributor_id != 'heartbeats' AND "
                f"amphora_id = '{amphora_id}'").scalar() in ('DOWN', None)


class TestDeadNode(cluster_cases.ClusterTestCase):
    """The node of a member looks at it, and tells OVN nothing any more."""

    kind = clusters.OVNClusterOctavia
    options = {'health_manager': {'heartbeat_timeout': 20}}
    # Neutron has nodes answer half as often.
    neutron_options = {'DEFAULT': {'agent_down_time': 20}}

    def test_dead_node(self):
        lb = self.cloud.add_cluster('web', self.members)
        self.wait_until_whole(lb, 2)
        members = set(self.get_members().values())
        dead = next(self.cloud.compute.by_amphora(each) for each in members
                    if self.cloud.compute.by_amphora(each).host !=
                    self.client.host)
        amphora_id = dead.instance_name.removeprefix('amphora-')
        chassis = self.cloud.networking.chassis[dead.host]
        self.cloud.compute.dead_hosts.add(dead.host)
        chassis.controller.kill()
        dead.kill_tree()
        self.cloud.wait_for(
            lambda: amphora_id not in {row['amphora_id'] for row in
                                       self.rows('hmsync_cluster_member')},
            lambda: f'end of {amphora_id}: '
            f'{self.rows("hmsync_cluster_member")}, '
            f'{self.rows("hmsync_member_probe")}', 180)
        self.wait_until_whole(lb, 2)
        self.assertEqual(members - {amphora_id},
                         members & set(self.get_members().values()))
        self.assertIn(f'its node {dead.host} is dead',
                      self.cloud.house_keepers[0].log_tail(2000))
