# SPDX-License-Identifier: Apache-2.0

"""What a simulated amphora and a real one have in common."""

import asyncio
from concurrent import futures
import http.client
import itertools
import json
import os
import socket
import ssl
import time

import fixtures
from octavia.amphorae.backends.health_daemon import health_daemon
from octavia.amphorae.backends.health_daemon import status_message
from oslo_config import cfg
from oslo_config import fixture as config_fixture

from octavia_hmsync.amphora import agent_client
from octavia_hmsync import compat
from tests.cloud import ailing
from tests.cloud import amphora
from tests.cloud import certificates
from tests.cloud import network
from tests.cloud import records
from tests.cloud import sniffer
from tests.cloud import syslog
from tests.cloud import waiting
from tests.fleet import amphora as fleet_amphora
from tests.fleet import client as fleet_client
from tests.unit import base

PORT = 9443
KEY = 'the key that they boot with'
OTHER_KEY = 'a$key "of another" kind'
# All boot with the address of health manager 1. Name of an amphora: what is
# uploaded to it in its turn, and to whom it then sends, again and again, after
# one more heartbeat as before.
UPLOADS = {
    'takes turns': ([{'controllers': [4]}, {'controllers': [2, 3]}], [2, 3]),
    'malformed entry, long interval': (
        [{'controllers': [2, 3, 'nonsense', 4], 'heartbeat_interval': 2}],
        [2, 3]),
    'bad port': ([{'controllers': [2, '127.0.0.1:http!', 3]}], []),
    'empty list': ([{'controllers': []}], []),
    'refers to another option': (
        [{'controllers': [2], 'heartbeat_key': '$nothing'}], []),
    'no interval': ([{'controllers': [2], 'heartbeat_interval': 'often'}], []),
    # The agent takes what it has got. Here, half an id.
    'cut off': ([{
        'controllers': [22, 23], 'cut': 10,
        'heartbeat_key': '"%s"' % OTHER_KEY.replace('$', r'\$')}], [22, 23]),
}
# Nobody but the tests that talk to it uploads to this one; it has a listener.
PARTNER = 'partner'


