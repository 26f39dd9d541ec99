# SPDX-License-Identifier: Apache-2.0

"""Telling several agents something, request by request."""

import json
import threading
import time
from unittest import mock

import fixtures

from octavia_hmsync.amphora import agent_client
from octavia_hmsync.amphora import telling
from octavia_hmsync.compat import amphora_driver as compat_driver
from octavia_hmsync import exceptions
from tests.cloud import ailing
from tests.unit.amphora import test_agent_client
from tests.unit.cluster import clusters

# What waits for so long does not end.
FOREVER = 3600
PUT = compat_driver.Request('PUT', 'vrrp/upload', 'text')
PEM = compat_driver.Request('PUT', 'loadbalancer/lb/certificates/a.pem',
                            'secret', unless_same=True)


class Saying(clusters.Agent):
    """One that says what it is told to, by path."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.says = {}

    def _reply(self, tls, request_line):
        _method, path, _body = self.requests[-1]
        for part, answers in self.says.items():
            if part in path:
                status, text = answers.pop(0) if len(
                    answers) > 1 else answers[0]
                tls.sendall(f'HTTP/1.1 {status} X\r\nContent-Length: '
                            f'{len(text)}\r\n\r\n{text}'.encode())
                return
        super()._reply(tls, request_line)


class TestTell(test_agent_client.AgentClientTestCase):

    def setUp(self):
        super().setUp()
        self.agents = []
        self.client = agent_client.RestAgentClient(self.make_client_conf(60))

    def add(self):
        number = len(self.agents) + 1
        agent = self.useFixture(Saying(
            f'amphora-{number}', f'127.0.1.{number}', self.certificates,
            port=self.port))
        self.agents.append(agent)
        return agent

    def target(self, agent, *requests, needs_facts=False, is_awaited=True,
               plan=None):
        return telling.Target(
            f'member of {agent.amphora_id}', agent.amphora_id,
            agent.lb_network_ip, plan or (lambda facts: list(requests)),
            needs_facts, is_awaited)

    def tell(self, *requests, seconds=5, **kwargs):
        """Tell the first one; returns what it has not taken, or None."""
        failures = telling.tell(self.client, [self.target(
            self.agents[0], *requests, **kwargs)], seconds)
        for line in failures.values():
            self.assertNotIn('\n', line)
            self.assertTrue(line.startswith('amphora amphora-1: '), line)
        return next(iter(failures.values()), None)

    def test_nobody(self):
        self.assertEqual({}, telling.tell(self.client, [], 1))

    def test_each_in_its_order(self):
        agent = self.add()
        requests = [PUT, compat_driver.Request('PUT', 'vrrp/start'), PEM,
                    compat_driver.Request('DELETE', 'listeners/lb')]
        self.assertIsNone(self.tell(*requests))
        self.assertEqual(
            [('PUT', 'vrrp/upload'), ('PUT', 'vrrp/start'),
             ('GET', PEM.path), ('PUT', PEM.path),
             ('DELETE', 'listeners/lb')],
            [(method, path.removeprefix('/1.0/'))
             for method, path, _body in agent.requests])

    def test_what_it_has_it_is_not_given(self):
        agent = self.add()
        self.assertIsNone(self.tell(PEM))
        agent.requests.clear()
        self.assertIsNone(self.tell(PEM))
        self.assertEqual([], agent.asked())
        # Whatever it says that it has.
        for said in ('[', '{}', '[]', '{"md5sum": 7}', '7'):
            agent.says = {'.pem': [(200, said)]}
            agent.requests.clear()
            self.assertIsNone(self.tell(PEM))
            self.assertEqual([PEM.path], agent.asked())

    def test_what_is_gone_is_deleted(self):
        agent = self.add()
        agent.says = {'certificates': [(404, '')]}
        self.assertIsNone(self.tell(compat_driver.Request(
            'DELETE', 'loadbalancer/lb/certificates/a.pem')))
        self.assertIn('answered 404 to PUT', self.tell(
            compat_driver.Request('PUT', PEM.path)))

    def test_an_interface_that_comes_late(self):
        agent = self.add()
        plug = compat_driver.Request('POST', 'plug/network', '{}')
        agent.says = {'plug': [(404, 'No suitable network interface found'),
                               (404, ''), (202, '{}')]}
        self.assertIsNone(self.tell(plug))
        agent.says = {'plug': [(409, '')]}
        self.assertIsNone(self.tell(plug))
        agent.says = {'plug': [(404, '')]}
        with mock.patch.object(telling, '_PAUSE', 1.5):
            self.assertIn('answered 404', self.tell(plug, seconds=2))

    def test_silent_after_its_answer(self):
        """Its answer tells more than that it gave no other one."""
        self.add()
        plug = compat_driver.Request('POST', 'plug/network', '{}')
        with mock.patch.object(telling, '_PAUSE', 0.4), mock.patch.object(
                self.client, 'ask', autospec=True, side_effect=[
                    (404, ''), exceptions.AgentUnreachable('is silent'),
                    exceptions.AgentUnreachable('is silent')]) as asked:
            self.assertIn('answered 404', self.tell(plug, seconds=1))
        self.assertEqual(3, asked.call_count)

    def test_facts(self):
        agent = self.add()
        seen = []

        def plan(facts):
            seen.append(facts)
            return [PUT]

        self.assertIsNone(self.tell(needs_facts=True, plan=plan))
        facts, = seen
        self.assertEqual('2.6', facts.info['haproxy_version'][:3])
        self.assertEqual(1, facts.details['cpu_count'])
        for path, said in (('info', '{}'), ('info', '[]'), ('info', '['),
                           ('info', '{"haproxy_version": 2}'),
                           ('details', '"x"'), ('details', '[' * 9000)):
            agent.says = {path: [(200, said)]}
            self.assertIn(f'its agent gives no {path} of itself',
                          self.tell(PUT, needs_facts=True))
        agent.says = {'details': [(500, json.dumps({'a': 'b\n\x1b'}))]}
        self.assertIn('answered 500 to GET details: {"a": "b',
                      self.tell(PUT, needs_facts=True))

    def test_a_plan_that_fails(self):
        self.add()

        def plan(_facts):
            raise KeyError('a\nb')

        self.assertIn('KeyError: ', self.tell(plan=plan))

    def test_many_requests_take_longer(self):
        """A hanging one is told from one that has a lot to take."""
        agent = self.add()
        agent.delays = {'vrrp': 0.4}
        self.assertIn('did not answer within', self.tell(
            *[PUT] * 20, seconds=0.5))
        # However busy this machine is.
        self.useFixture(fixtures.MockPatchObject(telling, '_PER_REQUEST', 2))
        self.assertIsNone(self.tell(*[PUT] * 4, seconds=1))

    def test_no_address(self):
        agent = self.add()
        agent.lb_network_ip = None
        self.assertIn('has no address in the management network',
                      self.tell(PUT))

    def test_whoever_plans_takes_nobodys_time(self):
        first, second = self.add(), self.add()
        threads = set()

        def plan(_facts):
            threads.add(threading.get_ident())
            time.sleep(0.8)
            return [PUT]

        failures = telling.tell(
            self.client, [self.target(agent, plan=plan)
                          for agent in (first, second)], 1)
        self.assertEqual({}, failures)
        self.assertEqual(1, len(threads))

    def test_who_is_not_awaited(self):
        first, second = self.add(), self.add()
        second.ail(ailing.HANGS_IN_ANSWER)
        failures = telling.tell(
            self.client, [self.target(first, PUT),
                          self.target(second, PUT, is_awaited=False)], FOREVER)
        self.assertEqual(
            {'member of amphora-2':
             'amphora amphora-2: was not done when the others were'},
            failures)
