# SPDX-License-Identifier: Apache-2.0

"""A whole Octavia, whose load balancers carry traffic."""

import json
import os
import secrets
import tempfile
import uuid

import fixtures
import openstack
import sqlalchemy as sa
from sqlalchemy import pool

from octavia_hmsync.sync.db import generation as generation_repo
from tests.cloud import certificates
from tests.cloud.compute import hypervisor
from tests.cloud import controllers
from tests.cloud import database
from tests.cloud import glance
from tests.cloud import holders
from tests.cloud import keystone
from tests.cloud import network
from tests.cloud import networking
from tests.cloud import neutron
from tests.cloud import octavia_conf
from tests.cloud import openvswitch
from tests.cloud import process
from tests.cloud import rabbitmq
from tests.cloud import relay
from tests.cloud import steps
from tests.cloud import tenants
from tests.cloud import waiting

AMPHORA_PORT = 9443
IMAGE_TAG = 'amphora'
# Root may open no more files than this machine lets it, and haproxy checks.
CONNECTION_LIMIT = 500


class HealthManager(controllers.InNamespace, controllers.HealthManager):

    def is_ready(self):
        return self.running and self.is_open('udp', self.bind_port)


class Housekeeping(controllers.InNamespace, controllers.Housekeeping):
    pass


class Worker(controllers.InNamespace, controllers.Worker):
    pass


