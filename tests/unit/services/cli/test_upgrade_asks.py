# SPDX-License-Identifier: Apache-2.0

"""What upgrade check finds by opening files, connecting, and waiting."""

import datetime
import os
import threading
import types

import fixtures
from oslo_utils import fixture

from octavia_hmsync.cli import finding
from octavia_hmsync import cloud
from octavia_hmsync import exceptions
from octavia_hmsync.network.db import network as network_repo
from octavia_hmsync.network.db import port as port_repo
from octavia_hmsync.services.checks import controllers
from octavia_hmsync.services.checks import run
from tests.cloud import ailing
from tests.cloud import certificates
from tests.cloud import network
from tests.unit.services.cli import test_upgrade

AGENTS = 'Amphora agents'
ASK = controllers._ask


def make_network(engine, network_id):
    """Have the management network made."""
    network_repo.claim(engine, 'lb-mgmt-net', 'me', 60)
    network_repo.record(engine, 'lb-mgmt-net', 'me', network_repo.Ids(
        network_id, 'subnet1', 'sg1', 'sg2'))


class TestAgents(test_upgrade.CheckTestCase):

    def setUp(self):
        super().setUp()
        self.port = network.free_port()
        self.patch(controllers, '_ask', ASK)

    def add_agent(self, ailment=ailing.HEALTHY):
        amphora_id = self.records.add_amphora('127.0.1.1')
        self.useFixture(ailing.AilingAmphora(
            amphora_id, '127.0.1.1', self.made, ailment, port=self.port))

    def agents(self, **haproxy):
        return self.found(AGENTS, haproxy_amphora={
            'bind_port': self.port, **haproxy})

    def test_one_that_answers(self):
        self.assertEqual(('Not checked', 'There is no amphora to try.'),
                         self.agents())
        self.add_agent()
        self.assertEqual(('Success', None), self.agents())

    def test_one_of_several_answers(self):
        self.records.add_amphora('127.0.1.2')
        self.add_agent()
        self.assertEqual(('Success', None), self.agents())

    def test_files_that_are_not_there(self):
        self.add_agent()
        for option in ('client_cert', 'server_ca'):
            self.assertFails(f'[haproxy_amphora] {option} = /nowhere cannot '
                             f'be used', self.agents(**{option: '/nowhere'}))

    def test_certificate_without_its_key(self):
        self.assertFails('client_cert = ', self.agents(
            client_cert=self.made.client_authority.certificate_path))

    def test_certificate_that_has_ended(self):
        time = self.useFixture(fixture.TimeFixture())
        time.advance_time_delta(datetime.timedelta(days=60))
        self.assertFails('is valid from', self.agents())

    def test_certificate_that_ends_soon(self):
        self.add_agent()
        time = self.useFixture(fixture.TimeFixture())
        time.advance_time_delta(datetime.timedelta(
            days=certificates.DAYS - 10))
        self.assertWarns('and no agent can be reached after that: renew it',
                         self.agents())

    def test_no_way(self):
        self.records.add_amphora('127.0.1.1')
        self.assertWarns(
            'None of 1 agents that were tried can be used from here. Of '
            'amphora ', self.agents())
        self.assertWarns(f'TCP {self.port} of amphorae', self.agents())

    def test_authority_of_others(self):
        self.add_agent()
        self.assertWarns('server_ca does not vouch for', self.agents(
            server_ca=self.made.client_authority.certificate_path))

    def test_port_of_others(self):
        self.add_agent()
        self.assertWarns('cannot be reached: Connection refused',
                         self.agents(bind_port=1))

    def test_driver_without_such_files(self):
        self.assertEqual('Not checked', self.found(
            AGENTS, controller_worker={
                **test_upgrade.GOOD['controller_worker'],
                'amphora_driver': 'amphora_noop_driver'})[0])


class TestNewAmphorae(test_upgrade.CheckTestCase):
    """Files that are read when an amphora is built."""

    def wrong(self, result='Failure', **groups):
        found, details = self.found('Files of new amphorae', **groups)
        self.assertEqual(result, found, details)
        return details

    def test_authority_of_agents(self):
        other = self.made.client_authority
        for words, options in (
                ('server_ca does not have the certificate', {
                    'ca_certificate': other.certificate_path,
                    'ca_private_key': other.key_path}),
                ('ca_private_key is not that of ca_certificate', {
                    'ca_private_key': other.key_path}),
                ('loaded with ca_private_key_passphrase', {
                    'ca_private_key_passphrase': 'other'})):
            self.assertIn(words, self.wrong(certificates=options))
        self.assertIn('before that of an agent', self.wrong(
            'Warning', certificates={'cert_validity_time': 46 * 86400}))

    def test_authority_of_controllers(self):
        self.assertIn('client_ca does not vouch', self.wrong(
            controller_worker={
                'client_ca': self.made.server_authority.certificate_path}))

    def test_templates(self):
        self.assertIn('admin_log_targets 192.0.2.9 has no port', self.wrong(
            amphora_agent={'admin_log_targets': '192.0.2.9'}))

    def test_files_of_other_hosts(self):
        """A health manager needs none of them."""
        self.assertIn('run the command where Octavia builds', self.wrong(
            'Not checked', controller_worker={'client_ca': '/nosuch'}))


