# SPDX-License-Identifier: Apache-2.0

"""A small Octavia and Neutron that behave, and speak HTTP."""

import copy
import http.server
import itertools
import json
import re
import threading
from urllib import parse
import uuid

import fixtures
import yaml

PROJECT = 'tenant-1'
UNLIMITED = dict.fromkeys(
    ('loadbalancer', 'listener', 'pool', 'member', 'healthmonitor',
     'l7policy', 'l7rule'), -1)
# What Octavia fills in where a request does not say it.
_PROTOCOLS = {'tls_ciphers': 'C:D', 'tls_versions': ['TLSv1.2', 'TLSv1.3'],
              'alpn_protocols': ['h2', 'http/1.1']}
_LISTENER = {'connection_limit': -1, 'client_authentication': 'NONE',
             'timeout_client_data': 50000, 'timeout_member_connect': 5000,
             'timeout_member_data': 50000, 'timeout_tcp_inspect': 0,
             'hsts_include_subdomains': False, 'hsts_preload': False}
_HTTP_MONITOR = {'http_method': 'GET', 'url_path': '/',
                 'expected_codes': '200'}
_PATH = re.compile(r'/lbaas/(?P<kind>\w+)(?:/(?P<id>[^/]+)'
                   r'(?:/(?P<part>\w+))?)?$')
_SINGULAR = {'loadbalancers': 'loadbalancer', 'pools': 'pool'}


class Answer(Exception):
    """An error of an API."""

    def __init__(self, status, text=''):
        super().__init__(text)
        self.status = status
        self.text = text


def _fill(raw, defaults):
    return {**raw, **{name: copy.deepcopy(value)
                      for name, value in defaults.items()
                      if raw.get(name) is None}}


def _public(raw):
    return {name: copy.deepcopy(value) for name, value in raw.items()
            if not name.startswith('_')}


