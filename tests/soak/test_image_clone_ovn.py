# SPDX-License-Identifier: Apache-2.0

"""A clone of a load balancer of another provider: OVN's own."""

from oslotest import base
from testtools import content

from tests.cloud import machines
from tests.cloud import ovn_provider
from tests.functional import clones

PORT = 80
# Requests in a fifth of a second.
MOMENT = 10


class TestOVNProvider(base.BaseTestCase):

    def test_clone(self):
        """The floating IP goes to the clone, and back, under traffic."""
        cloud = self.useFixture(ovn_provider.OVNProviderOctavia())
        self.addOnException(lambda _: self.addDetail(
            'octavia-api', content.text_content(cloud.api.log_tail(60))))
        cloud.wait_until_ready()
        clone = self.useFixture(clones.Tenant(cloud)).clone
        members = [self.useFixture(machines.Member(
            cloud, f'web-{host}', host=host)) for host in cloud.fabric.hosts]
        client = self.useFixture(machines.Client(cloud, 'outside',
                                                 cloud.external_network))
        source = cloud.add_load_balancer(
            'web', provider=ovn_provider.PROVIDER, tags=['shop'], listeners=[{
                'name': 'http', 'protocol': 'TCP', 'protocol_port': PORT,
                'default_pool': {
                    'name': 'members', 'protocol': 'TCP',
                    'lb_algorithm': 'SOURCE_IP_PORT', 'members': [
                        {'address': member.address, 'protocol_port': PORT,
                         'subnet_id': cloud.subnet.id}
                        for member in members]}}])
        address = cloud.add_floating_ip(source.vip_port_id)
        names = {member.name for member in members}
        cloud.wait_for(
            lambda: {client.get(address) for _ in range(8)} == names,
            f'answers of {names}')
        made = clone('create', 'web')
        self.assertEqual('READY', made['phase'])

        asked = client.start_probe(address, timeout=5)
        for command in ('switch', 'back', 'switch'):
            clone(command, 'web')
            self.assertEqual(names, {client.get(address) for _ in range(8)})
        report = asked.stop()
        # What is in the midst of a handshake as OVN translates anew.
        self.assertLess(report.failed, 3 * MOMENT, report)
        self.assertGreater(report.requests, 50)
        api = cloud.connection.load_balancer
        clone('retire', 'web')
        cloud.wait_for(lambda: source.id not in {
            each.id for each in api.load_balancers()}, 'end of the source')
        left, = api.load_balancers()
        self.assertEqual((made['clone_id'], ovn_provider.PROVIDER, ['shop']),
                         (left.id, left.provider, left.tags))
        self.assertEqual(names, {client.get(address) for _ in range(8)})