class TestOctavia(test_upgrade.CheckTestCase):

    def test_host_that_is_an_address(self):
        """Each command and service ends because of it."""
        self.assertFails('[DEFAULT] host cannot be used', self.found(
            'Options', DEFAULT={'config_source': 'hmsync',
                                'host': '192.0.2.1'}))

    def test_group_of_distributors(self):
        self.assertWarns(
            '[hmsync_distributor] (meant: in distributor.conf of its node?)',
            self.found('Options', hmsync_distributor={'bridge': 'br-int'}))

    def test_zone_that_nobody_knows(self):
        zone = {**test_upgrade.GOOD['hmsync'], 'zone': 'nosuchzone'}
        self.assertWarns(
            '[hmsync] zone = nosuchzone is neither an availability zone of '
            'Octavia',
            self.found('Advertised address', hmsync=zone))
        self.add_zone('nosuchzone', 'net')
        self.assertEqual('Success',
                         self.found('Advertised address', hmsync=zone)[0])

    def test_further_network(self):
        for network, told in (
                ('203.0.113.0/24', 'no interface of this host has an address'),
                ('203.0.113.1/24', 'has host bits set')):
            self.assertWarns(told, self.found(
                'Advertised address', hmsync={
                    **test_upgrade.GOOD['hmsync'],
                    'further_networks': network}))

    def network(self, supply, **options):
        return self.found(
            'Management network', hmsync_network={'supply_options': supply},
            controller_worker={'amp_boot_network_list': '', **options})

    def test_network_that_is_left_over(self):
        old = {'amp_boot_network_list': 'old', 'amp_secgroup_list': 'sg'}
        made = {'amp_boot_network_list': 'other,net1',
                'amp_secgroup_list': 'sg1'}
        self.assertEqual('Success', self.network(True, **old)[0])
        self.assertWarns('no network lb-mgmt-net was made',
                         self.network(True))
        self.assertWarns('[controller_worker] amp_boot_network_list is empty: '
                         'Nova takes', self.network(False))
        self.assertEqual('Success', self.network(
            False, compute_driver='compute_noop_driver')[0])
        make_network(self.engine, 'net1')
        found = self.network(True, **old)
        for words in ('amp_boot_network_list = old in octavia.conf keeps new '
                      'amphorae out of what "network ensure" has made, net1: '
                      'take it out', 'amp_secgroup_list = sg in'):
            self.assertWarns(words, found)
        self.assertWarns('name net1, or leave it', self.network(False, **old))
        self.assertWarns('amp_boot_network_list is empty',
                         self.network(False))
        for supply, options in ((True, {}), (True, made), (False, made)):
            self.assertEqual('Success', self.network(supply, **options)[0])

    def test_ports_that_are_any(self):
        for group, effect in (('health_manager', 'no health manager'),
                              ('haproxy_amphora', 'no agent')):
            self.assertFails(
                f'[{group}] bind_port = 0 is any free port, and {effect}',
                self.found('Options', **{group: {'bind_port': 0}}))

    def test_url_without_a_driver(self):
        self.write(database={'connection': 'mysql://o:S3cret@127.0.0.1/o'})
        code, out, err = self.run_command('upgrade', 'check')
        self.assertEqual((2, '', 1), (code, out, err.count('\n')))
        self.assertIn('[database] connection begins with mysql:, and its '
                      'driver MySQLdb is not installed. Correct it: for MySQL '
                      'and MariaDB it is mysql+pymysql:', err)

    def test_jobboard_that_does_not_answer(self):
        self.assertWarns(
            'The jobboard cannot be used', self.found(
                'Housekeeping', task_flow={
                    'jobboard_enabled': True,
                    'jobboard_backend_hosts': '127.0.0.1',
                    'jobboard_backend_port': '1',
                    'jobboard_backend_driver': 'redis_taskflow_driver'}))


# Has br-int, at its usual place.
OVS_VSCTL = """#!/bin/sh
case "$*" in
*--db=*) echo 'ovs-vsctl: unix:/nowhere: database connection failed ()' >&2
         exit 1;;
*list-br) echo br-int;;
esac
"""