class FakeCloud(fixtures.Fixture):
    """Both APIs behind one port; OS_CLOUD leads there.

    A change makes a load balancer PENDING, until it was looked at so many
    times; then it may be changed again. Floating IPs have revisions. Names of
    pools have to be unique in one request. Quota counts.

    .requests has (method, path) of all requests; .faults takes functions of
    both that run before the request: they may change something, raise
    Answer, or return 'lose' to have the request done and its answer lost.

    :param pending: how many times a change is seen as PENDING.
    """

    def __init__(self, pending=1):
        super().__init__()
        self.pending = pending
        self.load_balancers = {}
        self.listeners = {}
        self.pools = {}
        self.policies = {}
        self.monitors = {}
        self.floating_ips = {}
        self.quota = dict(UNLIMITED)
        self.member_status = lambda load_balancer, member: 'NO_MONITOR'
        self.fails_to_build = False
        self.connections = {}
        self.requests = []
        self.faults = []
        self.page_size = 1000
        self._clock = itertools.count()
        self._addresses = itertools.count(10)
        self._lock = threading.RLock()

    def _setUp(self):
        cloud = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = 'HTTP/1.1'
            # Or an answer in two pieces takes 40 ms.
            disable_nagle_algorithm = True

            def log_message(self, *args):
                pass

            def handle_any(self):
                cloud.serve(self)

            do_GET = do_POST = do_PUT = do_DELETE = handle_any

        server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        self.addCleanup(server.server_close)
        self.addCleanup(thread.join)
        self.addCleanup(server.shutdown)
        self.url = f'http://127.0.0.1:{server.server_port}'
        path = self.useFixture(fixtures.TempDir()).join('clouds.yaml')
        with open(path, 'w') as file:
            yaml.safe_dump({'clouds': {'fake': {
                'auth_type': 'none', 'auth': {'endpoint': self.url},
                'load_balancer_endpoint_override': f'{self.url}/lb',
                'network_endpoint_override': f'{self.url}/net'}}}, file)
        for name, value in (('OS_CLIENT_CONFIG_FILE', path),
                            ('OS_CLOUD', 'fake')):
            self.useFixture(fixtures.EnvironmentVariable(name, value))

    # HTTP

    def serve(self, handler):
        length = int(handler.headers.get('Content-Length') or 0)
        body = json.loads(handler.rfile.read(length) or b'{}')
        url = parse.urlsplit(handler.path)
        query = {name: values[-1] for name, values in
                 parse.parse_qs(url.query).items()}
        outcome = None
        with self._lock:
            try:
                outcome = self._interfere(handler.command, url.path)
                status, answer = self._route(
                    handler.command, url.path, query, body, handler.headers)
            except Answer as e:
                status, answer = e.status, {'faultstring': e.text} if (
                    url.path.startswith('/lb')) else {
                        'NeutronError': {'message': e.text}}
        if outcome == 'lose':
            handler.close_connection = True
            handler.connection.close()
            return
        data = json.dumps(answer).encode() if answer is not None else b''
        handler.send_response(status)
        handler.send_header('Content-Type', 'application/json')
        handler.send_header('Content-Length', str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)

    def _interfere(self, method, path):
        outcome = None
        for fault in list(self.faults):
            outcome = fault(method, path) or outcome
        return outcome

    def _route(self, method, path, query, body, headers):
        if path.rstrip('/') in ('/lb', '/net'):
            return 200, {'versions': [{
                'id': 'v2.0', 'status': 'CURRENT', 'links': [{
                    'rel': 'self', 'href': f'{self.url}{path}/v2.0'}]}]}
        service, _, rest = path.lstrip('/').partition('/v2.0')
        self.requests.append((method, rest))
        if service == 'net':
            return self._neutron(method, rest, query, body, headers)
        return self._octavia(method, rest, query, body)

    # Neutron

    def add_floating_ip(self, address, load_balancer, fixed=None,
                        network='outside'):
        """Have a floating IP lead to a load balancer; returns its id.

        :param network: the external one; an address has one of each.
        """
        made = {'id': str(uuid.uuid4()), 'floating_ip_address': address,
                'port_id': load_balancer['vip_port_id'],
                'fixed_ip_address': fixed or load_balancer['vip_address'],
                'floating_network_id': network, 'revision_number': 1}
        self.floating_ips[made['id']] = made
        return made['id']

    def _neutron(self, method, path, query, body, headers):
        _, kind, *ids = path.split('/')
        if kind != 'floatingips':
            raise Answer(404, 'no such resource')
        if not ids:
            return 200, {'floatingips': [
                each for each in self.floating_ips.values()
                if each['port_id'] == query['port_id']]}
        found = self.floating_ips.get(ids[0])
        if found is None:
            raise Answer(404, 'no such floating IP')
        if method == 'PUT':
            expected = headers.get('If-Match')
            if expected and expected != (
                    f'revision_number={found["revision_number"]}'):
                raise Answer(412, 'Constrained to another revision')
            wanted = body['floatingip']
            if any(each is not found and all(
                    each[name] == {**found, **wanted}[name] for name in (
                        'port_id', 'fixed_ip_address', 'floating_network_id'))
                   for each in self.floating_ips.values()):
                raise Answer(409, 'that fixed IP already has a floating IP '
                                  'on external network')
            self.touch(found['id'], **wanted)
        return 200, {'floatingip': found}

    def touch(self, floating_ip_id, **values):
        """Change a floating IP, as anybody may."""
        found = self.floating_ips[floating_ip_id]
        found.update(values, revision_number=found['revision_number'] + 1)

    def leads_to(self):
        """Return the VIP address that each floating IP leads to."""
        return {each['floating_ip_address']: each['fixed_ip_address']
                for each in self.floating_ips.values()}

    # Octavia

    def _octavia(self, method, path, query, body):
        found = _PATH.match(path)
        if not found:
            raise Answer(404, f'no {path}')
        kind, object_id, part = found['kind'], found['id'], found['part']
        if kind == 'quotas':
            return 200, {'quota': self.quota}
        if part == 'stats':
            counts = self.connections.get(object_id, [0])
            return 200, {'stats': {'active_connections': (
                counts.pop(0) if len(counts) > 1 else counts[0])}}
        if part == 'members':
            return 200, self._page('members', [
                {**_public(raw), 'operating_status': self.member_status(
                    self.load_balancers[raw['_lb']], raw)}
                for raw in self._get('pools', object_id)['members']], query)
        if part == 'rules':
            return 200, self._page('rules', [
                _public(raw) for raw in
                self._get('l7policies', object_id)['rules']], query)
        if method == 'GET':
            return self._read(kind, object_id, query)
        if method == 'POST' and kind == 'loadbalancers':
            return 201, {'loadbalancer': self._show(
                self.create(body['loadbalancer']))}
        changed = self._get(kind, object_id)
        load_balancer = self.load_balancers[changed['_lb']]
        if load_balancer['provisioning_status'] not in ('ACTIVE', 'ERROR'):
            raise Answer(409, f'{object_id} is immutable and cannot be '
                              f'updated.')
        if method == 'DELETE':
            load_balancer['provisioning_status'] = 'PENDING_DELETE'
            load_balancer['_looks'] = self.pending
            return 204, None
        changed.update(body[_SINGULAR[kind]])
        load_balancer['provisioning_status'] = 'PENDING_UPDATE'
        load_balancer['_looks'] = self.pending
        return 200, {_SINGULAR[kind]: self._show(changed)}

    def _tables(self):
        return {'loadbalancers': self.load_balancers,
                'listeners': self.listeners, 'pools': self.pools,
                'l7policies': self.policies,
                'healthmonitors': self.monitors}

    def _get(self, kind, object_id):
        found = self._tables()[kind].get(object_id)
        if found is None:
            raise Answer(404, f'{kind} {object_id} not found.')
        return found

    def _read(self, kind, object_id, query):
        if object_id:
            found = self._get(kind, object_id)
            answer = self._show(found)
            if kind == 'loadbalancers':
                self._pass_time(found)
            return 200, {_SINGULAR.get(kind, kind[:-1]): answer}
        rows = list(self._tables()[kind].values())
        if 'tags' in query:
            rows = [raw for raw in rows if query['tags'] in raw['tags']]
        if 'name' in query:
            # As on MariaDB.
            rows = [raw for raw in rows if query['name'].lower() ==
                    (raw.get('name') or '').lower()]
        return 200, self._page(kind, [self._show(raw) for raw in rows],
                               query)

    def _page(self, kind, rows, query):
        start = int(query.get('marker', 0))
        page = {kind: rows[start:start + self.page_size]}
        if len(rows) > start + self.page_size:
            page[f'{kind}_links'] = [{
                'rel': 'next', 'href':
                f'http://elsewhere.invalid/?marker={start + self.page_size}'
            }]
        return page

    def _pass_time(self, raw):
        if not raw['provisioning_status'].startswith('PENDING_'):
            return
        raw['_looks'] -= 1
        if raw['_looks'] >= 0:
            return
        if raw['provisioning_status'] == 'PENDING_DELETE':
            for table in self._tables().values():
                for key in [key for key, each in table.items()
                            if each['_lb'] == raw['id']]:
                    del table[key]
        else:
            failed = (self.fails_to_build and
                      raw['provisioning_status'] == 'PENDING_CREATE')
            raw['provisioning_status'] = 'ERROR' if failed else 'ACTIVE'

    def _show(self, raw):
        """Return an object as a list or a single read shows it."""
        answer = _public(raw)
        for name in ('members', 'rules'):
            if name in answer:
                answer[name] = [{'id': each['id']} for each in answer[name]]
        if raw['id'] in self.load_balancers:
            for name in ('listeners', 'pools'):
                answer[name] = [{'id': each['id']} for each in
                                self._tables()[name].values()
                                if each['_lb'] == raw['id']]
        return answer

    def _check_quota(self, name, table, needed):
        limit = self.quota[name]
        if 0 <= limit < len(table) + needed:
            raise Answer(403, f'Quota has been met for resources: {name}')

    def create(self, body):
        """Make a load balancer with all that is in it; returns it."""
        body = copy.deepcopy(body)
        listeners, pools = body.pop('listeners', []), body.pop('pools', [])
        names = [pool['name'] for pool in pools]
        if len(set(names)) != len(names):
            raise Answer(400, 'Pool names must be unique when creating a '
                              'fully populated loadbalancer.')
        for raw in (*listeners, *pools):
            for name in ('tls_versions', 'alpn_protocols'):
                if raw.get(name) == []:
                    raise Answer(400, f'Empty list of {name}.')
        self._check_quota('loadbalancer', self.load_balancers, 1)
        self._check_quota('pool', self.pools, len(pools))
        self._check_quota('listener', self.listeners, len(listeners))
        host = next(self._addresses)
        made = {**self._common(None), 'name': '', 'description': '',
                'provider': 'amphora', 'tags': [], 'vip_network_id': 'net-1',
                'vip_address': f'10.0.0.{host}',
                'vip_port_id': str(uuid.uuid4()), 'flavor_id': None, **body}
        made.update(_lb=made['id'], _looks=self.pending,
                    provisioning_status='PENDING_CREATE')
        made['additional_vips'] = [
            {**each, 'ip_address': f'10.0.{number}.{host}',
             'port_id': made['vip_port_id']}
            for number, each in enumerate(body.get('additional_vips') or (),
                                          1)]
        self.load_balancers[made['id']] = made
        ids = {pool['name']: self._add_pool(made['id'], pool)
               for pool in pools}
        for listener in listeners:
            self._add_listener(made['id'], listener, ids)
        return made

    def _common(self, load_balancer_id):
        return {'id': str(uuid.uuid4()), '_lb': load_balancer_id,
                'project_id': PROJECT, 'provisioning_status': 'ACTIVE',
                'operating_status': 'ONLINE', 'admin_state_up': True,
                'created_at': f'2026-01-01T00:00:{next(self._clock):04}',
                'updated_at': None, 'tags': []}

    def _add_pool(self, load_balancer_id, pool):
        monitor = pool.pop('healthmonitor', None)
        made = {**self._common(load_balancer_id), 'session_persistence':
                None, 'healthmonitor_id': None, 'tls_enabled': False, **pool}
        if made['tls_enabled']:
            made = _fill(made, _PROTOCOLS)
        made['members'] = [
            {**self._common(load_balancer_id), 'weight': 1, 'backup': False,
             'subnet_id': None, 'vnic_type': 'normal', **member}
            for member in pool.get('members', ())]
        if monitor:
            row = {**self._common(load_balancer_id), **monitor,
                   'pools': [{'id': made['id']}]}
            if row['type'] in ('HTTP', 'HTTPS'):
                row = _fill(row, _HTTP_MONITOR)
            self.monitors[row['id']] = row
            made['healthmonitor_id'] = row['id']
        self.pools[made['id']] = made
        return made['id']

    def _add_listener(self, load_balancer_id, listener, pool_ids):
        def refer(raw, name):
            pool = raw.pop(name, None)
            if pool and pool['name'] not in pool_ids:
                raise Answer(400, f'Pool {pool["name"]} was referenced but '
                                  f'no full definition was found.')
            raw[f'{name}_id'] = pool_ids[pool['name']] if pool else None

        policies = listener.pop('l7policies', [])
        refer(listener, 'default_pool')
        made = _fill({**self._common(load_balancer_id), 'name': '',
                      **listener}, _LISTENER)
        if made['protocol'] == 'TERMINATED_HTTPS':
            made = _fill(made, _PROTOCOLS)
        self.listeners[made['id']] = made
        for policy in policies:
            refer(policy, 'redirect_pool')
            rules = [{**self._common(load_balancer_id), 'invert': False,
                      **rule} for rule in policy.pop('rules', ())]
            row = {**self._common(load_balancer_id), 'position': 1, **policy,
                   'listener_id': made['id'], 'rules': rules}
            if row.get('redirect_url') or row.get('redirect_prefix'):
                row = _fill(row, {'redirect_http_code': 302})
            self.policies[row['id']] = row
        made['l7policies'] = [
            {'id': row['id']} for row in self.policies.values()
            if row['listener_id'] == made['id']]

    def settle(self):
        """Have all load balancers be ACTIVE now."""
        for raw in self.load_balancers.values():
            raw['provisioning_status'] = 'ACTIVE'
