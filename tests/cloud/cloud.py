# SPDX-License-Identifier: Apache-2.0

"""A small cloud: a database, controllers and amphorae."""

import os
import secrets
import subprocess
import time

import fixtures

from tests.cloud import ailing
from tests.cloud import amphora
from tests.cloud import certificates
from tests.cloud import controllers
from tests.cloud import database
from tests.cloud import hostile
from tests.cloud import installations
from tests.cloud import network
from tests.cloud import octavia_conf
from tests.cloud import records
from tests.cloud import sniffer
from tests.cloud import syslog
from tests.cloud import waiting

AMPHORA_PORT = 9443
LISTENER_PORT = 8080
# Addresses in the network of the cloud; health managers are below.
FIRST_AMPHORA = 100
# The load balancers of a cloud, again and again: topology, has a flavor.
KINDS = (('SINGLE', False), ('ACTIVE_STANDBY', False),
         ('SINGLE', True), ('ACTIVE_STANDBY', True))


class Cloud(fixtures.Fixture):
    """Octavia on a loopback network of its own.

    What it starts, it starts without waiting: Python takes seconds to get
    going, so start all, then call wait_until_ready().

    :param amphorae: how many amphorae to start at once, while the database
                     is being made
    :param controller_ip_port_list: the list which those boot with
    :param listeners: whether those have a listener, and so a haproxy. Give
                      them a MariaDB: on a SQLite file, the two processes of
                      a health manager which write what a heartbeat says get
                      in each other's way, and one or the other is lost.
    :param hmsync: whether the controllers run with the plugin
    :param make_database: takes a directory, returns a database.Database
    :param options: {group: {option: value}} for every controller
    :param log_directory: where to put the logs of all processes
    :param sniff: whether to have a .sniffer, which reads every heartbeat
    """

    def __init__(self, amphorae=0, controller_ip_port_list=(), hmsync=True,
                 make_database=database.SqliteDatabase, options=None,
                 log_directory=None, listeners=False, sniff=True):
        super().__init__()
        self._sniff = sniff
        self.hmsync = hmsync
        self.options = options or {}
        self.log_directory = log_directory
        self.amphorae = {}
        self.health_managers = {}
        self.controllers = []
        self._amphora_count = amphorae
        self._listeners = listeners
        self._boot_list = controller_ip_port_list
        self._make_database = make_database

    def _setUp(self):
        self.network = self.useFixture(network.LoopbackNetwork())
        self.directory = self.useFixture(fixtures.TempDir()).path
        self.log_directory = self.log_directory or self.directory
        self.heartbeat_key = secrets.token_hex(16)
        self.certificates = self.useFixture(certificates.Certificates(
            os.path.join(self.directory, 'certs')))
        self.useFixture(syslog.SyslogSocket(self.directory))
        if self._sniff:
            self.sniffer = self.useFixture(sniffer.Sniffer(
                self.heartbeat_key, self.network.cidr))
        self._next_amphora = FIRST_AMPHORA
        # Agents need no database; its schema takes some seconds.
        load_balancers = self._plan(self._amphora_count)
        for load_balancer in load_balancers:
            self._start_agents(load_balancer, self._boot_list(self) if
                               callable(self._boot_list) else self._boot_list)
        self.database = self.useFixture(self._make_database(self.directory))
        self.records = self.database.records
        for load_balancer in load_balancers:
            self._record(load_balancer)
        self.addCleanup(self._request_stop)

    def _request_stop(self):
        for child in self.processes:
            child.request_stop()

    # Amphorae

    def _plan(self, count):
        """Load balancers, as dicts, which have that many amphorae in all."""
        plan = []
        while count > 0:
            topology, flavored = KINDS[len(plan) % len(KINDS)]
            if count == 1:
                topology = 'SINGLE'
            plan.append(self._plan_one(topology, flavored, self._listeners))
            count -= len(plan[-1]['amphorae'])
        return plan

    def _plan_one(self, topology, flavored=False, listener=False):
        return {'id': records.new_id(), 'topology': topology,
                'listener_id': records.new_id() if listener else None,
                'flavored': flavored, 'amphorae': [
                    {'amphora_id': records.new_id(), 'role': role,
                     'lb_network_ip': self._new_amphora_address()}
                    for role in records.ROLES[topology]]}

    def _new_amphora_address(self):
        self._next_amphora += 1
        return self.network.address(self._next_amphora)

    def _record(self, load_balancer):
        flavor_id = (self.records.add_flavor() if load_balancer['flavored']
                     else None)
        self.records.add_load_balancer(load_balancer['topology'], flavor_id,
                                       load_balancer['id'])
        if load_balancer['listener_id']:
            self.records.add_listener(load_balancer['id'], LISTENER_PORT,
                                      load_balancer['listener_id'])
        for member in load_balancer['amphorae']:
            self.records.add_amphora(load_balancer_id=load_balancer['id'],
                                     **member)

    def _start_agents(self, load_balancer, controller_ip_port_list,
                      old_image=False):
        listener = None
        if load_balancer['listener_id']:
            listener = {'load_balancer_id': load_balancer['id'],
                        'listener_id': load_balancer['listener_id'],
                        'port': LISTENER_PORT}
        return [self.start_agent(member['amphora_id'],
                                 member['lb_network_ip'],
                                 controller_ip_port_list,
                                 load_balancer['topology'],
                                 listener, old_image)
                for member in load_balancer['amphorae']]

    def start_agent(self, amphora_id, lb_network_ip, controller_ip_port_list,
                    topology='SINGLE', listener=None, old_image=False):
        """Start an agent; does nothing in the database.

        :param listener: dict of the load_balancer_id, listener_id and port
                         of its listener, if it has one
        :param old_image: see add_load_balancer()
        """
        health_manager = self._options()['health_manager']
        agent = amphora.Amphora(
            amphora_id, lb_network_ip, list(controller_ip_port_list),
            self.certificates, self.heartbeat_key, self.directory,
            self.log_directory, port=AMPHORA_PORT, topology=topology,
            heartbeat_interval=health_manager['heartbeat_interval'],
            listener=listener, old_image=old_image)
        self.amphorae[amphora_id] = self.useFixture(agent)
        return agent

    def add_load_balancer(self, controller_ip_port_list, topology='SINGLE',
                          flavored=False, listener=False, old_image=False):
        """Add a load balancer and its agents; returns their fixtures.

        :param listener: whether it has a listener; each of its amphorae then
                         has a .haproxy
        :param old_image: whether its amphorae take a new list, but use it
                          only from their next start on (LP 2121691)
        """
        load_balancer = self._plan_one(topology, flavored, listener)
        self._record(load_balancer)
        return self._start_agents(load_balancer, controller_ip_port_list,
                                  old_image)

    def add_lone_amphora(self, controller_ip_port_list):
        """Add an amphora which belongs to no load balancer."""
        address = self._new_amphora_address()
        amphora_id = self.records.add_amphora(address, role=None)
        return self.start_agent(amphora_id, address, controller_ip_port_list)

    def add_ailing_amphora(self, ailment, **kwargs):
        """Add an amphora, of a SINGLE load balancer, with that ailment."""
        load_balancer = self._plan_one('SINGLE')
        self._record(load_balancer)
        member = load_balancer['amphorae'][0]
        return self.useFixture(ailing.AilingAmphora(
            member['amphora_id'], member['lb_network_ip'], self.certificates,
            ailment, port=AMPHORA_PORT, **kwargs))

    def add_hostile_amphora(self, addresses, disliked, silence):
        """Add an amphora, of a SINGLE load balancer; see HostileAmphora."""
        load_balancer = self._plan_one('SINGLE')
        self._record(load_balancer)
        member = load_balancer['amphorae'][0]
        return self.useFixture(hostile.HostileAmphora(
            self, member['amphora_id'], member['lb_network_ip'], addresses,
            disliked, silence, port=AMPHORA_PORT))

    @property
    def amphora_ids(self):
        """Ids of the amphorae that have a real agent."""
        return set(self.amphorae)

    # Controllers

    def _options(self, *layers):
        defaults = {}
        if hasattr(self, 'database'):
            defaults = octavia_conf.controller(
                self.database.connection, self.certificates,
                self.heartbeat_key, AMPHORA_PORT)
        else:
            # Only for the agents which boot before there is a database.
            defaults = octavia_conf.controller(
                None, self.certificates, self.heartbeat_key, AMPHORA_PORT)
        return octavia_conf.merge(
            defaults, octavia_conf.HMSYNC if self.hmsync else {},
            *layers, self.options)

    def _add(self, kind, host, *layers, installation=installations.OURS):
        options = self._options(*layers)
        controller = self.useFixture(kind(host, options, self.directory,
                                          self.log_directory, installation))
        self.controllers.append(controller)
        return controller

    def address(self, number):
        """An address for a health manager; use numbers from 1 to 99."""
        return self.network.address(number)

    def add_health_manager(self, bind_ip, host=None, options=None,
                           controller_ip_port_list=None, **kwargs):
        """Start a health manager.

        :param controller_ip_port_list: for its octavia.conf; not to be given
                                        with the plugin, but to pin members
        """
        host = host or f'hm{len(self.health_managers) + 1}'
        health_manager = self._add(
            controllers.HealthManager, host, octavia_conf.FAILOVER,
            {'health_manager': {
                'bind_ip': bind_ip,
                'controller_ip_port_list': controller_ip_port_list}},
            options, **kwargs)
        self.health_managers[host] = health_manager
        return health_manager

    def add_housekeeping(self, host='hk', options=None, **kwargs):
        return self._add(controllers.Housekeeping, host, options, **kwargs)

    def add_worker(self, host='worker', options=None, **kwargs):
        return self._add(controllers.Worker, host, options, **kwargs)

    def add_service(self, kind, host, options=None, bin_directory=None):
        """Start a service of a class of controllers, maybe of another Octavia.

        :param bin_directory: where its program is.
        """
        return self._add(
            kind, host, self._own_options(kind, host), options,
            installation=installations.Installation(
                bin_directory or installations.OURS.bin_directory))

    def _own_options(self, kind, host):
        if kind is controllers.HealthManager:
            return {**octavia_conf.FAILOVER,
                    'health_manager': {'bind_ip': self.address(99)}}
        if kind is controllers.Api:
            return {'api_settings': {'bind_host': self.address(98)}}
        if kind is controllers.DriverAgent:
            return {'driver_agent': {
                f'{name}_socket_path': os.path.join(
                    self.directory, f'{host}-{name}.sock')
                for name in ('status', 'stats', 'get')}}
        return {}

    def write_conf(self, name, options=None):
        """Write an octavia.conf of this cloud, and return its path."""
        path = os.path.join(self.directory, f'{name}.conf')
        octavia_conf.write(path, self._options(options))
        return path

    def command(self, name, *arguments, options=None, timeout=240,
                installation=installations.OURS):
        """Run a command line tool with an octavia.conf of this cloud.

        :returns: a CompletedProcess, with its output and errors as text
        """
        return subprocess.run(
            [installation.program(name), '--config-file',
             self.write_conf(name, options), *arguments],
            env=installation.environment(self.directory), cwd=self.directory,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            timeout=timeout, stdin=subprocess.DEVNULL)

    def upgrade_hmsync(self, installation=installations.OURS):
        """Make the tables of the plugin, as an administrator does."""
        result = self.command('octavia-hmsync', 'db', 'upgrade',
                              installation=installation)
        if result.returncode:
            raise RuntimeError(f'octavia-hmsync db upgrade failed:\n'
                               f'{result.stderr}')

    # State

    @property
    def processes(self):
        amphorae = self.amphorae.values()
        return [*self.controllers, *amphorae, *(
            amphora.haproxy for amphora in amphorae if amphora.haproxy)]

    def wait_until_ready(self, timeout=waiting.LIMIT):
        """Wait until every process that runs now serves."""
        running = [child for child in self.processes if child.running]
        waiting.wait_for(
            lambda: all(child.is_ready() for child in running),
            lambda: 'sign of being ready of {}'.format(', '.join(
                child.name for child in running if not child.is_ready())),
            timeout, processes=running)

    def wait_until_known(self, addresses, amphora_ids=None, since=None,
                         timeout=waiting.LIMIT):
        """Wait until each amphora has sent to each address, and is recorded.

        :param addresses: 'ip:port' of health managers
        """
        amphora_ids = self.amphora_ids if amphora_ids is None else amphora_ids
        since = time.time() if since is None else since
        self.sniffer.wait_until_heard(amphora_ids, addresses, since, timeout,
                                      self._running(self.controllers))
        self.wait_until_recorded(amphora_ids, timeout)

    def wait_until_recorded(self, amphora_ids, timeout=waiting.LIMIT):
        """Wait until a health manager has recorded each amphora."""
        waiting.wait_for(
            lambda: amphora_ids <= set(self.records.health_ages()),
            'health row of every amphora', timeout,
            processes=self._running(self.controllers))

    @staticmethod
    def _running(children):
        return [child for child in children if child.running]

    def failovers_begun(self):
        """Ids of the amphorae of this cloud sent to failover so far."""
        return self.records.failovers_begun(
            {row['id'] for row in self._original_amphorae()})

    def _original_amphorae(self):
        # Those which a failover has built have no agent in this network.
        return [row for row in self.records.rows('amphora')
                if (row['lb_network_ip'] or '').startswith(
                    f'{self.network.prefix}.')]
