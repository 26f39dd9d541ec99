# SPDX-License-Identifier: Apache-2.0

import types

import fixtures

from octavia_hmsync import cloud
from octavia_hmsync.cluster.distribution.ovs import backend
from octavia_hmsync.cluster.distribution.ovs import routers
from octavia_hmsync import exceptions
from tests.cloud import records
from tests.unit.cluster import distributors

ROUTER = 'a0000000-0000-4000-8000-000000000001'
MORE = 'f0000000-0000-4000-8000-000000000003'


class FakeNeutron:
    """As much of the SDK as is asked; .there is {id of a subnet: router}."""

    def __init__(self):
        self.network = self
        self.there = {}
        self.error = None
        self.asked = []

    def ports(self, device_owner, fixed_ips):
        self.asked.append(len(fixed_ips))
        if self.error:
            raise self.error
        return [types.SimpleNamespace(
            device_id=self.there[subnet_id],
            fixed_ips=[{'subnet_id': subnet_id, 'ip_address': '192.0.2.1'}])
            for subnet_id in (text.partition('=')[2] for text in fixed_ips)
            if subnet_id in self.there and
            device_owner == 'network:router_interface_distributed']


class TestLook(distributors.DistributorTestCase):
    """Housekeeping names clusters that got a distributed router later."""

    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.cluster_id = self.add_cluster()
        self.neutron = FakeNeutron()
        self.ports = routers.RouterPorts(self.conf, self.neutron)
        self.subject = routers.DistributedRouters(self.engine,
                                                  self.ports.find)

    def count(self):
        return self.log.output.count('has a distributed router')

    def test_once(self):
        self.neutron.there['other'] = ROUTER
        self.subject.run_once()
        self.assertEqual(0, self.count())
        self.neutron.there[distributors.SUBNET] = ROUTER
        for _ in range(3):
            self.subject.run_once()
        self.assertEqual(1, self.count())
        for words in (self.cluster_id, ROUTER, '"--centralized"'):
            self.assertIn(words, self.log.output)
        # What is not known is no news.
        self.neutron.error = ValueError('no JSON')
        self.subject.run_once()
        self.assertIn('Routers were not checked: ', self.log.output)
        self.neutron.error = None
        self.subject.run_once()
        self.assertEqual(1, self.count())
        # One that comes back is.
        del self.neutron.there[distributors.SUBNET]
        self.subject.run_once()
        self.neutron.there[distributors.SUBNET] = ROUTER
        self.subject.run_once()
        self.assertEqual(2, self.count())

    def test_subnet_of_an_additional_vip(self):
        self.neutron.there[MORE] = ROUTER
        self.subject.run_once()
        self.assertEqual(0, self.count())
        row, = self.records.rows('vip')
        self.records.insert_all({'additional_vip': [{
            'load_balancer_id': row['load_balancer_id'], 'subnet_id': MORE,
            'ip_address': 'fd00::5'}]})
        self.subject.run_once()
        self.assertEqual(1, self.count())

    def test_being_made(self):
        """octavia-api has looked at it a moment ago."""
        self.neutron.there[distributors.SUBNET] = ROUTER
        row, = self.records.rows('load_balancer')
        self.records.change('load_balancer', row['id'],
                            provisioning_status='PENDING_CREATE')
        self.subject.run_once()
        self.assertEqual((0, []), (self.count(), self.neutron.asked))

    def test_many(self):
        """The address of a request has a limit."""
        ids = [records.new_id() for _ in range(101)]
        self.neutron.there.update({ids[0]: ROUTER, ids[100]: ROUTER})
        self.assertEqual({ids[0]: ROUTER, ids[100]: ROUTER},
                         self.ports.find(ids))
        self.assertEqual([50, 50, 1], self.neutron.asked)

    def test_by_the_watch(self):
        self.neutron.there[distributors.SUBNET] = ROUTER
        self.watch._looks = (self.subject,)
        self.vips.add(self.cluster_id)
        self.watch.run_once()
        self.assertEqual(1, self.count())

    def test_by_housekeeping(self):
        self.neutron.there[distributors.SUBNET] = ROUTER
        self.useFixture(fixtures.MockPatchObject(
            cloud, 'connect', lambda conf: self.neutron))
        watch = backend.OVSBackend(self.conf, self.engine,
                                   self.one_more()).make_watch()
        for look in watch._looks:
            look.run_once()
        self.assertEqual(1, self.count())

    def test_away(self):
        def refuse(subnet_ids):
            raise exceptions.CloudUnavailable('Neutron is away')

        subject = routers.DistributedRouters(self.engine, refuse)
        for _ in range(2):
            subject.run_once()
        self.assertEqual(1, self.log.output.count('Routers were not checked: '
                                                  'Neutron is away'))
