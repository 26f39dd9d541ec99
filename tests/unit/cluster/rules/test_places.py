# SPDX-License-Identifier: Apache-2.0

"""Over which compute zones members of clusters are spread."""

import collections
import json
import types

from hypothesis import given
from hypothesis import strategies as st
from octavia_lib.api.drivers import exceptions as driver_except
from oslo_config import fixture as config_fixture
from oslotest import base

from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster.rules import flavor as flavors
from octavia_hmsync.cluster.rules import places
from octavia_hmsync.cluster.worker import worker
from octavia_hmsync import compat
from tests.unit.cluster.api import test_provider
from tests.unit.cluster import cloud

ZONES = ['az1', 'az2', 'az3']


def member(zone, state='ACTIVE', health=None):
    return types.SimpleNamespace(zone=zone, state=state, health=health)


class TestChoose(base.BaseTestCase):

    @given(st.integers(1, 12), st.integers(1, 5))
    def test_evenly(self, size, zones):
        members = []
        names = [f'az{n}' for n in range(zones)]
        for _ in range(size):
            members.append(member(places.choose(names, members)))
        found = collections.Counter(m.zone for m in members)
        counts = [found[name] for name in names]
        self.assertLessEqual(max(counts) - min(counts), 1)

    def test_not_where_builds_fail(self):
        self.assertEqual('az2', places.choose(
            ZONES, [member('az2'), member('az3'), member('az3')], {'az1'}))

    def test_in_spite_of_it_where_all_do(self):
        self.assertEqual('az2', places.choose(ZONES, [member('az1')], ZONES))

    def test_not_where_it_is_drained(self):
        """Rather where builds fail."""
        self.assertEqual('az3', places.choose(
            ZONES, [member('az3')], {'az3'}, {'az1', 'az2'}))
        self.assertEqual('az1', places.choose(ZONES, [], (), ZONES))

    def test_a_lost_zone_is_not_the_emptiest(self):
        members = [member('az1', health='DEAD'),
                   member('az1', health='SUSPECT'), member('az1', 'FAILED'),
                   member('az2'), member('az3')]
        self.assertEqual('az2', places.choose(ZONES, members))

    def test_one_of_two_is_unwell(self):
        members = [member('az1', health='DEAD'), member('az1'),
                   member('az2'), member('az2'), member('az3'),
                   member('az3')]
        self.assertEqual('az1', places.choose(ZONES, members))

    def test_zones_of_before(self):
        self.assertEqual('az1', places.choose(ZONES, [member(None),
                                                      member('gone')]))


class TestFailures(base.BaseTestCase):

    def test_for_a_while(self):
        now = [0]
        failures = places.Failures(clock=lambda: now[0])
        failures.note('az1')
        failures.note('az2')
        failures.forget('az2')
        failures.forget('az3')
        self.assertEqual({'az1'}, failures.get())
        now[0] = places.PATIENCE
        self.assertEqual(set(), failures.get())


class TestCheck(base.BaseTestCase):

    def test_good(self):
        self.assertEqual(ZONES, places.check({places.KEY: ZONES}))
        self.assertEqual([], places.check({'compute_zone': 'az1'}))

    def test_bad(self):
        for value in ('az1', ['az1'], [], ['az1', 'az1'], ['az1', ''],
                      ['az1', 2], None, {'az1': 1}):
            with self.subTest(value):
                e = self.assertRaises(flavors.Invalid, places.check,
                                      {places.KEY: value})
                self.assertIn(places.KEY, e.user)

    def test_beside_one(self):
        e = self.assertRaises(flavors.Invalid, places.check, {
            places.KEY: ZONES, 'compute_zone': 'az1'})
        self.assertIn('take one of them out', e.user)


class TestProfile(test_provider.ProviderTestCase):

    def test_described(self):
        self.assertIn(places.KEY, self.driver
                      .get_supported_availability_zone_metadata())

    def test_accepted(self):
        self.set(compute_driver='compute_noop_driver')
        self.driver.validate_availability_zone({places.KEY: ZONES})

    def test_refused(self):
        for wrong in ({places.KEY: ['az1']}, {places.KEY: ZONES, 'x': 1},
                      {places.KEY: ZONES, 'compute_zone': 'az1'}):
            with self.subTest(wrong):
                self.assertRaises(driver_except.UnsupportedOptionError,
                                  self.driver.validate_availability_zone,
                                  wrong)


class TestMembers(cloud.CloudTestCase):
    """Built by Octavia's own tasks."""

    def setUp(self):
        super().setUp()
        self.patch(places, 'FAILURES', places.Failures())

    def create_in(self, zones, size=4, min_size=2):
        self.add_zone('spread')
        self.records.change(
            'availability_zone_profile', self.records.rows(
                'availability_zone_profile')[0]['id'],
            availability_zone_data=json.dumps({places.KEY: zones}))
        load_balancer_id = self.add_load_balancer()
        self.records.change('load_balancer', load_balancer_id,
                            availability_zone='spread')
        worker.Worker(compat.CONF).create(load_balancer_id, {
            'cluster_desired_size': size, 'cluster_min_size': min_size})
        return load_balancer_id

    def count_zones(self, load_balancer_id):
        """Count members by the zone of their rows, which has to be true."""
        members = self.get_members(load_balancer_id)
        self.assertEqual(
            {m.amphora_id: m.zone for m in members},
            {m.amphora_id: self.cloud.zones[f'amphora-{m.amphora_id}']
             for m in members})
        return dict(collections.Counter(m.zone for m in members))

    def test_spread(self):
        lb = self.create_in(['az1', 'az2'])
        self.assertWhole(lb, 4)
        self.assertEqual({'az1': 2, 'az2': 2}, self.count_zones(lb))

    def test_no_list(self):
        lb = self.create(size=2)
        self.assertEqual({None: 2}, self.count_zones(lb))

    def test_a_zone_is_lost_when_it_is_created(self):
        self.cloud.lost = {'az2'}
        lb = self.create_in(['az1', 'az2'])
        self.assertWhole(lb, 4)
        self.assertEqual({'az1': 4}, self.count_zones(lb))

    def test_a_zone_is_lost_with_its_members(self):
        lb = self.create_in(['az1', 'az2', 'az3'], size=3)
        self.cloud.lost = {'az2'}
        dead = next(m for m in self.get_members(lb) if m.zone == 'az2')
        self.assertTrue(member_repo.set_state(
            self.engine, dead.id, ('ACTIVE',), 'FAILED'))
        self.keep()
        self.assertWhole(lb, 3)
        found = self.count_zones(lb)
        self.assertNotIn('az2', found)
        self.assertEqual(3, sum(found.values()))

    def test_hosts(self):
        conf = self.useFixture(config_fixture.Config(compat.CONF))
        for placement, nova, policy in (
                ('nova', True, ['anti-affinity']), ('nova', False, []),
                ('soft', False, ['soft-anti-affinity']),
                ('hard', False, ['anti-affinity'])):
            with self.subTest((placement, nova)):
                conf.config(group='hmsync_cluster', host_placement=placement)
                conf.config(group='nova', enable_anti_affinity=nova)
                self.cloud.policies.clear()
                lb = self.create(size=1)
                self.assertEqual(policy, self.cloud.policies)
                self.delete(lb)
                self.assertEqual({}, self.cloud.groups)

    def test_all_zones_are_lost(self):
        self.cloud.lost = {'az1', 'az2'}
        lb = self.create_in(['az1', 'az2'])
        self.assertTakenBack(lb)
