# SPDX-License-Identifier: Apache-2.0

"""Which roles the network's user and the ports' user need: real Keystone."""

import subprocess

import openstack

from tests.cloud import keystone_server
from tests.cloud import mariadb
from tests.cloud import neutron
from tests.cloud import process
from tests.cloud import waiting
from tests.unit.cli import base

# As an operator has them who makes ports by a user of their own.
NETWORK_USER, PORTS_USER = 'octavia-network', 'octavia-resources'


class TestUsers(base.CommandTestCase):

    def setUp(self):
        super().setUp()
        server = self.useFixture(mariadb.MariaDBServer(self.directory))
        waiting.wait_for(server.is_ready, 'sign of life of MariaDB')
        self.keystone = self.useFixture(
            keystone_server.Keystone(self.directory, server))
        self.neutron = self.useFixture(neutron.Neutron(
            self.directory, options=neutron.with_keystone(self.keystone)))
        for child in (self.keystone, self.neutron):
            waiting.wait_for(child.is_ready, 'sign of life')
        self.identity = self.connect('neutron').identity
        self.project = self.identity.find_project('service')

    def connect(self, user):
        credentials = self.keystone.credentials(user)
        kind = credentials.pop('auth_type')
        connection = openstack.connect(
            load_envvars=False, load_yaml_config=False, auth_type=kind,
            auth=credentials, network_endpoint_override=self.neutron.url,
            identity_endpoint_override=self.keystone.url)
        self.addCleanup(connection.close)
        return connection

    def give(self, name, role):
        """Let a user, who may be new, have one more role in the project."""
        user = self.identity.find_user(name) or self.identity.create_user(
            name=name, password=self.keystone.password)
        self.identity.assign_project_role_to_user(
            self.project, user, self.identity.find_role(role))

    def run_as(self, user, *argv):
        """Run a command with a configuration of that user's own."""
        path = self.write_conf(
            service_auth=self.keystone.credentials(user),
            neutron={'endpoint_override': self.neutron.url},
            hmsync_network={'management_subnet_cidr': '172.16.0.0/24',
                            'api_timeout': 60})
        return subprocess.run(
            [process.program('octavia-hmsync'), '--config-file', path, *argv],
            env=process.environment(self.directory), capture_output=True,
            text=True, timeout=240)

    def test_roles(self):
        """The ports' user needs service, too, and the other one does not."""
        needed = {NETWORK_USER: 'member', PORTS_USER: 'service'}
        ensure = {NETWORK_USER: ('network', 'ensure', '-c', 'network_id'),
                  PORTS_USER: ('network', 'port', 'ensure')}
        for user, role in needed.items():
            for more in ('reader', 'member', 'service'):
                self.give(user, more)
                done = self.run_as(user, *ensure[user])
                if more == role:
                    self.assertEqual(0, done.returncode, done.stderr)
                    break
                self.assertEqual(1, done.returncode, more)
                self.assertIn('does not let the user', done.stderr)
                self.assertEqual(1, done.stderr.count('\n'), done.stderr)
        port, = self.connect('neutron').network.ports(
            device_owner='Octavia:health-mgr')
        self.assertEqual(self.project.id, port.project_id)
