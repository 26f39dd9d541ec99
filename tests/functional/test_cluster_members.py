# SPDX-License-Identifier: Apache-2.0

"""What members of a cluster are told, and tell each other: real ones.

The client stands for a distributor: it decides which member it uses.
"""

import os
import re
import sys
import threading
import time

import fixtures
from octavia.certificates.common import local
from octavia.certificates.manager import noop
from octavia.common import data_models
from oslo_config import fixture as config_fixture

from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster.distribution.ovs import distributors
from octavia_hmsync.cluster.members import newcomer
from octavia_hmsync.cluster.members import ticket_rotation
from octavia_hmsync.cluster.members import update
from octavia_hmsync.cluster import work
from octavia_hmsync import compat
from octavia_hmsync import exceptions
from tests.cloud import certificates
from tests.cloud.compute import fabric
from tests.cloud import members
from tests.cloud import process
from tests.cloud import records
from tests.cloud import waiting
from tests.db_cases import base
from tests.unit.cluster import clusters
from tests.unit.db import sqlite

VIP = '198.51.100.5'
BACKENDS = ('198.51.100.71', '198.51.100.72')
# From so many addresses; by chance all find their server again once in 1024.
CLIENTS = [f'198.51.100.{number}' for number in range(81, 91)]
# Of the flags that haproxy has for peers: it learnt from its former process,
# and from others, or gave that up.
_RESYNC_DONE = 0x3
_SERVER = """
import http.server, sys

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(sys.argv[1].encode())

    def log_message(self, *args):
        pass

http.server.ThreadingHTTPServer(('', 80), Handler).serve_forever()
"""


