# SPDX-License-Identifier: Apache-2.0

"""The test cloud itself, on Octavia without the plugin."""

import http.client
import os
import pathlib
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time

import fixtures
from octavia.amphorae.backends.health_daemon import status_message
from oslo_utils import uuidutils
from oslotest import base
import psutil

from tests.cloud import ailing
from tests.cloud import certificates
from tests.cloud import cloud
from tests.cloud import database
from tests.cloud import forkserver
from tests.cloud import mariadb
from tests.cloud import network
from tests.cloud import octavia_conf
from tests.cloud import process
from tests.cloud import sniffer
from tests.cloud import waiting

# A process that has a child in its own group.
FAMILY = [sys.executable, '-c',
          'import os, time; os.fork(); time.sleep(600)']
TOP = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))


def upload(certs, amphora_id, address, body=b'[DEFAULT]\n', timeout=60):
    """PUT an agent configuration as a controller does; returns the status."""
    context = ssl.create_default_context(
        cafile=certs.server_authority.certificate_path)
    context.load_cert_chain(certs.client_path)
    with socket.create_connection((address, 9443), timeout) as sock:
        with context.wrap_socket(sock, server_hostname=amphora_id) as tls:
            connection = http.client.HTTPConnection(address)
            connection.sock = tls
            connection.request('PUT', '/1.0/config', body)
            response = connection.getresponse()
            response.read()
            return response.status


class TestCloud(base.BaseTestCase):

    def test_failovers_begin_when_all_health_managers_move(self):
        a_cloud = self.useFixture(cloud.Cloud(
            amphorae=3, hmsync=False,
            options={'health_manager': {'heartbeat_timeout': 20}},
            controller_ip_port_list=lambda a_cloud: [
                f'{a_cloud.address(n)}:5555' for n in (1, 2)]))
        old = [a_cloud.add_health_manager(a_cloud.address(n))
               for n in (1, 2)]
        addresses = [health_manager.address for health_manager in old]
        a_cloud.wait_until_ready()

        a_cloud.wait_until_known(addresses)
        topologies = {row['topology']
                      for row in a_cloud.records.rows('load_balancer')}
        self.assertEqual({'SINGLE', 'ACTIVE_STANDBY'}, topologies)
        for amphora in a_cloud.amphorae.values():
            self.assertEqual(addresses, amphora.configured_list())
            self.assertEqual(set(addresses), a_cloud.sniffer.destinations(
                amphora.amphora_id))

        # One that listens is enough, so long as the others are few.
        old[0].kill_tree()
        new = a_cloud.add_health_manager(a_cloud.address(3))
        new.wait_until_ready()
        since = time.time()
        a_cloud.wait_until_known([old[1].address], since=since)
        self.assertEqual(set(), a_cloud.failovers_begun())

        # An upload by hand saves one amphora from the loss of the last.
        saved = next(iter(a_cloud.amphorae.values()))
        with open(saved.conf_path) as conf:
            body = conf.read().replace(old[0].address, new.address)
        self.assertEqual(202, upload(
            a_cloud.certificates, saved.amphora_id, saved.lb_network_ip,
            body.encode()))
        self.assertEqual([new.address, old[1].address],
                         saved.configured_list())
        a_cloud.sniffer.wait_until_heard({saved.amphora_id}, {new.address})
        old[1].kill_tree()
        doomed = a_cloud.amphora_ids - {saved.amphora_id}
        waiting.wait_for(lambda: a_cloud.failovers_begun() == doomed,
                         lambda: f'failover of {doomed} alone, but of '
                         f'{a_cloud.failovers_begun()}',
                         processes=[new])
        waiting.wait_for(
            lambda: a_cloud.records.health_ages()[saved.amphora_id] < 5,
            'news of the one that was saved', processes=[new])
        self.assertEqual(doomed, a_cloud.failovers_begun())


