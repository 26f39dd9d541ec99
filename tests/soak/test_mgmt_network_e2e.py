# SPDX-License-Identifier: Apache-2.0

"""The management network from nothing to the return of an address.

Keystone, Neutron, OVN and a vswitch for each node; health managers and agents
of amphorae that reach each other through these alone.
"""

import json
import os
import secrets
import subprocess

import fixtures
import openstack.connection
from oslotest import base
import sqlalchemy as sa
from sqlalchemy import pool

from octavia_hmsync.network.db import port as port_repo
from octavia_hmsync.network.db import used_lists as used_repo
from octavia_hmsync.network import retention as port_retention
from octavia_hmsync.sync.db import amphora as amphora_repo
from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.db import heartbeat as heartbeat_repo
from tests.cloud import amphora
from tests.cloud import certificates
from tests.cloud import controllers
from tests.cloud import database
from tests.cloud import keystone_server
from tests.cloud import nodes
from tests.cloud import octavia
from tests.cloud import octavia_conf
from tests.cloud import openvswitch
from tests.cloud import ovn
from tests.cloud import process
from tests.cloud import records
from tests.cloud import relay
from tests.cloud import syslog
from tests.cloud import waiting

HOSTS = ('node1', 'node2', 'node3')
AMPHORA_PORT = 9443
LISTENER_PORT = 8080


class Amphora(controllers.InNamespace, amphora.Amphora):

    def enter(self, namespace):
        self.haproxy.command = namespace.wrap(self.haproxy.command)
        return super().enter(namespace)

    def is_ready(self):
        return self.is_open('tcp', AMPHORA_PORT)


