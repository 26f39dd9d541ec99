# SPDX-License-Identifier: Apache-2.0

"""What looks like a leak and serves."""

import json
import uuid

from octavia_hmsync.amphora import agent_client
from octavia_hmsync import exceptions
from octavia_hmsync.image.recovery import amphora_ports
from octavia_hmsync.image.recovery import leaks
from tests.db_cases import base
from tests.unit.db import sqlite

VIP = '198.51.100.1'
AGENT = '192.0.2.77'


class Ports:
    """A Neutron; .vips is {address: VIP}, .addresses {instance: [address]}."""

    def __init__(self):
        self.vips, self.addresses = {}, {}

    def find_vip(self, network_id, address):
        return self.vips.get(address)

    def get_addresses(self, compute_id):
        return self.addresses.get(compute_id, [])


class Agents:
    """Agents; .statuses is what their listeners are, or what is raised."""

    def __init__(self):
        self.statuses = []

    async def ask(self, amphora_id, lb_network_ip, method, path, body='',
                  content_type='application/json', timeout=None, kept=1024,
                  silence=None):
        if isinstance(self.statuses, Exception):
            raise self.statuses
        return 200, json.dumps([{'uuid': str(number), 'status': status}
                                for number, status in
                                enumerate(self.statuses)])


class TestUses(sqlite.SqliteMixin, base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.ports, self.agents = Ports(), Agents()
        self.patch(agent_client, 'RestAgentClient', lambda conf: self.agents)
        self.uses = leaks.Uses(self.conf, self.engine, self.ports)
        self.lb = self.records.add_load_balancer()
        self.amphora, = self.add_amphorae(1, load_balancer_id=self.lb)
        self.ports.vips[VIP] = amphora_ports.VIP('vip', self.lb)

    def find(self, is_active=True, vips=(VIP,), amphora_id='a'):
        port = amphora_ports.Port(
            'port', 'octavia-lb-vrrp-a', amphora_id, 'instance', None,
            None if amphora_id else 'cluster', 'net', is_active, vips)
        return self.uses.find(amphora_id, [port], {'instance'})

    def test_built_after_the_backup(self):
        """Octavia knows the one before it, which is gone."""
        kept = self.find()
        self.assertIn(f'has the VIP {VIP} of load balancer {self.lb}, of '
                      f'which Octavia hears 0 of 1 amphorae', kept)
        self.records.set_health(self.amphora, age=3600)
        self.assertEqual(kept, self.find())

    def test_failed_over(self):
        """The common leak: Nova did not delete the one before."""
        self.records.set_health(self.amphora)
        self.agents.statuses = ['OPEN']
        self.ports.addresses['instance'] = [AGENT]
        self.assertIsNone(self.find())
        self.assertIsNone(self.find(is_active=False))

    def test_one_of_a_pair(self):
        """The other one is heard, and is not enough."""
        self.records.change('load_balancer', self.lb,
                            topology='ACTIVE_STANDBY')
        self.records.set_health(self.amphora)
        self.assertIn('hears 1 of 2', self.find())
        self.records.set_health(*self.add_amphorae(
            1, load_balancer_id=self.lb))
        self.assertIsNone(self.find())

    def test_one_that_is_dead_counts(self):
        """As many as the rows have, whatever the topology."""
        self.records.set_health(self.amphora)
        self.add_amphorae(1, load_balancer_id=self.lb)
        self.assertIn('hears 1 of 2', self.find())

    def test_load_balancer_of_after_the_backup(self):
        self.ports.vips[VIP] = amphora_ports.VIP('vip', str(uuid.uuid4()))
        for _each in range(2):
            self.assertIn('that Octavia does not know', self.find())
            # Of a VIP whose port its owner made nothing else tells.
            self.ports.vips[VIP] = amphora_ports.VIP('own', None)

    def test_port_that_the_owner_made(self):
        self.records.set_health(self.amphora)
        row, = self.records.rows('vip')
        self.ports.vips[VIP] = amphora_ports.VIP(row['port_id'], None)
        self.assertIsNone(self.find())

    def test_load_balancer_is_gone(self):
        """And its VIP: nobody can use what runs there still."""
        self.ports.vips.clear()
        self.agents.statuses = ['OPEN']
        self.ports.addresses['instance'] = [AGENT]
        self.assertIsNone(self.find())

    def test_its_agent_tells(self):
        """Where Neutron does not: it wires nothing, or there is no port."""
        self.ports.addresses['instance'] = [AGENT]
        for kwargs in ({'is_active': False}, {'vips': ()}):
            self.agents.statuses = ['ERROR', 'OPEN']
            self.assertIn(f'as its agent at {AGENT} says, 1 of its '
                          f'listeners run', self.find(**kwargs))
            for nothing in ([], ['ERROR'], exceptions.AgentUnreachable(
                    'refused', is_unanswered=True)):
                self.agents.statuses = nothing
                self.assertIsNone(self.find(**kwargs))
            self.agents.statuses = exceptions.AgentUnreachable(
                'its certificate is of another authority.')
            self.assertEqual(
                'it may serve: its certificate is of another authority',
                self.find(**kwargs))

    def test_port_of_a_distributor(self):
        self.assertIn('it may serve', self.find(amphora_id=None))
        self.records.set_health(self.amphora)
        self.assertIsNone(self.find(amphora_id=None))
        self.ports.addresses['instance'] = [AGENT]
        self.agents.statuses = ['OPEN']
        self.assertIsNone(self.find(amphora_id=None, vips=()))
