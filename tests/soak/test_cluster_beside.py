# SPDX-License-Identifier: Apache-2.0

"""Load balancers of provider amphora are what they are without clusters.

The same operations are done at two octavia-apis: one knows nothing of the
plugin, the other one has clusters switched on, and is asked for some in
between. What they answer, what they write, and what they ask workers for is
the same.
"""

import datetime
import itertools
import json
import re

from oslotest import base

from tests.cloud import front

LOAD_BALANCERS = '/v2/lbaas/loadbalancers'
UUID = re.compile('[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}')
TIME = re.compile(r'\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?')
ADDRESS = re.compile(r'http://127\.0\.0\.1:\d+')
# What "octavia-hmsync db upgrade" adds there.
LOOK_UP = {'lb_topology': 'ACTIVE_ACTIVE', 'amphora_roles': 'IN_CLUSTER'}
CLUSTER_PROJECT = 'clusters'

MEMBERS = [{'address': '192.0.2.16', 'protocol_port': 80},
           {'address': '192.0.2.17', 'protocol_port': 80, 'backup': True}]
FULL = {
    'pools': [{'name': 'static', 'protocol': 'HTTP',
               'lb_algorithm': 'LEAST_CONNECTIONS', 'members': MEMBERS}],
    'listeners': [
        {'name': 'http', 'protocol': 'HTTP', 'protocol_port': 80,
         'default_pool': {
             'name': 'dynamic', 'protocol': 'HTTP',
             'lb_algorithm': 'ROUND_ROBIN', 'members': MEMBERS,
             'session_persistence': {'type': 'SOURCE_IP'},
             'healthmonitor': {'type': 'HTTP', 'delay': 3, 'timeout': 2,
                               'max_retries': 2}},
         'l7policies': [{
             'action': 'REDIRECT_TO_POOL', 'redirect_pool': {'name': 'static'},
             'rules': [{'type': 'PATH', 'compare_type': 'STARTS_WITH',
                        'value': '/static'}]}]},
        {'name': 'dns', 'protocol': 'UDP', 'protocol_port': 53,
         'default_pool': {'name': 'dns', 'protocol': 'UDP',
                          'lb_algorithm': 'ROUND_ROBIN'}}]}


class Sequence:
    """Does operations at an octavia-api, and records all that can be seen.

    :param cloud: a front.Front.
    :param disturb: called before each operation.
    """

    def __init__(self, cloud, disturb):
        self._cloud = cloud
        self._disturb = disturb
        self._api = cloud.connection.load_balancer
        self._names = {}
        self._learn(cloud.network.id)
        self._learn(cloud.subnet.id)
        self.records = []

    def _learn(self, text):
        for found in UUID.findall(text):
            self._names.setdefault(found, f'id {len(self._names)}')

    def _compare(self, what):
        """Return something as a text that is the same elsewhere."""
        text = json.dumps(what, default=_to_text)
        text = UUID.sub(lambda found: self._names.get(found.group(), 'id'),
                        text)
        text = ADDRESS.sub('host', TIME.sub('time', text))
        return json.dumps(_sort(json.loads(text)), sort_keys=True)

    def _rows(self):
        """Return all rows but those of clusters, as texts."""
        tables = self._cloud.dump()
        clusters = {row['id'] for row in tables['load_balancer']
                    if row['provider'] == 'amphora_cluster'}
        return {table: sorted(
            self._compare(row) for row in rows
            if (table not in LOOK_UP or row['name'] != LOOK_UP[table]) and
            row.get('project_id') != CLUSTER_PROJECT and
            row.get('load_balancer_id') not in clusters)
            for table, rows in tables.items()}

    def do(self, method, path, body=None, messages=1, settle=True, **kind):
        """Do an operation; returns what it answers.

        :param messages: how many are sent to workers.
        :param kind: the name of what is made or changed, and its attributes.
        """
        if settle:
            self._disturb()
        body = dict(kind) if kind else body
        answer = self._api.request(self._cloud.url + path, method, json=body,
                                   raise_exc=False)
        found = answer.json() if answer.text else None
        self._learn(json.dumps(_sort(found, UUID)))
        sent = self._cloud.workers.take(messages)
        self.records.append({
            'operation': self._compare([method, path, body]),
            'status': answer.status_code,
            'answer': self._compare(found),
            'sent': self._compare(sent), 'rows': self._rows()})
        if settle:
            self._cloud.settle()
        return (next(iter(found.values())) if found and len(found) == 1 else
                found)

    def add_amphora(self, load_balancer, role):
        made = self._cloud.database.records.add_amphora(
            '192.0.2.1', load_balancer['id'], role)
        self._learn(made)
        return made


