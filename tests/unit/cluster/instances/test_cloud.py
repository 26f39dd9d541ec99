# SPDX-License-Identifier: Apache-2.0

"""Instances and ports of distributors, with as much of Nova as is asked."""

import types
from unittest import mock

from octavia_hmsync.cluster.instances import cloud as instance_cloud
from octavia_hmsync import compute
from octavia_hmsync import exceptions
from tests.cloud import fake_nova
from tests.cloud import octavia_conf
from tests.unit import base
from tests.unit import test_compute

OPTIONS = {'distributor_flavor_id': 'small',
           'distributor_secgroup_list': ['group'],
           'distributor_network_id': 'network'}


class TestOptions(base.TestCase):

    def test_read(self):
        conf = self.make_conf(
            hmsync_cluster={**OPTIONS, 'distributor_network_id': None,
                            'distributor_server_group': 'apart'},
            controller_worker={'amp_boot_network_list': ['first', 'second'],
                               'amp_image_owner_id': 'octavia',
                               'amp_ssh_key_name': 'key'})
        self.assertEqual(instance_cloud.Options(
            'hmsync-distributor', 'octavia', 'small', 'first', ('group',),
            'apart', 'key'), instance_cloud.read_options(conf))

    def test_missing(self):
        for name in OPTIONS:
            conf = self.make_conf(hmsync_cluster={
                key: value for key, value in OPTIONS.items() if key != name})
            e = self.assertRaises(exceptions.InvalidConfiguration,
                                  instance_cloud.read_options, conf)
            self.assertIn(f'[hmsync_cluster] {name} is not set', str(e))


class TestBoot(base.TestCase):

    def make(self, driver):
        return instance_cloud.InstanceCloud(
            self.make_conf(hmsync_cluster=OPTIONS), mock.sentinel.neutron,
            mock.sentinel.compute, lambda name: driver)

    def test_asked(self):
        calls = []
        driver = types.SimpleNamespace(
            build=lambda **kwargs: calls.append(kwargs) or 'server')
        self.assertEqual('server', self.make(driver).boot('id', 'port',
                                                          'data'))
        self.assertEqual([{
            'name': 'octavia-hmsync-distributor-id',
            'amphora_flavor': 'small', 'image_tag': 'hmsync-distributor',
            'image_owner': None, 'key_name': None, 'port_ids': ['port'],
            'user_data': 'data', 'server_group_id': None}], calls)

    def test_refused(self):
        """Whatever a driver raises is one line, also where it says nothing."""
        for error, reason in (
                (RuntimeError('Quota exceeded:\n requested 1.'),
                 'Quota exceeded: requested 1'), (KeyError(), 'KeyError')):
            driver = mock.Mock(spec=['build'])
            driver.build.side_effect = error
            e = self.assertRaises(exceptions.BuildFailed,
                                  self.make(driver).boot, 'id', 'port', '')
            self.assertEqual(f'the compute service does not boot the '
                             f'distributor id ({reason})', str(e))


class TestNova(test_compute.ComputeTestCase):
    """Found by the name alone, and not those of others."""

    def test_find(self):
        nova = self.useFixture(fake_nova.FakeNova(page=2))
        known = self.connect(octavia_conf.merge(nova.octavia_options(), {
            'service_auth': {'auth_type': 'none'}}))
        name = instance_cloud.get_name('a-1')
        made = sorted(nova.add(name) for _ in range(3))
        nova.add(f'{name}0')
        nova.add(f'x{name}')
        self.assertEqual(made, sorted(known.find(name)))
        self.assertEqual([], known.find(instance_cloud.get_name('b')))

    def test_another_driver(self):
        self.assertEqual([], compute.Driver('compute_noop_driver').find('a'))
