# SPDX-License-Identifier: Apache-2.0

"""The process octavia-hmsync-distributor, asked as controllers ask it.

Its data plane forwards nothing here; see test_distributor_restart.py.
"""

import contextlib
import os
import signal
import socket
import ssl
import subprocess
import threading
import time

import fixtures
from oslotest import base
import psutil

from octavia_hmsync.distributor import client
from octavia_hmsync import exceptions
from tests.cloud import certificates
from tests.cloud import distributor
from tests.cloud import network
from tests.cloud import process
from tests.cloud import waiting
from tests.unit.distributor import examples

HOST = '127.0.0.1'
IDS = [examples.make_id(0x200 + number) for number in range(10)]
TIMEOUT = 60
# The longest that a client may ask for.
WAIT = 60


class DistributorTestCase(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.directory = self.useFixture(fixtures.TempDir()).path
        self.certificates = self.useFixture(certificates.Certificates(
            os.path.join(self.directory, 'certificates')))

    def make_distributor(self, address=HOST, **options):
        made = distributor.Distributor(
            'network1', address, network.free_port(), self.certificates,
            self.directory, self.directory, options=options)
        self.useFixture(made)
        made.wait_until_ready(TIMEOUT)
        return made

    def make_client(self, made, certificate=None, **kwargs):
        return client.Client(made.url, client.create_context(
            self.certificates.server_authority.certificate_path,
            certificate or self.certificates.client_path),
            **{'connect_timeout': TIMEOUT, 'timeout': TIMEOUT, **kwargs})


class TestProcess(DistributorTestCase):

    def setUp(self):
        super().setUp()
        self.distributor = self.make_distributor()
        self.client = self.make_client(self.distributor)

    def put(self, version=7, vip_id=IDS[0], **changes):
        return self.client.put_vip(vip_id,
                                   examples.make_document(version, **changes))

    def restart(self):
        self.distributor.start()
        self.distributor.wait_until_ready(TIMEOUT)

    def test_life(self):
        self.assertTrue(self.put())
        self.assertFalse(self.put())
        self.assertRaises(exceptions.DistributorRefused, self.put, 6)
        self.assertEqual(examples.RAW,
                         self.client.get_vip(IDS[0])['document'])
        self.assertEqual(
            11, self.client.get_statistics(IDS[0])['members'][1]['packets'])
        self.assertEqual({(IDS[0], examples.make_id(10 + n)): (10 + n, 1000)
                          for n in range(2)}, self.client.get_traffic())
        self.client.delete_vip(IDS[0], 8)
        self.assertIsNone(self.client.get_vip(IDS[0]))
        self.assertIsNone(self.client.get_statistics(IDS[0]))
        self.assertEqual([], self.client.list_vips())
        versions = self.client.get_versions()
        self.assertEqual('network1', versions['host'])

    def test_end(self):
        """SIGTERM ends it, with what it does, and all is forwarded on."""
        for vip_id in IDS:
            self.put(vip_id=vip_id)
        self.assertTrue(self.distributor.stop(TIMEOUT))
        self.assertEqual(0, self.distributor._popen.returncode)
        self.assertNotIn('remove', ''.join(self.distributor.read_calls()))
        self.assertEqual(IDS, self.distributor.list_forwarded())
        self.assertIn('forwards as before', self.distributor.log())
        self.assertNotIn('Traceback', self.distributor.log())
        changes = self.distributor.read_calls().count(f'change {IDS[0]}')
        self.restart()
        self.assertEqual(
            IDS, [vip['id'] for vip in self.client.list_vips()])
        # What is right already is not touched.
        self.assertEqual(changes, self.distributor.read_calls().count(
            f'change {IDS[0]}'))

    def test_request_when_it_ends(self):
        self.distributor.slow_down('apply', 3)
        answers = []
        thread = threading.Thread(
            target=lambda: answers.append(self.put()))
        thread.start()
        waiting.wait_for(
            lambda: f'apply {IDS[0]}' in self.distributor.read_calls(),
            'sign of the request')
        self.assertTrue(self.distributor.stop(TIMEOUT))
        thread.join()
        self.assertEqual([True], answers)

    def test_killed(self):
        """At any moment: it is the document of before or the new one."""
        for vip_id in IDS:
            self.put(1, vip_id)
        for number in range(4):
            self.distributor.slow_down('apply', .2)
            threads = [threading.Thread(target=self.put_quietly,
                                        args=(number + 2, vip_id))
                       for vip_id in IDS]
            for thread in threads:
                thread.start()
            time.sleep(.1 + .1 * number)
            self.distributor.kill_tree()
            for thread in threads:
                thread.join()
            self.distributor.slow_down('apply', None)
            self.restart()
            self.assertEqual(IDS, self.distributor.list_forwarded())
            for vip in self.client.list_vips():
                self.assertTrue(vip['in_force'])
                self.assertIn(vip['version'], (*range(1, number + 3),))
            # The same again, whatever the answer was.
            for vip_id in IDS:
                self.put(number + 2, vip_id, active=number % 2 == 0)

    def put_quietly(self, version, vip_id):
        try:
            self.put(version, vip_id, active=version % 2 == 0)
        except exceptions.DistributorUnreachable:
            pass

    def test_news_of_members(self):
        """Somebody waits for them: others are served, and it can end."""
        look = {'addresses': ['10.0.0.9'], 'ports': [80]}
        self.put(probe=look)
        waiting.wait_for(lambda: self.client.get_probes()['probes'],
                         'probes')
        news = self.client.get_probes()
        self.assertEqual(
            [(IDS[0], examples.make_id(number), 'UNKNOWN')
             for number in (10, 11)],
            [(one['vip'], one['member'], one['state'])
             for one in sorted(news['probes'],
                               key=lambda one: one['member'])])
        answers = []

        def ask():
            answers.append(self.client.get_probes(
                news['run'], news['sequence'], WAIT))

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        self.wait_for_connections(4)
        # A member leaves, and that is told.
        self.put(8, probe=look, members=['ACTIVE'])
        for thread in threads:
            thread.join()
        self.assertEqual([['GONE']] * 4, [
            [one['state'] for one in answer['probes']]
            for answer in answers])
        # Who waits keeps nobody from ending.
        news = answers[0]
        self.wait_for_connections(0)
        thread = threading.Thread(target=ask)
        thread.start()
        self.wait_for_connections(1)
        self.assertTrue(self.distributor.stop(WAIT / 2))
        thread.join()
        self.assertEqual([], answers[-1]['probes'])
        self.restart()
        after = self.client.get_probes(news['run'], news['sequence'], 30)
        self.assertTrue(after['whole'])
        self.assertNotEqual(news['run'], after['run'])

    def wait_for_connections(self, number):
        """Wait until so many clients are connected to the worker."""
        [worker] = psutil.Process(self.distributor.pid).children()
        waiting.wait_for(
            lambda: number == sum(
                one.status == psutil.CONN_ESTABLISHED
                for one in worker.net_connections('tcp')),
            f'{number} connections')

    def test_worker_that_dies(self):
        """Another one comes, with all that was remembered."""
        self.put()
        [worker] = psutil.Process(self.distributor.pid).children()
        worker.kill()
        waiting.wait_for(
            lambda: not worker.is_running() and self.distributor.is_ready(),
            'sign of another worker')
        self.assertFalse(self.put())

    def test_open_vswitch_that_was_started_anew(self):
        for vip_id in IDS:
            self.put(vip_id=vip_id)
        self.distributor.forget_flows()
        self.distributor.wait_until_forwarded(*IDS)
        self.assertIn('The flows of 10 VIPs were gone',
                      self.distributor.log())

    def test_open_vswitch_that_does_not_work(self):
        self.put(1, IDS[1])
        for method in ('check', 'apply', 'remove'):
            self.distributor.fail(method, 'it hangs.')
        for call in (self.put, lambda: self.client.delete_vip(IDS[1], 2)):
            error = self.assertRaises(exceptions.DistributorFailing, call)
            self.assertIn('503: it hangs.', str(error))
        waiting.wait_for(
            lambda: self.client.get_status()['status'] == 'OFFLINE',
            'sign of it in the status')
        for method in ('check', 'apply', 'remove'):
            self.distributor.fail(method, None)
        self.distributor.wait_until_forwarded(IDS[0])
        self.distributor.wait_until_ready(TIMEOUT)

    def test_file_that_cannot_be_read(self):
        for vip_id in IDS[:2]:
            self.put(vip_id=vip_id)
        self.distributor.kill_tree()
        path = os.path.join(self.distributor.state_path, f'{IDS[0]}.json')
        with open(path, 'r+') as file:
            file.truncate(100)
        self.restart()
        self.assertEqual([IDS[0]], self.client.get_status()['unknown'])
        self.assertTrue(os.path.exists(f'{path}.corrupt'))
        self.assertEqual(IDS[:2], self.distributor.list_forwarded())
        self.assertTrue(self.put())
        self.assertEqual([], self.client.get_status()['unknown'])

    def test_certificates_that_are_renewed(self):
        path = self.certificates.server_path(HOST)
        with open(path) as file:
            good = file.read()
        before = self.get_certificate()
        with open(path, 'w') as file:
            file.write('nonsense')
        self.distributor.reload_certificates()
        waiting.wait_for(
            lambda: 'certificates of before stay' in self.distributor.log(),
            'sign of it in the log')
        self.assertEqual(before, self.get_certificate())
        with open(path, 'w') as file:
            file.write(good)
        os.unlink(path)
        self.certificates.server_path(HOST)
        self.distributor.reload_certificates()
        waiting.wait_for(lambda: self.get_certificate() != before,
                         'sign of the new certificate')
        self.put()
        # It is the same worker.
        self.assertEqual(1, self.distributor.log().count('Booting worker'))

    def get_certificate(self):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        context.load_cert_chain(self.certificates.client_path)
        with socket.create_connection(
                (HOST, self.distributor.port), 10) as sock, \
                context.wrap_socket(sock) as secure:
            return secure.getpeercert(binary_form=True)

    def test_second_process(self):
        """Two on one directory would fight: it says so and ends."""
        done = subprocess.run(
            self.distributor.command, env=self.distributor.env,
            capture_output=True, text=True, timeout=TIMEOUT)
        self.assertEqual(2, done.returncode)
        self.assertIn('Another process has', done.stderr)
        self.assertEqual(1, done.stderr.count('\n'))

    def test_signals_that_would_start_another_worker(self):
        for number in (signal.SIGTTIN, signal.SIGUSR2):
            self.distributor.signal(number)
        waiting.wait_for(
            lambda: self.distributor.log().count('There is one worker') == 2,
            'sign of both in the log')
        self.assertEqual(1, len(psutil.Process(
            self.distributor.pid).children()))
        self.put()


class TestClients(DistributorTestCase):

    def test_names(self):
        made = self.make_distributor(allowed_clients='client, controller2')
        self.assertEqual([], self.make_client(made).list_vips())
        other = self.make_client(
            made, self.certificates.issue_client('amphora1'))
        error = self.assertRaises(exceptions.DistributorUntrusted,
                                  other.list_vips)
        self.assertIn("'amphora1'", str(error))
        self.assertIn("'amphora1', which is not in", made.log())

    def test_authorities(self):
        made = self.make_distributor()
        others = self.useFixture(certificates.Certificates(
            os.path.join(self.directory, 'others')))
        for path in (others.client_path,
                     # Of an amphora: those are issued by another authority.
                     self.certificates.server_path(examples.make_id(1))):
            error = self.assertRaises(
                exceptions.DistributorUntrusted,
                self.make_client(made, path).list_vips)
            self.assertIn('does not take the certificate', str(error))
        waiting.wait_for(lambda: made.log().count('was not let in') == 2,
                         'sign of both in the log')
        self.assertNotIn('Traceback', made.log())

    def test_some_that_hang(self):
        """More than there are threads: others are served all the same."""
        made = self.make_distributor(threads=4, request_timeout=1)
        asked = self.make_client(made)
        hanging = []
        self.addCleanup(lambda: [sock.close() for sock in hanging])
        for sent in (b'', b'\x16', b'GET / HTTP/1.1\r\n'):
            for _ in range(6):
                sock = socket.create_connection((HOST, made.port), 10)
                sock.sendall(sent)
                hanging.append(sock)
        context = client.create_context(
            self.certificates.server_authority.certificate_path,
            self.certificates.client_path)
        for sent in (b'', b'GET /v1/vi', b'PUT /v1/vips/' +
                     IDS[0].encode() + b' HTTP/1.1\r\nContent-Length: 9\r\n'
                     b'Content-Type: application/json\r\n\r\n{'):
            for _ in range(3):
                # A busy machine may be too late for some of them.
                with contextlib.suppress(OSError):
                    sock = context.wrap_socket(
                        socket.create_connection((HOST, made.port), 60),
                        server_hostname=HOST)
                    hanging.append(sock)
                    sock.sendall(sent)
        self.assertEqual([], asked.list_vips())
        self.assertNotIn('Traceback', made.log())

    def test_ipv6(self):
        made = self.make_distributor('::1')
        self.assertTrue(made.url.startswith('https://[::1]:'))
        self.assertEqual([], self.make_client(made).list_vips())

    def test_nothing_else_speaks_to_it(self):
        made = self.make_distributor()
        with socket.create_connection((HOST, made.port), 10) as sock:
            sock.sendall(b'GET / HTTP/1.1\r\n\r\n')
            sock.settimeout(TIMEOUT)
            self.assertNotIn(b'HTTP', sock.recv(1000))
        self.make_client(made).get_status()


class TestStart(DistributorTestCase):
    """What it cannot begin with is said in one line."""

    def run_with(self, **options):
        made = distributor.Distributor(
            f'n{len(os.listdir(self.directory))}', HOST, network.free_port(),
            self.certificates, self.directory, self.directory,
            options=options)
        os.makedirs(made.directory)
        made.write_conf()
        return self.run_command(made.command[0], '--config-file',
                                made.conf_path, env=made.env)

    def run_command(self, *command, env=None):
        done = subprocess.run(command, env=env, capture_output=True,
                              text=True, timeout=TIMEOUT)
        self.assertEqual(2, done.returncode, done)
        self.assertEqual(1, done.stderr.count('\n'), done.stderr)
        return done.stderr

    def test_options(self):
        empty = os.path.join(self.directory, 'empty')
        with open(empty, 'w'):
            pass
        for options, words in (
                ({'server_cert': None}, 'server_cert is not set'),
                ({'client_ca': None}, 'client_ca is not set'),
                ({'server_cert': '/nowhere'}, 'server_cert = /nowhere'),
                ({'server_cert': empty}, 'server_cert = '),
                ({'client_ca': empty}, 'client_ca = '),
                ({'server_key': self.certificates.client_authority.key_path},
                 'server_cert = '),
                ({'bind_port': 'x'}, 'bind_port'),
                ({'threads': 1}, 'threads'),
                ({'datapath_type': 'x'}, 'datapath_type'),
                ({'backend': 'nothing'}, 'backend = nothing is none of'),
                ({'state_path': f'{empty}/state'}, 'state_path = ')):
            with self.subTest(words):
                error = self.run_with(**options)
                self.assertIn(words, error)
                self.assertTrue(
                    error.startswith('octavia-hmsync-distributor: '), error)

    def test_no_file(self):
        if os.path.exists('/etc/octavia-hmsync'):
            self.skipTest('this machine has one')
        program = process.program('octavia-hmsync-distributor')
        self.assertIn('There is no /etc/octavia-hmsync/distributor.conf',
                      self.run_command(program))
        self.assertIn('/nowhere', self.run_command(
            program, '--config-file', '/nowhere'))