class FleetCase(base.TestCase):
    """Amphorae of either kind, shared by the tests of a class."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.network = cls.use_fixture(network.LoopbackNetwork())
        cls.other_network = cls.use_fixture(network.LoopbackNetwork())
        cls.directory = cls.use_fixture(fixtures.TempDir()).path
        cls.certificates = cls.make_certificates('certs')
        cls.members = {}

    @classmethod
    def use_fixture(cls, fixture):
        fixture.setUp()
        cls.addClassCleanup(fixture.cleanUp)
        return fixture

    @classmethod
    def make_certificates(cls, name):
        return cls.use_fixture(certificates.Certificates(
            os.path.join(cls.directory, name)))

    @classmethod
    def add_member(cls, name, listener=False):
        """Plan an amphora, as a dict that a fleet takes."""
        cls.members[name] = {
            'id': records.new_id(), 'load_balancer_id': records.new_id(),
            'lb_network_ip': cls.network.address(100 + len(cls.members)),
            'listener_id': records.new_id() if listener else None,
            'controller_ip_port_list': [cls.controller(1)]}

    @classmethod
    def controller(cls, number):
        """The address of a health manager; what is no number stays.

        Those from 20 on are in a network where another key is in use.
        """
        if not isinstance(number, int):
            return number
        where = cls.network if number < 20 else cls.other_network
        return f'{where.address(number)}:5555'

    @classmethod
    def start_fleet(cls, **kwargs):
        return cls.use_fixture(fleet_client.Fleet(
            list(cls.members.values()), cls.certificates, KEY, cls.directory,
            port=PORT, **kwargs))

    def body(self, name, controllers, heartbeat_key=KEY, amphora_id=None,
             heartbeat_interval=1):
        """A configuration for an amphora."""
        addresses = ', '.join(map(self.controller, controllers))
        return (f'[DEFAULT]\ndebug = False\n[health_manager]\n'
                f'controller_ip_port_list = {addresses}\n'
                f'heartbeat_interval = {heartbeat_interval}\n'
                f'heartbeat_key = {heartbeat_key}\n[amphora_agent]\n'
                f'amphora_id = {amphora_id or self.members[name]["id"]}\n')

    def agent_conf(self, timeout=60):
        """What a controller has in its octavia.conf, by group."""
        return {
            'controller_worker': {'amphora_driver': compat.REST_DRIVER},
            'haproxy_amphora': {
                'bind_port': PORT, 'connection_max_retries': 1,
                'client_cert': self.certificates.client_path,
                'server_ca':
                    self.certificates.server_authority.certificate_path},
            'hmsync': {'upload_timeout': timeout}}

    def upload_all(self, bodies, timeout=60):
        """Upload with the client of the plugin.

        :param bodies: {name: body}
        :returns: {name: Answer}
        """
        client = agent_client.RestAgentClient(
            self.make_conf(**self.agent_conf(timeout)))

        async def upload_all():
            return await asyncio.gather(*(
                client.upload(agent_client.Upload(
                    self.members[name]['id'],
                    self.members[name]['lb_network_ip'], body))
                for name, body in bodies.items()))

        return dict(zip(bodies, asyncio.run(upload_all())))

    # Without any client in between

    def connect(self, name, client_path='', timeout=60):
        """Connect to an agent as a controller does.

        :param client_path: of a certificate; None: without one
        """
        member = self.members[name]
        context = ssl.create_default_context(
            cafile=self.certificates.server_authority.certificate_path)
        if client_path is not None:
            context.load_cert_chain(client_path or
                                    self.certificates.client_path)
        sock = socket.create_connection((member['lb_network_ip'], PORT),
                                        timeout)
        self.addCleanup(sock.close)
        tls = context.wrap_socket(sock, server_hostname=member['id'])
        self.addCleanup(tls.close)
        return tls

    def request(self, name, method, path, body='', cut=0, **kwargs):
        """Send a request, and read until the agent closes the connection.

        :param cut: end the connection so many bytes before the end
        :returns: (status, headers, body), or None if there is no answer
        """
        try:
            with self.connect(name, **kwargs) as tls:
                data = (f'{method} {path} HTTP/1.1\r\nHost: amphora\r\n'
                        f'Content-Length: {len(body)}\r\n\r\n{body}').encode()
                tls.sendall(data[:len(data) - cut])
                if cut:
                    return None
                response = http.client.HTTPResponse(tls, method=method)
                response.begin()
                content = response.read()
                self.assertEqual(b'', tls.recv(1))
                return response.status, dict(response.getheaders()), content
        except OSError:
            return None


class ContractCases:
    """The same cases for both; a subclass makes the amphorae, and .key."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.sniffers = [
            cls.use_fixture(sniffer.Sniffer(key, where.cidr)) for key, where
            in ((KEY, cls.network), (OTHER_KEY, cls.other_network))]
        for name in UPLOADS:
            cls.add_member(name)
        cls.add_member(PARTNER, listener=True)
        cls.start()

    def new_id(self, name):
        """The id that an amphora has after its upload."""
        amphora_id = self.members[name]['id']
        return amphora_id[:-9] if name == 'cut off' else amphora_id

    def beats(self, name, since=0, until=float('inf')):
        """(amphora id, number of the health manager) of its heartbeats."""
        ids = self.members[name]['id'], self.new_id(name)
        numbers = {self.controller(n): n for n in range(30)}
        return [(beat.amphora_id, numbers[beat.destination])
                for beat in sorted(beat for one in self.sniffers
                                   for beat in one.heartbeats(since))
                if beat.amphora_id in ids and beat.time < until]

    def wait_for_beats(self, name, count, since):
        waiting.wait_for(lambda: len(self.beats(name, since)) >= count,
                         f'{count} heartbeats of {name}', interval=0.02)

    def wait_until_heard(self, name, number, since=0):
        self.sniffers[0].wait_until_heard(
            {self.members[name]['id']}, {self.controller(number)}, since, 60)

    # Uploads, as seen on the wire

    def upload_in_turn(self, name):
        """Upload what is due to an amphora, right after a heartbeat of it.

        So the next one is a whole interval away, unless the machine is busy.

        :returns: the times before the upload and after it
        """
        since = time.time()
        self.wait_for_beats(name, 1, since)
        since = time.time()
        for upload in UPLOADS[name][0]:
            upload = dict(upload)
            cut = upload.pop('cut', 0)
            answer = self.request(name, 'PUT', '/1.0/config',
                                  self.body(name, **upload), cut=cut)
            self.assertEqual(None if cut else 202, answer and answer[0], name)
        # It serves one client at a time: here it is done with that one.
        self.assertEqual(200, self.request(name, 'GET', '/')[0], name)
        return since, time.time()

    def test_uploads(self):
        with futures.ThreadPoolExecutor(len(UPLOADS)) as executor:
            uploaded = dict(zip(UPLOADS, executor.map(self.upload_in_turn,
                                                      UPLOADS)))
        slow = 'malformed entry, long interval'
        for name, (_uploads, numbers) in UPLOADS.items():
            self.wait_for_beats(name, 1, uploaded[name][0])
            if numbers:
                self.wait_for_beats(name, 3 if name == slow else 5,
                                    uploaded[name][1])
        for name, (uploads, numbers) in UPLOADS.items():
            since, until = uploaded[name]
            beats = self.beats(name, since)
            before = list(itertools.takewhile(
                lambda beat: beat[1] not in numbers, beats))
            # Exactly one more as before, but for those that came meanwhile.
            self.assertIn(len(before),
                          range(1, 2 + len(self.beats(name, since, until))),
                          name)
            self.assertEqual((self.members[name]['id'], 1), before[0], name)
            self.assertLessEqual({number for _id, number in before[1:]}, {
                1, *(n for u in uploads[:-1] for n in u['controllers'])},
                name)
            self.assertEqual(
                [(self.new_id(name), numbers[i % len(numbers)])
                 for i in range(len(beats) - len(before))],
                beats[len(before):], name)

        # The new interval is in force before the new list is.
        times = [beat.time for beat in
                 self.sniffers[0].heartbeats(uploaded[slow][1])
                 if beat.amphora_id == self.members[slow]['id']]
        self.assertGreater((times[-1] - times[0]) / (len(times) - 1), 1.5)

    def test_nobody_loses_its_turn(self):
        """By the same list once more, or by what is no configuration."""
        body = self.body(PARTNER, [5, 6, 7])
        since = time.time()
        for _ in range(2):
            self.assertEqual({PARTNER: agent_client.Answer('APPLIED')},
                             self.upload_all({PARTNER: body}))
            self.wait_until_heard(PARTNER, 5, since)
        status, _headers, answer = self.request(PARTNER, 'PUT', '/1.0/config',
                                                'nonsense\n')
        self.assertEqual(500, status)
        self.assertEqual('Unable to update amphora-agent configuration.',
                         json.loads(answer)['message'])
        self.wait_for_beats(PARTNER, 3, time.time())
        numbers = [number for _id, number in self.beats(PARTNER, since)]
        numbers = numbers[numbers.index(5):]
        self.assertEqual([5 + i % 3 for i in range(len(numbers))], numbers)

    # Clients

    def test_amphora_driver(self):
        """Octavia's own driver discovers the version, and uploads.

        A health manager then reads the whole message.
        """
        member = self.members[PARTNER]
        conf = self.useFixture(config_fixture.Config(cfg.CONF))
        for group in ('controller_worker', 'haproxy_amphora'):
            conf.config(group=group, **self.agent_conf()[group])
        driver = compat.load_amphora_driver(compat.REST_DRIVER)
        target = compat.make_driver_amphora(member['id'],
                                            member['lb_network_ip'])
        messages = []
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.bind((self.network.address(8), 5555))
            sock.settimeout(60)
            driver.update_amphora_agent_config(target,
                                               self.body(PARTNER, [8]))
            for _ in range(2):
                envelope, source = sock.recvfrom(1 << 16)
                self.assertEqual('127.0.0.1', source[0])
                messages.append(status_message.unwrap_envelope(envelope, KEY))
        self.assertEqual('1.0', target.api_version)
        self.assertEqual(messages[0]['seq'] + 1, messages[1].pop('seq'))
        stats = dict.fromkeys(('tx', 'rx', 'conns', 'totconns', 'ereq'), 0)
        self.assertEqual(
            {'id': member['id'], 'pools': {}, 'ver': health_daemon.MSG_VER,
             'listeners': {
                 member['listener_id']: {'status': 'OPEN', 'stats': stats}}},
            messages[1])

    def test_certificate(self):
        member_id = self.members[PARTNER]['id']
        certificate = self.connect(PARTNER).getpeercert()
        self.assertEqual(((('commonName', member_id),),),
                         certificate['subject'])
        self.assertEqual((('DNS', member_id),), certificate['subjectAltName'])

    def test_only_controllers_are_served(self):
        others = self.make_certificates(f'other-{records.new_id()}')
        for client_path in (None, others.client_path):
            self.assertIsNone(self.request(
                PARTNER, 'PUT', '/1.0/config',
                self.body(PARTNER, [9]), client_path=client_path))
        self.assertEqual(200, self.request(PARTNER, 'GET', '/')[0])
        since = time.time()
        self.wait_for_beats(PARTNER, 2, since)
        self.assertNotIn(9, [number for _id, number in
                             self.beats(PARTNER, since)])

    def test_one_client_at_a_time(self):
        body = self.body(PARTNER, [4])
        tls = self.connect(PARTNER)
        tls.sendall(b'PUT /1.0/config HTTP/1.1\r\nHost: amphora\r\n'
                    b'Content-Length: 500\r\n\r\n' + body[:20].encode())
        self.assertIsNone(self.request(PARTNER, 'GET', '/', timeout=1))
        tls.close()
        self.assertEqual(202, self.request(PARTNER, 'PUT', '/1.0/config',
                                           body)[0])
        self.wait_until_heard(PARTNER, 4)

    def test_answers(self):
        for method, path, status in (
                ('GET', '/', 200), ('GET', '//', 200), ('PUT', '/', 405),
                ('GET', '/1.0/config', 405), ('GET', '/1.0/nothing', 404),
                ('PUT', '/0.5/config', 404), ('PUT', '/1.0/info', 405)):
            answered, headers, _body = self.request(PARTNER, method, path)
            self.assertEqual(status, answered, (method, path))
            self.assertEqual('application/json', headers['Content-Type'])
            self.assertEqual('close', headers['Connection'])
        self.assertEqual(b'{"api_version":"1.0"}',
                         self.request(PARTNER, 'GET', '/')[2])
        self.assertEqual(
            b'{"message":"OK"}',
            self.request(PARTNER, 'PUT', '/1.0/config',
                         self.body(PARTNER, [1]))[2])


