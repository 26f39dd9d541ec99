# SPDX-License-Identifier: Apache-2.0

"""What a client of Neutron needs of Keystone: tokens and a catalog."""

import datetime
import http.server
import json
import urllib.parse

from tests.cloud import http_server

PASSWORD = 'right'  # nosec B105
REGION = 'RegionOne'


class FakeKeystone(http_server.HTTPServer):
    """Keystone's API v3, as far as password authentication needs it.

    :param network_url: the endpoint of Neutron in its catalog.
    :param project_id: the project of every token.
    :param lifetime: of a token, seconds; below half a minute a client asks
                     for another one before each of its requests.
    """

    def __init__(self, network_url, project_id, lifetime=10 ** 9):
        super().__init__()
        self._network_url = network_url
        self._project_id = project_id
        self._lifetime = datetime.timedelta(seconds=lifetime)

    def _setUp(self):
        super()._setUp()
        self.port = urllib.parse.urlsplit(self.url).port
        self.url += '/v3'

    def octavia_options(self, password=PASSWORD, region=REGION):
        """Return what octavia.conf needs, as {group: {option: value}}."""
        return {
            'service_auth': {
                'auth_type': 'password', 'auth_url': self.url,
                'username': 'octavia', 'password': password,
                'project_name': 'service', 'user_domain_name': 'Default',
                'project_domain_name': 'Default'},
            'neutron': {'region_name': region}}

    def _version(self):
        return {'version': {
            'id': 'v3.14', 'status': 'stable',
            'links': [{'rel': 'self', 'href': self.url}]}}

    def _token(self):
        expires_at = datetime.datetime.now(datetime.UTC) + self._lifetime
        return {'token': {
            'methods': ['password'],
            'expires_at': expires_at.strftime('%Y-%m-%dT%H:%M:%SZ'),
            'issued_at': '2000-01-01T00:00:00Z',
            'user': {'id': 'user', 'name': 'octavia',
                     'domain': {'id': 'default', 'name': 'Default'}},
            'project': {'id': self._project_id, 'name': 'service',
                        'domain': {'id': 'default', 'name': 'Default'}},
            'roles': [{'id': 'role', 'name': 'admin'}],
            'catalog': [{
                'id': 'neutron', 'type': 'network', 'name': 'neutron',
                'endpoints': [{
                    'id': interface, 'interface': interface,
                    'region': REGION, 'region_id': REGION,
                    'url': self._network_url}
                    for interface in ('public', 'internal')]}]}}

    def _handler(self):
        keystone = self

        class Handler(http.server.BaseHTTPRequestHandler):

            def _answer(self, status, body):
                content = json.dumps(body).encode()
                self.send_response(status)
                self.send_header('Content-Type', 'application/json')
                self.send_header('Content-Length', str(len(content)))
                self.send_header('X-Subject-Token', 'token')
                self.end_headers()
                self.wfile.write(content)

            def do_GET(self):
                self._answer(200, keystone._version())

            def do_POST(self):
                request = json.loads(self.rfile.read(
                    int(self.headers['Content-Length'])))
                user = request['auth']['identity']['password']['user']
                if user['password'] == PASSWORD:
                    self._answer(201, keystone._token())
                else:
                    self._answer(401, {'error': {
                        'code': 401, 'message': 'not authorized'}})

            def log_message(self, *args):
                """Say nothing."""

        return Handler
