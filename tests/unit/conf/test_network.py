# SPDX-License-Identifier: Apache-2.0

from octavia_hmsync import exceptions
from octavia_hmsync.network import network
from tests.unit import base


class TestCidr(base.TestCase):

    def read(self, cidr):
        return network.read_cidr(self.make_conf(hmsync_network={
            'management_subnet_cidr': cidr}))

    def test_versions(self):
        for cidr, version in (('172.16.0.0/22', 4), ('fd00::/64', 6)):
            self.assertEqual(version, self.read(cidr).version)

    def test_wrong_cidr(self):
        for cidr in ('', '172.16.0.1/22', '172.16.0.0/33', '172.16.0.0/30',
                     '127.0.0.0/8', '224.0.0.0/8', '169.254.0.0/16',
                     'fe80::/64', 'ff02::/64', 'amphorae'):
            e = self.assertRaises(exceptions.InvalidConfiguration,
                                  self.read, cidr)
            self.assertIn('[hmsync_network] management_subnet_cidr', str(e))
            self.assertNotIn('\n', str(e))