class TestRealAgents(ContractCases, FleetCase):

    @classmethod
    def start(cls):
        cls.use_fixture(syslog.SyslogSocket(cls.directory))
        agents = [cls.use_fixture(amphora.Amphora(
            member['id'], member['lb_network_ip'],
            member['controller_ip_port_list'], cls.certificates, KEY,
            cls.directory, cls.directory, port=PORT, listener={
                'load_balancer_id': member['load_balancer_id'],
                'listener_id': member['listener_id'], 'port': 8080}
            if member['listener_id'] else None))
            for member in cls.members.values()]
        for agent in agents:
            # All of them end at the same time.
            cls.addClassCleanup(agent.request_stop)
        for agent in agents:
            agent.wait_until_ready()


class TestSimulatedAgents(ContractCases, FleetCase):

    @classmethod
    def start(cls):
        cls.start_fleet()


class TestFleet(FleetCase):
    """What only a fleet can do."""

    AILMENTS = (ailing.SILENT, ailing.REFUSES, ailing.BLACK_HOLE,
                ailing.HANGS, ailing.HANGS_IN_ANSWER, ailing.NOT_FOUND,
                ailing.SERVER_ERROR, ailing.RESETS, ailing.RESETS_IN_ANSWER,
                ailing.IMPOSTOR)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.sniffer = cls.use_fixture(sniffer.Sniffer(KEY, cls.network.cidr))
        for name in (*cls.AILMENTS, ailing.SLOW, fleet_amphora.OLD_IMAGE,
                     fleet_amphora.MUTE, 'well'):
            cls.add_member(name)
        cls.fleet = cls.start_fleet(
            prepare=False, delay=0.5,
            ailments={member['id']: name
                      for name, member in cls.members.items()
                      if name != 'well'})
        # The others play the same ailments with a thread each.
        for name in cls.AILMENTS:
            cls.add_member(f'model of {name}')
            member = cls.members[f'model of {name}']
            cls.use_fixture(ailing.AilingAmphora(
                member['id'], member['lb_network_ip'], cls.certificates,
                name, port=PORT))

    def ids(self, *names):
        return [self.members[name]['id'] for name in names]

    def comparable(self, name, answer):
        """An answer without what tells one amphora from another."""
        member = self.members[name]
        text = (answer.error or '').replace(member['lb_network_ip'], 'IP')
        return answer.result, text.replace(member['id'], 'ID').split(':')[0]

    def test_ailments(self):
        names = [*self.AILMENTS,
                 *(f'model of {name}' for name in self.AILMENTS)]
        answers = self.upload_all(
            {name: self.body(name, [2]) for name in names}, timeout=20)
        for name in self.AILMENTS:
            model = f'model of {name}'
            self.assertEqual(self.comparable(model, answers[model]),
                             self.comparable(name, answers[name]), name)
        self.assertEqual(agent_client.Answer('APPLIED'), self.upload_all(
            {ailing.SLOW: self.body(ailing.SLOW, [2])})[ailing.SLOW])
        # Wherever its client is kept waiting, it has gone by now.
        waiting.wait_for(lambda: not self.fleet.state()['in_flight'],
                         'end of the last connection')

        # All of them become well again.
        self.fleet.set_ailment(self.ids(*self.AILMENTS), None)
        self.fleet.reset()
        answers = self.upload_all(
            {name: self.body(name, [3]) for name in self.AILMENTS})
        self.assertEqual({agent_client.Answer('APPLIED')},
                         set(answers.values()))
        waiting.wait_for(
            lambda: all(self.fleet.amphorae()[amphora_id][3]
                        for amphora_id in self.ids(*self.AILMENTS)),
            'adoption by all')
        state = self.fleet.state()
        self.assertEqual({'202': len(self.AILMENTS)}, state['answers'])
        self.assertEqual(len(self.AILMENTS), state['uploads'])
        self.assertEqual(len(self.AILMENTS), state['connections'])
        self.assertEqual(0, state['aborted'])
        self.fleet.set_ailment(self.ids(*self.AILMENTS), ailing.REFUSES)
        answers = self.upload_all(
            {name: self.body(name, [4]) for name in self.AILMENTS})
        self.assertEqual({'UNREACHABLE'},
                         {answer.result for answer in answers.values()})

    def test_adoption(self):
        """It is told from the heartbeats, not from the answers."""
        names = (fleet_amphora.OLD_IMAGE, fleet_amphora.MUTE, 'well')
        old_image, mute, well = self.ids(*names)
        since = time.time()
        answers = self.upload_all(
            {name: self.body(name, [5, 6]) for name in names})
        self.assertEqual({agent_client.Answer('APPLIED')},
                         set(answers.values()))
        self.sniffer.wait_until_heard(
            {well}, {self.controller(5), self.controller(6)}, since)
        known = self.fleet.amphorae()
        boot, new = [self.controller(1)], [self.controller(5),
                                           self.controller(6)]
        self.assertEqual([1, boot, None], [*known[old_image][0:3:2],
                                           known[old_image][3]])
        self.assertEqual([1, new, None], [*known[mute][0:3:2],
                                          known[mute][3]])
        self.assertEqual([1, new, 0], [*known[well][0:3:2], known[well][4]])
        # Between the first heartbeat by the new list and the second.
        heard = [self.sniffer.heard(well, address, since) for address in new]
        self.assertLess(since, known[well][1])
        self.assertLess(known[well][1], heard[0])
        self.assertLess(heard[0], known[well][3])
        self.assertLess(known[well][3], heard[1])
        self.assertEqual(set(), self.sniffer.destinations(mute, since))
        self.sniffer.wait_until_heard({old_image}, set(boot), since)
        self.assertEqual(set(boot),
                         self.sniffer.destinations(old_image, since))

        self.fleet.set_ailment([old_image, mute], None)
        self.sniffer.wait_until_heard({old_image, mute}, set(new), since)
        self.assertNotIn(None, [
            self.fleet.amphorae()[i][3] for i in (old_image, mute)])

    def test_connections_that_end_early(self):
        self.fleet.reset()
        self.connect('well').close()
        self.request('well', 'PUT', '/1.0/config', self.body('well', [7]),
                     cut=3)
        waiting.wait_for(
            lambda: self.fleet.state()['connections'] == 2 and
            not self.fleet.state()['in_flight'], 'end of both')
        self.assertEqual(1, self.fleet.state()['aborted'])

    def test_requests_that_make_no_sense(self):
        self.assertRaises(ValueError, self.fleet.set_ailment, ['x'], None)
        self.assertRaises(ValueError, self.fleet.set_ailment,
                          self.ids('well'), 'a cold')
        self.assertEqual(len(self.fleet.amphorae()),
                         self.fleet.state()['amphorae'])
