# SPDX-License-Identifier: Apache-2.0

"""The whole Octavia on networks of OVN, which enforce what a port may do."""

from oslotest import base

from tests.cloud import machines
from tests.cloud import octavia


class TestOctavia(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.cloud = self.useFixture(octavia.Octavia(network='ovn'))
        self.cloud.wait_until_ready()
        hosts = self.cloud.fabric.hosts
        self.members = [
            self.useFixture(machines.Member(self.cloud, f'member-{host}',
                                            host=host)) for host in hosts]
        self.clients = [
            self.useFixture(machines.Client(self.cloud, f'client-{host}',
                                            host=host)) for host in hosts]
        self.outside = self.useFixture(machines.Client(
            self.cloud, 'outside', self.cloud.external_network))

    def assert_carries_traffic(self, load_balancer, floating):
        everybody = {each.name for each in self.members}
        for client, address in (
                *((each, load_balancer.vip_address) for each in self.clients),
                (self.outside, floating)):
            self.assertEqual(everybody,
                             {client.get(address) for _ in range(4)})

    def test_load_balancers(self):
        api = self.cloud.connection.load_balancer
        made = {}
        for topology in ('SINGLE', 'ACTIVE_STANDBY'):
            each = self.cloud.add_load_balancer(topology, topology,
                                                self.members)
            made[topology] = each, self.cloud.add_floating_ip(each.vip_port_id)
            self.assert_carries_traffic(*made[topology])
        self.cloud.wait_for(
            lambda: {'ONLINE'} == {
                api.get_load_balancer(each.id).operating_status
                for each, _ in made.values()}, 'load balancers ONLINE')
        # On both nodes.
        self.assertEqual(
            set(self.cloud.fabric.hosts),
            {each.host for each in self.cloud.compute.instances.values()})

        # The other one of a pair takes over, and a new one comes.
        pair, floating = made['ACTIVE_STANDBY']
        old = {each.id for each in api.amphorae(loadbalancer_id=pair.id)}
        for amphora_id in sorted(old):
            instance = self.cloud.compute.by_amphora(amphora_id)
            if pair.vip_address in instance.run_inside('ip', 'address').stdout:
                break
        instance.kill_tree()
        self.cloud.wait_for(
            lambda: amphora_id not in {
                each.id for each in api.amphorae(loadbalancer_id=pair.id)},
            'failover', 120)
        self.cloud.wait_until_active(pair.id)
        self.assert_carries_traffic(pair, floating)

        for each, _ in made.values():
            api.delete_load_balancer(each.id, cascade=True)
        self.cloud.wait_for(lambda: not list(api.load_balancers()),
                            'end of the load balancers')
        self.assertEqual({}, self.cloud.compute.instances)
        self.assertEqual([], [
            port.name for port in self.cloud.connection.network.ports()
            if port.name.startswith('octavia-')])
