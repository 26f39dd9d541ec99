# SPDX-License-Identifier: Apache-2.0

"""A Nova of one's own, with Placement.

It tells what only Nova can: on which hosts instances may be, what a quota
leaves, what a server has of its image. Its instances are fakes, unless a host
has a libvirt.Libvirt.
"""

import os
import pathlib
import shutil
import sqlite3
from urllib import parse

import fixtures

from tests.cloud import http_server
from tests.cloud import libvirt
from tests.cloud import network
from tests.cloud import neutron
from tests.cloud import octavia_conf
from tests.cloud import process
from tests.cloud import relay
from tests.cloud import virtualenv
from tests.cloud import waiting

REQUIREMENTS = ('nova>=34.0.0,<35', 'openstack-placement>=16.0.0,<17',
                'gunicorn>=20.0.0')
EVERYBODY = 'admin,manager,member,reader'
PROJECT_ID = neutron.PROJECT_ID

_DATABASES = ('api', 'cell0', 'cell1', 'placement')
# Its migrations take a while: they run once.
_MIGRATE = """
import pathlib, subprocess, sys
venv = pathlib.Path(sys.argv[1])
def write(name, **options):
    (venv / name).write_text(''.join(
        f'[{group}]\\n{option}\\n' for group, option in options.items()))
def url(name):
    return f'sqlite:///{venv}/{name}.db'
def run(program, *arguments):
    subprocess.run([venv / 'bin' / program, '--config-file', venv /
                    f'{program}.conf', *arguments], check=True)
write('nova-manage.conf', DEFAULT='transport_url = fake:/',
      api_database=f'connection = {url("api")}',
      database=f'connection = {url("cell1")}')
write('placement-manage.conf',
      placement_database=f'connection = {url("placement")}')
run('nova-manage', 'api_db', 'sync')
run('nova-manage', 'cell_v2', 'map_cell0', '--database_connection',
    url('cell0'))
run('nova-manage', 'cell_v2', 'create_cell', '--name', 'cell1',
    '--transport-url', 'fake:/', '--database_connection', url('cell1'))
run('nova-manage', 'db', 'sync')
run('placement-manage', 'db', 'sync')
"""
# SQLite takes one writer at a time: so do these servers.
_GUNICORN = """
wsgi_app = '{app}'
bind = '127.0.0.1:{port}'
workers = 1
threads = 1
timeout = 120
"""
# In place of Keystone's filter. Whoever asks is one and the same user, with
# the roles that are in a file.
_AUTH = """
import pathlib
from keystoneauth1 import noauth

def factory(global_conf, **local_conf):
    return Everybody

class Everybody:
    def __init__(self, application):
        self._application = application

    def __call__(self, environ, start_response):
        roles = pathlib.Path(__file__).with_name('roles').read_text()
        environ.update({
            'HTTP_X_IDENTITY_STATUS': 'Confirmed',
            'HTTP_X_USER_ID': 'octavia', 'HTTP_X_PROJECT_ID': '%s',
            'HTTP_X_ROLES': roles, 'keystone.token_auth': noauth.NoAuth()})
        return self._application(environ, start_response)
""" % PROJECT_ID
# Nova reads, and then writes, in one transaction; where somebody else has
# written in between, SQLite refuses that at once. So each begins as a writer,
# and waits.
_SITE = """
import sqlite3
import sqlite3.dbapi2

class Cursor(sqlite3.Cursor):
    def execute(self, sql, *arguments):
        return super().execute(
            'BEGIN IMMEDIATE' if sql == 'BEGIN' else sql, *arguments)

class Connection(sqlite3.Connection):
    def cursor(self, factory=Cursor):
        return super().cursor(factory)

def connect(*args, make=sqlite3.dbapi2.connect, **kwargs):
    return make(*args, **{'factory': Connection, **kwargs})

sqlite3.connect = sqlite3.dbapi2.connect = connect
"""
_FILTER = 'keystonemiddleware.auth_token:filter_factory'


