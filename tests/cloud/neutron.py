# SPDX-License-Identifier: Apache-2.0

"""A Neutron API of one's own, without agents and without Keystone.

Neutron's requirements are not Octavia's, so it lives in a virtual environment
of its own, which the first test that needs it makes below ``.tox``.
"""

import atexit
import datetime
import json
import os
import shutil
import sqlite3
import uuid

import fixtures
import openstack

from tests.cloud import http_server
from tests.cloud import mariadb
from tests.cloud import network
from tests.cloud import octavia_conf
from tests.cloud import process
from tests.cloud import virtualenv

REQUIREMENTS = ('neutron>=29.0.0,<30', 'gunicorn>=20.0.0',
                'PyMySQL>=1.0.0')

# Neutron's own, where nobody says who he is.
PROJECT_ID = 'fake_project_id'

_VENV = virtualenv.path('neutron')
_TEMPLATE = 'template.db'
# The migrations of Neutron do not run on SQLite; of the rows that they make,
# the rules of new security groups matter.
_CREATE_ALL = """
import pathlib, runpy, sys
import neutron
import sqlalchemy as sa
from neutron.db.migration.models import head
engine = sa.create_engine(f'sqlite:///{sys.argv[1]}/template.db')
tables = head.get_metadata()
tables.create_all(engine)
path, = pathlib.Path(neutron.__file__).parent.rglob(
    'c33da356b165_security_group_default_rules.py')
tables = tables.tables
with engine.begin() as connection:
    for rule in runpy.run_path(str(path))['default_template_rules']:
        made = connection.execute(tables['standardattributes'].insert(), {
            'resource_type': 'securitygroupdefaultrules',
            'description': rule.pop('description')})
        connection.execute(tables['securitygroupdefaultrules'].insert(), {
            'standard_attr_id': made.inserted_primary_key[0], **rule})
"""
# SQLite takes one writer at a time: so does this server.
_GUNICORN = """
wsgi_app = 'neutron.wsgi.api:application'
bind = '127.0.0.1:{port}'
workers = 1
threads = 1
timeout = 120
"""


def environment():
    """Return the virtual environment with Neutron; make it where it lacks.

    :returns: its path.
    """
    return virtualenv.make('neutron', *REQUIREMENTS, setup=_CREATE_ALL)


class Neutron(process.ChildProcess):
    """The API of Neutron 29 (ML2), in an own process on an own SQLite file.

    Everybody is admin (auth_strategy = noauth), unless policy says
    otherwise; .url is what ``[neutron] endpoint_override`` takes.

    :param directory: where its files go.
    :param policy: {name of a rule: rule} in place of Neutron's own rules.
    :param options: {group: {option: value}} for neutron.conf.
    """

    def __init__(self, directory, policy=None, options=None):
        self._directory = os.path.join(directory,
                                       f'neutron-{uuid.uuid4().hex[:8]}')
        self._policy = policy or {}
        self._options = options
        self.port = network.free_port()
        self.url = f'http://127.0.0.1:{self.port}'
        self.database_path = os.path.join(self._directory, 'neutron.db')
        os.makedirs(self._directory)
        # Neutron reads the arguments of whatever program it runs in.
        super().__init__(
            'neutron', [str(_VENV / 'bin/gunicorn')],
            log_directory=self._directory, cwd=self._directory,
            env=process.environment(
                self._directory, OS_NEUTRON_CONFIG_DIR=self._directory,
                OS_NEUTRON_CONFIG_FILES='neutron.conf'))
        for variable in ('PYTHONPATH', 'VIRTUAL_ENV'):
            self.env.pop(variable, None)

    def _setUp(self):
        venv = environment()
        shutil.copyfile(venv / _TEMPLATE, self.database_path)
        self._write('gunicorn.conf.py', _GUNICORN.format(port=self.port))
        self.write_policy(self._policy)
        octavia_conf.write(
            os.path.join(self._directory, 'neutron.conf'),
            octavia_conf.merge({
                'DEFAULT': {
                    'auth_strategy': 'noauth', 'core_plugin': 'ml2',
                    'transport_url': 'fake:/', 'host': 'neutron',
                    'api_paste_config': venv / 'etc/neutron/api-paste.ini',
                    'state_path': self._directory,
                    # An agent that a test adds is alive for good.
                    'agent_down_time': 2000000,
                    'rpc_workers': 0, 'rpc_state_report_workers': 0},
                'database': {'connection': f'sqlite:///{self.database_path}',
                             'sqlite_synchronous': False},
                'ml2': {'type_drivers': 'vxlan',
                        'tenant_network_types': 'vxlan',
                        'mechanism_drivers': 'openvswitch',
                        'extension_drivers': 'port_security'},
                'ml2_type_vxlan': {'vni_ranges': '1:1000'},
                # Each test makes its own network.
                'quotas': {'quota_network': -1, 'quota_subnet': -1,
                           'quota_port': -1, 'quota_security_group': -1,
                           'quota_security_group_rule': -1},
                'oslo_concurrency': {'lock_path': self._directory},
                'oslo_policy': {'policy_file': 'policy.yaml'},
            }, self._options))
        super()._setUp()

    def _write(self, name, text):
        path = os.path.join(self._directory, name)
        with open(path, 'w') as file:
            file.write(text)

    def write_policy(self, policy):
        """Replace rules; a Neutron that runs takes them at once.

        :param policy: {name of a rule: rule}.
        """
        self._write('policy.yaml', json.dumps(policy))

    def is_ready(self):
        # The port is open long before Neutron is loaded.
        return http_server.answers(self.port)

    def octavia_options(self):
        """Return what octavia.conf needs, as {group: {option: value}}."""
        return {'service_auth': {'auth_type': 'none', 'endpoint': self.url},
                'neutron': {'auth_section': 'service_auth',
                            'endpoint_override': self.url}}

    def add_agent(self, host, datapath_type='netdev'):
        """Pretend that an Open vSwitch agent reports from a host.

        Ports can then be bound there.

        :param host: the value of binding:host_id.
        :param datapath_type: of its bridges.
        """
        now = datetime.datetime.now(datetime.UTC).strftime(
            '%Y-%m-%d %H:%M:%S.%f')
        configurations = {
            'bridge_mappings': {}, 'tunnel_types': ['vxlan'],
            'tunneling_ip': '127.0.0.1', 'datapath_type': datapath_type,
            'integration_bridge': 'br-int', 'ovs_capabilities': {
                'datapath_types': ['netdev', 'system'], 'iface_types': []}}
        self.execute(
            'INSERT INTO agents (id, agent_type, binary, topic, host, '
            'admin_state_up, created_at, started_at, heartbeat_timestamp, '
            'configurations, load) VALUES (?, ?, ?, ?, ?, 1, ?, ?, ?, ?, 0)',
            str(uuid.uuid4()), 'Open vSwitch agent',
            'neutron-openvswitch-agent', 'N/A', host, now, now, now,
            json.dumps(configurations))

    def remove_agent(self, host):
        self.execute('DELETE FROM agents WHERE host = ?', host)

    def execute(self, statement, *parameters):
        """Run a statement in its database, for what agents would do."""
        with sqlite3.connect(self.database_path, timeout=30) as connection:
            connection.execute(statement, parameters)
        connection.close()


