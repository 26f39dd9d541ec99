# SPDX-License-Identifier: Apache-2.0

"""A Glance of one's own, without Keystone."""

import json
import os

from tests.cloud import http_server
from tests.cloud import network
from tests.cloud import octavia_conf
from tests.cloud import process
from tests.cloud import virtualenv

REQUIREMENTS = ('glance>=33.0.0,<34', 'gunicorn>=20.0.0')

_GUNICORN = """
wsgi_app = 'glance.wsgi.api:application'
bind = '127.0.0.1:{port}'
workers = 1
threads = 4
timeout = 120
# Seconds. It would close a connection after two, as the next request comes.
keepalive = 3600
"""
# Without Keystone nobody has a role.
_ALLOWED = ('add_image', 'deactivate', 'delete_image', 'download_image',
            'get_image', 'get_images', 'modify_image', 'reactivate',
            'upload_image')


class Glance(process.ChildProcess):
    """Glance 33 on a SQLite file; its images are files.

    Everybody is an administrator.

    :param directory: where its files go.
    """

    def __init__(self, directory):
        self._directory = os.path.join(directory, 'glance')
        self.port = network.free_port()
        self.url = f'http://127.0.0.1:{self.port}'
        os.makedirs(self._directory)
        self._venv = virtualenv.path('glance')
        super().__init__(
            'glance', [str(self._venv / 'bin/gunicorn')],
            log_directory=self._directory, cwd=self._directory,
            env=process.environment(
                self._directory, OS_GLANCE_CONFIG_DIR=self._directory))
        for variable in ('PYTHONPATH', 'VIRTUAL_ENV'):
            self.env.pop(variable, None)

    def _setUp(self):
        virtualenv.make('glance', *REQUIREMENTS)
        self._write('gunicorn.conf.py', _GUNICORN.format(port=self.port))
        self._write('policy.yaml', json.dumps(dict.fromkeys(_ALLOWED, '')))
        conf = os.path.join(self._directory, 'glance-api.conf')
        octavia_conf.write(conf, {
            'DEFAULT': {'enabled_backends': 'files:file'},
            'database': {
                'connection': f'sqlite:///{self._directory}/glance.db'},
            'glance_store': {'default_backend': 'files'},
            'files': {'filesystem_store_datadir': f'{self._directory}/files'},
            'os_glance_staging_store': {
                'filesystem_store_datadir': f'{self._directory}/staging'},
            'os_glance_tasks_store': {
                'filesystem_store_datadir': f'{self._directory}/tasks'},
            'oslo_policy': {'policy_file': f'{self._directory}/policy.yaml'},
            'paste_deploy': {
                'config_file':
                    self._venv / 'etc/glance/glance-api-paste.ini'}})
        process.run(self._venv / 'bin/glance-manage', '--config-file', conf,
                    'db_sync', env=self.env, cwd=self._directory)
        super()._setUp()

    def _write(self, name, text):
        with open(os.path.join(self._directory, name), 'w') as file:
            file.write(text)

    def is_ready(self):
        return http_server.answers(self.port, '/healthcheck')

    def octavia_options(self):
        """Return what octavia.conf needs, as {group: {option: value}}."""
        return {'glance': {'endpoint': self.url},
                'controller_worker': {'image_driver': 'image_glance_driver'}}