class TestListeners(base.BaseTestCase):

    def test_a_health_manager_takes_the_statistics_of_listeners(self):
        a_cloud = self.useFixture(cloud.Cloud(
            amphorae=3, listeners=True, hmsync=False,
            make_database=database.MariaDBDatabase,
            controller_ip_port_list=lambda a_cloud: [
                f'{a_cloud.address(1)}:5555']))
        health_manager = a_cloud.add_health_manager(a_cloud.address(1))
        a_cloud.wait_until_ready()
        a_cloud.wait_until_known([health_manager.address])

        expected = {(amphora.amphora_id, amphora.haproxy.listener_id)
                    for amphora in a_cloud.amphorae.values()}
        # Two amphorae are of one load balancer.
        listeners = a_cloud.records.rows('listener')
        self.assertEqual({row['id'] for row in listeners},
                         {listener_id for _, listener_id in expected})
        self.assertEqual(2, len(listeners))

        def heard():
            return {(beat.amphora_id, listener_id)
                    for beat in a_cloud.sniffer.heartbeats()
                    for listener_id in beat.listeners}
        waiting.wait_for(lambda: heard() == expected,
                         lambda: f'heartbeats of {expected}: {heard()}')

        beats = a_cloud.sniffer.heartbeats()
        self.assertEqual(
            {'OPEN'}, {listener['status'] for beat in beats
                       for listener in beat.listeners.values()})

        # What a client does arrives in the database.
        for amphora in a_cloud.amphorae.values():
            client = http.client.HTTPConnection(
                amphora.lb_network_ip, cloud.LISTENER_PORT, timeout=60)
            client.request('GET', '/')
            self.assertEqual(503, client.getresponse().status)
            client.close()
        waiting.wait_for(
            lambda: {(row['amphora_id'], row['listener_id']) for row in
                     a_cloud.records.rows('listener_statistics')
                     if row['total_connections']} == expected,
            'statistics of each listener', processes=[health_manager])
        for table in ('listener', 'load_balancer'):
            self.assertEqual(
                {'ONLINE'}, {row['operating_status']
                             for row in a_cloud.records.rows(table)})


class TestOldImage(base.BaseTestCase):

    def test_uses_a_new_list_from_its_next_start_on(self):
        a_cloud = self.useFixture(cloud.Cloud(hmsync=False))
        before, after = (f'{a_cloud.address(n)}:5555' for n in (1, 2))
        normal = a_cloud.add_load_balancer([before])[0]
        old = a_cloud.add_load_balancer([before], old_image=True)[0]
        a_cloud.wait_until_ready()
        a_cloud.sniffer.wait_until_heard(a_cloud.amphora_ids, {before})

        for amphora in (normal, old):
            with open(amphora.conf_path) as conf:
                body = conf.read().replace(before, after)
            self.assertEqual(202, upload(
                a_cloud.certificates, amphora.amphora_id,
                amphora.lb_network_ip, body.encode()))
            self.assertEqual([after], amphora.configured_list())
        moved = a_cloud.sniffer.wait_until_heard({normal.amphora_id}, {after})

        def beats_of_old():
            return [beat for beat in a_cloud.sniffer.heartbeats(moved)
                    if beat.amphora_id == old.amphora_id]

        waiting.wait_for(lambda: len(beats_of_old()) >= 3, 'heartbeats')
        self.assertEqual({before}, a_cloud.sniffer.destinations(
            old.amphora_id))
        old.stop()
        since = time.time()
        old.start()
        a_cloud.sniffer.wait_until_heard({old.amphora_id}, {after}, since,
                                         processes=[old])
        self.assertEqual({after}, a_cloud.sniffer.destinations(
            old.amphora_id, since))