def with_keystone(keystone):
    """Return options of a Neutron whose users are those of a Keystone."""
    return {'DEFAULT': {'auth_strategy': 'keystone'},
            'keystone_authtoken': {**keystone.credentials('neutron'),
                                   'www_authenticate_uri': keystone.url}}


class OnMariaDB(Neutron):
    """One with routers, whose networks carry packets.

    :param directory: where its files go.
    :param server: a mariadb.MariaDBServer.
    :param options: {group: {option: value}} for neutron.conf.
    """

    def __init__(self, directory, server, options=None):
        self._server = server
        self._name = f'neutron_{uuid.uuid4().hex[:12]}'
        self._home = directory
        super().__init__(directory, options=octavia_conf.merge({
            'DEFAULT': {'agent_down_time': 75,
                        'notify_nova_on_port_status_changes': False,
                        'notify_nova_on_port_data_changes': False},
            'database': {'connection': server.url(self._name)},
            'ml2_type_flat': {'flat_networks': '*'},
            'quotas': {'quota_router': -1, 'quota_floatingip': -1},
        }, options))
        # Workers share OVN's events; of gunicorn it does not know how many
        # there are.
        self.env['ASGI_WORKERS'] = '1'

    def _setUp(self):
        self._server.execute(f'CREATE DATABASE {self._name}')
        self.addCleanup(self._server.execute, f'DROP DATABASE {self._name}')
        conf = os.path.join(self._home, 'neutron-db.conf')
        octavia_conf.write(conf, {
            'database': {'connection': self._server.url(self._name)}})
        process.run(environment() / 'bin/neutron-db-manage',
                    '--config-file', conf, 'upgrade', 'heads', env=self.env,
                    cwd=self._home)
        super()._setUp()


def connect(server):
    """Connect to a Neutron as its administrator.

    :returns: an openstack.connection.Connection; close it.
    """
    return openstack.connect(
        load_envvars=False, load_yaml_config=False, auth_type='none',
        auth={'endpoint': server.url}, network_endpoint_override=server.url)


_SHARED = []


def shared_server():
    """The Neutron that all tests of this process share; ends with it.

    A test that stops it needs its own.
    """
    if not _SHARED:
        directory = fixtures.TempDir(rootdir=mariadb.LASTING_DIRECTORY)
        directory.setUp()
        atexit.register(directory.cleanUp)
        server = Neutron(directory.path)
        server.setUp()
        # Called in reverse order, so before the directory goes.
        atexit.register(server.cleanUp)
        server.wait_until_ready()
        _SHARED.append(server)
    return _SHARED[0]
