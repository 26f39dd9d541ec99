# SPDX-License-Identifier: Apache-2.0

"""octavia-api alone: what it answers, writes, and asks workers for."""

import functools
import os
import secrets
import tempfile
import threading

import fixtures
import openstack
from oslo_config import cfg
import oslo_messaging
import sqlalchemy as sa
from sqlalchemy import pool

from tests.cloud import certificates
from tests.cloud import controllers
from tests.cloud import database
from tests.cloud import network
from tests.cloud import neutron
from tests.cloud import octavia_conf
from tests.cloud import process
from tests.cloud import rabbitmq
from tests.cloud import waiting

OCTAVIA_TOPIC = 'octavia_provisioning_v2'
CLUSTER_TOPIC = 'octavia-hmsync-cluster'
# The default of whoever imports Octavia.
_EXCHANGE = 'octavia'
# Namespace and version of each.
_TOPICS = {OCTAVIA_TOPIC: ('controller', '2.0'), CLUSTER_TOPIC: (None, '1.0')}

# What octavia.conf has where clusters can be made.
CLUSTERS = octavia_conf.merge(octavia_conf.HMSYNC, {
    'api_settings': {'enabled_provider_drivers':
                     'amphora: The Octavia Amphora driver., '
                     'octavia: Deprecated alias of amphora., '
                     'amphora_cluster: A cluster of amphorae'},
    'controller_worker': {'amphora_driver': 'hmsync',
                          'distributor_driver': 'hmsync_ovs'},
    'hmsync_cluster': {'distributors': 'https://network1:9444, '
                                       'https://network2:9444',
                       'desired_size': 4, 'min_size': 2}})

_TABLES = ('listener', 'pool', 'member', 'health_monitor', 'l7policy',
           'l7rule', 'load_balancer')


class Workers(fixtures.Fixture):
    """Listens as octavia-workers do, and only notes what comes.

    :param url: a transport_url.
    """

    def __init__(self, url):
        super().__init__()
        self._url = url
        self._lock = threading.Lock()
        self._seen = []
        self._clients = []

    def _setUp(self):
        # The library has options on the global object only.
        self._transport = oslo_messaging.get_rpc_transport(cfg.CONF,
                                                           self._url)
        self.addCleanup(self._transport.cleanup)

    def serve(self, topic):
        """Listen to one of the two topics from now on."""
        namespace, version = _TOPICS[topic]
        target = oslo_messaging.Target(
            exchange=_EXCHANGE, topic=topic, namespace=namespace,
            version=version)
        server = oslo_messaging.get_rpc_server(
            self._transport, oslo_messaging.Target(
                exchange=_EXCHANGE, topic=topic, server='workers'),
            [_Endpoint(target, self._note)], executor='threading')
        server.start()
        self.addCleanup(server.wait)
        self.addCleanup(server.stop)
        self._clients.append(
            oslo_messaging.get_rpc_client(self._transport, target))

    def _note(self, *what):
        with self._lock:
            self._seen.append(what)

    def take(self, count):
        """Wait until so many messages have come.

        :returns: a list of (topic, method, arguments), maybe of more. They
                  are forgotten.
        """
        # Whatever is in a queue was sent before this.
        for client in self._clients:
            client.call({}, 'end')
        waiting.wait_for(lambda: len(self._seen) >= count,
                         lambda: f'{count} messages beside {self._seen}')
        with self._lock:
            seen, self._seen = self._seen, []
        return seen


class _Endpoint:

    def __init__(self, target, note):
        self.target = oslo_messaging.Target(namespace=target.namespace,
                                            version=target.version)
        self._topic = target.topic
        self._told = note

    def end(self, _context):
        return True

    def __getattr__(self, method):
        if method.startswith(('_', 'oslo_')):
            raise AttributeError(method)
        return lambda _context, **arguments: self._told(
            self._topic, method, arguments)


