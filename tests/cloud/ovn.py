# SPDX-License-Identifier: Apache-2.0

"""OVN: the databases of a cloud, and the controller of each node."""

import os

import fixtures

from tests.cloud import neutron
from tests.cloud import nodes
from tests.cloud import octavia_conf
from tests.cloud import process
from tests.cloud import waiting

SCHEMAS = '/usr/share/ovn'


class Central(fixtures.Fixture):
    """Both databases and ovn-northd; .connection('nb') and ('sb').

    .children are these, by name.
    """

    def __init__(self, directory):
        super().__init__()
        self.children = {}
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
                f'socket of ovn-{name}', processes=[child])
        for name in ('nb', 'sb'):
            process.run(f'ovn-{name}ctl', f'--db={self.connection(name)}',
                        'init')
        self._child('ovn-northd', 'ovn-northd', env,
                    f'--ovnnb-db={self.connection("nb")}',
                    f'--ovnsb-db={self.connection("sb")}')

    def _child(self, program, name, env, *arguments):
        self.children[name] = self.useFixture(process.ChildProcess(
            name, [process.system_program(program), *arguments,
                   f'--unixctl={self.directory}/{name}.ctl',
                   f'--pidfile={self.directory}/{name}.pid'],
            self.directory, env=env, cwd=self.directory))
        return self.children[name]


class Chassis(nodes.Node):
    """A node of OVN's; its ovn-controller makes br-int.

    :param central: a Central
    """

    def __init__(self, host, central, *args, **kwargs):
        super().__init__(host, *args, **kwargs)
        self._central = central

    def _setUp(self):
        super()._setUp()
        self._keep_addresses_out_of_conntrack()
        self.vswitch.vsctl(
            'set', 'Open_vSwitch', '.',
            f'external_ids:ovn-remote={self._central.connection("sb")}',
            'external_ids:ovn-encap-type=geneve',
            f'external_ids:ovn-encap-ip={self.address}',
            'external_ids:ovn-bridge-datapath-type=netdev')
        if self.bridge_mappings:
            self.vswitch.vsctl(
                'set', 'Open_vSwitch', '.', 'external_ids:'
                f'ovn-bridge-mappings="{self.bridge_mappings}"')
        if self._provider:
            # What a router sends into a VLAN comes from each node: with one
            # MAC address for all, switches would lose the way to it.
            self.vswitch.vsctl(
                'set', 'Open_vSwitch', '.', 'external_ids:'
                f'ovn-chassis-mac-mappings="{self._provider}:'
                f'0e:00:00:00:00:{self._number:02x}"')
        if self._external:
            self.vswitch.vsctl(
                'set', 'Open_vSwitch', '.',
                'external_ids:ovn-cms-options=enable-chassis-as-gw')
        directory = self.vswitch.directory
        self.controller = self.useFixture(process.ChildProcess(
            f'ovn-controller-{self.host}', self.namespace.wrap([
                process.system_program('ovn-controller'),
                self.vswitch.connection,
                f'--pidfile={directory}/ovn-controller.pid']),
            directory, cwd=directory,
            env={**self.vswitch.environment, 'OVN_RUNDIR': directory}))

    @property
    def agents(self):
        return [self.controller]

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


class Neutron(neutron.OnMariaDB):
    """Neutron with OVN, on a MariaDB server.

    :param directory: where its files go
    :param server: a mariadb.MariaDBServer
    :param central: a Central
    :param keystone: a keystone_server.Keystone; without it everybody is
                     admin
    :param options: {group: {option: value}} for neutron.conf
    """

    def __init__(self, directory, server, central, keystone=None,
                 options=None):
        super().__init__(directory, server, options=octavia_conf.merge({
            'DEFAULT': {'service_plugins': 'ovn-router, trunk'},
            'ml2': {'type_drivers': 'geneve, flat, vlan',
                    'tenant_network_types': 'geneve',
                    'mechanism_drivers': 'ovn'},
            'ml2_type_geneve': {'vni_ranges': '1:1000',
                                'max_header_size': 38},
            'ovn': {'ovn_nb_connection': central.connection('nb'),
                    'ovn_sb_connection': central.connection('sb')},
        }, neutron.with_keystone(keystone) if keystone else {}, options))