class MembersTestCase(sqlite.SqliteMixin, base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.directory = self.useFixture(fixtures.TempDir()).path
        self.certificates = self.useFixture(certificates.Certificates(
            os.path.join(self.directory, 'certs')))
        self.fabric = self.useFixture(fabric.Fabric(self.directory))
        self.controller = self.fabric.add_host(
            'controller', 'management', 'fa:16:3e:00:01:ff',
            members.CONTROLLER)
        self.client = self.fabric.add_host(
            'client', 'tenant', 'fa:16:3e:00:02:01',
            *(f'{address}/24' for address in CLIENTS))
        for number, address in enumerate(BACKENDS):
            host = self.fabric.add_host(
                f'backend{number}', 'tenant', f'fa:16:3e:00:03:{number:02}',
                f'{address}/24')
            self.useFixture(process.ChildProcess(
                f'http{number}', host.wrap(
                    [sys.executable, '-ISc', _SERVER, address]),
                self.directory))
        self.useFixture(config_fixture.Config(compat.CONF)).config(
            group='certificates', cert_manager='noop_cert_manager')
        for group, options in (
                ('hmsync_cluster', {'update_timeout': 60}),
                ('haproxy_amphora', {
                    'bind_port': members.PORT,
                    'client_cert': self.certificates.client_path,
                    'server_ca':
                        self.certificates.server_authority
                        .certificate_path})):
            for name, value in options.items():
                self.conf.set_override(name, value, group=group)
        self.applied = []
        self.useFixture(fixtures.MockPatchObject(
            distributors.Distributors, 'apply', autospec=True,
            side_effect=lambda _self, cluster_id:
            self.applied.append(cluster_id)))
        self.lb = clusters.make_load_balancer()
        self.lb.vip.ip_address = VIP
        self.cluster_id = records.new_id()
        cluster_repo.add(self.engine, cluster_repo.New(
            self.cluster_id, self.lb.id, 'web', 2, 1, 'hmsync_ovs'))
        self.members = []

    def add_members(self, count, slots=0):
        """Boot members at once; those with a slot get it later."""
        found = []
        for _ in range(count):
            number = len(self.members) + 1
            member = self.useFixture(members.Member(
                number, records.new_id(), self.fabric, self.controller,
                self.certificates, self.conf, self.directory))
            self.members.append(member)
            found.append(member)
            clusters.add_amphora(self.lb, member.amphora_id,
                                 member.lb_network_ip, member.vrrp_ip)
            member.row = member_repo.add(
                self.engine, self.cluster_id, f'member{number}', slots)
            member_repo.assign_amphora(self.engine, member.row.id,
                                       member.amphora_id)
        for member in found:
            member.plug_vip(VIP)
        return found

    def configure(self, member, slot):
        amphora = next(amphora for amphora in self.lb.amphorae
                       if amphora.id == member.amphora_id)
        self.controller.call(
            newcomer.Newcomer(self.conf, self.engine).configure, self.lb,
            amphora, slot, members.Network())

    def use(self, member):
        """Send what is for the VIP to a member from now on."""
        self.client.run('ip', 'neighbour', 'replace', VIP, 'lladdr',
                        member.mac, 'nud', 'permanent', 'dev', 'eth0')

    def get(self, address, port=80, path=''):
        return self.client.run(
            'curl', '-sS', '--max-time', '30', '--interface', address,
            f'http://{VIP}:{port}/{path}', check=False).stdout

    def map_clients(self):
        """Return which backend each client gets."""
        return {address: self.get(address) for address in CLIENTS}

    def read_configuration(self, member):
        return member.instance.run_inside(
            'cat', f'/var/lib/octavia/{self.lb.id}/haproxy.cfg').stdout

    def start_asking(self):
        """Ask the member in use again and again."""
        self.asked, self.failed = [], []
        self.ends = threading.Event()

        def ask():
            while not self.ends.is_set():
                answer = self.get(CLIENTS[0])
                self.asked.append(answer)
                if answer not in BACKENDS:
                    self.failed.append(answer)

        self.asking = threading.Thread(target=ask)
        self.asking.start()
        self.addCleanup(self.stop_asking)

    def stop_asking(self):
        """Return what was answered, and what is not right of it."""
        self.ends.set()
        self.asking.join()
        return self.asked, self.failed


class TestMembers(MembersTestCase):

    def count_known(self, member):
        """How many clients the tables of a member know."""
        table = f'pool-of-{self.listener.id}:{self.listener.id}'
        # More than that the socket tells nobody.
        return int(re.search(r'used:(\d+)', self.ask_haproxy(
            member, f'show table {table}'))[1])

    def ask_haproxy(self, member, command):
        return member.instance.run_inside(
            sys.executable, '-ISc',
            'import socket, sys\n'
            's = socket.socket(socket.AF_UNIX)\n'
            's.connect(sys.argv[1])\n'
            's.sendall(sys.argv[2].encode())\n'
            'print(s.makefile().read())',
            f'/var/lib/octavia/{self.lb.id}.sock', f'{command}\n').stdout

    def wait_until_settled(self, member):
        """Wait until a haproxy that began asks nobody any more.

        Where nobody knew anything that takes ten seconds; until then one that
        is reloaded does not tell the next process what it knows.
        """
        def is_settled():
            flags = re.search(r' flags=0x([0-9a-f]+)',
                              self.ask_haproxy(member, 'show peers'))[1]
            return int(flags, 16) & _RESYNC_DONE == _RESYNC_DONE

        waiting.wait_for(is_settled, 'haproxy that asks nobody',
                         processes=[member.instance])

    def wait_until_known(self, member):
        waiting.wait_for(
            lambda: self.count_known(member) == len(CLIENTS),
            lambda: f'all clients in the tables: {self.count_known(member)}',
            processes=[member.instance])

    def serve(self):
        """Have two members serve, which know all clients by then.

        :returns: these, and which backend each client has.
        """
        self.listener = clusters.add_listener(
            self.lb, records.new_id(), persistence='SOURCE_IP',
            backends=BACKENDS, connection_limit=1000)
        first, second = self.add_members(2, slots=2)
        for member in (first, second):
            self.configure(member, member.row.slot)
            member_repo.set_state(self.engine, member.row.id, ('BUILDING',),
                                  'ACTIVE')
        self.use(first)
        waiting.wait_for(lambda: self.get(CLIENTS[0]) in BACKENDS,
                         'answer at the VIP',
                         processes=[first.instance])
        before = self.map_clients()
        self.assertEqual({*BACKENDS}, {*before.values()})
        self.wait_until_known(second)
        self.wait_until_settled(second)
        return first, second, before

    def test_change_that_haproxy_does_not_take(self):
        """Octavia's API does; members and clients stay as they were."""
        first, second, before = self.serve()
        texts = [self.read_configuration(member) for member in (first, second)]
        updater = update.Updater(self.conf, self.engine)
        self.start_asking()
        # Python knows this flag, and PCRE does not: it fails "haproxy -c".
        self.add_rule('(?u)x')
        e = self.assertRaises(exceptions.ClusterNotUpdated,
                              self.controller.call, updater.update, self.lb)
        for words in (f'amphora {first.amphora_id}: its agent answered 400',
                      f'amphora {second.amphora_id}: its agent answered 400',
                      # What haproxy said of it, after two lines of notices.
                      "regex '(?u)x' is invalid", 'the other members have '
                      'what they had'):
            self.assertIn(words, str(e))
        self.assertEqual(texts, [self.read_configuration(member)
                                 for member in (first, second)])
        self.assertEqual(['ACTIVE'] * 2, [
            row.state for row in member_repo.get_of_cluster(
                self.engine, self.cluster_id)])

        self.listener.l7policies.clear()
        self.add_rule('^/x$')
        self.controller.call(updater.update, self.lb)
        asked, failed = self.stop_asking()
        self.assertTrue(asked)
        self.assertEqual([], failed)
        self.assertEqual(before, self.map_clients())
        for member in (first, second):
            self.use(member)
            self.assertIn('403 Forbidden', self.get(CLIENTS[0], path='x'))

    def add_rule(self, regex):
        """Have the listener reject paths that match."""
        policy = data_models.L7Policy(
            id=records.new_id(), action='REJECT', enabled=True, position=1,
            listener=self.listener, listener_id=self.listener.id)
        policy.l7rules.append(data_models.L7Rule(
            id=records.new_id(), l7policy=policy, type='PATH', enabled=True,
            compare_type='REGEX', value=regex,
            provisioning_status='PENDING_CREATE'))
        self.listener.l7policies.append(policy)

    def test_standby(self):
        """One that stood by knows nobody before it was configured."""
        third, = self.add_members(1)
        first, second, before = self.serve()
        self.configure(third, None)
        member_repo.set_state(self.engine, third.row.id, ('BUILDING',),
                              'STANDBY')
        cluster_repo.set_affinity(self.engine, self.cluster_id, 'SOURCE_IP')
        self.wait_until_settled(third)
        first.instance.kill_tree()
        self.assertTrue(member_repo.take_over_slot(
            self.engine, third.row.id, first.row.id, old_state='FAILED',
            config_digest=member_repo.ALONE))
        self.assertEqual(0, self.count_known(third))
        self.configure(third, first.row.slot)
        self.wait_until_known(third)
        self.assertTrue(member_repo.get(self.engine,
                                        third.row.id).is_configured)
        second.instance.kill_tree()
        self.use(third)
        self.assertEqual(before, self.map_clients())

    def test_stick_tables(self):
        first, second, before = self.serve()
        # It dies with all that it knew.
        first.instance.kill_tree()
        self.use(second)
        self.assertEqual(before, self.map_clients())

        # Another one takes its place, and its neighbour tells it.
        third, = self.add_members(1)
        self.configure(third, first.row.slot)
        self.assertTrue(member_repo.take_over_slot(
            self.engine, third.row.id, first.row.id))
        self.wait_until_known(third)
        second.instance.kill_tree()
        self.use(third)
        self.assertEqual(before, self.map_clients())

        # Of three that are to take a change one is left.
        listener = clusters.add_listener(
            self.lb, records.new_id(), backends=BACKENDS,
            connection_limit=1000)
        self.conf.set_override('update_timeout', 40, group='hmsync_cluster')
        self.controller.call(update.Updater(self.conf, self.engine).update,
                             self.lb)
        rows = {row.id: row for row in
                member_repo.get_of_cluster(self.engine, self.cluster_id)}
        self.assertEqual(['DRAINING', 'DRAINING', 'ACTIVE'],
                         [rows[member.row.id].state
                          for member in self.members])
        self.assertEqual({self.cluster_id}, {*self.applied})
        self.assertIn(self.get(CLIENTS[0], listener.protocol_port), BACKENDS)
        self.assertEqual(before, self.map_clients())


class TestTLS(MembersTestCase):
    """A client is sent to another member, and resumes its TLS session."""

    def setUp(self):
        super().setUp()
        self.conf.set_override('server_certs_key_passphrase', 'x' * 32,
                               group='certificates')
        with open(self.certificates.server_path('tenant')) as file:
            self.pem = file.read()
        self.useFixture(fixtures.MockPatchObject(
            noop.NoopCertManager, 'get_cert',
            lambda *_args, **_kwargs: local.LocalCert(self.pem, self.pem)))
        with open(self.certificates.client_authority
                  .certificate_path) as file:
            authority = file.read()
        self.useFixture(fixtures.MockPatchObject(
            noop.NoopCertManager, 'get_secret',
            lambda *_args: authority))
        self.now = time.time()
        self.context = work.Context(self.conf, self.engine)
        self.addCleanup(self.context.claims.end)

    def add_tls(self, **values):
        return clusters.add_listener(
            self.lb, records.new_id(), protocol='TERMINATED_HTTPS',
            tls_certificate_id='ref', backends=BACKENDS,
            connection_limit=1000, **values)

    def say(self, member, listener, version, before=None):
        """Ask for a page.

        :param before: the session of another answer.
        :returns: 'New', 'Reused', or None if there is no answer; and the
                  file with the session that it is now.
        """
        self.use(member)
        session = os.path.join(self.directory, records.new_id())
        said = self.client.run(
            'sh', '-c', 'printf "GET / HTTP/1.0\\r\\n\\r\\n" | timeout 30 '
            'openssl s_client -ign_eof "$@"', 'sh', '-connect',
            f'{VIP}:{listener.protocol_port}', version, '-sess_out', session,
            *(('-sess_in', before) if before else ()), check=False).stdout
        if not any(address in said for address in BACKENDS):
            return None, session
        # With TLS 1.2 one that is resumed stays the same.
        return (re.search('^(New|Reused), ', said, re.MULTILINE)[1],
                session if os.path.exists(session) else before)

    def assertShared(self, listener, *order):
        for version in ('-tls1_2', '-tls1_3'):
            session = None
            for number, member in enumerate(order):
                how, session = self.say(member, listener, version, session)
                self.assertEqual('Reused' if number else 'New', how,
                                 f'{version}, member {number}')

    def rotate(self):
        self.controller.call(ticket_rotation.TicketRotation(
            self.context, clock=lambda: self.now).run_once)

    def add_rows(self, listener):
        row = records.listener_row(listener.id, self.lb.id)
        self.records.insert_all({
            'load_balancer': [records.load_balancer_row(self.lb.id)],
            'listener': [{**row, 'protocol': 'TERMINATED_HTTPS'}],
            'amphora': [records.amphora_row(
                member.amphora_id, member.lb_network_ip, self.lb.id)
                for member in self.members]})

    def test_sessions(self):
        listener = self.add_tls()
        first, second = self.add_members(2, slots=2)
        for member in (first, second):
            self.configure(member, member.row.slot)
            member_repo.set_state(self.engine, member.row.id, ('BUILDING',),
                                  'ACTIVE')
            waiting.wait_for(
                lambda member=member: self.say(
                    member, listener, '-tls1_3')[0] == 'New',
                'answer at the VIP', processes=[member.instance])
        self.assertShared(listener, first, second, first)

        # Where one of them is a period ahead, both resume those of the other.
        self.add_rows(listener)
        member_repo.set_state(self.engine, second.row.id, ('ACTIVE',),
                              'DRAINING')
        _how, old = self.say(second, listener, '-tls1_2')
        self.now += self.conf.hmsync_cluster.tls_ticket_period
        self.rotate()
        self.assertShared(listener, first, second, first)
        self.assertEqual('Reused', self.say(first, listener, '-tls1_2',
                                            old)[0])
        member_repo.set_state(self.engine, second.row.id, ('DRAINING',),
                              'ACTIVE')
        self.rotate()
        self.assertShared(listener, second, first)

        # Nobody gets in by a ticket who has no certificate.
        _how, session = self.say(first, listener, '-tls1_2')
        guarded = self.add_tls(client_authentication='MANDATORY',
                               client_ca_tls_certificate_id='authority')
        self.controller.call(update.Updater(self.conf, self.engine).update,
                             self.lb)
        self.assertEqual('New', self.say(second, listener, '-tls1_2')[0])
        for member in (first, second):
            self.assertIsNone(self.say(member, guarded, '-tls1_2',
                                       session)[0])