class TestManagementNetwork(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.directory = self.useFixture(fixtures.TempDir()).path
        self.heartbeat_key = secrets.token_hex(16)
        self.useFixture(syslog.SyslogSocket(self.directory))
        self.certificates = self.useFixture(certificates.Certificates(
            os.path.join(self.directory, 'certs')))
        self.database = self.useFixture(database.MariaDBDatabase())
        server = self.database.server
        self.central = self.useFixture(ovn.Central(self.directory))
        self.keystone = keystone_server.Keystone(self.directory, server)
        self.neutron = ovn.Neutron(self.directory, server, self.central,
                                   self.keystone)
        self.useFixture(self.keystone)
        self.useFixture(self.neutron)
        underlay = nodes.make_underlay(self, self.directory)
        self.chassis = {
            host: self.useFixture(ovn.Chassis(
                host, self.central, underlay, number, self.directory))
            for number, host in enumerate((*HOSTS, 'compute'), 1)}
        for host in HOSTS:
            for port in (server.port, self.keystone.port, self.neutron.port):
                self.useFixture(relay.Relay(self.chassis[host].namespace,
                                            port))
        for child in (self.keystone, self.neutron,
                      *(c for c in self.chassis.values())):
            waiting.wait_for(child.is_ready, 'sign of life')
        self.engine = sa.create_engine(self.database.engine.url,
                                       poolclass=pool.NullPool)
        # These never end, whatever a test has the others do.
        self.fabric = [child for chassis in self.chassis.values()
                       for child in (chassis.vswitch.vswitchd,
                                     chassis.controller)]
        self.children = []

    def options(self, host):
        return octavia_conf.merge(
            octavia_conf.controller(
                self.database.connection, self.certificates,
                self.heartbeat_key, AMPHORA_PORT),
            octavia_conf.HMSYNC, {
                'DEFAULT': {'host': host},
                'health_manager': {'bind_ip': '0.0.0.0'},  # nosec B104
                'hmsync': {'address_driver': 'neutron_port',
                           'allow_loopback': False},
                'hmsync_network': {
                    'ovsdb_connection': self.chassis[host].vswitch.connection,
                    'management_subnet_cidr': '172.31.0.0/24',
                    'reconcile_interval': 1, 'port_retention': 30},
                'service_auth': self.keystone.credentials('octavia'),
                'neutron': {'endpoint_override': self.neutron.url}})

    def begin_command(self, host, *arguments):
        """Start octavia-hmsync on a node."""
        path = os.path.join(self.directory, f'octavia-{host}.conf')
        octavia_conf.write(path, self.options(host))
        return subprocess.Popen(
            self.chassis[host].namespace.wrap([
                process.program('octavia-hmsync'), '--config-file', path,
                *arguments]),
            env=process.environment(self.directory), cwd=self.directory,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True)

    def end_command(self, command):
        out, error = command.communicate(timeout=90)
        self.assertEqual(0, command.returncode, error)
        return out

    def command(self, host, *arguments):
        return self.end_command(self.begin_command(host, *arguments))

    def start(self, kind, host):
        options = self.options(host)
        if kind is octavia.HealthManager:
            options = octavia_conf.merge(options, octavia_conf.FAILOVER)
        child = self.useFixture(kind(
            host, options, self.directory,
            self.directory).enter(self.chassis[host].namespace))
        self.children.append(child)
        return child

    def wait_for(self, condition, what, timeout=waiting.LIMIT):
        return waiting.wait_for(
            condition, what, timeout,
            processes=[*self.fabric,
                       *(c for c in self.children if c.running)])

    def connect(self):
        credentials = self.keystone.credentials('octavia')
        credentials.pop('auth_type')
        return openstack.connect(
            load_envvars=False, load_yaml_config=False,
            auth_type='password', auth=credentials,
            network_endpoint_override=self.neutron.url).network

    def add_amphora(self, number, network_id, group_id, addresses):
        """Boot an amphora as Nova would: a port, and an instance at it."""
        port = self.api.create_port(
            network_id=network_id, security_group_ids=[group_id],
            binding_host_id='compute', device_owner='compute:nova')
        self.addCleanup(self.api.delete_port, port)
        ip = port.fixed_ips[0]['ip_address']
        namespace = self.useFixture(openvswitch.Namespace(
            f'amphora{number}', self.directory))
        self.chassis['compute'].plug(namespace, 'eth0', port.id,
                                     port.mac_address)
        namespace.run('ip', 'link', 'set', 'eth0', 'mtu', '1400')
        namespace.run('ip', 'address', 'add', f'{ip}/24', 'dev', 'eth0')
        load_balancer_id = self.database.records.add_load_balancer('SINGLE')
        listener_id, amphora_id = records.new_id(), records.new_id()
        # The heartbeats of one with a listener tell who heard it.
        self.database.records.add_listener(load_balancer_id, LISTENER_PORT,
                                           listener_id)
        self.database.records.add_amphora(
            ip, load_balancer_id=load_balancer_id, amphora_id=amphora_id,
            role=records.ROLES['SINGLE'][0])
        agent = self.useFixture(Amphora(
            amphora_id, ip, addresses, self.certificates,
            self.heartbeat_key, self.directory, self.directory,
            port=AMPHORA_PORT, listener={
                'load_balancer_id': load_balancer_id,
                'listener_id': listener_id,
                'port': LISTENER_PORT}).enter(namespace))
        self.children.append(agent)
        return agent

    def published(self):
        newest = generation_repo.get_newest(self.engine)
        return set(newest.addresses) if newest else set()

    def have_adopted(self, addresses):
        """Whether all amphorae were seen to use exactly this list."""
        rows = amphora_repo.get_rows(self.engine)
        return len(rows) == len(self.amphorae) and all(
            row.adopted_at is not None and
            set(row.controller_ip_port_list.split(', ')) == set(addresses)
            for row in rows)

    def test_life(self):
        self.command('node1', 'db', 'upgrade')
        made = json.loads(self.command('node1', 'network', 'ensure', '-f',
                                       'json'))
        self.api = self.connect()

        # Three nodes plug at once.
        for command in [self.begin_command(host, 'network', 'port', 'plug')
                        for host in HOSTS]:
            self.assertIn('ACTIVE', self.end_command(command))
        ports = {p.host: p for p in port_repo.get_all(self.engine)}
        self.assertEqual(set(HOSTS), set(ports))
        addresses = {host: f'{port.ip_addresses[0]}:5555'
                     for host, port in ports.items()}

        # Their health managers take the addresses from the ports.
        managers = {host: self.start(octavia.HealthManager, host)
                    for host in HOSTS}
        self.start(octavia.Housekeeping, 'node1')
        self.wait_for(lambda: self.published() == set(addresses.values()),
                      lambda: f'list of {addresses}: {self.published()}',
                      120)

        # Amphorae are heard there, and their agents reached from there.
        self.amphorae = [
            self.add_amphora(number, made['network_id'],
                             made['amphora_security_group_id'],
                             list(addresses.values()))
            for number in (1, 2)]
        self.wait_for(lambda: self.have_adopted(addresses.values()),
                      lambda: f'adoption: {self.describe()}', 120)

        # A node leaves for good.
        left = addresses.pop('node3')
        port_id = ports['node3'].port_id
        managers['node3'].stop()
        self.chassis['node3'].vswitch.vsctl('del-port', 'br-int', 'o-hm0')
        self.command('node1', 'health', 'manager', 'delete', 'node3')
        self.wait_for(lambda: not list(self.api.ports(id=port_id)),
                      lambda: f'end of port {port_id}: {self.describe()}',
                      120)
        # Not before nobody sends there any more.
        for sender in used_repo.get_senders(self.engine).values():
            self.assertFalse(port_retention.may_send(
                ports['node3'].ip_addresses, sender))
        self.assertTrue(self.have_adopted(addresses.values()))
        for agent in self.amphorae:
            self.assertNotIn(left, agent.configured_list())
        # Its address is Neutron's to give again.
        given = self.api.create_port(
            network_id=made['network_id'], fixed_ips=[{
                'subnet_id': made['subnet_id'],
                'ip_address': ports['node3'].ip_addresses[0]}])
        self.api.delete_port(given)
        self.assertEqual(['node1', 'node2'], [
            p.host for p in port_repo.get_all(self.engine)])

        # A port that somebody deletes comes back as it was.
        self.api.delete_port(ports['node2'].port_id)
        self.wait_for(
            lambda: port_repo.get(self.engine, 'node2').port_id !=
            ports['node2'].port_id, 'port of node2')
        self.assertIn('ACTIVE', self.command('node2', 'network', 'port',
                                             'plug'))
        again = port_repo.get(self.engine, 'node2')
        self.assertEqual((ports['node2'].mac, ports['node2'].ip_addresses),
                         (again.mac, again.ip_addresses))
        self.assertEqual(set(), self.database.records.failovers_begun(
            {agent.amphora_id for agent in self.amphorae}))

    def describe(self):
        return [dict(row._mapping) for row in
                amphora_repo.get_rows(self.engine)] + [
            heartbeat_repo.get_heartbeats(self.engine)]
