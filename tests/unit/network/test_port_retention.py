# SPDX-License-Identifier: Apache-2.0

import dataclasses

import fixtures

from octavia_hmsync import cloud
from octavia_hmsync.db import models
from octavia_hmsync import exceptions
from octavia_hmsync.network.db import network as network_repo
from octavia_hmsync.network.db import port as port_repo
from octavia_hmsync.network import port as node_port
from octavia_hmsync.network import port_retention
from octavia_hmsync.sync.db import amphora as amphora_repo
from octavia_hmsync.sync.db import claim as claim_repo
from octavia_hmsync.sync.db import doubt as doubt_repo
from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.db import health_manager as hm_repo
from octavia_hmsync.sync.db import house_keeper as keeper_repo
from octavia_hmsync.sync.db import outcome as outcome_repo
from tests.db_cases import base
from tests.unit.db import sqlite
from tests.unit.sync.rules import cases

NETWORK = 'lb-mgmt-net'
RETENTION = 3600


@dataclasses.dataclass
class FakePort:
    id: str
    host: str


class FakeNeutron:
    """Has ports, and gives them back."""

    def __init__(self):
        self.ports = []
        self.is_down = False
        self.refused = None

    def get_all(self):
        if self.is_down:
            raise exceptions.CloudUnavailable('Neutron is down.')
        return list(self.ports)

    def find_known(self, host, port_id):
        return next((p for p in self.ports if p.id == port_id), None)

    def delete(self, port_id):
        if port_id == self.refused:
            raise exceptions.CloudRefused('It is in use.')
        self.ports = [p for p in self.ports if p.id != port_id]


