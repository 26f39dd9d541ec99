# SPDX-License-Identifier: Apache-2.0

"""A floating IP goes to a clone, and back, while clients use it."""

from oslotest import base

from tests.cloud import machines
from tests.cloud import octavia
from tests.functional import clones

OPEN = 50


class TestFloatingIP(base.BaseTestCase):
    """OVN serves it."""

    def test_switch_under_traffic(self):
        cloud = self.useFixture(octavia.Octavia(network='ovn'))
        cloud.wait_until_ready()
        clone = self.useFixture(clones.Tenant(cloud)).clone
        member = self.useFixture(machines.Member(cloud, 'member'))
        client = self.useFixture(machines.Client(cloud, 'outside',
                                                 cloud.external_network))
        source = cloud.add_load_balancer('web', members=[member])
        address = cloud.add_floating_ip(source.vip_port_id)
        self.assertEqual('member', client.get(address))
        made = clone('create', 'web')

        held = client.hold(address, OPEN).wait_until_open()
        asked = client.start_probe(address, timeout=5)
        for command, serving in (
                (('switch', '--timeout', '120'), made['clone_id']),
                (('back',), source.id),
                (('switch', '--timeout', '120'), made['clone_id'])):
            clone(command[0], 'web', *command[1:])
            self.wait_for_connections(cloud, serving, 100)
        requests, kept = asked.stop(), held.stop()
        self.assertEqual((0, OPEN, {}, ()), (
            requests.failed, len(kept.opened), kept.broken, kept.refused))
        self.assertGreater(requests.requests, 300)

    def wait_for_connections(self, cloud, load_balancer_id, number):
        """Wait until it has so many more, by its heartbeats."""
        def count():
            return cloud.connection.load_balancer.get_load_balancer_statistics(
                load_balancer_id).total_connections

        before = count()
        cloud.wait_for(lambda: count() > before + number,
                       'connections of clients', 120)
