# SPDX-License-Identifier: Apache-2.0

"""What a replacement asks of agents, and what they may answer."""

import asyncio
import json
import os

from taskflow.types import failure

from octavia_hmsync.amphora import agent
from octavia_hmsync import exceptions
from tests.cloud import ailing
from tests.cloud import certificates
from tests.fleet import amphora as fleet_amphora
from tests.fleet import routes
from tests.unit.amphora import test_agent_client

SUBNET = agent.Subnet('192.0.2.0/24', '192.0.2.1',
                      (('203.0.113.0/24', '192.0.2.9'),))
IPV6 = agent.Subnet('2001:db8::/64', None)
INTERFACE = agent.VipInterface(
    'fa:16:3e:00:00:01', '192.0.2.6', 1450,
    (('192.0.2.5', SUBNET), ('2001:db8::5', IPV6)),
    (('192.0.2.6', SUBNET), ('2001:db8::6', IPV6)))
SECRET = 'S3cret'


class Simulated(ailing.AilingAmphora):
    """An agent that does what is asked for, as those of a fleet.

    .requests has what came: method, path and body.
    """

    def __init__(self, *args, listener_id=None, **kwargs):
        super().__init__(*args, ailing.HEALTHY, **kwargs)
        self.state = fleet_amphora.Amphora(
            self.amphora_id, self.lb_network_ip, None, listener_id)
        self.requests = []

    def _read_request(self, tls, body=True):
        data = b''
        while not data.endswith(b'\r\n\r\n'):
            data += tls.recv(1)
        head = data.decode()
        length = int(head.lower().partition('content-length: ')[2]
                     .partition('\r\n')[0])
        body = b''
        while len(body) < length:
            body += tls.recv(65536)
        method, path, _version = head.split('\r\n')[0].split()
        self.requests.append((method, path, body.decode()))
        return method

    def _reply(self, tls, request_line):
        method, path, body = self.requests[-1]
        status, content = routes.act(self.state, method, path, body.encode())
        _kind, content = routes.encode(content)
        tls.sendall(f'HTTP/1.1 {status} X\r\nContent-Length: {len(content)}'
                    f'\r\n\r\n'.encode() + content)


class AgentTestCase(test_agent_client.AgentClientTestCase):

    def make_agent(self, amphora, timeout=15, amphora_id=None):
        return agent.Agent(self.make_client(timeout),
                           amphora_id or amphora.amphora_id,
                           amphora.lb_network_ip)

    def all_calls(self, subject):
        """Whatever an agent can be asked for."""
        return {
            'GET listeners': subject.get_listeners,
            'GET interface/192.0.2.5': lambda: subject.holds('192.0.2.5'),
            'PUT config': lambda: subject.configure(
                f'heartbeat_key = {SECRET}'),
            'POST plug/network': lambda: subject.take_vip(INTERFACE),
            'POST plug/network ': lambda: subject.release_vip(INTERFACE),
            'PUT loadbalancer/one/start': lambda: subject.advertise('one')}

    def assertEachFails(self, error, words, subject):
        for request, call in self.all_calls(subject).items():
            said = str(self.assertRaises(error, call))
            self.assertIn(words.replace('REQUEST', request.strip()), said)
            self.assertIn(subject.lb_network_ip, said)
            self.assertNotIn(SECRET, said)
            self.assertEqual(1, len(said.splitlines()))