class _Service(process.ChildProcess):
    """A part of Nova, or Placement.

    :param nova: Nova.
    :param program: in its virtual environment.
    :param arguments: for the program.
    :param directory: where it runs.
    :param namespace: an openvswitch.Namespace, or None.
    """

    def __init__(self, nova, name, program, *arguments, directory=None,
                 port=None, namespace=None):
        self._port = port
        command = [str(nova.venv / 'bin' / program), *arguments]
        super().__init__(
            name, namespace.wrap(command) if namespace else command,
            log_directory=nova.directory, cwd=directory or nova.directory,
            env=process.environment(
                nova.directory, OS_NOVA_CONFIG_DIR=nova.directory,
                OS_NOVA_CONFIG_FILES='api-paste.ini;nova.conf',
                OS_PLACEMENT_CONFIG_DIR=nova.directory,
                OS_NOVA_DISABLE_EVENTLET_PATCHING='true'))
        self.env['PYTHONPATH'] = nova.directory
        self.env.pop('VIRTUAL_ENV', None)

    def is_ready(self):
        return self._port is None or http_server.answers(self._port)


class Nova(fixtures.Fixture):
    """Nova 34 on SQLite, with computes that only pretend.

    Whoever asks is an administrator, unless a test sets other roles. It
    needs RabbitMQ, and a Neutron with agents on its hosts.

    :param directory: where its files go.
    :param transport_url: of RabbitMQ.
    :param neutron: a neutron.Neutron.
    :param glance: a glance.Glance.
    :param hosts: names of the computes whose instances are fakes.
    """

    def __init__(self, directory, transport_url, neutron, glance,
                 hosts=('compute1', 'compute2')):
        super().__init__()
        self.directory = os.path.join(directory, 'nova')
        os.makedirs(self.directory)
        self.venv = virtualenv.path('nova')
        self._transport_url = transport_url
        self._neutron = neutron
        self._glance = glance
        self._hosts = hosts
        self.computes = {}
        self.port = network.free_port()
        self._placement_port = network.free_port()
        self.url = f'http://127.0.0.1:{self.port}/v2.1'

    def _setUp(self):
        virtualenv.make('nova', *REQUIREMENTS, setup=_MIGRATE)
        for name in _DATABASES:
            shutil.copyfile(self.venv / f'{name}.db', self._path(f'{name}.db'))
            # Who reads is in nobody's way.
            self._execute(name, 'PRAGMA journal_mode = WAL')
        self._set_cells()
        self._write('hmsync_tests_auth.py', _AUTH)
        self._write('sitecustomize.py', _SITE)
        self.set_roles(EVERYBODY)
        paste = (self.venv / 'etc/nova/api-paste.ini').read_text()
        self._write('api-paste.ini', paste.replace(
            _FILTER, 'hmsync_tests_auth:factory'))
        octavia_conf.write(self._path('placement.conf'), {
            'api': {'auth_strategy': 'noauth2'},
            'placement_database': {'connection': self._url('placement')}})
        octavia_conf.write(self._path('nova.conf'), self._options())
        placement = self._serve('placement', 'placement.wsgi.api:application',
                                self._placement_port)
        placement.wait_until_ready()
        self.services = [
            placement, self._run('nova-conductor'),
            self._run('nova-scheduler'),
            self._serve('nova-api', 'nova.wsgi.osapi_compute:application',
                        self.port)]
        for host in self._hosts:
            self.add_compute(host)

    def _path(self, name):
        return os.path.join(self.directory, name)

    def _url(self, name):
        return f'sqlite:///{self._path(name)}.db?timeout=30'

    def _write(self, name, text):
        with open(self._path(name), 'w') as file:
            file.write(text)

    def set_roles(self, roles):
        """Give whoever asks from now on other roles.

        :param roles: separated by commas.
        """
        self._write('roles', roles)

    def _set_cells(self):
        for cell, url in (('cell0', 'none:///'),
                          ('cell1', self._transport_url)):
            self._execute(
                'api', 'UPDATE cell_mappings SET transport_url = ?, '
                'database_connection = ? WHERE name = ?',
                url, self._url(cell), cell)

    def _execute(self, name, statement, *parameters):
        with sqlite3.connect(self._path(f'{name}.db'),
                             timeout=30) as connection:
            connection.execute(statement, parameters)
        connection.close()

    def set_quota(self, **limits):
        """Set limits of the project; Nova's API would ask Keystone of it."""
        self._execute('api', 'DELETE FROM quotas')
        for resource, limit in limits.items():
            self._execute(
                'api', 'INSERT INTO quotas (project_id, resource, '
                'hard_limit) VALUES (?, ?, ?)', PROJECT_ID, resource, limit)

    def _options(self, host='controller'):
        fast = {'sqlite_synchronous': False}
        return {
            'DEFAULT': {'transport_url': self._transport_url, 'host': host,
                        'state_path': self._path(host),
                        'compute_driver': 'fake.FakeDriver',
                        'update_resources_interval': 20,
                        'rpc_response_timeout': 30},
            'api': {'use_neutron_default_nets': False},
            'api_database': {'connection': self._url('api'), **fast},
            'database': {'connection': self._url('cell1'), **fast},
            'conductor': {'workers': 1},
            'scheduler': {'workers': 1,
                          'discover_hosts_in_cells_interval': 1},
            'placement': {
                'auth_type': 'admin_token', 'token': 'admin',
                'endpoint': f'http://127.0.0.1:{self._placement_port}',
                'endpoint_override':
                    f'http://127.0.0.1:{self._placement_port}'},
            'neutron': {'auth_type': 'none', 'endpoint': self._neutron.url,
                        'endpoint_override': self._neutron.url},
            'glance': {'endpoint_override': self._glance.url},
            'oslo_concurrency': {'lock_path': self._path(host)},
            'oslo_messaging_notifications': {'driver': 'noop'}}

    def _serve(self, name, app, port):
        # It reads its arguments itself, and gunicorn this file there.
        os.makedirs(self._path(name))
        self._write(f'{name}/gunicorn.conf.py',
                    _GUNICORN.format(app=app, port=port))
        return self.useFixture(_Service(
            self, name, 'gunicorn', directory=self._path(name), port=port))

    def _run(self, program, host='controller', options=None, namespace=None):
        conf = self._path(f'{program}-{host}.conf')
        octavia_conf.write(conf, octavia_conf.merge(self._options(host),
                                                    options))
        os.makedirs(self._path(host), exist_ok=True)
        return self.useFixture(_Service(
            self, f'{program}-{host}', program, '--config-file', conf,
            directory=self._path(host), namespace=namespace))

    def add_compute(self, host):
        """Start the compute of one more host."""
        self._neutron.add_agent(host)
        self.computes[host] = self._run('nova-compute', host)

    def add_libvirt(self, node, uri):
        """Start the compute of a node, whose instances are libvirt's.

        :param node: a nodes.Node.
        :param uri: where its libvirt.Libvirt is.
        """
        for module in pathlib.Path(libvirt.BINDING).glob('libvirt*'):
            link = pathlib.Path(self.directory, module.name)
            if not link.exists():
                link.symlink_to(module)
        for url in (self._transport_url, self._neutron.url, self._glance.url,
                    f'http://127.0.0.1:{self._placement_port}'):
            self.useFixture(relay.Relay(node.namespace,
                                        parse.urlsplit(url).port))
        os.makedirs(self.get_instances_path(node.host))
        helper = {'helper_command': f'{self.venv}/bin/privsep-helper'}
        self.computes[node.host] = self._run(
            'nova-compute', node.host, {
                'DEFAULT': {
                    'compute_driver': 'libvirt.LibvirtDriver',
                    'force_config_drive': True, 'force_raw_images': False,
                    'mkisofs_cmd': process.system_program('genisoimage'),
                    'instances_path': self.get_instances_path(node.host),
                    # Neutron does not tell Nova.
                    'vif_plugging_is_fatal': False, 'vif_plugging_timeout': 0},
                'libvirt': {'virt_type': 'qemu', 'connection_uri': uri},
                'os_vif_ovs': {'ovsdb_connection': node.vswitch.connection},
                'vnc': {'enabled': False},
                **dict.fromkeys(('nova_sys_admin', 'vif_plug_ovs_privileged',
                                 'privsep_osbrick'), helper)},
            node.namespace)

    def get_instances_path(self, host):
        """Return where the files of a libvirt's instances are."""
        return self._path(f'instances-{host}')

    def wait_until_served(self, timeout=waiting.LIMIT):
        """Wait until its API answers."""
        waiting.wait_for(
            lambda: all(s.is_ready() for s in self.services), 'Nova', timeout,
            processes=[*self.services, *self.computes.values()])

    def wait_until_ready(self, connection, timeout=waiting.LIMIT):
        """Wait until instances can be on each host.

        :param connection: one of openstacksdk to it.
        """
        self.wait_until_served(timeout)
        waiting.wait_for(
            lambda: set(self.computes) == {
                h.name for h in connection.compute.hypervisors()
                if h.state == 'up'},
            f'hypervisors {sorted(self.computes)}', timeout,
            processes=[*self.services, *self.computes.values()])
        return self

    def octavia_options(self):
        """Return what octavia.conf needs, as {group: {option: value}}."""
        return {'nova': {'endpoint': self.url},
                'controller_worker': {'compute_driver':
                                      'compute_nova_driver'}}
