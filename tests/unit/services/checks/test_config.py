# SPDX-License-Identifier: Apache-2.0

"""Names of options in octavia.conf that nobody reads."""

import os

import fixtures
from oslo_config import cfg

from octavia_hmsync.conf import network as network_conf
from octavia_hmsync.conf import opts as groups
from octavia_hmsync.conf import sync as hmsync_conf
from octavia_hmsync.services.checks import config
from tests.unit import base
from tests.unit import octavia_opts


class TestUnknownNames(base.TestCase):

    def setUp(self):
        super().setUp()
        self.directory = self.useFixture(fixtures.TempDir()).path

    def write(self, name, text):
        path = os.path.join(self.directory, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, 'w') as octavia_conf:
            octavia_conf.write(text)
        return path

    def find(self, *argv, files=(), directories=()):
        """Return what is unknown, of files that oslo.config has parsed."""
        self.conf = cfg.ConfigOpts()
        octavia_opts.register(self.conf)
        groups.register(self.conf)
        self.conf(argv, default_config_files=list(files),
                  default_config_dirs=list(directories))
        self.sources = config.read(self.conf, self.environ)
        return config.find_unknown(self.conf, self.sources)

    environ: dict[str, str] = {}

    def assertMeant(self, expected, text):
        path = self.write('octavia.conf', text)
        self.assertEqual(
            expected, [(u.group, u.option, u.meant) for u in
                       self.find('--config-file', path)])

    def test_right_file(self):
        """Groups and options of others are none of our business."""
        self.assertMeant([], '[DEFAULT]\nconfig_source = hmsync\n'
                             '[hmsync]\ndriver = octavia_hmsync\n'
                             'poll_interval = 3\n'
                             '[HMSync]\noffline_after = 15\n'
                             '[hmsync_network]\nallow_ssh = True\n'
                             '[health_manager]\nbind_prot = 5555\n'
                             '[keystone_authtoken]\nuser = octavia\n'
                             '[nova]\nsync = no\n')

    def test_each_option_of_ours_is_known(self):
        for group, opts in ((hmsync_conf.GROUP, hmsync_conf.OPTS),
                            (network_conf.GROUP, network_conf.OPTS)):
            self.assertMeant([], f'[{group}]\n' + ''.join(
                f'{opt.dest} = 1\n' for opt in opts))

    def test_options(self):
        for name, meant in (
                ('poll_intervall', 'poll_interval'),
                ('poll-interval', 'poll_interval'),
                ('Poll_Interval', 'poll_interval'),
                ('drivers', 'driver'),
                ('allowed_network', 'allowed_networks'),
                ('allow_shh', '[hmsync_network] allow_ssh'),
                ('management_subnet_cidr',
                 '[hmsync_network] management_subnet_cidr'),
                ('heartbeat_key', '[health_manager] heartbeat_key'),
                ('statistics_drivers',
                 '[controller_worker] statistics_drivers'),
                ('qqq', None)):
            self.assertMeant([('hmsync', name, meant)],
                             f'[hmsync]\n{name} = 1\n')
        self.assertMeant([('hmsync_network', 'driver', '[hmsync] driver')],
                         '[hmsync_network]\ndriver = octavia_hmsync\n')

    def test_groups(self):
        for name, meant in (
                ('hmysnc', '[hmsync]'), ('hm_sync', '[hmsync]'),
                ('hm-sync', '[hmsync]'), ('octavia_hmsync', '[hmsync]'),
                ('octavia-hmsync', '[hmsync]'),
                ('hmsync_netwrok', '[hmsync_network]'),
                ('hmsync-network', '[hmsync_network]'),
                ('HMSYNC_NET', '[hmsync_network]')):
            self.assertMeant([(name, None, meant)],
                             f'[{name}]\npoll_interval = 1\n')

    def test_several_files(self):
        """Which of them has it is said."""
        first = self.write('octavia.conf', '[hmsync]\npoll_interval = 3\n')
        second = self.write('conf.d/b.conf', '[hmsync]\ndriver = a\n'
                                             'poll_intervall = 3\n')
        self.write('conf.d/c.txt', '[hmsync]\nnonsense = 3\n')
        third = self.write('conf.d/c.conf', '[hmsync]\nretry = 3\n')
        found = self.find('--config-file', first, '--config-dir',
                          os.path.dirname(second))
        self.assertEqual([
            f'[hmsync] poll_intervall (meant: poll_interval?) in {second}',
            f'[hmsync] retry in {third}'],
            [str(u) for u in found])
        self.assertEqual('a', config.find_value(
            self.sources, 'hmsync', 'driver'))
        self.assertIsNone(config.find_value(
            self.sources, 'hmsync', 'offline_after'))

    def test_usual_places(self):
        first = self.write('octavia.conf', '[hmsync]\npoll = 3\n')
        second = self.write('octavia.conf.d/b.conf', '[hmsync]\nretry = 3\n')
        directory = os.path.dirname(second)
        found = self.find(files=[first], directories=[
            directory, os.path.join(self.directory, 'nonexistent')])
        self.assertEqual([first, second], [u.source for u in found])
        self.useFixture(fixtures.EnvironmentVariable('HOME', self.directory))
        found = self.find('--config-file', '~/octavia.conf', '--config-dir',
                          '~/octavia.conf.d')
        self.assertEqual(['~/octavia.conf', second],
                         [u.source for u in found])

    def test_environment(self):
        """oslo.config reads that before the files."""
        self.environ = {
            'OS_HMSYNC__POLL_INTERVALL': '3', 'OS_HMSYNC__DRIVER': 'b',
            'OS_HMSYNC_NETWORK__ALLOW_SSH': 'True',
            'OS_DEFAULT__HOST': 'hm1', 'OS_USERNAME': 'octavia',
            'OS_HMYSNC__POLL_INTERVAL': '3'}
        path = self.write('octavia.conf', '[hmsync]\ndriver = a\n')
        self.assertEqual([
            '[hmsync] poll_intervall (meant: poll_interval?) in the '
            'environment', '[hmysnc] (meant: [hmsync]?) in the environment'],
            [str(u) for u in self.find('--config-file', path)])
        self.assertEqual('b', config.find_value(
            self.sources, 'hmsync', 'driver'))

    def test_no_file(self):
        self.assertEqual([], self.find())
