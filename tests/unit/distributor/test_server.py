# SPDX-License-Identifier: Apache-2.0

import os

from cryptography import x509
import fixtures
from oslo_config import cfg

from octavia_hmsync.distributor import conf as distributor_conf
from octavia_hmsync.distributor import server
from octavia_hmsync.distributor import tls
from octavia_hmsync import exceptions
from tests.cloud import certificates
from tests.cloud import octavia_conf
from tests.unit import base


class TestConf(base.TestCase):

    def setUp(self):
        super().setUp()
        self.directory = self.useFixture(fixtures.TempDir()).path

    def parse(self, *args, **options):
        path = os.path.join(self.directory, 'distributor.conf')
        octavia_conf.write(path, {'hmsync_distributor': {
            'server_cert': '/a', 'client_ca': '/b', **options}})
        return distributor_conf.parse(['--config-file', path, *args])

    def test_defaults(self):
        options = self.parse().hmsync_distributor
        self.assertEqual(
            ('0.0.0.0', 9444, [], '/var/lib/octavia-hmsync/distributor',
             'openvswitch', 'br-int', 'system'),
            (options.bind_host, options.bind_port, options.allowed_clients,
             options.state_path, options.backend, options.integration_bridge,
             options.datapath_type))

    def test_host(self):
        self.assertEqual(os.uname().nodename,
                         distributor_conf.get_host(self.parse()))
        self.assertEqual('network1', distributor_conf.get_host(
            self.parse(host='network1')))

    def test_wrong(self):
        for name, value in (('bind_port', '99999'), ('bind_port', '0'),
                            ('bind_host', 'a b'), ('threads', '1'),
                            ('restore_interval', 'x'), ('max_pins', '-1')):
            error = self.assertRaises(exceptions.InvalidConfiguration,
                                      self.parse, **{name: value})
            self.assertIn(name, str(error))
            self.assertNotIn('\n', str(error))

    def test_missing(self):
        for name in ('server_cert', 'client_ca'):
            error = self.assertRaises(exceptions.InvalidConfiguration,
                                      self.parse, **{name: None})
            self.assertIn(f'{name} is not set', str(error))

    def test_no_file(self):
        self.assertRaises(exceptions.InvalidConfiguration,
                          distributor_conf.parse,
                          ['--config-file', '/nowhere'])

    def test_only_its_own_file(self):
        """Neither octavia.conf nor what one of a user may have is read."""
        home = os.path.join(self.directory, '.octavia')
        os.mkdir(home)
        octavia_conf.write(os.path.join(home, 'octavia.conf'), {
            'hmsync_distributor': {'host': 'wrong'}})
        self.useFixture(fixtures.EnvironmentVariable('HOME', self.directory))
        conf = self.parse()
        self.assertIsNone(conf.hmsync_distributor.host)
        self.assertEqual(1, len(conf.config_file))
        self.assertNotIn('database', conf)


class TestServer(base.TestCase):

    def setUp(self):
        super().setUp()
        self.directory = self.useFixture(fixtures.TempDir()).path
        made = self.useFixture(certificates.Certificates(
            os.path.join(self.directory, 'certificates')))
        self.conf = cfg.ConfigOpts()
        distributor_conf.register_opts(self.conf)
        self.conf([], default_config_files=[], default_config_dirs=[])
        self.path = made.server_path('network1')
        self.set_option('server_cert', self.path)
        self.set_option('client_ca', made.client_authority.certificate_path)
        self.set_option('state_path', os.path.join(self.directory, 'state'))

    def set_option(self, name, value):
        self.conf.set_override(name, value, 'hmsync_distributor')

    def test_bind(self):
        for host, bound in (('10.0.0.1', '10.0.0.1:9444'),
                            ('::', '[::]:9444'),
                            ('network1', 'network1:9444')):
            self.set_option('bind_host', host)
            made = server.Server(self.conf)
            self.assertEqual([bound], made.cfg.settings['bind'].get())
            self.assertEqual(1, made.cfg.workers)

    def test_backend(self):
        self.assertEqual('OpenVSwitch',
                         server.find_backend(self.conf).__name__)
        self.set_option('backend', 'nothing')
        error = self.assertRaises(exceptions.InvalidConfiguration,
                                  server.check, self.conf)
        self.assertIn('backend = nothing', str(error))

    def test_when_certificates_end(self):
        """The first one of each file, and what can be read alone."""
        contexts = tls.Contexts(self.conf)
        with open(self.path, 'rb') as file:
            end = min(one.not_valid_after_utc.timestamp() for one in
                      x509.load_pem_x509_certificates(file.read()))
        self.assertEqual({'server_cert', 'client_ca'}, set(contexts.expiry))
        self.assertEqual(end, contexts.expiry['server_cert'])
        self.set_option('client_ca', '/nowhere')
        self.assertEqual({'server_cert': end}, tls.read_expiry(self.conf))

    def test_certificates_are_read_anew(self):
        log = self.useFixture(fixtures.FakeLogger())
        contexts = tls.Contexts(self.conf)
        first = contexts.get()
        contexts.reload()
        second = contexts.get()
        self.assertIsNot(first, second)
        with open(self.path, 'w'):
            pass
        contexts.reload()
        self.assertIs(second, contexts.get())
        self.assertIn('The certificates of before stay in use', log.output)
        self.assertRaises(exceptions.InvalidConfiguration, tls.Contexts,
                          self.conf)