def _sort(what, left_out=None):
    """Return something with its lists sorted: rows have no order.

    :param left_out: a pattern of what is not looked at.
    """
    def key(value):
        text = json.dumps(value, sort_keys=True)
        return left_out.sub('', text) if left_out else text

    if isinstance(what, dict):
        return {name: _sort(value, left_out) for name, value in what.items()}
    if isinstance(what, list):
        return sorted((_sort(value, left_out) for value in what), key=key)
    return what


def _to_text(value):
    if isinstance(value, datetime.datetime):
        return value.isoformat()
    return str(value)


class TestUntouched(base.BaseTestCase):

    def test_untouched(self):
        plain = self._record(None, upgrade=False)
        beside = self._record(front.CLUSTERS)
        self.assertEqual([one['operation'] for one in plain],
                         [one['operation'] for one in beside])
        for one, other in zip(plain, beside, strict=True):
            for part in ('status', 'answer', 'sent', 'rows'):
                self.assertEqual(one[part], other[part],
                                 (part, one['operation']))
        # All of it was done, and some of it refused.
        self.assertEqual({200, 201, 202, 204, 400, 409, 501},
                         {one['status'] for one in plain})

    def _record(self, options, upgrade=True):
        cloud = front.Front(options, upgrade)
        cloud.setUp()
        try:
            disturb = self._have_clusters(cloud) if upgrade else int
            sequence = Sequence(cloud, disturb)
            self._operate(sequence, cloud)
            return sequence.records
        finally:
            cloud.cleanUp()

    @staticmethod
    def _have_clusters(cloud):
        """Return what makes and deletes clusters in turn, now and then."""
        cloud.workers.serve(front.CLUSTER_TOPIC)
        api = cloud.connection.load_balancer
        made, calls = [], itertools.count()

        def disturb():
            if next(calls) % 4:
                return
            if made:
                api.delete_load_balancer(made.pop())
            else:
                made.append(api.create_load_balancer(
                    name='cluster', provider='amphora_cluster',
                    vip_subnet_id=cloud.subnet.id,
                    project_id=CLUSTER_PROJECT).id)
            cloud.workers.take(1)
            cloud.settle()

        return disturb

    def _operate(self, sequence, cloud):
        do = sequence.do
        for kind in ('flavor_capabilities', 'availability_zone_capabilities'):
            do('GET', f'/v2/lbaas/providers/amphora/{kind}', messages=0)
        self._flavors(do, cloud)
        self._one_by_one(sequence, cloud)
        self._all_at_once(do, cloud)
        self._refused(do, cloud)

    @staticmethod
    def _load_balancer(cloud, number, **attributes):
        return {'name': f'lb{number}', 'project_id': 'tenant',
                'vip_subnet_id': cloud.subnet.id,
                'vip_address': f'10.1.0.{200 + number}', **attributes}

    def _flavors(self, do, cloud):
        path = '/v2/lbaas/flavorprofiles'
        profile = do('POST', path, messages=0, flavorprofile={
            'name': 'pairs', 'provider_name': 'amphora',
            'flavor_data': '{"loadbalancer_topology": "ACTIVE_STANDBY"}'})
        for data in ('{"cluster_desired_size": 2}', 'x',
                     '{"loadbalancer_topology": "ACTIVE_ACTIVE"}'):
            do('POST', path, messages=0, flavorprofile={
                'name': 'wrong', 'provider_name': 'amphora',
                'flavor_data': data})
        flavor = do('POST', '/v2/lbaas/flavors', messages=0, flavor={
            'name': 'pairs', 'flavor_profile_id': profile['id'],
            'enabled': True})
        made = do('POST', LOAD_BALANCERS, loadbalancer=self._load_balancer(
            cloud, 1, flavor_id=flavor['id']))
        do('DELETE', f'{LOAD_BALANCERS}/{made["id"]}')

    def _one_by_one(self, sequence, cloud):
        do = sequence.do
        made = do('POST', LOAD_BALANCERS,
                  loadbalancer=self._load_balancer(cloud, 2))
        path = f'{LOAD_BALANCERS}/{made["id"]}'
        do('GET', path, messages=0)
        do('PUT', path, loadbalancer={'name': 'other', 'tags': ['x']})
        do('PUT', path, loadbalancer={'admin_state_up': False})
        for part in ('status', 'stats'):
            do('GET', f'{path}/{part}', messages=0)
        do('PUT', f'{path}/failover')
        amphora = sequence.add_amphora(made, 'STANDALONE')
        of_amphora = f'/v2/octavia/amphorae/{amphora}'
        do('GET', of_amphora, messages=0)
        do('PUT', f'{of_amphora}/failover')
        do('PUT', f'{of_amphora}/config')
        do('DELETE', of_amphora, messages=0)
        self._listeners(do, made['id'])
        do('DELETE', path, messages=0)
        do('DELETE', f'{path}?cascade=true')

    @staticmethod
    def _listeners(do, load_balancer_id):
        for number, protocol in enumerate((
                'HTTP', 'TCP', 'UDP', 'SCTP', 'PROMETHEUS')):
            listener = do('POST', '/v2/lbaas/listeners', listener={
                'name': protocol, 'protocol': protocol,
                'protocol_port': 80 + number,
                'loadbalancer_id': load_balancer_id})
            do('PUT', f'/v2/lbaas/listeners/{listener["id"]}',
               listener={'connection_limit': 9})
            if protocol == 'PROMETHEUS':
                continue
            pool = do('POST', '/v2/lbaas/pools', pool={
                'listener_id': listener['id'], 'protocol': protocol,
                'lb_algorithm': 'ROUND_ROBIN'})
            path = f'/v2/lbaas/pools/{pool["id"]}'
            do('PUT', path, pool={'lb_algorithm': 'SOURCE_IP'})
            member = do('POST', f'{path}/members', member=MEMBERS[0])
            do('PUT', f'{path}/members/{member["id"]}', member={'weight': 3})
            do('PUT', f'{path}/members', members=MEMBERS)
            monitor = do('POST', '/v2/lbaas/healthmonitors', healthmonitor={
                'pool_id': pool['id'], 'type': 'TCP', 'delay': 3,
                'timeout': 2, 'max_retries': 2})
            do('PUT', f'/v2/lbaas/healthmonitors/{monitor["id"]}',
               healthmonitor={'delay': 5})
            if protocol == 'HTTP':
                policy = do('POST', '/v2/lbaas/l7policies', l7policy={
                    'listener_id': listener['id'], 'action': 'REJECT'})
                path_of_rules = f'/v2/lbaas/l7policies/{policy["id"]}/rules'
                rule = do('POST', path_of_rules, rule={
                    'type': 'PATH', 'compare_type': 'EQUAL_TO',
                    'value': '/x'})
                do('PUT', f'{path_of_rules}/{rule["id"]}', rule={
                    'type': 'PATH', 'compare_type': 'EQUAL_TO',
                    'value': '/y'})
                do('DELETE', f'{path_of_rules}/{rule["id"]}')
                do('DELETE', f'/v2/lbaas/l7policies/{policy["id"]}')
            do('DELETE', f'/v2/lbaas/healthmonitors/{monitor["id"]}')
            do('DELETE', f'{path}/members/{member["id"]}')
            do('DELETE', path)
            do('DELETE', f'/v2/lbaas/listeners/{listener["id"]}')

    def _all_at_once(self, do, cloud):
        made = do('POST', LOAD_BALANCERS, loadbalancer=self._load_balancer(
            cloud, 3, provider='amphora', **FULL))
        do('DELETE', f'{LOAD_BALANCERS}/{made["id"]}?cascade=true')
        made = do('POST', LOAD_BALANCERS, loadbalancer=self._load_balancer(
            cloud, 4, provider='octavia'))
        do('DELETE', f'{LOAD_BALANCERS}/{made["id"]}')

    def _refused(self, do, cloud):
        do('POST', LOAD_BALANCERS, messages=0,
           loadbalancer=self._load_balancer(cloud, 5, provider='nobody'))
        do('POST', LOAD_BALANCERS, messages=0,
           loadbalancer=self._load_balancer(cloud, 5, nonsense=1))
        pending = do('POST', LOAD_BALANCERS, settle=False,
                     loadbalancer=self._load_balancer(cloud, 6))
        do('PUT', f'{LOAD_BALANCERS}/{pending["id"]}', messages=0,
           settle=False, loadbalancer={'name': 'too early'})
