#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""OVN: the databases of a cloud, and the controller of each node."""

import os
import uuid

import fixtures

from tests.cloud import neutron
from tests.cloud import octavia_conf
from tests.cloud import openvswitch
from tests.cloud import process
from tests.cloud import waiting

SCHEMAS = '/usr/share/ovn'


class Central(fixtures.Fixture):
    """Both databases and ovn-northd; .connection('nb') and ('sb')."""

    def __init__(self, directory):
        super().__init__()
        self.directory = os.path.join(directory, 'ovn')

    def connection(self, name):
        return f'unix:{self.directory}/{name}.sock'

    def _setUp(self):
        os.makedirs(self.directory)
        env = process.environment(
            self.directory, OVN_RUNDIR=self.directory,
            OVN_LOGDIR=self.directory, OVN_DBDIR=self.directory)
        for name in ('nb', 'sb'):
            database = f'{self.directory}/{name}.db'
            process.run('ovsdb-tool', 'create', database,
                        f'{SCHEMAS}/ovn-{name}.ovsschema')
            child = self._child(
                'ovsdb-server', f'ovn-{name}', env, database,
                f'--remote=p{self.connection(name)}')
            waiting.wait_for(
                lambda: os.path.exists(f'{self.directory}/{name}.sock'),
                f'socket of ovn-{name}', 20, processes=[child])
        for name in ('nb', 'sb'):
            process.run(f'ovn-{name}ctl', f'--db={self.connection(name)}',
                        'init')
        self._child('ovn-northd', 'ovn-northd', env,
                    f'--ovnnb-db={self.connection("nb")}',
                    f'--ovnsb-db={self.connection("sb")}')

    def _child(self, program, name, env, *arguments):
        return self.useFixture(process.ChildProcess(
            name, [process.system_program(program), *arguments,
                   f'--unixctl={self.directory}/{name}.ctl',
                   f'--pidfile={self.directory}/{name}.pid'],
            self.directory, env=env, cwd=self.directory))


class Chassis(fixtures.Fixture):
    """A node: a namespace, Open vSwitch and ovn-controller.

    .namespace and .vswitch are those; the controller makes br-int.

    :param host: its name
    :param central: a Central
    :param underlay: a Namespace with a bridge "underlay", to which each node
                     is connected
    :param number: its number in 10.99.0.0/24, the network between nodes
    """

    def __init__(self, host, central, underlay, number, directory):
        super().__init__()
        self.host = host
        self._central = central
        self._underlay = underlay
        self._number = number
        self._directory = directory

    def _setUp(self):
        self.namespace = self.useFixture(openvswitch.Namespace(
            self.host, self._directory))
        self.vswitch = self.useFixture(openvswitch.OpenVswitch(
            self.namespace, self.host, self._directory, bridge=None))
        self.vswitch.bridge = 'br-int'
        self._connect()
        self._keep_addresses_out_of_conntrack()
        address = f'10.99.0.{self._number}'
        self.vswitch.vsctl(
            'set', 'Open_vSwitch', '.',
            f'external_ids:ovn-remote={self._central.connection("sb")}',
            'external_ids:ovn-encap-type=geneve',
            f'external_ids:ovn-encap-ip={address}',
            'external_ids:ovn-bridge-datapath-type=netdev')
        directory = self.vswitch.directory
        self.controller = self.useFixture(process.ChildProcess(
            f'ovn-controller-{self.host}', self.namespace.wrap([
                process.system_program('ovn-controller'),
                self.vswitch.connection,
                f'--pidfile={directory}/ovn-controller.pid']),
            directory, cwd=directory,
            env={**self.vswitch.environment, 'OVN_RUNDIR': directory}))

    def _connect(self):
        # Tunnels of a vswitch in user space leave through a bridge of its.
        name = f'u{self._number}'
        self._underlay.link(self.namespace, name, 'eth0')
        self._underlay.run('ip', 'link', 'set', name, 'master', 'underlay')
        self.vswitch.vsctl(
            'add-br', 'br-phy', '--', 'set', 'Bridge', 'br-phy',
            'datapath_type=netdev', '--', 'add-port', 'br-phy', 'eth0')
        self.namespace.run('ip', 'address', 'add',
                           f'10.99.0.{self._number}/24', 'dev', 'br-phy')
        self.namespace.run('ip', 'link', 'set', 'br-phy', 'up')

    def _keep_addresses_out_of_conntrack(self):
        """Have OVN track connections without translating addresses.

        Where it can, it has each connection that a security group lets
        through translated to the addresses that it has anyhow. Open vSwitch
        3.1 in user space makes a second entry for that, with the same
        addresses and ports, and aborts when it finds that one before the
        first (conntrack.c, conn_update_state()): by chance, as its hash table
        has it, and always where ports come again after a reset.
        """
        self.vswitch.vsctl(
            '--id=@netdev', 'create', 'Datapath', 'datapath_version=""', '--',
            'set', 'Open_vSwitch', '.', 'datapaths:netdev=@netdev')
        # Open vSwitch says what it can do once, when it sees the row.
        self.vswitch.vsctl('set', 'Datapath', '.',
                           'capabilities:ct_zero_snat=false')

    def is_ready(self):
        """Whether the controller has made the integration bridge."""
        return 'br-int' in self.vswitch.vsctl('list-br').split()

    def plug(self, namespace, name, port_id, mac):
        """Connect another namespace, such as an amphora, as a port."""
        tap = f'tap{port_id[:11]}'
        self.namespace.link(namespace, tap, name)
        namespace.run('ip', 'link', 'set', name, 'address', mac)
        self.vswitch.vsctl(
            'add-port', 'br-int', tap, '--', 'set', 'Interface', tap,
            f'external_ids:iface-id={port_id}',
            f'external_ids:attached-mac="{mac}"',
            'external_ids:iface-status=active')


