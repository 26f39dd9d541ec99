# SPDX-License-Identifier: Apache-2.0

"""What the tests of the management network share."""

import uuid

from tests.cloud import neutron
from tests.cloud import octavia_conf
from tests.unit.cli import base

CIDR = '172.16.0.0/24'


class NetworkTestCase(base.CommandTestCase):
    """One Neutron for all tests, and names of its own for each of them."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.neutron = neutron.shared_server()
        cls.cloud = neutron.connect(cls.neutron)
        cls.addClassCleanup(cls.cloud.close)
        cls.network = cls.cloud.network

    def stop_clock(self):
        """What Neutron has made gets older."""

    def setUp(self):
        self.name = f'net-{uuid.uuid4().hex[:8]}'
        self.set_options()
        super().setUp()

    def set_options(self, url=None, **options):
        """Write octavia.conf, with options of [hmsync_network]."""
        self.groups = octavia_conf.merge(
            self.neutron.octavia_options(), {'hmsync_network': {
                'network_name': self.name, 'management_subnet_cidr': CIDR,
                # A busy machine is no fault of Neutron's.
                'api_timeout': 60,
                'amphora_security_group': f'{self.name}-amphorae',
                'health_manager_security_group': f'{self.name}-managers',
                **options}})
        if url:
            self.groups['neutron']['endpoint_override'] = url
        if hasattr(self, 'directory'):
            self.conf_path = self.write_conf()

    def write_conf(self, **groups):
        return super().write_conf(**octavia_conf.merge(self.groups, groups))

    def ensure(self, *argv):
        return self.run_json('network', 'ensure', *argv)

    def delete(self, *argv):
        return {row['part'].split(' (')[0]: (row['outcome'], row['users'])
                for row in self.run_json('network', 'delete', *argv)}

    def names(self):
        """What Neutron has of this test, by kind; names without prefix."""
        return {kind: sorted(
            r.name.removeprefix(self.name)
            for r in getattr(self.network, kind)()
            if (r.name or '').startswith(self.name))
            for kind in ('networks', 'subnets', 'security_groups')}

    def assertNothingThere(self):
        self.assertEqual(
            {'networks': [], 'subnets': [], 'security_groups': []},
            self.names())

    def assertAllThere(self):
        self.assertEqual(
            {'networks': [''], 'subnets': ['-subnet'],
             'security_groups': ['-amphorae', '-managers']}, self.names())

    def rules(self, group_id):
        """(direction, protocol, ports, group at the other end) of a group."""
        return {(rule['direction'], rule['ethertype'], rule['protocol'],
                 rule['port_range_min'], rule['port_range_max'],
                 rule['remote_group_id'])
                for rule in self.network.get_security_group(
                    group_id).security_group_rules}

    def add_port(self, made, **attributes):
        port = self.network.create_port(network_id=made['network_id'],
                                        **attributes)
        self.addCleanup(self.network.delete_port, port.id)
        return port