class TestNode(test_upgrade.CheckTestCase):
    """The port of this host, controller1, in the management network."""

    def setUp(self):
        super().setUp()
        path = os.path.join(self.directory, 'ovs-vsctl')
        with open(path, 'w') as script:
            script.write(OVS_VSCTL)
        os.chmod(path, 0o755)
        self.useFixture(fixtures.EnvironmentVariable(
            'PATH', f'{self.directory}:/bin:/usr/bin'))
        self.user = 0
        self.patch(os, 'geteuid', lambda: self.user)
        self.hosts = ['controller1', 'compute1']
        self.patch(cloud, 'connect', self.connect)
        make_network(self.engine, 'net')

    def connect(self, conf):
        if isinstance(self.hosts, Exception):
            raise self.hosts
        return types.SimpleNamespace(network=types.SimpleNamespace(
            agents=lambda: [types.SimpleNamespace(
                agent_type='Open vSwitch agent', host=host, is_alive=True)
                for host in self.hosts]))

    def node(self, driver='neutron_port', **options):
        return self.found(
            'Management network', hmsync_network=options,
            hmsync={**test_upgrade.GOOD['hmsync'], 'address_driver': driver},
            controller_worker={
                **test_upgrade.GOOD['controller_worker'],
                'amp_secgroup_list': 'sg1'})

    def test_good(self):
        self.assertEqual(('Success', None), self.node())
        self.assertEqual(('Success', None), self.node(
            'bind_ip', binding_host='compute1'))

    def test_binding_host(self):
        words = 'Neutron has no agent on nosuch'
        for driver in ('neutron_port', 'bind_ip'):
            found = self.node(driver, binding_host='nosuch')
            self.assertWarns(words, found)
            self.assertIn('report from: compute1, controller1', found[1])
        self.hosts = ['compute1']
        self.assertWarns('Neutron has no agent on controller1', self.node())
        # A host that has no port.
        self.assertEqual(('Success', None), self.node('bind_ip'))
        self.hosts = exceptions.CloudUnavailable('Neutron is away.')
        self.assertWarns('Neutron is away.', self.node())

    def test_binding_host_of_before(self):
        port_repo.claim(self.engine, 'controller1', 'me', 60)
        port_repo.record(self.engine, 'me', 'controller1', 'port', 'mac',
                         ('192.0.2.1',), 'compute1')
        for driver in ('neutron_port', 'bind_ip'):
            self.assertWarns('The port of this node is bound to compute1',
                             self.node(driver))
        self.assertEqual(('Success', None),
                         self.node(binding_host='compute1'))

    def test_integration_bridge(self):
        wrong = {'integration_bridge': 'br-lan'}
        self.assertWarns(
            'Open vSwitch has no bridge br-lan (it has br-int)',
            self.node(**wrong))
        # These cannot tell.
        self.user = 1000
        self.assertEqual(('Success', None), self.node(**wrong))
        self.user = 0
        os.unlink(os.path.join(self.directory, 'ovs-vsctl'))
        self.useFixture(fixtures.EnvironmentVariable('PATH', '/nowhere'))
        self.assertEqual(('Success', None), self.node(**wrong))

    def test_ovsdb_connection(self):
        self.assertWarns(
            'ovsdb-server cannot be reached at unix:/nowhere',
            self.node('bind_ip', ovsdb_connection='unix:/nowhere'))


class TestClusters(test_upgrade.CheckTestCase):

    def clusters(self, **groups):
        return self.found('Clusters', **{**test_upgrade.CLUSTERS, **groups})

    def test_distributor_driver_that_does_nothing(self):
        self.assertFails(
            '[controller_worker] distributor_driver is noop_distributor_'
            'driver, with which nothing comes to the amphorae', self.clusters(
                controller_worker={
                    **test_upgrade.CLUSTERS['controller_worker'],
                    'distributor_driver': 'noop_distributor_driver'}))

    def test_clusters_alone(self):
        self.assertFails(
            'enabled_provider_drivers has no amphora', self.clusters(
                api_settings={'enabled_provider_drivers':
                              'amphora_cluster: b'}))

    def test_manager_that_is_not_installed(self):
        self.assertFails(
            'No cluster manager "nosuch" can be loaded', self.clusters(
                hmsync_cluster={**test_upgrade.CLUSTERS['hmsync_cluster'],
                                'cluster_manager': 'nosuch'}))


class TestTime(test_upgrade.CheckTestCase):
    """A check that hangs is told of, and given up."""

    def setUp(self):
        super().setUp()
        self.patch(run, '_PATIENCE', 0)
        self.gate = threading.Event()
        self.addCleanup(self.gate.set)

    def check_slowly(self, conf, engine):
        self.gate.wait()
        return finding.success()

    def test_it_says_what_it_waits_for(self):
        self.patch(run, 'CHECKS',
                   (('Distributors', self.check_slowly, ()),))
        said = []

        def say(line):
            said.append(line)
            self.gate.set()

        found = run.run_all(self.conf, self.engine, 60, say)
        self.assertEqual(
            ['Distributors: waiting for distributors, Neutron, or the '
             'databases of OVN, 60 s at most.'], said)
        self.assertEqual('Success', found['Distributors'].name)

    def test_it_is_given_up(self):
        self.patch(run, 'CHECKS', (('Database', self.check_slowly, ()),
                                   ('Tables', None, ('Database',))))
        self.write()
        code, out, err = self.run_command('upgrade', 'check', '--timeout',
                                          '0.1')
        self.assertEqual((2, ''), (code, err))
        self.assertIn('No answer of the database within 0.1 s', out)
        self.assertIn('Not known while "Database" is a failure', out)