class TestSniffer(base.BaseTestCase):

    def test_records_heartbeats_of_its_key_only(self):
        net = self.useFixture(network.LoopbackNetwork())
        # At ::1 a neighbour may be at the same test.
        own = f'key of {net.prefix}'
        seen = self.useFixture(sniffer.Sniffer(own, net.cidr))
        since = time.time()

        def send(family, host, key, amphora_id):
            with socket.socket(family, socket.SOCK_DGRAM) as sock:
                sock.sendto(status_message.wrap_envelope(
                    {'id': amphora_id}, key), (host, 5555))

        send(socket.AF_INET, net.address(1), 'other', 'amphora-0')
        send(socket.AF_INET, net.address(1), own, 'amphora-1')
        send(socket.AF_INET, net.address(2), own, 'amphora-2')
        expected = [('amphora-1', f'{net.address(1)}:5555'),
                    ('amphora-2', f'{net.address(2)}:5555')]
        if os.path.exists('/proc/net/if_inet6'):
            send(socket.AF_INET6, '::1', own, 'amphora-2')
            expected.append(('amphora-2', '[::1]:5555'))
        waiting.wait_for(lambda: len(seen.heartbeats()) >= len(expected),
                         'heartbeats')

        self.assertEqual(expected, [beat[1:] for beat in seen.heartbeats()])
        self.assertIsNotNone(seen.heard('amphora-1', expected[0][1], since))
        self.assertIsNone(seen.heard('amphora-1', expected[1][1], since))
        self.assertEqual([], seen.heartbeats(time.time() + 1))
        self.assertRaises(waiting.WaitTimeout, seen.wait_until_heard,
                          {'amphora-1'}, {expected[1][1]}, timeout=0.2)

    def test_says_when_it_came(self):
        """Not when its thread had the time to look at it."""
        net = self.useFixture(network.LoopbackNetwork())
        key = f'key of {net.prefix}'
        seen = self.useFixture(sniffer.Sniffer(key, net.cidr))
        decode = seen._decode
        may_go_on = threading.Event()

        def decode_late(*args):
            # All datagrams of the machine come here.
            waiting.happens(may_go_on)
            return decode(*args)
        self.patch(seen, '_decode', decode_late)
        self.addCleanup(may_go_on.set)

        def is_seen_in_time():
            sent = f'amphora-{uuidutils.generate_uuid()}'
            may_go_on.clear()
            began = time.time()
            # The thread is held up at the first one at the latest.
            for _ in range(2):
                with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
                    sock.sendto(status_message.wrap_envelope(
                        {'id': sent}, key), (net.address(1), 5555))
            ended = time.time()
            may_go_on.set()

            def heard():
                return [beat.time for beat in seen.heartbeats()
                        if beat.amphora_id == sent]
            waiting.wait_for(lambda: len(heard()) == 2, 'heartbeats')
            return all(began <= at <= ended for at in heard())

        # The kernel begins to note times a moment after it was asked to; until
        # then it tells when a packet was read.
        waiting.wait_for(is_seen_in_time, 'heartbeats with their time')


class TestPorts(base.BaseTestCase):

    def test_no_two_processes_get_the_same(self):
        """Also while nobody listens there yet, or does for the moment."""
        command = [sys.executable, '-c', (
            'from tests.cloud import network\n'
            'print(*(network.free_port() for _ in range(300)), flush=True)\n'
            'import sys; sys.stdin.read()')]
        ports = []
        for _ in range(2):
            child = subprocess.Popen(command, cwd=TOP, text=True,
                                     stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE)
            self.addCleanup(child.wait)
            self.addCleanup(child.stdout.close)
            self.addCleanup(child.stdin.close)
            ports += child.stdout.readline().split()
        self.assertEqual(600, len(set(ports)))


