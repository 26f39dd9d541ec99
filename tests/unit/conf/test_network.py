# SPDX-License-Identifier: Apache-2.0

"""The options of the management network, read from a file."""

import fixtures
from oslo_config import cfg

from octavia_hmsync.conf import network as network_conf
from octavia_hmsync import exceptions
from octavia_hmsync.network import network
from tests.unit import base


def read(path, line):
    """Parse a file with one option of the group."""
    with open(path, 'w') as octavia_conf:
        octavia_conf.write(f'[hmsync_network]\n{line}\n')
    conf = cfg.ConfigOpts()
    network_conf.register_opts(conf)
    conf([], default_config_files=[path], default_config_dirs=[])
    return conf


class TestFile(base.TestCase):

    def setUp(self):
        super().setUp()
        self.path = self.useFixture(fixtures.TempDir()).join('octavia.conf')

    def test_wrong_values(self):
        for line in ('reconcile_interval = soon', 'reconcile_interval = -1',
                     'api_timeout = 0', 'supply_options = perhaps',
                     'network_name = a,b', 'network_name = a/b',
                     f'network_name = {"x" * 141}'):
            name = line.partition(' ')[0]
            conf = read(self.path, line)
            e = self.assertRaises(exceptions.InvalidConfiguration,
                                  network_conf.check, conf)
            self.assertIn(f'[hmsync_network] {name}', str(e))
            self.assertNotIn('\n', str(e))
            # From now on it can be read, as Octavia does when it logs it.
            self.assertIsNotNone(conf.hmsync_network[name])

    def test_cidr(self):
        for cidr, version in (('172.16.0.0/22', 4), ('fd00::/64', 6)):
            conf = read(self.path, f'management_subnet_cidr = {cidr}')
            network_conf.check(conf)
            self.assertEqual(version, network.read_cidr(conf).version)

    def test_wrong_cidr(self):
        for cidr in ('', '172.16.0.1/22', '172.16.0.0/33', '172.16.0.0/30',
                     '127.0.0.0/8', '224.0.0.0/8', '169.254.0.0/16',
                     'fe80::/64', 'ff02::/64', 'amphorae'):
            conf = read(self.path, f'management_subnet_cidr = {cidr}')
            e = self.assertRaises(exceptions.InvalidConfiguration,
                                  network.read_cidr, conf)
            self.assertIn('[hmsync_network] management_subnet_cidr', str(e))
            self.assertNotIn('\n', str(e))
