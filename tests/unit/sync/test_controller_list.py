# SPDX-License-Identifier: Apache-2.0

"""The list in the configuration file, and the live one that covers it."""

import os

from oslo_config import cfg

from octavia_hmsync.sync import controller_list
from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.db import health_manager as hm_repo
from octavia_hmsync.sync import heartbeat_key
from octavia_hmsync.sync.rules import subset
from octavia_hmsync.sync.rules import trial
from tests.db_cases import base as db_base
from tests.unit import base
from tests.unit.db import sqlite
from tests.unit import octavia_opts


class TestPinnedAddresses(base.TestCase):

    def make(self, configured):
        self.path = os.path.join(self.directory(), 'octavia.conf')
        self.write(configured)
        self.conf = cfg.ConfigOpts()
        octavia_opts.register(self.conf)
        self.conf([], default_config_files=[self.path],
                  default_config_dirs=[])
        return controller_list.PinnedAddresses(self.conf)

    def directory(self):
        import fixtures
        return self.useFixture(fixtures.TempDir()).path

    def write(self, configured):
        with open(self.path, 'w') as conf:
            conf.write('[health_manager]\n')
            if configured is not None:
                conf.write(f'controller_ip_port_list = {configured}\n')

    def test_unset(self):
        self.assertEqual((), self.make(None).get())

    def test_in_the_one_order(self):
        pinned = self.make('192.0.2.10:5555, 192.0.2.9:5555,192.0.2.9:5555')
        self.assertEqual(('192.0.2.9:5555', '192.0.2.10:5555'), pinned.get())

    def test_malformed_is_left_out_and_said_once(self):
        pinned = self.make('192.0.2.1, 192.0.2.2:5555, hm3:5555')
        with self.assertLogs(controller_list.LOG.logger) as logs:
            for _ in range(3):
                self.assertEqual(('192.0.2.2:5555',), pinned.get())
        self.assertEqual(2, len(logs.output))
        self.assertIn('"192.0.2.1" is not an address', logs.output[0])
        self.assertIn('correct or remove it', logs.output[0])

    def test_whatever_octavia_reads(self):
        pinned = self.make('2001:db8::1:5555, [2001:db8::2]:5555,, '
                           '[192.0.2.1]:5555,')
        with self.assertNoLogs(controller_list.LOG.logger):
            self.assertEqual(
                ('192.0.2.1:5555', '[2001:db8::1]:5555',
                 '[2001:db8::2]:5555'), pinned.get())

    def test_changed_and_removed_by_sighup(self):
        pinned = self.make('192.0.2.1:5555')
        # The live list covers it.
        self.conf.set_override('controller_ip_port_list', ['192.0.2.7:5555'],
                               group='health_manager')
        self.write('192.0.2.2:5555, 192.0.2.3:5555')
        self.conf.mutate_config_files()
        self.assertEqual(('192.0.2.2:5555', '192.0.2.3:5555'), pinned.get())
        self.write(None)
        self.conf.mutate_config_files()
        self.assertEqual((), pinned.get())


