# SPDX-License-Identifier: Apache-2.0

"""What new amphorae boot with, live in Octavia's options."""

import os

import fixtures
from oslo_config import cfg

from octavia_hmsync.network import boot_options
from octavia_hmsync.network.db import network as network_repo
from tests.db_cases import base as db_base
from tests.unit import base
from tests.unit.db import sqlite
from tests.unit import octavia_opts


class TestFreeOptions(base.TestCase):
    """What the file has stays, even if it is empty."""

    def free(self, *lines):
        path = os.path.join(self.useFixture(fixtures.TempDir()).path,
                            'octavia.conf')
        with open(path, 'w') as file:
            file.write('\n'.join(['[controller_worker]', *lines, '']))
        conf = cfg.ConfigOpts()
        octavia_opts.register(conf)
        conf([], default_config_files=[path], default_config_dirs=[])
        return boot_options.get_free_options(conf)

    def test_file(self):
        networks, groups = boot_options.OPTIONS
        self.assertEqual((networks, groups), self.free())
        self.assertEqual((groups,), self.free(f'{networks} = net1'))
        self.assertEqual((networks,), self.free(f'{groups} ='))
        self.assertEqual((), self.free(f'{networks} =', f'{groups} = a, b'))

    def test_override(self):
        conf = self.make_conf(controller_worker={
            'amp_secgroup_list': ['group1']})
        self.assertEqual(('amp_boot_network_list',),
                         boot_options.get_free_options(conf))


class TestLiveBootOptions(sqlite.SqliteMixin, db_base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.conf.set_override('network_name', 'net', group='hmsync_network')
        self.live = boot_options.LiveBootOptions(self.conf,
                                                 boot_options.OPTIONS)
        self.addCleanup(self.live.stop)

    def make_network(self, network_id='net-id', group_id='group-id'):
        network_repo.claim(self.engine, 'net', 'one', 60)
        network_repo.record(self.engine, 'net', 'one', network_repo.Ids(
            network_id, 'subnet-id', group_id, 'other-id'))

    @property
    def values(self):
        worker = self.conf.controller_worker
        return worker.amp_boot_network_list, worker.amp_secgroup_list

    def test_first_reader_waits_for_the_first_look(self):
        self.make_network()
        self.live.start()
        self.assertEqual(['net-id'], self.live.get('amp_boot_network_list'))
        self.assertEqual(['group-id'], self.live.get('amp_secgroup_list'))
        self.assertIsNone(self.live.get('amp_ssh_key_name'))
        self.live.stop()
        self.assertEqual((['net-id'], ['group-id']), self.values)

    def test_followed(self):
        self.assertEqual(([], []), self.values)
        self.live._look()
        self.assertEqual(([], []), self.values)
        self.make_network()
        self.live._look()
        self.assertEqual((['net-id'], ['group-id']), self.values)
        self.make_network(group_id='another')
        self.live._look()
        self.assertEqual((['net-id'], ['another']), self.values)
        network_repo.forget(self.engine, 'net', 'one')
        self.live._look()
        self.assertEqual(([], []), self.values)

    def test_only_what_is_free(self):
        self.conf.set_override('amp_secgroup_list', ['mine'],
                               group='controller_worker')
        self.live = boot_options.LiveBootOptions(
            self.conf, boot_options.get_free_options(self.conf))
        self.addCleanup(self.live.stop)
        self.make_network()
        self.live._look()
        self.assertEqual((['net-id'], ['mine']), self.values)
        self.assertIsNone(self.live.get('amp_secgroup_list'))

    def test_network_that_is_not_made_yet(self):
        network_repo.claim(self.engine, 'net', 'one', 60)
        self.live._look()
        self.assertEqual(([], []), self.values)

    def test_no_database(self):
        """What was known stays."""
        self.make_network()
        self.live._look()
        self.drop_our_tables()
        self.assertRaises(Exception, self.live._look)  # noqa: H202
        self.assertEqual((['net-id'], ['group-id']), self.values)

    def drop_our_tables(self):
        with self.engine.begin() as connection:
            connection.exec_driver_sql('ALTER TABLE hmsync_network RENAME TO '
                                       'hmsync_gone')
        self.addCleanup(self._put_back)

    def _put_back(self):
        with self.engine.begin() as connection:
            connection.exec_driver_sql('ALTER TABLE hmsync_gone RENAME TO '
                                       'hmsync_network')


class TestRecordedBootOptions(sqlite.SqliteMixin, db_base.DatabaseTestCase):

    def get_values(self, **options):
        for name, value in options.items():
            self.conf.set_override(name, value, group='hmsync_network')
        recorded = boot_options.RecordedBootOptions(self.conf)
        return self.read(recorded)

    @staticmethod
    def read(recorded):
        return tuple(recorded.get_value('controller_worker', option)
                     for option in (*boot_options.OPTIONS, 'amp_image_tag'))

    def test_values(self):
        self.assertEqual((None,) * 3, self.get_values(supply_options=True))
        network_repo.claim(self.engine, 'net', 'one', 60)
        network_repo.record(self.engine, 'net', 'one', network_repo.Ids(
            'net-id', 'subnet-id', 'group-id', 'other-id'))
        self.assertEqual((['net-id'], ['group-id'], None),
                         self.get_values(network_name='net'))
        self.assertEqual((None,) * 3, self.get_values(supply_options=False))

    def test_no_database(self):
        self.conf.set_override('connection', 'sqlite:////no/such/file',
                               group='database')
        self.assertEqual((None,) * 3, self.get_values(supply_options=True))

    def test_recorded_later(self):
        """A process that lives for long learns of it, and does not pester."""
        now = self.useFixture(fixtures.MockPatchObject(
            boot_options.time, 'monotonic', return_value=100.0)).mock
        asked = self.useFixture(fixtures.MockPatchObject(
            network_repo, 'get_ids', wraps=network_repo.get_ids)).mock
        self.conf.set_override('supply_options', True, group='hmsync_network')
        self.conf.set_override('network_name', 'net', group='hmsync_network')
        recorded = boot_options.RecordedBootOptions(self.conf)
        self.assertEqual([(None,) * 3] * 5,
                         [self.read(recorded) for _ in range(5)])
        self.assertEqual(1, asked.call_count)
        network_repo.claim(self.engine, 'net', 'one', 60)
        network_repo.record(self.engine, 'net', 'one', network_repo.Ids(
            'net-id', 'subnet-id', 'group-id', 'other-id'))
        now.return_value += self.conf.hmsync.poll_interval
        self.assertEqual([(['net-id'], ['group-id'], None)] * 5,
                         [self.read(recorded) for _ in range(5)])
        self.assertEqual(2, asked.call_count)