class TestPortRetention(sqlite.SqliteMixin, base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger('octavia_hmsync'))
        self.neutron = FakeNeutron()
        self.patch(cloud, 'connect', lambda conf: None)
        self.patch(node_port, 'NodePorts',
                   lambda conf, connection, ids: self.neutron)
        network_repo.claim(self.engine, NETWORK, 'test', 60)
        network_repo.record(self.engine, NETWORK, 'test', network_repo.Ids(
            'network', 'subnet', 'amphorae', 'health-managers'))
        self.now = 1000.0
        self.number = 0
        self.subject = self.make()
        self.add_node(1)
        self.add_node(2)
        self.publish(1, 2)
        self.look()

    def make(self):
        return port_retention.PortRetention(
            self.make_conf(DEFAULT={'host': 'controller1'},
                           hmsync_network={'port_retention': RETENTION}),
            self.engine, clock=lambda: self.now)

    def add_node(self, number):
        host = f'hm{number}'
        port_repo.claim(self.engine, host, 'test', 60)
        port_repo.record(self.engine, 'test', host, f'port{number}',
                         f'fa:16:3e:00:00:0{number}',
                         (f'192.0.2.{number}',), host)
        port_repo.release(self.engine, host, 'test')
        port_repo.set_plugged(self.engine, host)
        self.neutron.ports.append(FakePort(f'port{number}', host))
        self.register(number)

    def register(self, number):
        hm_repo.register(self.engine, f'hm{number}', f'192.0.2.{number}',
                         5555, f'instance{number}', 20)

    def add_amphora(self):
        self.ids = self.add_amphorae(1)
        amphora_repo.add_missing(self.engine)

    def publish(self, *numbers):
        self.number += 1
        generation_repo.publish(
            self.engine, self.number,
            dict(zip(cases.addresses(*numbers), range(9))), 'because',
            'controller1')

    def upload(self, *numbers, adopt=True):
        claim_repo.claim_due(self.engine, self.number, 'batch', 10, 60)
        outcome_repo.record(self.engine, self.number, 'batch', [
            outcome_repo.Outcome(amphora_id, 'APPLIED',
                                 cases.addresses(*numbers))
            for amphora_id in self.ids])
        claim_repo.release(self.engine, 'batch')
        if adopt:
            doubt_repo.set_adopted(
                self.engine, doubt_repo.get_unproven(self.engine))

    def delete_health_manager(self, number):
        """Delete it when the node has not plugged for some time."""
        self.make_older(models.Port, 'plugged_at', 301, host=f'hm{number}')
        for row in hm_repo.get_rows(self.engine):
            if row.host == f'hm{number}':
                hm_repo.delete(self.engine, row.host, row.keepalive_at)

    def look(self, subject=None):
        """Look twice, long enough apart to know who is dead."""
        found = []
        for _ in range(2):
            self.now += 60
            for number in (1, 2):
                # Those that are there go on.
                hm_repo.touch(self.engine, f'hm{number}',
                              f'instance{number}', f'192.0.2.{number}', 5555,
                              20)
            found += (subject or self.subject).run_once()
        return found

    def hosts(self):
        """Whose ports there are, in Neutron and remembered."""
        remembered = [p.host for p in port_repo.get_all(self.engine)]
        self.assertEqual(remembered, [p.host for p in self.neutron.ports])
        return remembered

    def test_all_is_well(self):
        self.assertEqual([], self.look())
        self.assertEqual(['hm1', 'hm2'], self.hosts())

    def test_deleted_health_manager(self):
        self.delete_health_manager(2)
        # The planner has not looked yet.
        self.assertEqual([], self.look())
        self.publish(1)
        self.assertEqual(['hm2'], self.look())
        self.assertEqual(['hm1'], self.hosts())
        self.assertIn('Deleted the port port2 of hm2', self.log.output)
        self.assertEqual([], self.look())

    def test_deleted_health_manager_of_a_node_that_goes_on(self):
        """With a worker, which needs the port; it is about to plug again."""
        self.delete_health_manager(2)
        self.publish(1)
        self.make_older(models.Port, 'plugged_at', 30, host='hm2')
        self.assertEqual([], self.look())
        self.assertEqual(['hm1', 'hm2'], self.hosts())

    def test_not_while_amphorae_may_send_there(self):
        self.add_amphora()
        self.upload(1, 2)
        self.delete_health_manager(2)
        self.publish(1)
        self.assertEqual([], self.look())
        self.upload(1, adopt=False)
        self.assertEqual([], self.look())
        # Whom it waits for is said once.
        self.assertEqual(1, self.log.output.count(self.ids[0]))
        doubt_repo.set_adopted(
            self.engine, doubt_repo.get_unproven(self.engine))
        self.assertEqual(['hm2'], self.look())
        self.assertEqual(['hm1'], self.hosts())

    def test_pinned(self):
        keeper_repo.touch(self.engine, 'controller1',
                          cases.addresses(2))
        self.delete_health_manager(2)
        self.publish(1)
        self.assertEqual([], self.look())

    def test_gone_for_long(self):
        self.publish(1)
        hm_repo.set_offline(self.engine, 'hm2', 'instance2')
        self.assertEqual([], self.look())
        self.make_older(models.HealthManager, 'keepalive_at', RETENTION + 1,
                        host='hm2')
        self.make_older(models.Port, 'plugged_at', RETENTION + 1, host='hm2')
        self.assertEqual(['hm2'], self.look())

    def test_node_that_goes_on_plugging(self):
        self.publish(1)
        self.make_older(models.Port, 'plugged_at', RETENTION + 1)
        self.delete_health_manager(2)
        port_repo.set_plugged(self.engine, 'hm2')
        self.assertEqual([], self.look())
        self.make_older(models.Port, 'plugged_at', RETENTION + 1, host='hm2')
        self.assertEqual(['hm2'], self.look())

    def test_database_was_away(self):
        """All keepalives are old, and all come at once."""
        for model, column in ((models.HealthManager, 'keepalive_at'),
                              (models.Port, 'plugged_at')):
            self.make_older(model, column, RETENTION + 1)
        self.publish(3)
        self.now += RETENTION
        self.assertEqual([], self.subject.run_once())
        for number in (1, 2):
            self.register(number)
        self.assertEqual([], self.look())
        self.assertEqual(['hm1', 'hm2'], self.hosts())

    def test_node_that_comes_back_at_that_moment(self):
        self.delete_health_manager(2)
        self.publish(1)
        # It has claimed its port.
        port_repo.claim(self.engine, 'hm2', 'node', 60)
        self.assertEqual([], self.look())
        port_repo.set_plugged(self.engine, 'hm2')
        port_repo.release(self.engine, 'hm2', 'node')
        self.assertEqual([], self.look())
        self.assertEqual(['hm1', 'hm2'], self.hosts())

    def test_node_that_came_back_between_look_and_claim(self):
        self.delete_health_manager(2)
        self.publish(1)
        claim = port_repo.claim

        def come_back_and_claim(engine, host, owner, seconds):
            self.register(2)
            return claim(engine, host, owner, seconds)

        self.patch(port_repo, 'claim', come_back_and_claim)
        self.assertEqual([], self.look())
        self.assertEqual(['hm1', 'hm2'], self.hosts())

    def test_node_that_comes_back_while_neutron_hangs(self):
        """For longer than the claim lasts."""
        self.delete_health_manager(2)
        self.publish(1)
        get_all = self.neutron.get_all

        def hang():
            self.make_older(models.Port, 'claim_expires_at', 1, host='hm2')
            port_repo.claim(self.engine, 'hm2', 'node', 60)
            return get_all()

        self.patch(self.neutron, 'get_all', hang)
        self.assertEqual([], self.look())
        self.assertEqual(['hm1', 'hm2'], self.hosts())

    def test_two_housekeepers(self):
        self.delete_health_manager(2)
        self.publish(1)
        other = self.make()
        found = self.run_at_once([lambda: self.subject.run_once(),
                                  lambda: other.run_once()])
        found = [host for hosts in found for host in hosts]
        self.assertLessEqual(found.count('hm2'), 1)
        self.look()
        self.assertEqual(['hm1'], self.hosts())

    def test_neutron_that_is_down(self):
        self.delete_health_manager(2)
        self.publish(1)
        self.neutron.is_down = True
        self.assertRaises(exceptions.CloudUnavailable, self.look)
        self.assertEqual(2, len(port_repo.get_all(self.engine)))
        self.neutron.is_down = False
        self.assertEqual(['hm2'], self.look())

    def test_one_that_neutron_does_not_delete(self):
        """The others are deleted."""
        for number in (1, 2):
            self.delete_health_manager(number)
        self.publish(3)
        self.neutron.refused = 'port1'
        self.assertRaises(exceptions.CloudRefused, self.look)
        self.assertEqual(['hm1'], self.hosts())

    def test_network_that_is_gone(self):
        """Its ports went with it, or are orphaned."""
        network_repo.forget(self.engine, NETWORK, 'test')
        self.delete_health_manager(2)
        self.publish(1)
        self.assertEqual([], self.look())
