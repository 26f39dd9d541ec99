# SPDX-License-Identifier: Apache-2.0

"""Octavias that tempest can use: with a Keystone, and a catalog."""

import os
import tempfile

import fixtures
import openstack

from tests.cloud import certificates
from tests.cloud import clusters
from tests.cloud import controllers
from tests.cloud import database
from tests.cloud import keystone_server
from tests.cloud import machines
from tests.cloud import network
from tests.cloud import octavia
from tests.cloud import octavia_conf
from tests.cloud import openvswitch
from tests.cloud import process
from tests.cloud import rabbitmq
from tests.cloud import relay
from tests.cloud import waiting

REGION = 'RegionOne'
ADMIN = 'admin'
# As tempest is told, so that it compares them.
PROVIDERS = {'amphora': 'The Octavia Amphora driver.',
             'octavia': 'Deprecated alias of the Octavia Amphora driver.',
             'amphora_cluster': 'A cluster of amphorae behind distributors.'}
# For RBAC_test_type = advanced.
_ROLES = ('load-balancer_member', 'load-balancer_admin',
          'load-balancer_observer', 'load-balancer_global_observer')


class WithKeystone:
    """Mixed into an Octavia: tokens are real, and so is its catalog."""

    def _add_keystone(self):
        # tempest makes many users: their passwords cost nothing.
        self.keystone = self.useFixture(keystone_server.Keystone(
            self.directory, self.database.server,
            {'identity': {'password_hash_rounds': 4}}))
        self.keystone.wait_until_ready()
        self.keystone.add_administrator(ADMIN, ADMIN)

    def _keystone_options(self):
        return {
            'api_settings': {
                'auth_strategy': 'keystone', 'enabled_provider_drivers':
                ','.join(f'{name}: {text}'
                         for name, text in PROVIDERS.items())},
            'keystone_authtoken': {
                **self.keystone.credentials('octavia'),
                'www_authenticate_uri': self.keystone.url,
                'token_cache_time': 300}}

    def _fill_catalog(self, services):
        with openstack.connect(
                load_envvars=False, load_yaml_config=False,
                region_name=REGION, **self._credentials()) as connection:
            api = connection.identity
            for kind, url in services.items():
                service = api.create_service(type=kind, name=kind)
                for interface in ('public', 'internal', 'admin'):
                    api.create_endpoint(service_id=service.id, url=url,
                                        interface=interface, region_id=REGION)
            for role in _ROLES:
                api.create_role(name=role)

    def _credentials(self):
        found = self.keystone.credentials(ADMIN, ADMIN)
        return {'auth_type': found.pop('auth_type'), 'auth': found}


class Cluster(WithKeystone, clusters.ClusterOctavia):
    """Real parts, both providers; a client in the external network.

    .outside is that client; it reaches the APIs, too.
    """

    is_real = True

    def __init__(self):
        super().__init__(workers=1, options={
            'hmsync_cluster': {'desired_size': 2, 'min_size': 1},
            # haproxy of a load balancer whose listeners are all disabled has
            # no limit of its own, and wants two million files.
            'haproxy_amphora': {'haproxy_cmd': '/usr/sbin/haproxy -n 2000'},
            'house_keeping': {'cleanup_interval': 10}})

    def _start_services(self):
        super()._start_services()
        self._add_keystone()

    def _options(self):
        return octavia_conf.merge(super()._options(),
                                  self._keystone_options())

    def _start_controllers(self):
        super()._start_controllers()
        self.api_port = self.api.options['api_settings']['bind_port']
        self._fill_catalog({
            'load-balancer': f'http://127.0.0.1:{self.api_port}',
            'network': self.neutron.url, 'image': self.glance.url})

    def add_outside(self, *ports):
        """Have a client in the external network, which reaches ports."""
        self.outside = self.useFixture(machines.Client(
            self, 'outside', self.external_network))
        for port in (self.keystone.port, self.neutron.port, self.api_port,
                     *ports):
            self.useFixture(relay.Relay(self.outside.namespace, port))


class Noop(WithKeystone, fixtures.Fixture):
    """octavia-api and the controllers, with Octavia's no-op drivers."""

    is_real = False

    def __init__(self):
        super().__init__()
        self.controllers = []

    def _setUp(self):
        self.directory = self.useFixture(
            fixtures.TempDir(rootdir=tempfile.gettempdir())).path
        self.certificates = self.useFixture(certificates.Certificates(
            os.path.join(self.directory, 'certs')))
        self.rabbitmq = self.useFixture(
            rabbitmq.RabbitMQServer(self.directory))
        self.database = self.useFixture(database.MariaDBDatabase())
        self._add_keystone()
        # Without a route: nothing is sent to the addresses of its amphorae.
        self.namespace = self.useFixture(
            openvswitch.Namespace('controllers', self.directory))
        self.rabbitmq.wait_until_ready()
        self.useFixture(relay.Relay(self.namespace, self.rabbitmq.port))
        self._upgrade()
        self.api_port = network.free_port()
        self._add(controllers.Api, 'api', {'api_settings': {
            'bind_host': '127.0.0.1', 'bind_port': self.api_port}})
        self._add(octavia.Worker, 'worker1')
        self._add(octavia.HealthManager, 'hm1', {
            'health_manager': {'bind_ip': '127.0.0.1'}})
        self._add(octavia.Housekeeping, 'hk')
        self._fill_catalog({
            'load-balancer': f'http://127.0.0.1:{self.api_port}'})

    def _options(self):
        return octavia_conf.merge(
            octavia_conf.controller(
                f'{self.database.connection}'
                f'&unix_socket={self.database.server.socket_path}',
                self.certificates, 'key', 9443),
            {'DEFAULT': {'transport_url': self.rabbitmq.url},
             'controller_worker': {
                 'amphora_driver': 'amphora_noop_driver'},
             'certificates': {'cert_manager': 'noop_cert_manager'}},
            octavia_conf.HMSYNC, self._keystone_options())

    def _add(self, kind, host, *layers):
        child = kind(host, octavia_conf.merge(self._options(), *layers),
                     self.directory, self.directory)
        if isinstance(child, controllers.InNamespace):
            child.enter(self.namespace)
        self.controllers.append(self.useFixture(child))

    def _upgrade(self):
        path = os.path.join(self.directory, 'octavia-hmsync.conf')
        octavia_conf.write(path, self._options())
        process.run(*self.namespace.wrap([
            process.program('octavia-hmsync'), '--config-file', path, 'db',
            'upgrade']), cwd=self.directory,
            env=process.environment(self.directory))

    def wait_until_ready(self):
        waiting.wait_for(
            lambda: all(child.is_ready() for child in self.controllers),
            'controllers', 120, processes=self.controllers)
