# SPDX-License-Identifier: Apache-2.0

import json
import pathlib
import re
from unittest import mock

import fixtures
import hypothesis
from hypothesis import strategies as st
import jsonschema
from werkzeug import exceptions as http_errors

from octavia_hmsync.distributor import answers
from octavia_hmsync.distributor import api
from octavia_hmsync.distributor import schemas
from octavia_hmsync.distributor import store
from octavia_hmsync import exceptions
from tests.unit.distributor import distributors
from tests.unit.distributor import examples

VIP_ID = examples.VIP_ID
PATH = f'/v1/vips/{VIP_ID}'
TOP = pathlib.Path(__file__).resolve().parents[3]


class Socket:
    """What the application knows of a connection."""

    def __init__(self, *names):
        self.names = names

    def getpeercert(self):
        return {'subject': ((('organizationName', 'Example'),),
                            *((('commonName', name),)
                              for name in self.names))}


class APITestCase(distributors.DistributorTestCase):

    allowed_clients = ()
    socket = Socket('controller1')

    def start(self):
        super().start()
        self.restorer.run_once()
        self.client = api.create_app(
            self.vips, self.restorer, self.results, 'network1',
            self.allowed_clients).test_client()

    def ask(self, method, path, expected=200, **kwargs):
        """Make a request; the answer has to be one of the documentation."""
        answer = self.client.open(
            path, method=method,
            environ_base={'gunicorn.socket': self.socket}, **kwargs)
        self.assertEqual(expected, answer.status_code, answer.text)
        self.check(self.find_function(method, path.partition('?')[0]), answer)
        return answer.json

    def find_function(self, method, path):
        """Return the name of what answers; None for what is not there."""
        urls = self.client.application.url_map.bind('')
        try:
            return urls.match(path, method)[0]
        except http_errors.HTTPException:
            return None

    def check(self, function, answer):
        if answer.status_code == 204:
            self.assertEqual(b'', answer.data)
            return
        self.assertEqual('application/json', answer.content_type)
        # Unlike jsonschema.validate(), without a check of the schema each
        # time, which takes longer than all the rest; test_schemas() has it.
        jsonschema.Draft202012Validator(
            answers.ERROR if answer.status_code >= 400
            else answers.ANSWERS[function]).validate(answer.json)

    def put(self, raw=examples.RAW, expected=200, path=PATH):
        return self.ask('PUT', path, expected, json=raw)


