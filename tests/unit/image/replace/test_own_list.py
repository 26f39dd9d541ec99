# SPDX-License-Identifier: Apache-2.0

"""The list of a new amphora, by its zone: on the schema."""

import types
from unittest import mock

from octavia_hmsync.amphora import agent
from octavia_hmsync.image.db import claim as claims_repo
from octavia_hmsync.image.db import replacement as replace_repo
from octavia_hmsync.image.replace import own_list
from octavia_hmsync.sync.db import amphora as amphora_repo
from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.db import hold as hold_repo
from tests.cloud import records
from tests.db_cases import base
from tests.unit.db import sqlite

CENTER = ('192.0.2.1:5555', '192.0.2.2:5555')
EDGE = '198.51.100.9:5555'
PLUGGED = '203.0.113.1:5555'


class TestOwnList(sqlite.SqliteMixin, base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.conf.set_override('controller_ip_port_list', [PLUGGED],
                               'health_manager')
        self.agent = mock.Mock(spec=agent.Agent)
        self.work = types.SimpleNamespace(
            conf=self.conf, engine=self.engine,
            agent_of=lambda amphora: self.agent,
            insist=lambda function, *args: function(*args))
        self.add_zone('edge1', 'net-of-edge1')

    def publish(self, number=1, zones=None, addresses=(*CENTER, EDGE)):
        generation_repo.publish(
            self.engine, number, {address: slot for slot, address
                                  in enumerate(addresses)},
            'because', 'controller1', zones=zones)

    def get_told(self, function, zone, *args):
        """Return what the agent of an amphora in a zone is told."""
        self.agent.configure.reset_mock()
        function(self.work, types.SimpleNamespace(
            id=self.add_amphora_in(zone)), *args)
        if not self.agent.configure.called:
            return None
        (text,), _ = self.agent.configure.call_args
        values = dict(line.split(' = ', 1) for line in text.splitlines()
                      if ' = ' in line)
        return (values['controller_ip_port_list'].split(', '),
                values['loadbalancer_topology'])

    def test_of_a_zone(self):
        """As one of a pair, until it is to have the VIP."""
        self.publish(zones={EDGE: 'edge1'})
        self.assertEqual(
            ([EDGE], 'ACTIVE_STANDBY'),
            self.get_told(own_list.give_of_zone, 'edge1'))
        self.assertEqual(([EDGE], 'SINGLE'),
                         self.get_told(own_list.give, 'edge1', 'SINGLE'))

    def test_of_a_network(self):
        """By where it is, whatever zone it has."""
        self.publish(zones={EDGE: '192.0.2.0/24'})
        for zone in ('edge1', None):
            self.assertEqual(([EDGE], 'SINGLE'),
                             self.get_told(own_list.give, zone, 'SINGLE'))

    def test_nobody_is_in_that_zone(self):
        self.publish(zones={EDGE: 'edge2'})
        self.assertEqual((list(CENTER), 'ACTIVE_STANDBY'),
                         self.get_told(own_list.give_of_zone, 'edge1'))

    def test_without_a_zone(self):
        """It has booted with the list that it is to have."""
        self.add_zone('no network of its own')
        self.publish(zones={EDGE: 'edge1'})
        for zone in (None, 'no network of its own'):
            self.assertIsNone(self.get_told(own_list.give_of_zone, zone))
            self.assertEqual(([PLUGGED], 'SINGLE'),
                             self.get_told(own_list.give, zone, 'SINGLE'))

    def test_lists_without_zones(self):
        for publish in (lambda: None, self.publish):
            publish()
            self.assertIsNone(self.get_told(own_list.give_of_zone, 'edge1'))
            self.assertEqual(([PLUGGED], 'SINGLE'),
                             self.get_told(own_list.give, 'edge1', 'SINGLE'))

    def test_failover(self):
        """An octavia-worker builds it, and it is as any other one."""
        old = self.add_amphora_in('edge1')
        lb_id, = (row['load_balancer_id'] for row in
                  self.records.rows('amphora') if row['id'] == old)
        new = self.records.add_amphora('192.0.2.77', lb_id)
        self.publish(zones={EDGE: 'edge1'})
        amphora_repo.add_missing(self.engine)
        replace_repo.add(self.engine, replace_repo.New('one', lb_id,
                                                       'failover', 'image'))
        claims_repo.claim(self.engine, 'me', 1, 60)
        claims_repo.set_phase(self.engine, 'one', 'me', 60, 'FAILOVER',
                              old_amphora_id=old, new_amphora_id=new)
        self.assertEqual({new}, amphora_repo.find_wanted(self.engine,
                                                         [old, new]))
        self.records.set_health(old, new, age=50)
        self.assertEqual({new}, {row.id for row in hold_repo.find_silent(
            self.engine, records.utcnow())})