class Octavia(tenants.Tenants, fixtures.Fixture):
    """Octavia with all that it needs; the amphorae are processes.

    Real: octavia-api, octavia-worker, octavia-health-manager,
    octavia-housekeeping, RabbitMQ, MariaDB, Neutron, Glance, and in each
    amphora its agent, haproxy and keepalived. Not real: the compute service,
    and, unless they are OVN's, networks: bridges, without port security.

    .connection is one of openstacksdk to all of it, .compute the
    hypervisor.Hypervisor, .fabric the fabric.Fabric, .steps the steps.Steps
    of replacements; .network and .subnet are a tenant's, see tenants.Tenants.

    :param hmsync: whether the controllers run with the plugin.
    :param options: {group: {option: value}} for every controller.
    :param workers: how many.
    :param health_managers: how many.
    :param house_keepers: how many; .housekeeping is the first of them.
    :param neutron_options: {group: {option: value}} for neutron.conf.
    :param network: a kind of networking.KINDS.
    :param keystone: whether the controllers get their tokens from a
                     keystone.FakeKeystone, one for each request.
    :param image: an instance.Image, of which amphorae boot; machine.Image
                  has them be virtual machines.
    """

    def __init__(self, hmsync=True, options=None, workers=2,
                 health_managers=1, neutron_options=None, house_keepers=1,
                 network='bridges', keystone=False, image=None):
        super().__init__()
        self._image = image
        self._network_kind = network
        self._has_keystone = keystone
        self._house_keeper_count = house_keepers
        self._neutron_options = neutron_options
        self.hmsync = hmsync
        self.options = options or {}
        self._worker_count = workers
        self._health_manager_count = health_managers
        self.controllers = []
        self.workers = []
        self.health_managers = []
        self.house_keepers = []

    def _setUp(self):
        # Sockets are below it, whose paths are short.
        self.directory = self.useFixture(
            fixtures.TempDir(rootdir=tempfile.gettempdir())).path
        self.heartbeat_key = secrets.token_hex(16)
        self.certificates = self.useFixture(certificates.Certificates(
            os.path.join(self.directory, 'certs')))
        self._start_services()
        self._make_networks()
        self.addCleanup(self._request_stop)
        self._start_controllers()

    def _request_stop(self):
        for child in self.processes:
            child.request_stop()

    # What Octavia stands on

    def _start_services(self):
        self.rabbitmq = self.useFixture(
            rabbitmq.RabbitMQServer(self.directory))
        self.networking = self.useFixture(
            networking.KINDS[self._network_kind](
                self.directory, options=self._neutron_options))
        self.neutron = self.networking.neutron
        self.glance = self.useFixture(glance.Glance(self.directory))
        self.database = self.useFixture(database.MariaDBDatabase())
        self.engine = sa.create_engine(self.database.engine.url,
                                       poolclass=pool.NullPool)
        self.namespace = self.useFixture(
            openvswitch.Namespace('controllers', self.directory))
        self.networking.wait_until_ready()
        for service in (self.rabbitmq, self.neutron, self.glance):
            service.wait_until_ready()
            self.useFixture(relay.Relay(self.namespace, service.port))
        if self._has_keystone:
            self.keystone = self.useFixture(keystone.FakeKeystone(
                self.neutron.url, neutron.PROJECT_ID, lifetime=1))
            self.useFixture(relay.Relay(self.namespace, self.keystone.port))
        self.connection = openstack.connect(
            load_envvars=False, load_yaml_config=False, auth_type='none',
            auth={'endpoint': self.neutron.url},
            network_endpoint_override=self.neutron.url,
            image_endpoint_override=self.glance.url)
        self.addCleanup(self.connection.close)
        self.compute = self._make_compute()
        self.steps = self.useFixture(steps.Steps(self.directory))

    def _make_compute(self):
        return self.useFixture(hypervisor.Hypervisor(
            self.fabric, self.connection.network, self.directory))

    def _make_networks(self):
        self._make_management_network()
        self._make_tenant()
        self.add_image('first', like=self._image)

    def _make_management_network(self):
        api = self.connection.network
        self._management, self._management_subnet = self.add_network(
            'lb-mgmt-net', '172.31.0.0/24')
        self._keep_management_apart()
        self._group = api.create_security_group(
            name='lb-mgmt-sec-grp', project_id=neutron.PROJECT_ID)
        self.addresses = [
            self._add_address(number, self._management_subnet)
            for number in range(1 + self._health_manager_count)]

    def _keep_management_apart(self):
        self.fabric.keep_apart(self._management.id)

    def _plug_controllers(self, port, name):
        self.fabric.plug(self.namespace, port.network_id, port.mac_address,
                         name)

    def _add_address(self, number, subnet):
        """Give the controllers an address in a management network."""
        port = self.connection.network.create_port(
            network_id=subnet.network_id, name=f'controller-{number}',
            project_id=neutron.PROJECT_ID)
        name = f'mgmt{number}'
        self._plug_controllers(port, name)
        address = port.fixed_ips[0]['ip_address']
        prefix = 32 if number else subnet.cidr.partition('/')[2]
        self.namespace.run('ip', 'address', 'add', f'{address}/{prefix}',
                           'dev', name)
        self.namespace.run('ip', 'link', 'set', name, 'up')
        return address

    def add_image(self, name, tags=(IMAGE_TAG,), like=None):
        """Upload an image of amphorae; returns it. The newest one wins.

        :param like: an instance.Image, such as one of bad_images; that of
                     this machine where None is given.
        """
        api = self.connection.image
        # Nobody boots it before it is known what it is like.
        image = api.create_image(
            name=name, container_format='bare', disk_format='raw', data=b'x',
            validate_checksum=False, allow_duplicates=True)
        if like:
            self.compute.images[image.id] = like
        for tag in tags:
            api.add_tag(image, tag)
        return api.get_image(image)

    # Octavia

    def _options(self):
        # A socket of the file system is the same in every namespace.
        database_url = (f'{self.database.connection}'
                        f'&unix_socket={self.database.server.socket_path}')
        return octavia_conf.merge(
            octavia_conf.controller(database_url, self.certificates,
                                    self.heartbeat_key, AMPHORA_PORT),
            self.neutron.octavia_options(), self.glance.octavia_options(),
            self.keystone.octavia_options() if self._has_keystone else {},
            self.compute.octavia_options(), {
                'DEFAULT': {'transport_url': self.rabbitmq.url},
                'api_settings': {'auth_strategy': 'noauth'},
                'controller_worker': {
                    'network_driver': 'allowed_address_pairs_driver',
                    'amp_boot_network_list': self._management.id,
                    'amp_secgroup_list': self._group.id,
                    'amp_image_tag': IMAGE_TAG,
                    'amp_active_retries': 60, 'amp_active_wait_sec': 1},
                'haproxy_amphora': {
                    'default_connection_limit': CONNECTION_LIMIT,
                    'connection_max_retries': 60},
                'health_manager': {'heartbeat_timeout': 20}},
            octavia_conf.HMSYNC if self.hmsync else
            {'health_manager': {'controller_ip_port_list': [
                f'{address}:5555' for address in self.addresses[1:]]}},
            self.options)

    def _add(self, kind, host, *layers):
        child = kind(host, octavia_conf.merge(self._options(), *layers),
                     self.directory, self.directory)
        child.env.update(self.compute.environment)
        child.env[steps.VARIABLE] = self.steps.socket_path
        if isinstance(child, controllers.InNamespace):
            child.enter(self._get_namespace(host))
        self.controllers.append(self.useFixture(child))
        return child

    def _get_namespace(self, host):
        return self.namespace

    def _start_controllers(self):
        if self.hmsync:
            self.command('octavia-hmsync', 'db', 'upgrade')
        port = network.free_port()
        self.api = self._add(controllers.Api, 'api', {
            'api_settings': {'bind_host': '127.0.0.1', 'bind_port': port}})
        for number in range(self._worker_count):
            self.workers.append(self._add(Worker, f'worker{number + 1}'))
        for address in self.addresses[1:]:
            self._start_health_manager(address)
        for number in range(self._house_keeper_count):
            self.house_keepers.append(self._add(
                Housekeeping, f'hk{number + 1}' if number else 'hk'))
        self.housekeeping = self.house_keepers[0]
        self.connection.config.config[
            'load_balancer_endpoint_override'] = f'http://127.0.0.1:{port}'

    def _start_health_manager(self, address):
        self.health_managers.append(self._add(
            HealthManager, f'hm{len(self.health_managers) + 1}',
            {'health_manager': {'bind_ip': address}}))
        return self.health_managers[-1]

    def add_health_manager(self):
        """Start another one, at an address of its own; returns it."""
        self.addresses.append(self._add_address(
            len(self.addresses), self._management_subnet))
        return self._start_health_manager(self.addresses[-1])

    def make_command(self, name, *arguments, options=None, host=None):
        """Return what runs a command with an octavia.conf of this cloud.

        :param host: a controller where they are not all in one namespace.
        :returns: its arguments, and others of subprocess.Popen.
        """
        path = os.path.join(self.directory, f'{name}.conf')
        octavia_conf.write(path, octavia_conf.merge(self._options(), options))
        return self._get_namespace(host).wrap([
            process.program(name), '--config-file', path, *arguments]), {
            'cwd': self.directory, 'env': process.environment(
                self.directory, **self.compute.environment)}

    def command(self, name, *arguments, options=None):
        """Run a command with an octavia.conf of this cloud.

        :returns: what it printed.
        """
        command, how = self.make_command(name, *arguments, options=options)
        return process.run(*command, **how)

    @property
    def processes(self):
        return [child for child in self.controllers if child.running]

    def wait_until_ready(self, timeout=waiting.LIMIT):
        """Wait until every controller serves, with a list of addresses."""
        waiting.wait_for(
            lambda: all(child.is_ready() for child in self.processes),
            lambda: 'sign of being ready of {}'.format(', '.join(
                child.name for child in self.processes
                if not child.is_ready())),
            timeout, processes=self.processes)
        if self.hmsync:
            self.wait_for(self._is_published, 'list of health managers')
        return self

    def _is_published(self):
        # An amphora that boots before waits for its first upload.
        newest = generation_repo.get_newest(self.engine)
        # In further networks a health manager has further addresses.
        return newest and len(newest.addresses) >= len(self.health_managers)

    def wait_for(self, condition, what, timeout=waiting.LIMIT):
        return waiting.wait_for(condition, what, timeout,
                                processes=self.processes)

    # Load balancers

    def watch_holders(self, load_balancer):
        """Watch from now on which amphorae have a VIP; see holders.py."""
        return self.useFixture(holders.Holders(self.compute,
                                               load_balancer.vip_address))

    def add_flavor(self, provider='amphora', /, **data):
        """Make a flavor; returns its id.

        :param provider: whose it is.
        :param data: of the flavor of the amphora driver, such as
                     loadbalancer_topology or amp_image_tag.
        """
        api = self.connection.load_balancer
        profile = api.create_flavor_profile(
            name=f'profile-{uuid.uuid4()}', provider_name=provider,
            flavor_data=json.dumps(data))
        return api.create_flavor(name=f'flavor-{uuid.uuid4()}',
                                 is_enabled=True,
                                 flavor_profile_id=profile.id).id

    def add_load_balancer(self, name, topology='SINGLE', members=(),
                          wait=True, **kwargs):
        """Make one with openstacksdk; returns it once it is ACTIVE.

        With a listener for HTTP at port 80 where it has members.

        :param topology: SINGLE or ACTIVE_STANDBY, where it has no flavor.
        :param members: machines.Members.
        :param kwargs: attributes of the API.
        """
        api = self.connection.load_balancer
        if topology != 'SINGLE' and 'flavor_id' not in kwargs:
            kwargs['flavor_id'] = self.add_flavor(
                loadbalancer_topology=topology)
        if members:
            kwargs.setdefault('listeners', [{
                'name': 'http', 'protocol': 'HTTP', 'protocol_port': 80,
                'default_pool': {
                    'name': 'members', 'protocol': 'HTTP',
                    'lb_algorithm': 'ROUND_ROBIN', 'members': [
                        {'address': member.address, 'protocol_port': 80}
                        for member in members]}}])
        kwargs.setdefault('vip_subnet_id', self.subnet.id)
        made = api.create_load_balancer(
            name=name, project_id=neutron.PROJECT_ID, **kwargs)
        return self.wait_until_active(made.id) if wait else made

    def wait_until_active(self, load_balancer_id, timeout=waiting.LIMIT):
        """Wait until nobody works at a load balancer.

        :raises AssertionError: it is in ERROR.
        """
        api = self.connection.load_balancer

        def settled():
            found = api.get_load_balancer(load_balancer_id)
            if found.provisioning_status == 'ERROR':
                raise AssertionError(
                    f'{found.name} is in ERROR\n' + '\n'.join(
                        worker.log_tail(40) for worker in self.workers))
            return found if found.provisioning_status == 'ACTIVE' else None

        return self.wait_for(settled, f'ACTIVE {load_balancer_id}', timeout)