class TestAPI(APITestCase):

    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())

    def refused(self, answer, code, words):
        self.assertEqual(code, answer['code'])
        self.assertIn(words, answer['error'])
        self.assertNotIn('\n', answer['error'])

    def test_versions(self):
        answer = self.ask('GET', '/')
        self.assertEqual(('network1', ['v1']), (
            answer['host'], [one['id'] for one in answer['versions']]))

    def test_status(self):
        self.put()
        answer = self.ask('GET', '/v1/status')
        self.assertEqual(
            {'host': 'network1', 'status': 'ONLINE', 'error': None,
             'vswitch_version': '0.tests', 'vips': 1, 'active': 1,
             'in_force': 1, 'unknown': [], 'certificates': {}, 'load': {
                 'flows': 0, 'max_flows': 1000, 'cached_flows': 0,
                 'max_cached_flows': 1000, 'full': False, 'cache_full': False,
                 'full_vips': []}},
            {name: value for name, value in answer.items()
             if name != 'software_version'})
        self.order('fail-check', 'it hangs')
        self.order('fail-apply', 'it hangs')
        self.put(examples.make_raw(version=8, active=False), 503)
        self.kept.forget(VIP_ID)
        self.restorer.run_once()
        answer = self.ask('GET', '/v1/status')
        self.assertEqual(('OFFLINE', 'it hangs', 1, 0, 0), (
            answer['status'], answer['error'], answer['vips'],
            answer['active'], answer['in_force']))

    def test_status_of_what_nobody_remembers(self):
        self.put()
        self.kept.forget(VIP_ID)
        self.start()
        self.assertEqual([VIP_ID], self.ask('GET', '/v1/status')['unknown'])
        self.assertIsNone(self.ask('GET', '/v1/vips')['vips'][0]['version'])
        for path in (PATH, f'{PATH}/statistics'):
            self.refused(self.ask('GET', path, 404), 'UNKNOWN_VIP',
                         'it is not remembered')

    def test_vips(self):
        self.assertEqual({'vips': []}, self.ask('GET', '/v1/vips'))
        self.put()
        self.assertEqual({'vips': [{
            'id': VIP_ID, 'version': 7, 'active': True, 'has_left': False,
            'probed': False,
            'in_force': True, 'error': None}]}, self.ask('GET', '/v1/vips'))

    def test_vip(self):
        self.put()
        answer = self.ask('GET', PATH)
        self.assertEqual(examples.RAW, answer['document'])
        self.assertEqual((7, 2), (answer['version'], answer['claims']))
        self.assertEqual(
            {'version': 7, 'id': VIP_ID, 'claims': 2, 'members': [
                {'id': examples.make_id(10), 'slot': 0, 'state': 'ACTIVE',
                 'packets': 10, 'bytes': 1000, 'pins': 1,
                 'connections': 2},
                {'id': examples.make_id(11), 'slot': 1, 'state': 'DRAINING',
                 'packets': 11, 'bytes': 1000, 'pins': 1,
                 'connections': 2},
                {'id': examples.make_id(12), 'slot': 2, 'state': 'DEAD',
                 'packets': 0, 'bytes': 0, 'pins': 0,
                 'connections': 0}]},
            self.ask('GET', f'{PATH}/statistics'))

    def test_traffic(self):
        self.assertEqual({'vips': []}, self.ask('GET', '/v1/traffic'))
        self.put()
        expected = {'vips': [{'id': VIP_ID, 'members': [
            {'id': examples.make_id(10 + n), 'packets': 10 + n,
             'bytes': 1000} for n in range(2)]}]}
        self.assertEqual(expected, self.ask('GET', '/v1/traffic'))
        self.order('fail-read_traffic', 'it hangs')
        self.refused(self.ask('GET', '/v1/traffic', 503),
                     'VSWITCH_UNAVAILABLE', 'it hangs')

    def test_probes(self):
        member = examples.make_id(10)
        self.put(examples.make_raw(probe={'addresses': ['10.0.0.9'],
                                          'ports': [80]}))
        self.results.note(VIP_ID, member, 'DOWN', 'silent')
        result = {'state': 'DOWN', 'error': 'silent',
                  'since': self.clock.now}
        self.assertEqual(
            [result, None, None],
            [one['probe'] for one in self.ask('GET', PATH)['members']])
        self.assertTrue(self.ask('GET', '/v1/vips')['vips'][0]['probed'])
        news = self.ask('GET', '/v1/probes')
        self.assertEqual({
            'run': self.results.run, 'sequence': 1, 'whole': True,
            'probes': [{'vip': VIP_ID, 'member': member, **result}]}, news)
        self.assertEqual({**news, 'whole': False, 'probes': []}, self.ask(
            'GET', f'/v1/probes?run={news["run"]}&after=1&timeout=0'))
        self.assertEqual(news, self.ask(
            'GET', '/v1/probes?run=another&after=1&timeout=9'))
        for query, words in (('after=x', "after: 'x' is not a whole number"),
                             ('after=-1', 'after: '),
                             ('timeout=61', 'timeout: 61 is not'),
                             ('until=1', "an unknown field 'until'")):
            self.refused(self.ask('GET', f'/v1/probes?{query}', 400),
                         'INVALID', words)

    def test_put(self):
        self.assertEqual({'id': VIP_ID, 'version': 7, 'changed': True},
                         self.put())
        self.assertEqual({'id': VIP_ID, 'version': 7, 'changed': False},
                         self.put())

    def test_transition(self):
        self.put()
        found = self.ask('GET', f'{PATH}/transition')
        self.assertEqual((7, found['current'], 0), (
            found['version'], found['base'], found['age']))

        def put(raw, expected=200):
            return self.ask('PUT', f'{PATH}/transition', expected, json=raw)

        self.refused(put(found, 409), 'VERSION_CONFLICT', 'active')
        self.put(examples.make_raw(version=8, active=False))
        self.refused(put(found, 409), 'VERSION_CONFLICT', 'standing by')
        found['version'] = 8
        self.assertEqual({'id': VIP_ID, 'version': 8, 'changed': False},
                         put(found))
        self.assertTrue(put({**found, 'age': 50.5})['changed'])
        # It has them before it goes by it.
        self.assertEqual([], found['pins'])
        pin = ['10.0.0.9', 7, '10.0.0.5', 80, ['fa:16:3e:00:01:01']]
        self.assertFalse(put({**found, 'age': 50.5, 'pins': [pin]})['changed'])
        self.assertEqual([pin], self.ask('GET', f'{PATH}/transition')['pins'])
        # One of a release before tells of none.
        del found['pins']
        put(found)
        self.assertEqual([], self.ask('GET', f'{PATH}/transition')['pins'])
        for change, words in (
                ({'age': -1}, 'age: -1 is less than 0'),
                ({'age': 'x'}, "age: 'x' is not a number"),
                ({'base': {**found['base'], 'slots': [[0, [[256, 'x']]]]}},
                 'base.slots[0][1][0][0]: 256 is more than 255'),
                ({'base': {**found['base'], 'slots': [[0, [[0, 'x']]]]}},
                 "base.slots[0][1][0][1]: 'x' is not the MAC address"),
                ({'pins': [['10.0.0.9', 7, '10.0.0.5', 80, []]]},
                 'pins[0][4]: has fewer than 1'),
                ({'pins': [['10.0.0.9', 70000, '10.0.0.5', 80, ['x']]]},
                 'pins[0][1]: 70000 is more than 65535'),
                ({'more': 1}, "an unknown field 'more'")):
            self.refused(put({**found, **change}, 400), 'INVALID', words)

    def test_wrong_document(self):
        self.refused(self.put(examples.make_raw(affinity='x'), 400),
                     'INVALID', "affinity: 'x' is none of FLOW, SOURCE_IP")
        for data in (b'', b'{', b'\xff', b'[' * 100000, b'{"version": NaN}'):
            self.refused(
                self.ask('PUT', PATH, 400, data=data,
                         content_type='application/json'),
                'INVALID', 'the document: is no JSON')
        self.assertEqual([], self.list_forwarded())

    def test_wrong_type(self):
        for kind in ('text/plain', None):
            self.refused(
                self.ask('PUT', PATH, 415, data=json.dumps(examples.RAW),
                         content_type=kind),
                'NO_JSON', 'application/json')

    def test_too_long(self):
        self.refused(
            self.ask('PUT', PATH, 413, data=b'x' * (api._LONGEST + 1),
                     content_type='application/json'), 'TOO_LONG', '')

    def test_wrong_id(self):
        for method, path in (('GET', '/v1/vips/x'), ('DELETE', '/v1/vips/x'),
                             ('GET', '/v1/vips/..'),
                             ('GET', '/v1/vips/x/statistics')):
            self.refused(self.ask(method, path, 400), 'INVALID',
                         'the id of the VIP: ')
        self.refused(self.put(path='/v1/vips/x', expected=400), 'INVALID',
                     "'x' is not a UUID")

    def test_unknown(self):
        self.refused(self.ask('GET', PATH, 404), 'UNKNOWN_VIP', VIP_ID)
        for name in ('statistics', 'transition'):
            self.refused(self.ask('GET', f'{PATH}/{name}', 404),
                         'UNKNOWN_VIP', VIP_ID)

    def test_conflict(self):
        self.put(examples.make_raw(version=8))
        answer = self.put(expected=409)
        self.refused(answer, 'VERSION_CONFLICT', 'older than version 8')
        self.assertEqual(8, answer['in_force'])
        answer = self.ask('DELETE', f'{PATH}?version=7', 409)
        self.refused(answer, 'VERSION_CONFLICT', 'came too late')
        self.assertEqual(8, answer['in_force'])

    def test_delete(self):
        self.put()
        for _ in range(2):
            self.ask('DELETE', PATH, 204)
        self.put()
        self.ask('DELETE', f'{PATH}?version=8', 204)
        self.refused(self.put(examples.make_raw(version=8), expected=409),
                     'VERSION_CONFLICT', 'deleted with version 8')

    def test_wrong_deletion(self):
        for query, words in (
                ('version=x', "version: 'x' is not a whole number"),
                ('version=', "version: '' is not a whole number"),
                ('version=-1', "version: '-1' is not a whole number"),
                ('version=0', 'version: 0 is less than 1'),
                ('version=1.5', "version: '1.5' is not a whole number"),
                ('force=1', "the query has an unknown field 'force'")):
            self.refused(self.ask('DELETE', f'{PATH}?{query}', 400),
                         'INVALID', words)

    def test_disk(self):
        with mock.patch.object(
                store.Store, 'save', autospec=True,
                side_effect=exceptions.StoreFailed('no space left')):
            self.refused(self.put(expected=500), 'STORE_FAILED',
                         'no space left')
        self.assertIn('is answered with 500', self.log.output)

    def test_open_vswitch(self):
        self.order('fail-apply', 'it hangs')
        self.refused(self.put(expected=503), 'VSWITCH_UNAVAILABLE',
                     'it hangs')
        self.order('fail-remove', 'it hangs')
        self.refused(self.ask('DELETE', PATH, 503), 'VSWITCH_UNAVAILABLE',
                     'it hangs')

    def test_counters_that_cannot_be_read(self):
        self.put()
        self.order('fail-read_counters', 'it hangs')
        for path in (PATH, f'{PATH}/statistics'):
            self.refused(self.ask('GET', path, 503), 'VSWITCH_UNAVAILABLE',
                         'it hangs')

    def test_busy(self):
        with mock.patch.object(self.vips, 'put', autospec=True,
                               side_effect=exceptions.VipBusy('busy')):
            self.refused(self.put(expected=503), 'BUSY', 'busy')

    def test_fault(self):
        self.order('break-apply', 'yes')
        answer = self.put(expected=500)
        self.refused(answer, 'FAILED', 'its log tells how')
        self.assertIn('Traceback', self.log.output)

    def test_other_paths(self):
        for path in ('/v2/vips', '/v1', '/v1/', '/v1/vips/', '/vips'):
            self.refused(self.ask('GET', path, 404), 'NOT_FOUND', '')
        for method, path in (('POST', '/v1/vips'), ('DELETE', '/'),
                             ('OPTIONS', PATH), ('PATCH', PATH)):
            self.refused(self.ask(method, path, 405), 'METHOD_NOT_ALLOWED',
                         '')

    @hypothesis.given(st.lists(st.tuples(
        st.sampled_from(('PUT', 'PUT', 'DELETE')), st.integers(1, 6),
        st.booleans()), min_size=1, max_size=8))
    def test_sequences(self, requests):
        """What is there is of the highest version that was taken."""
        for vip in self.ask('GET', '/v1/vips')['vips']:
            self.vips.delete(vip['id'], 2 ** 40)
        path = f'/v1/vips/{examples.make_id(next(self.numbers))}'
        document, deleted = None, 0
        for method, version, active in requests:
            if method == 'PUT':
                raw = examples.make_raw(version=version, active=active)
                newest = document['version'] if document else deleted
                expected = (200 if version > newest or raw == document
                            else 409)
                answer = self.put(raw, expected, path)
                if expected == 200:
                    self.assertEqual(raw != document, answer['changed'])
                    self.assertFalse(self.put(raw, 200, path)['changed'])
                    document = raw
                else:
                    self.assertEqual(newest, answer['in_force'])
            elif document and version < document['version']:
                self.ask('DELETE', f'{path}?version={version}', 409)
            else:
                self.ask('DELETE', f'{path}?version={version}', 204)
                deleted = max(deleted, version)
                document = None
            if document:
                self.assertEqual(document, self.ask('GET', path)['document'])
            else:
                self.ask('GET', path, 404)

    numbers = iter(range(1000, 10 ** 6))