class TestAgent(AgentTestCase):

    def setUp(self):
        super().setUp()
        self.amphora = self.useFixture(Simulated(
            'amphora-1', '127.0.1.1', self.certificates, port=self.port,
            listener_id='listener-1'))
        self.agent = self.make_agent(self.amphora)

    def test_listeners(self):
        self.assertEqual({'listener-1': 'ACTIVE'}, self.agent.get_listeners())
        self.amphora.state.listener_id = None
        self.assertEqual({}, self.agent.get_listeners())

    def test_many_listeners(self):
        """Of one load balancer there may be hundreds."""
        found = [{'status': 'ACTIVE', 'uuid': f'{n:036}', 'type': 'TCP'}
                 for n in range(500)]
        self.patch(routes, 'act', lambda *_: (200, found))
        self.assertEqual({each['uuid']: 'ACTIVE' for each in found},
                         self.agent.get_listeners())

    def held(self):
        return [self.agent.holds(address) for address in
                ('192.0.2.5', '2001:db8::5', '2001:db8:0:0::5', '192.0.2.6',
                 '2001:db8::6')]

    def test_vip(self):
        self.assertEqual([False] * 5, self.held())
        self.amphora.state.mac = INTERFACE.mac
        for _ in range(2):
            self.agent.take_vip(INTERFACE)
            self.assertEqual([True] * 5, self.held())
        for _ in range(2):
            self.agent.release_vip(INTERFACE)
            self.assertEqual([False, False, False, True, True],
                             self.held())

    def test_what_it_is_told(self):
        self.amphora.state.mac = INTERFACE.mac
        self.agent.take_vip(INTERFACE)
        self.agent.release_vip(INTERFACE)
        subnet = {'subnet_cidr': '192.0.2.0/24', 'gateway': '192.0.2.1',
                  'host_routes': [{'destination': '203.0.113.0/24',
                                   'nexthop': '192.0.2.9'}]}
        for (method, path, body), vip, additional in zip(
                self.amphora.requests, ('192.0.2.5', '192.0.2.6'), (
                    [{'ip_address': '2001:db8::5', 'gateway': None,
                      'subnet_cidr': '2001:db8::/64', 'host_routes': []}],
                    []), strict=True):
            self.assertEqual(('POST', '/1.0/plug/network'), (method, path))
            common = {'mac_address': INTERFACE.mac, 'mtu': 1450,
                      'is_sriov': False}
            self.assertEqual({
                **common,
                'fixed_ips': [
                    {'ip_address': '192.0.2.6', **subnet},
                    {'ip_address': '2001:db8::6', 'gateway': None,
                     'subnet_cidr': '2001:db8::/64', 'host_routes': []}],
                'vip_net_info': {**common, 'vip': vip, **subnet,
                                 'vrrp_ip': '192.0.2.6',
                                 'additional_vips': additional},
            }, json.loads(body))

    def test_configuration(self):
        body = '[health_manager]\ncontroller_ip_port_list = 192.0.2.1:5555\n'
        self.agent.configure(body)
        self.assertEqual([('PUT', '/1.0/config', body)],
                         self.amphora.requests)
        self.assertEqual(('192.0.2.1:5555',),
                         self.amphora.state.taken.controller_ip_port_list)

    def test_advertise(self):
        e = self.assertRaises(exceptions.AgentRefused, self.agent.advertise,
                              'one')
        self.assertEqual(
            'The agent of amphora amphora-1 at 127.0.1.1 answered 404 to PUT '
            'loadbalancer/one/start. See /var/log/amphora-agent.log in the '
            'amphora', str(e))
        self.patch(routes, 'act', lambda *_: (202, {}))
        self.agent.advertise('one')

    def test_refused(self):
        e = self.assertRaises(exceptions.AgentRefused, self.agent.holds,
                              'nonsense')
        self.assertIn('answered 400 to GET interface/nonsense', str(e))
        e = self.assertRaises(exceptions.AgentRefused, self.agent.take_vip,
                              INTERFACE)
        self.assertIn('answered 404 to POST plug/network', str(e))


