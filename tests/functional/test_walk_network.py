# SPDX-License-Identifier: Apache-2.0

"""The walk over the page of the management network's roll-out.

A real Neutron and a real Open vSwitch, in a namespace that stands for a
controller, with a health manager in it.
"""

import json
import pathlib
import secrets

import fixtures
from oslotest import base
import sqlalchemy as sa

from octavia_hmsync.db import schema
from tests.cloud import certificates
from tests.cloud import database
from tests.cloud import neutron
from tests.cloud import octavia
from tests.cloud import octavia_conf
from tests.cloud import openvswitch
from tests.cloud import relay
from tests.cloud import waiting
from tests.cloud import walk
from tests.functional import test_network_port
from tests.functional import walks

HOST = 'controller-1'
AMPHORA_PORT = 9443
# Of a busy machine, and of a Neutron that other tests share.
OPTIONS = {
    'network_name': 'walk', 'amphora_security_group': 'walk-amphorae',
    'health_manager_security_group': 'walk-managers', 'api_timeout': 60}


class TestWalkNetwork(walks.NetworkPages, base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.directory = self.useFixture(fixtures.TempDir()).path
        self.neutron = neutron.shared_server()
        self.namespace = self.useFixture(openvswitch.Namespace(
            HOST, self.directory))
        vswitch = self.useFixture(openvswitch.OpenVswitch(
            self.namespace, HOST, self.directory))
        self.useFixture(relay.Relay(self.namespace, self.neutron.port))
        self.neutron.add_agent(HOST)
        self.addCleanup(self.neutron.remove_agent, HOST)
        self.useFixture(test_network_port.Agent(self.neutron, vswitch))
        self.database = self.useFixture(
            database.SqliteDatabase(self.directory))
        schema.upgrade(self.database.engine)
        self.options = octavia_conf.merge(
            octavia_conf.controller(
                self.database.connection, self.useFixture(
                    certificates.Certificates(f'{self.directory}/certs')),
                secrets.token_hex(16), AMPHORA_PORT),
            octavia_conf.HMSYNC, self.neutron.octavia_options(), {
                'DEFAULT': {'host': HOST},
                'controller_worker': {'amp_boot_network_list': None,
                                      'amp_secgroup_list': None},
                'hmsync': {'allow_loopback': False},
                'hmsync_network': {
                    'ovsdb_connection': vswitch.connection, **OPTIONS}})
        self.manager = self.useFixture(octavia.HealthManager(
            HOST, octavia_conf.merge(self.options, {'health_manager': {
                'bind_ip': '127.0.0.1'}}), self.directory,
            self.directory).enter(self.namespace))
        self.manager.stop()
        self.shell = walk.Shell(self.directory, self.namespace.wrap)

    def configure(self, lines):
        self.options = octavia_conf.merge(self.options, lines)
        directory = pathlib.Path(self.directory, '.octavia')
        directory.mkdir(exist_ok=True)
        octavia_conf.write(directory / 'octavia.conf', self.options)

    def show(self, command):
        code, output = self.shell.run(f'{command} -f json')
        self.assertEqual(0, code, output)
        return json.loads(output)

    def expect_supplied(self):
        """A worker of this octavia.conf boots amphorae in the network."""
        network = self.show('octavia-hmsync network show')
        self.expect(network['amp_boot_network_list'] ==
                    [network['network_id']], network)

    def restart(self):
        self.manager.options = self.options
        self.manager.start()
        waiting.wait_for(self.manager.is_ready, 'health manager',
                         processes=[self.manager])

    def expect_at_its_port(self):
        port, = self.show('octavia-hmsync network port list')

        def is_listed():
            return [(row['host'], row['ip_address'], row['status'])
                    for row in self.show(
                        'octavia-hmsync health manager list')
                    ] == [(HOST, *port['ip_address'], 'ONLINE')]

        waiting.wait_for(is_listed, f'{HOST} with {port["ip_address"]}', 60,
                         processes=[self.manager])
        self.expect_node({})
        self.expect_node({
            'binding_host': 'nosuch', 'integration_bridge': 'br-nosuch'},
            'binding_host, by default [DEFAULT] host, is nosuch',
            'no bridge br-nosuch')

    def expect_node(self, options, *problems):
        """See what "upgrade check" tells of options of this node."""
        before = self.options['hmsync_network']
        self.configure({'hmsync_network': options})
        _code, output = self.shell.run('octavia-hmsync upgrade check -f json')
        self.configure({'hmsync_network': {
            name: before.get(name) for name in options}})
        details, = (row['details'] for row in json.loads(output)
                    if row['check'] == 'Management network')
        self.expect(bool(details) == bool(problems) and all(
            problem in details for problem in problems), output)

    def delete_ports(self):
        self.manager.stop()
        with self.database.engine.begin() as connection:
            connection.execute(sa.text('DELETE FROM hmsync_health_manager'))

    def test_walk(self):
        self.walk_network()
