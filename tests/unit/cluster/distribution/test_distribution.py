# SPDX-License-Identifier: Apache-2.0

"""What is asked of the distributor driver, and what that reads."""

import types
from unittest import mock

import fixtures
from oslo_config import fixture as config_fixture
from taskflow.patterns import linear_flow
from taskflow import task

from octavia_hmsync.cluster.distribution import distribution
from octavia_hmsync import compat
from octavia_hmsync.compat import amphora as compat_amphora
from octavia_hmsync.compat import cluster as compat_cluster
from octavia_hmsync import exceptions
from tests.unit import base


class Register(task.Task):

    def execute(self, distributor_id, amphorae):
        Driver.calls.append((distributor_id, amphorae))


class Add(task.Task):

    def execute(self, distributor_id, vip):
        Driver.calls.append((distributor_id, vip))


class Fail(task.Task):

    def execute(self, distributor_id):
        raise ValueError('no')


class Driver:
    calls: list = []

    def get_register_amphorae_subflow(self):
        return linear_flow.Flow('register').add(Register())

    def get_add_vip_subflow(self):
        return linear_flow.Flow('add').add(Add())

    def get_remove_vip_subflow(self):
        return linear_flow.Flow('remove').add(Fail())

    def get_delete_distributor_subflow(self):
        return None


class TestRun(base.TestCase):

    def setUp(self):
        super().setUp()
        Driver.calls = []
        self.octavia_conf = self.useFixture(config_fixture.Config(
            compat.CONF))
        self.octavia_conf.config(group='controller_worker',
                                 distributor_driver='hmsync_ovs')
        self.useFixture(fixtures.MockPatchObject(
            compat_cluster, 'load_distributor_driver', Driver))
        load_balancer = mock.Mock()
        load_balancer.vip.to_dict.return_value = {'ip_address': '192.0.2.5'}
        self.get = self.useFixture(fixtures.MockPatchObject(
            compat_amphora, 'get_load_balancer',
            return_value=load_balancer)).mock
        self.useFixture(fixtures.MockPatchObject(
            compat_cluster, 'describe_load_balancer', return_value={}))
        self.work = types.SimpleNamespace(
            cluster_id='c', read=lambda: types.SimpleNamespace(
                id='c', affinity='FLOW', load_balancer_id='lb'))

    def run_one(self, name, members=()):
        distribution.run(self.work, name, members)

    def test_what_is_urgent_reads_no_load_balancer(self):
        self.run_one('register_amphorae',
                     [types.SimpleNamespace(amphora_id='a')])
        self.assertEqual([('c', [{'id': 'a'}])], Driver.calls)
        self.get.assert_not_called()

    def test_who_needs_it_gets_it(self):
        self.run_one('add_vip')
        self.assertEqual([('c', {'ip_address': '192.0.2.5'})], Driver.calls)
        self.get.assert_called_once_with('lb')

    def test_failure(self):
        e = self.assertRaises(exceptions.DistributorError, self.run_one,
                              'remove_vip')
        self.assertIn('(remove_vip): ValueError: no', str(e))

    def test_prepared(self):
        """Whatever is wrong, it is said by whoever needs it."""
        distribution.prepare()
        with mock.patch.object(compat_cluster, 'run', autospec=True,
                               side_effect=RuntimeError('no such driver')):
            distribution.prepare()
        self.assertEqual([], Driver.calls)

    def test_driver_by_others(self):
        """It cannot tell which members there are: cluster-operations.rst."""
        self.octavia_conf.config(group='controller_worker',
                                 distributor_driver='another')
        e = self.assertRaises(exceptions.InvalidConfiguration, self.run_one,
                              'register_amphorae')
        self.assertIn('distributor_driver is another', str(e))
        self.assertEqual([], Driver.calls)

    def test_nothing(self):
        self.run_one('delete_distributor')
        self.assertEqual([], Driver.calls)