class Neutron(neutron.Neutron):
    """Neutron with OVN, on a MariaDB server, and with Keystone.

    :param directory: where its files go
    :param server: a mariadb.MariaDBServer
    :param central: a Central
    :param keystone: a keystone_server.Keystone
    """

    def __init__(self, directory, server, central, keystone):
        self._server = server
        self._name = f'neutron_{uuid.uuid4().hex[:12]}'
        self._home = directory
        super().__init__(directory, options={
            'DEFAULT': {'auth_strategy': 'keystone', 'service_plugins': '',
                        'agent_down_time': 75,
                        'notify_nova_on_port_status_changes': False,
                        'notify_nova_on_port_data_changes': False},
            'database': {'connection': server.url(self._name)},
            'keystone_authtoken': {
                **keystone.credentials('neutron'),
                'www_authenticate_uri': keystone.url},
            'ml2': {'type_drivers': 'geneve',
                    'tenant_network_types': 'geneve',
                    'mechanism_drivers': 'ovn',
                    'extension_drivers': 'port_security'},
            'ml2_type_geneve': {'vni_ranges': '1:1000',
                                'max_header_size': 38},
            'ovn': {'ovn_nb_connection': central.connection('nb'),
                    'ovn_sb_connection': central.connection('sb')}})
        # Workers share OVN's events; of gunicorn it does not know how many
        # there are.
        self.env['ASGI_WORKERS'] = '1'

    def _setUp(self):
        self._server.execute(f'CREATE DATABASE {self._name}')
        self.addCleanup(self._server.execute, f'DROP DATABASE {self._name}')
        conf = os.path.join(self._home, 'neutron-db.conf')
        octavia_conf.write(conf, {
            'database': {'connection': self._server.url(self._name)}})
        process.run(neutron.environment() / 'bin/neutron-db-manage',
                    '--config-file', conf, 'upgrade', 'heads', env=self.env,
                    cwd=self._home)
        super()._setUp()


def make_underlay(test, directory):
    """Return a namespace with the bridge that connects the nodes."""
    underlay = test.useFixture(openvswitch.Namespace('underlay', directory))
    underlay.run('ip', 'link', 'add', 'underlay', 'type', 'bridge')
    underlay.run('ip', 'link', 'set', 'underlay', 'up')
    return underlay