class TestLiveControllerList(sqlite.SqliteMixin, db_base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.live = controller_list.LiveControllerList(self.conf)
        self.addCleanup(self.live.stop)

    def publish(self, number, count, status=trial.OPEN):
        addresses = [f'192.0.2.{n}:5555' for n in range(1, count + 1)]
        generation_repo.publish(
            self.engine, number, subset.assign_slots({}, addresses),
            'because', 'controller1', status)
        return addresses

    @property
    def option(self):
        return self.conf.health_manager.controller_ip_port_list

    def test_first_reader_waits_for_the_first_look(self):
        expected = self.publish(1, 3)
        self.live.start()
        self.assertEqual(expected, self.live.get('controller_ip_port_list'))
        self.assertEqual(expected, self.option)

    def test_agents_of_every_release_can_read_it(self):
        generation_repo.publish(
            self.engine, 1, {'[2001:db8::1]:5555': 0}, '', 'controller1')
        self.live._look()
        self.assertEqual(['2001:db8::1:5555'], self.option)

    def test_nothing_published(self):
        self.live.start()
        self.assertIsNone(self.live.get('controller_ip_port_list'))
        self.assertEqual([], self.option)

    def test_what_was_cached_before_the_start_is_forgotten(self):
        self.assertEqual([], self.option)
        expected = self.publish(1, 2)
        self.live.start()
        self.live.get('controller_ip_port_list')
        self.assertEqual(expected, self.option)

    def test_follows(self):
        self.publish(1, 1)
        self.live._look()
        expected = self.publish(2, 2)
        self.live._look()
        self.assertEqual(expected, self.option)

    def test_new_amphora_is_no_canary(self):
        expected = self.publish(1, 1)
        for number, status in enumerate((
                trial.CANARY, trial.WAVES, trial.ROLLED_BACK), 2):
            self.publish(number, number, status)
            self.live._look()
            self.assertEqual(expected, self.option)

    def test_another_key_than_the_list_is_for(self):
        """What boots here has the key of this controller."""
        self.conf.set_override('heartbeat_key', 'new', 'health_manager')
        old, new = map(heartbeat_key.digest, ('old', 'new'))
        listed = [f'192.0.2.{n}:5555' for n in (1, 2)]
        generation_repo.publish(
            self.engine, 1, subset.assign_slots({}, listed), '', 'here',
            key_digest=old)
        self.live._look()
        self.assertEqual(listed, self.option)
        for number, digest in (1, old), (2, new), (3, new):
            hm_repo.register(self.engine, f'hm{number}',
                             f'192.0.2.{number}', 5555, 'instance', 20,
                             digest)
        self.live._look()
        self.assertEqual(['192.0.2.2:5555', '192.0.2.3:5555'], self.option)
        hm_repo.set_offline(self.engine, 'hm2', 'instance')
        self.live._look()
        self.assertEqual(['192.0.2.3:5555'], self.option)
        hm_repo.set_offline(self.engine, 'hm3', 'instance')
        self.live._look()
        self.assertEqual(listed, self.option)

    def test_trial_is_over(self):
        self.publish(1, 1)
        expected = self.publish(2, 2, trial.CANARY)
        self.live._look()
        generation_repo.set_open(self.engine, 2)
        self.live._look()
        self.assertEqual(expected, self.option)

    def test_nothing_better_than_what_is_on_trial(self):
        """Without any address a new amphora could not be heard at all."""
        expected = self.publish(1, 2, trial.CANARY)
        self.live._look()
        self.assertEqual(expected, self.option)

    def test_good_list_is_there_again_after_a_roll_back(self):
        expected = self.publish(1, 1)
        self.publish(2, 2, trial.CANARY)
        good = generation_repo.get_last_good(self.engine)
        generation_repo.roll_back(self.engine, 2, (), good.slots, 'bad',
                                  'controller1')
        self.live._look()
        self.assertEqual(expected, self.option)

    def test_covers_the_file_and_a_stale_cache(self):
        expected = self.publish(1, 2)
        self.conf.set_override('controller_ip_port_list', ['192.0.2.9:1'],
                               group='health_manager')
        self.live._look()
        self.assertEqual(expected, self.option)

    def test_while_there_are_two_networks(self):
        """Wherever it boots, every second address is in its network."""
        old, new = (['192.0.2.1:5555', '192.0.2.2:5555'],
                    ['198.51.100.1:5555', '198.51.100.2:5555'])
        generation_repo.publish(
            self.engine, 1, subset.assign_slots({}, old + new), '', 'here',
            zones=dict.fromkeys(new, '198.51.100.0/24'))
        self.live._look()
        self.assertEqual([old[0], new[0], old[1], new[1]], self.option)

    def test_no_longer_than_one_can_serve(self):
        published = self.publish(1, 9)
        self.live._look()
        self.assertEqual(5, len(self.option))
        self.assertLessEqual(set(self.option), set(published))