class TestAllowedClients(APITestCase):

    allowed_clients = ('Controller1', 'controller2')

    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())

    def test_allowed(self):
        for name in ('controller1', 'CONTROLLER2'):
            self.socket = Socket(name)
            self.put()

    def test_others(self):
        for names, shown in ((('amphora1',), "'amphora1'"),
                             ((), 'no name'),
                             (('a\n\x1b',), r"'a\n\x1b'"),
                             (('a', 'b'), "'a', 'b'")):
            self.socket = Socket(*names)
            for method, path in (
                    ('GET', '/'), ('GET', '/v1/status'), ('GET', '/v1/vips'),
                    ('GET', PATH), ('PUT', PATH), ('DELETE', PATH),
                    ('GET', f'{PATH}/statistics')):
                answer = self.ask(method, path, 403)
                self.assertEqual('FORBIDDEN', answer['code'])
                self.assertIn(shown, answer['error'])
            self.assertIn(shown, self.log.output)
            self.ask('GET', '/anything', 403)
        self.assertEqual([], self.list_forwarded())


class TestDocumentation(APITestCase):

    def setUp(self):
        super().setUp()
        self.page = (TOP / 'doc/source/contributor/distributor-api.rst'
                     ).read_text()

    def test_each_route_is_there(self):
        routes = {
            (method, re.sub(r'<(\w+)>', r'{\1}', rule.rule)): rule.endpoint
            for rule in self.client.application.url_map.iter_rules()
            for method in rule.methods - {'HEAD', 'OPTIONS'}}
        self.assertEqual(set(routes), set(re.findall(
            r'^``(GET|PUT|DELETE) (\S+)``$', self.page, re.M)))
        self.assertEqual(set(routes.values()) - {'delete_vip'},
                         set(answers.ANSWERS))

    def test_each_error_is_there(self):
        documented = {
            (int(status), code) for status, codes in re.findall(
                r'^(\d{3}) ((?:``[A-Z_]+``(?:, )?)+)$', self.page, re.M)
            for code in re.findall('[A-Z_]+', codes)}
        self.assertEqual(
            {*api.ERRORS.values()} | {*api.HTTP_CODES.items()} |
            {(500, 'FAILED')}, documented)

    def test_schemas(self):
        for schema in (*answers.ANSWERS.values(), answers.ERROR,
                       schemas.DOCUMENT, schemas.TRANSITION):
            jsonschema.Draft202012Validator.check_schema(schema)

    def test_examples(self):
        """Those of the documentation are taken, and answered so."""
        raw, answer, error = (json.loads(block) for block in re.findall(
            r'^    (\{(?:.|\n    +)*\})$', self.page, re.M))
        path = f'/v1/vips/{answer["id"]}'
        self.assertIn(f'PUT {path}\n', self.page)
        self.assertEqual(answer, self.put(raw, path=path))
        self.assertEqual(error, self.put({**raw, 'version': 6}, 409, path))
