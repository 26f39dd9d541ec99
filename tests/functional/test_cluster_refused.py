# SPDX-License-Identifier: Apache-2.0

"""Changes that octavia-api takes and haproxy does not, on real members.

The first members that are told get what they had back, in all files: their
haproxy begins with it, too. Clients see nothing of it.
"""

import os
import re

from cryptography.hazmat.primitives.asymmetric import rsa
import fixtures
from octavia.certificates.common import local
from octavia.certificates.manager import noop
from octavia.common import data_models

from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster.members import update
from octavia_hmsync import exceptions
from tests.cloud import certificates
from tests.cloud import process
from tests.cloud import records
from tests.cloud import waiting
from tests.functional import test_cluster_members as cluster_members

# Of a directory, the name of a load balancer, and a limit of connections: from
# when haproxy serves with that limit, as long as that is what is in its file.
_KILLER = """
import os, signal, socket, sys, time
directory, name, limit = sys.argv[1:]

def find_limits():
    with socket.socket(socket.AF_UNIX) as stats:
        stats.connect(f'{directory}.sock')
        stats.sendall(b'show stat\\n')
        return [line.split(',')[6] for line in stats.makefile()
                if ',FRONTEND,' in line]

def is_in_file():
    with open(f'{directory}/haproxy.cfg') as file:
        return f'maxconn {limit}' in file.read()

served = False
while True:
    time.sleep(0.1)
    try:
        served = is_in_file() and (served or limit in find_limits())
        if served:
            with open(f'{directory}/{name}.pid') as file:
                os.kill(int(file.read()), signal.SIGSEGV)
    except (OSError, ValueError):
        pass
"""


class TestRefused(cluster_members.MembersTestCase):

    def setUp(self):
        super().setUp()
        # {reference: (a certificate, a key)}, as PEM.
        self.secrets = {}
        self.useFixture(fixtures.MockPatchObject(
            noop.NoopCertManager, 'get_cert',
            lambda _self, _context, ref, **_kwargs: local.LocalCert(
                *self.secrets[ref])))
        self.authority = certificates.Authority(
            os.path.join(self.directory, 'certs'), 'tenant_ca')
        self.key, self.other_key, self.weak_key = (
            rsa.generate_private_key(65537, bits)
            for bits in (2048, 2048, 1024))
        self.secrets['good'] = (self.issue('good', self.key),
                                certificates.key_pem(self.key))
        self.updater = update.Updater(self.conf, self.engine)

    def issue(self, name, key):
        return self.authority.issue(name, key)

    def serve(self):
        """Have three members serve HTTP, and HTTPS with one certificate."""
        clusters = cluster_members.clusters
        self.http = clusters.add_listener(
            self.lb, records.new_id(), backends=cluster_members.BACKENDS,
            connection_limit=1000)
        self.tls = clusters.add_listener(
            self.lb, records.new_id(), protocol='TERMINATED_HTTPS',
            tls_certificate_id='good', backends=cluster_members.BACKENDS,
            connection_limit=1000)
        found = self.add_members(3, slots=3)
        for member in found:
            self.configure(member, member.row.slot)
            member_repo.set_state(self.engine, member.row.id, ('BUILDING',),
                                  'ACTIVE')
        for member in found:
            self.wait_until_name(member, 'good')

    def get_name(self, member):
        """Return for whom its certificate is, as a client sees it."""
        self.use(member)
        said = self.client.run(
            'sh', '-c', 'printf "GET / HTTP/1.0\\r\\n\\r\\n" | timeout 30 '
            'openssl s_client -ign_eof -connect "$@"', 'sh',
            f'{cluster_members.VIP}:{self.tls.protocol_port}',
            check=False).stdout
        if not any(address in said for address in cluster_members.BACKENDS):
            return None
        return re.search(r'^subject=CN ?= ?(\w+)', said, re.MULTILINE)[1]

    def wait_until_name(self, member, name):
        waiting.wait_for(lambda: self.get_name(member) == name,
                         f'answer with the certificate of {name}',
                         processes=[member.instance])

    def refuse(self, *words):
        """Have a change be refused; clients use the first member."""
        before = [self.read_configuration(member) for member in self.members]
        self.use(self.members[0])
        self.start_asking()
        e = self.assertRaises(exceptions.ClusterNotUpdated,
                              self.controller.call, self.updater.update,
                              self.lb)
        asked, failed = self.stop_asking()
        self.assertTrue(asked)
        self.assertEqual([], failed)
        for word in (*words, 'the other members have what they had'):
            self.assertIn(word, str(e))
        self.assertNotIn('could not be restored', str(e))
        self.assertNotIn(self.members[2].amphora_id, str(e))
        self.assertEqual(before, [self.read_configuration(member)
                                  for member in self.members])
        self.assertEqual(['ACTIVE'] * 3, [
            row.state for row in member_repo.get_of_cluster(
                self.engine, self.cluster_id)])
        # What they begin with.
        for member in self.members:
            member.instance.systemctl('restart', f'haproxy-{self.lb.id}')
            self.wait_until_name(member, 'good')

    def kill_with(self, member, limit):
        """Kill its haproxy again and again while it has such a limit."""
        self.useFixture(process.ChildProcess(
            f'killer-{member.amphora_id[:8]}', member.instance.command_inside(
                'python3', '-c', _KILLER, f'/var/lib/octavia/{self.lb.id}',
                self.lb.id, str(limit)), self.directory))

    def test_haproxy_dies_of_it(self):
        """It has checked the configuration, and a crash is soon."""
        self.serve()
        for member in self.members[:2]:
            self.kill_with(member, 777)
        self.http.connection_limit = 777
        before = [self.read_configuration(member) for member in self.members]
        e = self.assertRaises(exceptions.ClusterNotUpdated,
                              self.controller.call, self.updater.update,
                              self.lb)
        for member in self.members[:2]:
            self.assertIn(f'amphora {member.amphora_id}: its haproxy has '
                          f'ended with the configuration', str(e))
        self.assertNotIn('could not be restored', str(e))
        self.assertEqual(before, [self.read_configuration(member)
                                  for member in self.members])
        for member in self.members:
            self.wait_until_name(member, 'good')
        self.http.connection_limit = 778
        self.change()

    def change(self):
        """Have a change be taken."""
        self.controller.call(self.updater.update, self.lb)

    def test_tls(self):
        self.serve()
        certificate = self.secrets['good'][0]
        for name, pair, words in (
                ('same certificate', (certificate,
                                      certificates.key_pem(self.other_key)),
                 'private key'),
                ('weak', (self.issue('bad', self.weak_key),
                          certificates.key_pem(self.weak_key)),
                 'error processing line 1 in file')):
            self.secrets[name] = pair
            self.tls.tls_certificate_id = name
            self.refuse(words)
        self.tls.tls_certificate_id = 'good'
        self.tls.tls_ciphers = 'NO-SUCH-CIPHER'
        self.tls.tls_versions = ['TLSv1.2']
        self.refuse('cipher')
        self.tls.tls_ciphers = self.tls.tls_versions = None

        pool = self.http.default_pool
        pool.session_persistence = data_models.SessionPersistence(
            type='APP_COOKIE', cookie_name='a#b')
        self.refuse("expected ')'")
        pool.session_persistence = None

        self.secrets['new'] = (self.issue('new', self.key),
                               certificates.key_pem(self.key))
        self.tls.tls_certificate_id = 'new'
        self.change()
        for member in self.members:
            self.wait_until_name(member, 'new')