class TestProcess(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.directory = self.useFixture(fixtures.TempDir()).path

    def _family(self, script=FAMILY[-1]):
        child = self.useFixture(process.ChildProcess(
            'family', [*FAMILY[:-1], script], self.directory))
        waiting.wait_for(child.descendants, 'child of the child')
        return child

    def test_orphans_of_a_process_killed_hard(self):
        child = self._family()
        orphans = child.descendants()
        child.kill()
        self.assertFalse(child.running)
        self.assertEqual(orphans, child.members())
        self.assertRaises(RuntimeError, child.start)
        child.kill_tree()
        self.assertFalse(psutil.pid_exists(orphans[0]))
        child.start()
        self.assertTrue(child.running)

    def test_orphans_in_a_process_namespace(self):
        """The first process of one ends when all in it are reaped."""
        child = self.useFixture(process.ChildProcess(
            'namespace', ['unshare', '--pid', '--fork', '--kill-child',
                          'sleep', '600'], self.directory))

        def get_child(pid):
            with open(f'/proc/{pid}/task/{pid}/children') as children:
                return children.read().split()

        first, = waiting.wait_for(lambda: get_child(child.pid), 'namespace')
        entered = subprocess.Popen(['nsenter', f'--target={first}', '--pid',
                                    'sleep', '600'])
        waiting.wait_for(lambda: get_child(entered.pid), 'process in it')
        entered.kill()
        entered.wait()
        child.kill_tree()
        self.assertEqual([], child.members())

    def test_interrupted_start(self):
        """Nobody would end a process that nobody knows."""
        popen = subprocess.Popen
        handler = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, handler)

        def interrupt(command, **kwargs):
            started = popen(command, **kwargs)
            if command[0] == 'sleep':
                os.kill(os.getpid(), signal.SIGINT)
                # The main thread has the time to be interrupted.
                time.sleep(0.5)
            return started

        child = process.ChildProcess('sleep', ['sleep', '600'],
                                     self.directory)
        self.addCleanup(child.kill_tree)
        with fixtures.MonkeyPatch('subprocess.Popen', interrupt):
            self.assertRaises(KeyboardInterrupt, child.start)
            waiting.wait_for(child.members, 'the process')

    def test_stop_takes_paused_children_along(self):
        child = self._family()
        members = child.members()
        child.pause()
        # The child of the child does not end by itself.
        self.assertFalse(child.stop(timeout=2))
        self.assertFalse(any(psutil.pid_exists(pid) for pid in members))

    def test_stop_waits_for_children(self):
        """They may end by themselves, a little later than their parent."""
        child = self._family(
            'import os, time\n'
            'parent = os.getpid()\n'
            'if not os.fork():\n'
            '    while os.getppid() == parent:\n'
            '        time.sleep(0.1)\n'
            '    time.sleep(1)\n'
            'else:\n'
            '    time.sleep(600)\n')
        self.assertTrue(child.stop())

    def test_a_killed_harness_leaves_nothing_behind(self):
        script = ('from tests.cloud import process\n'
                  'import time\n'
                  'child = process.ChildProcess("family", '
                  f'{FAMILY!r}, {self.directory!r})\n'
                  'child.setUp()\n'
                  'while not child.descendants():\n'
                  '    time.sleep(0.1)\n'
                  'print(*child.members(), flush=True)\n'
                  'time.sleep(600)\n')
        harness = subprocess.Popen([sys.executable, '-c', script], cwd=TOP,
                                   stdout=subprocess.PIPE)
        self.addCleanup(harness.stdout.close)
        pids = [int(pid) for pid in harness.stdout.readline().split()]
        self.assertEqual(2, len(pids))
        harness.send_signal(signal.SIGKILL)
        harness.wait()
        waiting.wait_for(
            lambda: not any(self._lives(pid) for pid in pids),
            f'end of {pids}')

    @staticmethod
    def _lives(pid):
        try:
            return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False


class TestForkServer(base.BaseTestCase):

    def start(self, command, **variables):
        child = process.ChildProcess(
            'worker', command, self.directory, cwd=self.directory,
            env=process.environment(self.directory, **variables))
        return self.useFixture(child)

    def get_end(self, child):
        """Return the status of one that refuses its file, and its log."""
        waiting.wait_for(lambda: not child.running, 'end')
        return child._popen.returncode, child.log().splitlines()[-1]

    def test_same_as_a_program(self):
        self.directory = self.useFixture(fixtures.TempDir()).path
        command = [process.program('octavia-worker'), '--config-file',
                   os.path.join(self.directory, 'none.conf')]
        forked = self.start(command)
        self.assertIsInstance(forked._popen, forkserver.Child)
        real = self.start(command, PYTHONPATH=os.pathsep.join([
            self.directory, forked.env['PYTHONPATH']]))
        self.assertNotIsInstance(real._popen, forkserver.Child)
        status, last = self.get_end(forked)
        self.assertNotEqual(0, status)
        self.assertIn('none.conf', last)
        self.assertEqual((status, last), self.get_end(real))

    def test_child(self):
        """It has a session, a title and an end of its own."""
        self.directory = self.useFixture(fixtures.TempDir()).path
        path = os.path.join(self.directory, 'octavia.conf')
        octavia_conf.write(path, {
            'DEFAULT': {'transport_url': 'fake:/'},
            'database': {'connection': 'sqlite://', 'pool_timeout': ''}})
        child = self.start([process.program('octavia-housekeeping'),
                            '--config-file', path])
        waiting.wait_for(lambda: 'Starting house keeping' in child.log(),
                         'start', processes=[child])
        there = psutil.Process(child.pid)
        self.assertEqual(os.getpid(), there.ppid())
        self.assertEqual(child.pid, os.getsid(child.pid))
        self.assertEqual(self.directory, there.cwd())
        self.assertEqual(child.command, there.cmdline()[1:])
        child.kill()
        self.assertEqual(-signal.SIGKILL, child._popen.returncode)
        child.stop()
        child.start()
        self.assertTrue(child.running)


