# SPDX-License-Identifier: Apache-2.0

"""What oslo-config-generator and oslo-config-validator know of the plugin."""

import io
import os
import pathlib
import subprocess
import sys

import fixtures
from oslo_config import cfg
from oslo_config import generator

from octavia_hmsync.conf import cluster as cluster_conf
from octavia_hmsync.conf import image as image_conf
from octavia_hmsync.conf import network as network_conf
from octavia_hmsync.conf import opts
from octavia_hmsync.conf import sync as hmsync_conf
from octavia_hmsync.distributor import conf as distributor_conf
from tests.cloud import octavia_conf
from tests.unit import base

TOP = pathlib.Path(__file__).resolve().parents[2]
GENERATOR_CONF = TOP / 'etc/config/octavia-hmsync-config-generator.conf'
# What etc/config/octavia-config-generator.conf of Octavia names, whose
# packages do not have the file.
OCTAVIA_NAMESPACES = (
    'octavia', 'oslo.db', 'oslo.log', 'oslo.messaging', 'oslo.middleware.cors',
    'oslo.middleware.http_proxy_to_wsgi', 'oslo.middleware.healthcheck',
    'oslo.policy', 'keystonemiddleware.audit', 'keystonemiddleware.auth_token',
    'cotyledon', 'castellan.config')
# As the roll-out guide has it, with something of each group.
RIGHT = {
    'DEFAULT': {'config_source': 'hmsync', 'host': 'controller1',
                'transport_url': 'rabbit://octavia:S3cret@192.0.2.9:5672/'},
    'database': {'connection': 'mysql+pymysql://o:S3cret@192.0.2.9/octavia'},
    'api_settings': {'bind_host': '192.0.2.1'},
    'keystone_authtoken': {'www_authenticate_uri': 'https://192.0.2.9:5000',
                           'auth_type': 'password', 'username': 'octavia'},
    'service_auth': {'auth_url': 'https://192.0.2.9:5000',
                     'auth_type': 'password', 'username': 'octavia',
                     'password': 'S3cret', 'project_name': 'service',
                     'user_domain_name': 'Default'},
    'oslo_messaging': {'topic': 'octavia_prov'},
    'health_manager': {'bind_ip': '192.0.2.1', 'heartbeat_key': 'S3cret',
                       'controller_ip_port_list': '192.0.2.1:5555'},
    'controller_worker': {'statistics_drivers': 'stats_db, hmsync'},
    'hmsync': {'driver': 'octavia_hmsync', 'poll_interval': 3,
               'allowed_networks': '192.0.2.0/24'},
    'hmsync_network': {'management_subnet_cidr': '192.0.2.0/24'},
}


class TestSampleConfiguration(base.TestCase):

    def setUp(self):
        super().setUp()
        self.conf = cfg.ConfigOpts()
        generator.register_cli_opts(self.conf)
        self.conf([], default_config_files=[str(GENERATOR_CONF)],
                  default_config_dirs=[])
        self.sample = (TOP / self.conf.output_file).read_text()

    def test_up_to_date(self):
        generated = io.StringIO()
        generator.generate(self.conf, generated)
        self.assertEqual(
            generated.getvalue(), self.sample,
            f'{self.conf.output_file} is out of date: run "tox -e genconfig"')

    def test_each_option_is_in_it(self):
        lines = self.sample.splitlines()
        for group in (hmsync_conf.GROUP, network_conf.GROUP,
                      image_conf.GROUP, cluster_conf.GROUP):
            self.assertIn(f'[{group}]', lines)
        # What switches the plugin on, as it has to be.
        self.assertIn('#config_source = hmsync', lines)
        self.assertIn('#driver = octavia_hmsync', lines)
        for opt in (hmsync_conf.OPTS + network_conf.OPTS +
                    image_conf.OPTS + cluster_conf.OPTS):
            self.assertEqual(1, sum(
                line.startswith(f'#{opt.name} =') for line in lines),
                opt.name)


class TestShortSample(base.TestCase):
    """What an operator sets, without the options of internals."""

    def test_up_to_date(self):
        conf = cfg.ConfigOpts()
        generator.register_cli_opts(conf)
        conf([], default_config_files=[str(
            TOP / 'etc/config/octavia-hmsync-short-config-generator.conf')],
            default_config_dirs=[])
        generated = io.StringIO()
        generator.generate(conf, generated)
        sample = (TOP / conf.output_file).read_text()
        self.assertEqual(
            generated.getvalue(), sample,
            f'{conf.output_file} is out of date: run "tox -e genconfig"')
        for group, its_opts in opts.list_opts():
            for opt in its_opts:
                self.assertEqual(not opt.advanced,
                                 f'\n#{opt.name} =' in sample, opt.name)
        long = (TOP / 'etc/octavia/octavia-hmsync.conf.sample').read_text()
        self.assertLess(sample.count('\n'), long.count('\n') / 2)


class TestSampleOfDistributors(base.TestCase):
    """Their file is one of its own: octavia.conf stays with controllers."""

    def test_up_to_date(self):
        conf = cfg.ConfigOpts()
        generator.register_cli_opts(conf)
        conf([], default_config_files=[str(
            TOP / 'etc/config/octavia-hmsync-distributor-config-generator.conf'
        )], default_config_dirs=[])
        generated = io.StringIO()
        generator.generate(conf, generated)
        self.assertEqual(
            generated.getvalue(), (TOP / conf.output_file).read_text(),
            f'{conf.output_file} is out of date: run "tox -e genconfig"')
        for group, its_opts in distributor_conf.list_opts():
            self.assertIn(f'[{group}]\n', generated.getvalue())
            for opt in its_opts:
                self.assertIn(f'\n#{opt.name} =', generated.getvalue())

    def test_no_option_is_a_controllers(self):
        self.assertEqual([], [group for group, _ in opts.list_opts()
                              if group == distributor_conf.GROUP])


class TestValidator(base.TestCase):
    """oslo-config-validator with Octavia's namespaces and the plugin's."""

    def setUp(self):
        super().setUp()
        directory = self.useFixture(fixtures.TempDir())
        self.input_path = directory.join('octavia.conf')
        self.octavia_path = directory.join('octavia-config-generator.conf')
        with open(self.octavia_path, 'w') as generator_conf:
            generator_conf.write('[DEFAULT]\n' + ''.join(
                f'namespace = {name}\n' for name in OCTAVIA_NAMESPACES))

    def validate(self, **groups):
        """Have it check the right file with these changes.

        :returns: (exit code, the lines of its errors).
        """
        octavia_conf.write(self.input_path,
                           octavia_conf.merge(RIGHT, groups))
        done = subprocess.run(
            [os.path.join(os.path.dirname(sys.executable),
                          'oslo-config-validator'),
             '--config-file', self.octavia_path,
             '--config-file', str(GENERATOR_CONF),
             '--input-file', self.input_path],
            text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return done.returncode, [line for line in done.stdout.splitlines()
                                 if line.startswith('ERROR:')]

    def test_right_file(self):
        self.assertEqual((0, []), self.validate())

    def test_typo(self):
        code, errors = self.validate(hmsync={'poll_intervall': 3},
                                     hmsync_netwrok={'allow_ssh': True})
        self.assertEqual((1, 2), (code, len(errors)), errors)
        self.assertIn('hmsync/poll_intervall is not part', errors[0])
        self.assertIn('hmsync_netwrok/allow_ssh is not part', errors[1])