class Front(fixtures.Fixture):
    """octavia-api, RabbitMQ, MariaDB, Neutron, and nobody who works.

    .connection is openstacksdk's, .url the API's; .workers notes what it asks
    for, settle() has it done.

    :param options: {group: {option: value}} for octavia-api.
    :param upgrade: whether to make the plugin's tables.
    :param neutron_options: {group: {option: value}} for a Neutron of its own;
                            by default it is the one that all tests share.
    """

    def __init__(self, options=CLUSTERS, upgrade=True, neutron_options=None):
        super().__init__()
        self._neutron_options = neutron_options
        self._given_options = options
        self._upgrade = upgrade

    def _setUp(self):
        self.directory = self.useFixture(
            fixtures.TempDir(rootdir=tempfile.gettempdir())).path
        self._certificates = self.useFixture(certificates.Certificates(
            os.path.join(self.directory, 'certs')))
        self._key = secrets.token_hex(16)
        self.rabbitmq = self.useFixture(
            rabbitmq.RabbitMQServer(self.directory))
        self.neutron = (
            self.useFixture(neutron.Neutron(self.directory,
                                            options=self._neutron_options))
            if self._neutron_options else neutron.shared_server())
        self.database = self.useFixture(database.MariaDBDatabase())
        self.engine = sa.create_engine(self.database.engine.url,
                                       poolclass=pool.NullPool)
        if self._upgrade:
            self.command('octavia-hmsync', 'db', 'upgrade')
        self.rabbitmq.wait_until_ready()
        self.neutron.wait_until_ready()
        self.workers = self.useFixture(Workers(self.rabbitmq.url))
        self.workers.serve(OCTAVIA_TOPIC)
        self.api = self.add_api()
        self.connection = self.connect(self.api)
        self.url = 'http://{bind_host}:{bind_port}'.format(
            **self.api.options['api_settings'])
        self.api.wait_until_ready()
        self.network, self.subnet = self.add_network()

    # Octavia

    def _options(self, *layers):
        return octavia_conf.merge(
            octavia_conf.controller(self.database.connection,
                                    self._certificates, self._key, 9443),
            self.neutron.octavia_options(), {
                'DEFAULT': {'transport_url': self.rabbitmq.url},
                'api_settings': {'auth_strategy': 'noauth'},
                'controller_worker': {
                    'network_driver': 'allowed_address_pairs_driver'}},
            self._given_options, *layers)

    def add_api(self, name='api', options=None):
        """Start another octavia-api, and do not wait for it.

        :param options: {group: {option: value}} that it has besides.
        """
        port = network.free_port()
        return self.useFixture(controllers.Api(name, self._options({
            'api_settings': {'bind_host': '127.0.0.1', 'bind_port': port,
                             **(options or {}).get('api_settings', {})}},
            {group: values for group, values in (options or {}).items()
             if group != 'api_settings'}), self.directory, self.directory))

    def connect(self, api):
        """Connect to an octavia-api.

        :returns: an openstack.connection.Connection.
        """
        settings = api.options['api_settings']
        connection = openstack.connect(
            load_envvars=False, load_yaml_config=False, auth_type='none',
            auth={'endpoint': self.neutron.url},
            network_endpoint_override=self.neutron.url,
            load_balancer_endpoint_override='http://{}:{}'.format(
                settings['bind_host'], settings['bind_port']))
        self.addCleanup(connection.close)
        return connection

    def command(self, name, *arguments):
        """Run a command with an octavia.conf of this API."""
        path = os.path.join(self.directory, f'{name}.conf')
        octavia_conf.write(path, self._options())
        return process.run(
            process.program(name), '--config-file', path, *arguments,
            cwd=self.directory, env=process.environment(self.directory))

    # Neutron

    def add_network(self, cidr='10.1.0.0/24', **attributes):
        """Make a network with a subnet; returns both."""
        api = self.connection.network
        made = api.create_network(name='tenant',
                                  project_id=neutron.PROJECT_ID, **attributes)
        self.addCleanup(self._delete_network, made)
        return made, api.create_subnet(
            network_id=made.id, cidr=cidr, ip_version=4, enable_dhcp=False,
            gateway_ip=None, project_id=neutron.PROJECT_ID)

    def _delete_network(self, made):
        for port in self.ports(made):
            self.connection.network.delete_port(port)
        self.connection.network.delete_network(made)

    def ports(self, network):
        """Return the ports that there are in a network."""
        return list(self.connection.network.ports(network_id=network.id))

    # Rows

    def execute(self, statement, **parameters):
        with self.engine.begin() as connection:
            return connection.execute(sa.text(statement), parameters)

    def dump(self):
        """Return all rows of Octavia's own tables, {table: [rows]}."""
        with self.engine.connect() as connection:
            return {name: [dict(row) for row in connection.execute(
                table.select()).mappings()]
                for name, table in self._tables.items()}

    @functools.cached_property
    def _tables(self):
        metadata = sa.MetaData()
        metadata.reflect(self.engine, resolve_fks=False)
        return {name: table for name, table in metadata.tables.items()
                if not name.startswith(('hmsync_', 'alembic_'))}

    def settle(self):
        """Have the workers done all that they were asked for."""
        with self.engine.begin() as connection:
            # What belongs to a part goes with it, or is never looked at.
            connection.execute(sa.text('SET FOREIGN_KEY_CHECKS = 0'))
            for table in _TABLES:
                connection.execute(sa.text(
                    f"UPDATE {table} SET provisioning_status = 'ACTIVE' "
                    f"WHERE provisioning_status IN ('PENDING_CREATE', "
                    f"'PENDING_UPDATE')"))
                connection.execute(sa.text(
                    f"DELETE FROM {table} WHERE provisioning_status = "
                    f"'PENDING_DELETE'" if table != 'load_balancer' else
                    f"UPDATE {table} SET provisioning_status = 'DELETED' "
                    f"WHERE provisioning_status = 'PENDING_DELETE'"))
