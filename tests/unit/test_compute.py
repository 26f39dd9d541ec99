# SPDX-License-Identifier: Apache-2.0

"""The instances of amphorae, as Nova and other drivers tell of them."""

import datetime
from unittest import mock
import uuid

from octavia.common import data_models

from octavia_hmsync.cli import base as cli_base
from octavia_hmsync import compat
from octavia_hmsync.compat import compute as compat_compute
from octavia_hmsync import compute
from octavia_hmsync import exceptions
from tests.cloud import fake_nova
from tests.cloud import network
from tests.cloud import octavia_conf
from tests.unit.cli import base


class ComputeTestCase(base.CommandTestCase):

    def connect(self, groups):
        self.conf_path = self.write_conf(**groups)
        compat.CONF.reset()
        command = mock.Mock(spec=cli_base.DatabaseMixin)
        command.app = mock.Mock(config_args=['--config-file',
                                             self.conf_path])
        return compute.connect(
            cli_base.DatabaseMixin.load_configuration(
                command, with_octavia=True))


class TestNova(ComputeTestCase):

    def setUp(self):
        super().setUp()
        self.nova = self.useFixture(fake_nova.FakeNova(page=2))
        self.groups = octavia_conf.merge(self.nova.octavia_options(), {
            'service_auth': {'auth_type': 'none'}})
        self.known = self.connect(self.groups)

    def test_status(self):
        server_id = self.nova.add('amphora-a', 'SHUTOFF')
        self.assertEqual('SHUTOFF', self.known.get_status(server_id))
        self.assertIsNone(self.known.get_status('none'))

    def test_delete(self):
        server_id = self.nova.add('amphora-a')
        for _ in range(2):
            self.known.delete(server_id)
            self.assertEqual({}, self.nova.servers)

    def test_list(self):
        ids = sorted(str(uuid.uuid4()) for _ in range(5))
        for amphora_id in ids:
            self.nova.add(f'amphora-{amphora_id}')
        self.nova.add('web')
        self.nova.add('amphora-of-mine')
        self.nova.add(f'my-amphora-{ids[0]}')
        found = self.known.list_instances()
        self.assertEqual(ids, sorted(each.amphora_id for each in found))
        self.assertEqual({datetime.datetime(2026, 1, 1)},
                         {each.created_at for each in found})
        self.assertEqual({False}, {each.is_going for each in found})
        found, = self.known.list_instances(ids[1])
        self.assertEqual(ids[1], found.amphora_id)

    def test_one_that_is_going(self):
        self.nova.add(f'amphora-{uuid.uuid4()}',
                      **{'OS-EXT-STS:task_state': 'deleting'})
        found, = self.known.list_instances()
        self.assertTrue(found.is_going)

    def test_random_names(self):
        self.nova.add(f'amphora-{uuid.uuid4()}')
        self.assertIsNone(self.connect(octavia_conf.merge(
            self.groups, {'nova': {'random_amphora_name_length': 8}})
        ).list_instances())

    def test_hosts(self):
        """Of all pages; a user who is not told hosts is refused."""
        ids = [self.nova.add(f'amphora-{uuid.uuid4()}', **{
            'OS-EXT-SRV-ATTR:host': f'host{number % 2}'})
            for number in range(5)]
        self.assertEqual(
            {server_id: f'host{number % 2}'
             for number, server_id in enumerate(ids)}, self.known.get_hosts())
        self.nova.add(f'amphora-{uuid.uuid4()}')
        self.assertIn('the role admin', str(self.assertRaises(
            exceptions.CloudRefused, self.known.get_hosts)))

    def test_evacuated(self):
        self.nova.migrations = [
            {'instance_uuid': status, 'status': status,
             'migration_type': 'evacuation'}
            for status in ('accepted', 'done', 'completed', 'failed')]
        self.assertEqual({'done', 'completed'}, self.known.get_evacuated())

    def test_services(self):
        self.nova.services = [
            {'id': 1, 'binary': 'nova-compute', 'host': 'host1',
             'zone': 'az1', 'status': 'disabled', 'state': 'up',
             'disabled_reason': 'disk'},
            {'id': 2, 'binary': 'nova-compute', 'host': 'host2',
             'zone': 'az1', 'status': 'enabled', 'state': 'down',
             'disabled_reason': None}]
        self.assertEqual(
            [compute.Host('host1', 'az1', False, True, 'disk'),
             compute.Host('host2', 'az1', True, False)],
            self.known.list_hosts())

    def test_errors(self):
        for status, kind, words in (
                (401, exceptions.CloudUnavailable, 'Keystone does not accept'),
                (403, exceptions.CloudRefused, 'Nova does not let'),
                (500, exceptions.CloudUnavailable, 'Nova or Keystone')):
            self.nova.errors['GET', '/v2.1/servers/detail'] = status
            error = self.assertRaises(kind, self.known.list_instances)
            self.assertIn(words, str(error))
            self.assertIn('list the instances of amphorae', str(error))
            self.assertNotIn('Neutron', str(error))
            self.assertNotIn('[neutron]', str(error))

    def test_down(self):
        known = self.connect(octavia_conf.merge(self.groups, {'nova': {
            'endpoint': f'http://127.0.0.1:{network.free_port()}/v2.1'}}))
        self.assertIn('[nova] endpoint', str(self.assertRaises(
            exceptions.CloudUnavailable, known.get_status, 'id')))

    def test_no_credentials(self):
        del self.groups['service_auth']
        self.assertIn('octavia.conf', str(self.assertRaises(
            exceptions.CloudUnavailable,
            self.connect(self.groups).get_status, 'id')))


class TestDriver(ComputeTestCase):

    def setUp(self):
        super().setUp()
        self.driver = mock.Mock(spec=['get_amphora', 'delete'])
        patch = mock.patch.object(compat_compute, 'load_driver',
                                  autospec=True, return_value=self.driver)
        patch.start()
        self.addCleanup(patch.stop)
        self.known = compute.Driver('other')

    def test_status(self):
        self.driver.get_amphora.return_value = (
            data_models.Amphora(status='ACTIVE'), None)
        self.assertEqual('ACTIVE', self.known.get_status('id'))
        self.driver.get_amphora.side_effect = compat_compute.NotFound(
            resource='Instance', id='id')
        self.assertIsNone(self.known.get_status('id'))
        self.assertIsNone(self.known.list_instances())

    def test_hosts(self):
        for call in (self.known.get_hosts, self.known.list_hosts,
                     self.known.get_evacuated):
            self.assertIn('does not tell on which hosts', str(
                self.assertRaises(exceptions.CloudRefused, call)))

    def test_errors(self):
        self.driver.get_amphora.side_effect = ValueError('no\nway.')
        self.driver.delete.side_effect = OSError('down')
        for call, words in ((self.known.get_status, 'no way'),
                            (self.known.delete, 'down')):
            error = self.assertRaises(exceptions.CloudUnavailable, call, 'id')
            self.assertIn(words, str(error))
            self.assertIn('compute driver other', str(error))
            self.assertNotIn('\n', str(error))


class TestLoading(ComputeTestCase):

    def test_noop(self):
        known = self.connect({'controller_worker': {
            'compute_driver': 'compute_noop_driver'}})
        self.assertEqual('ACTIVE', known.get_status('id'))

    def test_none(self):
        error = self.assertRaises(
            exceptions.CloudUnavailable, self.connect,
            {'controller_worker': {'compute_driver': 'none'}})
        self.assertIn('compute_driver', str(error))
