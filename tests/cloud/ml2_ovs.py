# SPDX-License-Identifier: Apache-2.0

"""Neutron's ML2/OVS: its RPC server, and the agents of each node."""

import contextlib
import os
import pathlib
import signal

from tests.cloud import neutron
from tests.cloud import nodes
from tests.cloud import octavia_conf
from tests.cloud import process
from tests.cloud import relay

# Root is who they run as already, in a node's namespace.
_CONTEXTS = ('privsep', 'privsep_dhcp_release', 'privsep_ovs_vsctl',
             'privsep_namespace', 'privsep_conntrack', 'privsep_link')
# The directory of namespaces that have names is its own.
_ALONE = ('mkdir -p /run/netns && mount -t tmpfs netns /run/netns && '
          'exec "$0" "$@"')


class _Service(process.ChildProcess):
    """A program of Neutron's, with a configuration of its own.

    :param name: of the program.
    :param host: where it runs.
    :param options: {group: {option: value}}.
    :param wrap: what makes the command one that runs elsewhere.
    :param env: more variables of its environment.
    """

    def __init__(self, name, host, directory, options, wrap, env):
        path = os.path.join(directory, f'{name}-{host}')
        os.makedirs(path)
        conf = os.path.join(path, 'neutron.conf')
        octavia_conf.write(conf, octavia_conf.merge({
            'DEFAULT': {'host': host, 'state_path': path},
            'oslo_concurrency': {'lock_path': path}}, options))
        super().__init__(
            f'{name}-{host}',
            wrap([str(neutron.environment() / 'bin' / name),
                  '--config-file', conf]), path, cwd=path,
            env=process.environment(path, **env))
        for variable in ('PYTHONPATH', 'VIRTUAL_ENV'):
            self.env.pop(variable, None)
        # For neutron-keepalived-state-change.
        self.env['PATH'] = (f'{neutron.environment() / "bin"}:'
                            f'{self.env["PATH"]}')


class Neutron(neutron.OnMariaDB):
    """Neutron with agents, on a MariaDB and a RabbitMQ server.

    .rpc_server is what the agents talk to.

    :param directory: where its files go.
    :param server: a mariadb.MariaDBServer.
    :param rabbitmq: a rabbitmq.RabbitMQServer.
    :param options: {group: {option: value}} for neutron.conf.
    """

    def __init__(self, directory, server, rabbitmq, options=None):
        super().__init__(directory, server, options=octavia_conf.merge({
            'DEFAULT': {'service_plugins': 'router, trunk',
                        'transport_url': rabbitmq.url, 'rpc_workers': 1},
            'ml2': {'type_drivers': 'vxlan, flat, vlan'},
        }, options))

    def _setUp(self):
        super()._setUp()
        self.rpc_server = self.useFixture(process.ChildProcess(
            'neutron-rpc-server',
            [str(neutron.environment() / 'bin/neutron-rpc-server'),
             '--config-file', 'neutron.conf'],
            self._directory, env=self.env, cwd=self._directory))


class Node(nodes.Node):
    """A node of ML2/OVS; its agent makes br-int and br-tun.

    One that routes into a physical network has the agent for routers, too.

    :param rabbitmq: a rabbitmq.RabbitMQServer.
    """

    def __init__(self, host, rabbitmq, *args, **kwargs):
        super().__init__(host, *args, **kwargs)
        self._rabbitmq = rabbitmq
        self._agents = []

    def _setUp(self):
        super()._setUp()
        self.useFixture(relay.Relay(self.namespace, self._rabbitmq.port))
        helper = (f'{neutron.environment()}/bin/privsep-helper '
                  f'--config-file {self._write_privsep()}')
        options = {
            'DEFAULT': {'transport_url': self._rabbitmq.url},
            'agent': {'root_helper': '', 'tunnel_types': 'vxlan',
                      'report_interval': 10, 'polling_interval': 1},
            'ovs': {'ovsdb_connection': self.vswitch.connection,
                    'datapath_type': 'netdev', 'local_ip': self.address,
                    'bridge_mappings': self.bridge_mappings or None},
            'securitygroup': {'firewall_driver': 'openvswitch'},
            **{context: {'helper_command': helper} for context in _CONTEXTS}}
        self._start('neutron-openvswitch-agent', options)
        if self._external:
            # Its keepalived processes outlive it.
            self.addCleanup(self._end_keepalived)
            self._start('neutron-l3-agent', octavia_conf.merge(options, {
                'DEFAULT': {'interface_driver': 'openvswitch',
                            'enable_metadata_proxy': False,
                            # It forks while a thread waits for answers: the
                            # first one gets lost.
                            'rpc_response_timeout': 10}}))

    def _end_keepalived(self):
        for path in pathlib.Path(
                self._directory, f'neutron-l3-agent-{self.host}').glob(
                    'ha_confs/*.pid.keepalived'):
            with contextlib.suppress(OSError, ValueError):
                os.kill(int(path.read_text()), signal.SIGTERM)

    def _write_privsep(self):
        path = os.path.join(self.vswitch.directory, 'privsep.conf')
        octavia_conf.write(path, {'DEFAULT': {}})
        return path

    def _start(self, name, options):
        self._agents.append(self.useFixture(_Service(
            name, self.host, self._directory, options, self._wrap,
            # For ovs-ofctl and ovs-vsctl, which agents call.
            {'OVS_RUNDIR': self.vswitch.directory})))

    @contextlib.contextmanager
    def without_rabbitmq(self):
        """Have what its agents say, and hear, go nowhere meanwhile."""
        port = self._rabbitmq.port
        self.namespace.run(
            'nft', 'table inet cut { chain output { '
            'type filter hook output priority 0; '
            f'tcp dport {port} drop; tcp sport {port} drop; }}; }}')
        try:
            yield
        finally:
            self.namespace.run('nft', 'delete table inet cut')

    def _wrap(self, command):
        # The names of its routers' namespaces go with it.
        return self.namespace.wrap(['unshare', '--mount', 'sh', '-c', _ALONE,
                                    *command])

    @property
    def agents(self):
        return self._agents