class TestAilments(AgentTestCase):

    def test_hangs(self):
        for ailment in (ailing.BLACK_HOLE, ailing.HANGS_IN_ANSWER):
            subject = self.make_agent(self.add(ailment), timeout=1)
            self.assertEachFails(exceptions.AgentUnreachable,
                                 'did not answer within 1 s', subject)

    def test_slow(self):
        amphora = self.add(ailing.SLOW, delay=1)
        self.make_agent(amphora).configure('')
        amphora.delay = 30
        self.assertRaises(exceptions.AgentUnreachable,
                          self.make_agent(amphora, timeout=1).configure, '')

    def test_refuses(self):
        self.assertEachFails(
            exceptions.AgentUnreachable, 'cannot be reached: Connection',
            self.make_agent(self.add(ailing.REFUSES)))

    def test_resets(self):
        self.assertEachFails(exceptions.AgentUnreachable, 'the agent at',
                             self.make_agent(self.add(ailing.RESETS)))

    def test_resets_in_its_answer(self):
        """What it has done it has done; what it lists is not the half."""
        subject = self.make_agent(self.add(ailing.RESETS_IN_ANSWER))
        subject.configure('')
        e = self.assertRaises(exceptions.AgentRefused, subject.get_listeners)
        self.assertIn('answered no JSON', str(e))

    def test_certificate_of_another_amphora(self):
        self.assertEachFails(
            exceptions.AgentUnreachable,
            'presents the certificate of another amphora',
            self.make_agent(self.add(ailing.IMPOSTOR)))

    def test_certificate_of_another_cloud(self):
        other = self.useFixture(certificates.Certificates(
            os.path.join(self.directory, 'another')))
        self.assertEachFails(
            exceptions.AgentUnreachable, 'server_ca does not vouch for',
            self.make_agent(self.add(ailing.HEALTHY, certs=other)))

    def test_whether_anybody_answered(self):
        for ailment, is_unanswered in (
                (ailing.REFUSES, True), (ailing.BLACK_HOLE, True),
                (ailing.HANGS_IN_ANSWER, False), (ailing.IMPOSTOR, False)):
            subject = self.make_agent(self.add(ailment), timeout=1)
            e = self.assertRaises(exceptions.AgentUnreachable,
                                  subject.get_listeners)
            self.assertEqual(is_unanswered, e.is_unanswered, ailment)

    def test_server_error(self):
        """What it says of it may repeat a secret."""
        for answer in (b'HTTP/1.1 500 X\r\n\r\n' + SECRET.encode(),
                       b'HTTP/1.1 503 X\r\n\r\n\x1b[31m', b'HTTP/1.1 302 X'
                       b'\r\nLocation: https://elsewhere/\r\n\r\n'):
            status = answer.split()[1].decode()
            self.assertEachFails(
                exceptions.AgentRefused, f'answered {status} to REQUEST.',
                self.make_agent(self.add_answering(answer)))

    def test_not_found(self):
        """It does not hold the address, or cannot do such a thing."""
        subject = self.make_agent(self.add(ailing.NOT_FOUND))
        self.assertFalse(subject.holds('192.0.2.5'))
        for call in (subject.get_listeners,
                     lambda: subject.take_vip(INTERFACE),
                     lambda: subject.configure('')):
            e = self.assertRaises(exceptions.AgentRefused, call)
            self.assertIn('answered 404', str(e))

    def test_strange_answer(self):
        for garbage in (b'SSH-2.0-OpenSSH\r\n', b'', b'HTTP/1.1 abc OK\r\n'):
            self.assertEachFails(
                exceptions.AgentUnreachable, 'the agent at',
                self.make_agent(self.add_answering(garbage)))

    def listed(self, body, error=exceptions.AgentRefused):
        subject = self.make_agent(self.add_answering(
            b'HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n' % len(body),
            body))
        e = self.assertRaises(error, subject.get_listeners)
        self.assertIn('127.0.1.', str(e))
        return str(e)

    def test_no_json(self):
        for body in (b'', b'<html>', b'[{"uuid": ', b'\xff\xfe',
                     b'[' * 50000):
            self.assertIn('answered no JSON to GET listeners',
                          self.listed(body))

    def test_more_than_an_agent_has(self):
        listener = b'{"uuid": "a", "status": "ACTIVE"}'
        self.listed(b'[' + (listener + b',') * 5000 + listener + b']',
                    (exceptions.AgentRefused, exceptions.AgentUnreachable))

    def test_lies(self):
        for lie in ('{}', 'null', '1', '"ACTIVE"', '["one"]', '[null]', '[[]]',
                    '{"uuid": "a", "status": "ACTIVE"}', '[{}]',
                    '[{"uuid": "a"}]', '[{"status": "ACTIVE"}]',
                    '[{"uuid": ["a"], "status": "ACTIVE"}]',
                    '[{"uuid": "a", "status": null}]',
                    '[{"uuid": "a", "status": "ACTIVE"}, 1]'):
            self.assertIn('lists no listeners', self.listed(lie.encode()))


class TestClient(test_agent_client.AgentClientTestCase):
    """RestAgentClient.ask(), where an upload does not show it."""

    def test_time_limit_of_one_request(self):
        client = self.make_client(timeout=60)
        amphora = self.add(ailing.HANGS_IN_ANSWER)
        e = self.assertRaises(
            exceptions.AgentUnreachable, asyncio.run, client.ask(
                amphora.amphora_id, amphora.lb_network_ip, 'GET', 'listeners',
                timeout=1))
        self.assertIn('did not answer within 1 s', str(e))
        # A flow keeps it, with all that it came from.
        self.assertEqual([], [*failure.Failure.from_exception(e).causes])

    def test_how_much_is_kept(self):
        body = b'x' * 5000
        for kept, expected in ((None, 1024), (4000, 4000), (9000, 5000)):
            amphora = self.add_answering(
                b'HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n', body)
            self.assertEqual((200, 'x' * expected), asyncio.run(
                self.make_client().ask(
                    amphora.amphora_id, amphora.lb_network_ip, 'GET', 'info',
                    **({'kept': kept} if kept else {}))))

    def test_no_address(self):
        for address in ('', 'nonsense', '192.0.2.256'):
            e = self.assertRaises(
                exceptions.AgentUnreachable, asyncio.run,
                self.make_client().ask('amphora-1', address, 'GET', 'info'))
            self.assertIn('the agent at', str(e))