class TestAilingAmphora(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.address = self.useFixture(network.LoopbackNetwork()).address(9)
        self.certificates = self.useFixture(certificates.Certificates(
            self.useFixture(fixtures.TempDir()).path))

    def _upload(self, ailment, timeout=60, **kwargs):
        with ailing.AilingAmphora('amphora-1', self.address,
                                  self.certificates, ailment,
                                  **kwargs) as self.amphora:
            return upload(self.certificates, 'amphora-1', self.address,
                          body=b'x' * 4000, timeout=timeout)

    def test_answers(self):
        for ailment, status in ((ailing.HEALTHY, 202),
                                (ailing.NOT_FOUND, 404),
                                (ailing.SERVER_ERROR, 500)):
            self.assertEqual(status, self._upload(ailment), ailment)
            self.assertEqual(1, self.amphora.uploads)
        self.assertEqual(202, self._upload(ailing.SLOW, delay=0.5))

    def test_no_answer_in_time(self):
        for ailment in (ailing.SILENT, ailing.BLACK_HOLE, ailing.HANGS,
                        ailing.HANGS_IN_ANSWER, ailing.SLOW):
            self.assertRaises(TimeoutError, self._upload, ailment, 1)

    def test_resets(self):
        self.assertRaises(ConnectionRefusedError, self._upload,
                          ailing.REFUSES)
        self.assertRaises(OSError, self._upload, ailing.RESETS)
        self.assertEqual(0, self.amphora.uploads)
        self.assertRaises((OSError, http.client.IncompleteRead),
                          self._upload, ailing.RESETS_IN_ANSWER)
        self.assertEqual(1, self.amphora.uploads)

    def test_impostor(self):
        error = self.assertRaises(ssl.SSLCertVerificationError,
                                  self._upload, ailing.IMPOSTOR)
        self.assertIn('Hostname mismatch', str(error))


class TestDatabase(base.BaseTestCase):

    def _check(self, a_database):
        records = a_database.records
        load_balancer = records.add_load_balancer('ACTIVE_STANDBY',
                                                  records.add_flavor())
        ids = [records.add_amphora(f'192.0.2.{number}', load_balancer, role)
               for number, role in ((1, 'MASTER'), (2, 'BACKUP'))]
        records.set_health(ids[0], age=60)
        records.set_health(ids[1])
        self.assertIn(round(records.health_ages()[ids[0]]), range(59, 120))
        self.assertEqual(set(), records.failovers_begun(ids))
        records.set_health(ids[0], age=60, busy=True)
        self.assertEqual({ids[0]}, records.failovers_begun(ids))
        records.set_status(ids[1], 'FAILOVER_STOPPED')
        self.assertEqual(set(ids), records.failovers_begun(ids))

    def test_sqlite(self):
        directory = self.useFixture(fixtures.TempDir()).path
        self._check(self.useFixture(database.SqliteDatabase(directory)))

    def test_mariadb(self):
        first = self.useFixture(database.MariaDBDatabase())
        second = self.useFixture(database.MariaDBDatabase())
        self._check(first)
        self.assertEqual([], second.records.rows('amphora'))
        server = first.server
        self.assertTrue(server.stop())
        self.assertFalse(server.is_ready())
        server.start()
        server.wait_until_ready()
        self.assertEqual(2, len(first.records.rows('amphora')))

    def test_mariadb_has_temporary_tables_of_its_own(self):
        """A server that starts deletes what it finds in its tmpdir."""
        server = mariadb.shared_server()
        with server.connect('mysql') as connection:
            cursor = connection.cursor()
            cursor.execute('SELECT @@tmpdir, @@datadir')
            temporary, data = map(pathlib.Path, cursor.fetchone())
        self.assertEqual(data.parent, temporary.parent)
