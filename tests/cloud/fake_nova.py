# SPDX-License-Identifier: Apache-2.0

"""As much of Nova as is asked for instances of amphorae."""

import http.server
import json
import re
import urllib.parse
import uuid

from tests.cloud import http_server


class FakeNova(http_server.HTTPServer):
    """Has .servers, {id: what Nova says of it}, .services and .migrations.

    :param page: how many it lists at most in an answer.
    """

    def __init__(self, page=1000):
        super().__init__()
        self.page = page
        self.servers = {}
        self.services = []
        self.migrations = []
        self.requests = []
        # {(method, path): status code}
        self.errors = {}

    def add(self, name, status='ACTIVE', created_at='2026-01-01T00:00:00Z',
            **values):
        """Have an instance; returns its id."""
        server_id = str(uuid.uuid4())
        self.servers[server_id] = {
            'id': server_id, 'name': name, 'status': status,
            'created': created_at, 'OS-EXT-STS:task_state': None, **values}
        return server_id

    def octavia_options(self):
        """Return what octavia.conf has for it, a {group: {option: value}}."""
        return {'nova': {'endpoint': f'{self.url}/v2.1'},
                'controller_worker': {
                    'compute_driver': 'compute_nova_driver'}}

    def answer(self, method, path, query):
        """Return (status code, what is answered, None for nothing)."""
        self.requests.append((method, path))
        if (method, path) in self.errors:
            return self.errors[method, path], {'error': {'message': 'no'}}
        if path.rstrip('/') == '/v2.1':
            return 200, {'version': {
                'id': 'v2.1', 'status': 'CURRENT', 'version': '2.96',
                'min_version': '2.1', 'links': [
                    {'rel': 'self', 'href': f'{self.url}/v2.1/'}]}}
        if path == '/v2.1/servers/detail':
            return 200, self._list(query)
        if path == '/v2.1/os-services':
            return 200, {'services': self.services}
        if path == '/v2.1/os-migrations':
            wanted, = query['migration_type']
            return 200, {'migrations': [
                each for each in self.migrations
                if each['migration_type'] == wanted]}
        server_id = path.rpartition('/')[2]
        if server_id not in self.servers:
            return 404, {'itemNotFound': {'message': 'none', 'code': 404}}
        if method == 'DELETE':
            del self.servers[server_id]
            return 204, None
        return 200, {'server': self.servers[server_id]}

    def _list(self, query):
        wanted = re.compile(query.get('name', [''])[0])
        ids = [server_id for server_id in sorted(self.servers)
               if wanted.search(self.servers[server_id]['name'])]
        if 'marker' in query:
            ids = [each for each in ids if each > query['marker'][0]]
        found = {'servers': [self.servers[each] for each in ids[:self.page]]}
        if len(ids) > self.page:
            more = urllib.parse.urlencode({
                **{key: values[0] for key, values in query.items()},
                'marker': ids[self.page - 1]})
            found['servers_links'] = [{
                'rel': 'next',
                'href': f'{self.url}/v2.1/servers/detail?{more}'}]
        return found

    def _handler(self):
        nova = self

        class Handler(http.server.BaseHTTPRequestHandler):

            def do_GET(self):
                url = urllib.parse.urlsplit(self.path)
                status, found = nova.answer(
                    self.command, url.path, urllib.parse.parse_qs(url.query))
                body = b'' if found is None else json.dumps(found).encode()
                self.send_response(status)
                self.send_header('Content-Type', 'application/json')
                self.send_header('Content-Length', str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_DELETE = do_GET

            def log_message(self, *args):
                pass

        return Handler
