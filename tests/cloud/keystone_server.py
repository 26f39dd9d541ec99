# SPDX-License-Identifier: Apache-2.0

"""A Keystone of one's own."""

import os
import secrets
import uuid

from tests.cloud import http_server
from tests.cloud import network
from tests.cloud import octavia_conf
from tests.cloud import process
from tests.cloud import virtualenv

REQUIREMENTS = ('keystone>=30.0.0,<31', 'gunicorn>=20.0.0',
                'PyMySQL>=1.0.0')

_GUNICORN = """
wsgi_app = 'keystone.wsgi.api:application'
bind = '127.0.0.1:{port}'
workers = 1
threads = 4
timeout = 120
# Seconds; see tests/cloud/glance.py.
keepalive = 3600
"""


class Keystone(process.ChildProcess):
    """Keystone 30 on a database of a MariaDB server.

    It has the project "service" and the users octavia and neutron, who are
    administrators there; .password is that of both. Its catalog has itself.

    :param directory: where its files go
    :param server: a mariadb.MariaDBServer
    :param options: {group: {option: value}} for keystone.conf
    """

    def __init__(self, directory, server, options=None):
        self._options = options
        self._directory = os.path.join(directory, 'keystone')
        os.makedirs(self._directory)
        self._server = server
        self.port = network.free_port()
        self.url = f'http://127.0.0.1:{self.port}/v3'
        self.password = secrets.token_hex(8)
        self._venv = virtualenv.make('keystone', *REQUIREMENTS)
        env = process.environment(
            self._directory, OS_KEYSTONE_CONFIG_DIR=self._directory)
        for variable in ('PYTHONPATH', 'VIRTUAL_ENV'):
            env.pop(variable, None)
        super().__init__(
            'keystone', [str(self._venv / 'bin/gunicorn')],
            log_directory=self._directory, cwd=self._directory, env=env)

    def _setUp(self):
        name = f'keystone_{uuid.uuid4().hex[:12]}'
        self._server.execute(f'CREATE DATABASE {name}')
        self.addCleanup(self._server.execute, f'DROP DATABASE {name}')
        with open(os.path.join(self._directory, 'gunicorn.conf.py'),
                  'w') as conf:
            conf.write(_GUNICORN.format(port=self.port))
        keys = os.path.join(self._directory, 'keys')
        octavia_conf.write(
            os.path.join(self._directory, 'keystone.conf'),
            octavia_conf.merge({
                'database': {'connection': self._server.url(name)},
                'token': {'provider': 'fernet'},
                'fernet_tokens': {'key_repository': keys},
                'credential': {'key_repository': keys}}, self._options))
        self._manage('db_sync')
        os.makedirs(keys, mode=0o700)
        self._manage('fernet_setup', '--keystone-user', 'root',
                     '--keystone-group', 'root')
        for user in ('neutron', 'octavia'):
            self.add_administrator(user, 'service')
        super()._setUp()

    def add_administrator(self, user, project):
        """Add a user who is administrator of a project."""
        self._manage(
            'bootstrap', '--bootstrap-username', user,
            '--bootstrap-password', self.password,
            '--bootstrap-project-name', project,
            '--bootstrap-role-name', 'admin',
            '--bootstrap-region-id', 'RegionOne',
            *(f'--bootstrap-{interface}-url={self.url}'
              for interface in ('admin', 'internal', 'public')))

    def _manage(self, *arguments):
        process.run(self._venv / 'bin/keystone-manage', '--config-dir',
                    self._directory, *arguments, env=self.env,
                    cwd=self._directory)

    def is_ready(self):
        return http_server.answers(self.port, '/v3')

    def credentials(self, user, project='service'):
        """What a service of that user has in its configuration."""
        return {'auth_type': 'password', 'auth_url': self.url,
                'username': user, 'password': self.password,
                'project_name': project, 'user_domain_id': 'default',
                'project_domain_id': 'default'}
