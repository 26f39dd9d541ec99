# SPDX-License-Identifier: Apache-2.0

"""Changes that octavia-api takes, and that haproxy does not.

Octavia says ERROR of what was to be changed, two members were told and have
all that they had, the third one was not told, no client notices, and the next
change that is good leads out of it.
"""

import contextlib
import json
import os
import subprocess
import threading

from cryptography.hazmat.primitives.asymmetric import rsa

from tests.cloud import certificates
from tests.cloud import tenant_secrets
from tests.functional import clusters

_SIZE = 3
_RELOAD = 20
# A listener of this size is what haproxy dies of, after so many seconds.
_DEADLY = 777
_AFTER = 5


class TestRefused(clusters.ClusterTestCase):

    TIMEOUT_SCALING_FACTOR = 4

    def setUp(self):
        self.secrets = self.useFixture(tenant_secrets.Secrets())
        self.options = self.secrets.octavia_options()
        super().setUp()
        directory = os.path.join(self.cloud.directory, 'tenant')
        os.makedirs(directory)
        self.authority = certificates.Authority(directory, 'tenant_ca')
        self.key, self.other_key, self.weak_key = (
            rsa.generate_private_key(65537, bits)
            for bits in (2048, 2048, 1024))
        self.certificate = self.issue('web.example')

    def issue(self, name, key=None):
        return self.authority.issue(name, key or self.key)

    def add_pair(self, certificate, key=None):
        return self.secrets.add_pair_of(certificate,
                                        certificates.key_pem(key or self.key))

    def make(self):
        self.lb = self.cloud.add_cluster('web', self.members,
                                         desired_size=_SIZE)
        self.http = self.lb.listeners[0]['id']
        self.pool_id = self.api.get_listener(self.http).default_pool_id
        self.tls = self.post('listener', {
            'loadbalancer_id': self.lb.id, 'protocol': 'TERMINATED_HTTPS',
            'protocol_port': 443, 'default_pool_id': self.pool_id,
            'default_tls_container_ref': self.add_pair(self.certificate)})
        self.pool = self.post('pool', {
            'listener_id': self.post('listener', {
                'loadbalancer_id': self.lb.id, 'protocol': 'HTTP',
                'protocol_port': 81}),
            'protocol': 'HTTP', 'lb_algorithm': 'ROUND_ROBIN'})
        for each in self.members:
            self.api.create_member(self.pool, address=each.address,
                                   protocol_port=80)
            self.cloud.wait_until_active(self.lb.id)
        self.monitor = self.post('healthmonitor', {
            'pool_id': self.pool, 'type': 'HTTP', 'delay': 5, 'timeout': 5,
            'max_retries': 3})
        self.wait_until_whole(self.lb, _SIZE)
        self.names = {each.name for each in self.members}

    # openstacksdk leaves out what it does not know.

    def post(self, kind, values):
        answer = self.api.post(f'/lbaas/{kind}s', json={kind: values})
        self.assertEqual(201, answer.status_code, answer.text)
        self.cloud.wait_until_active(self.lb.id)
        return answer.json()[kind]['id']

    def put(self, kind, resource_id, values):
        answer = self.api.put(f'/lbaas/{kind}s/{resource_id}',
                              json={kind: values})
        self.assertIn(answer.status_code, (200, 202), answer.text)
        self.cloud.wait_until_active(self.lb.id)

    def get_status(self, kind, resource_id):
        return self.api.get(f'/lbaas/{kind}s/{resource_id}').json()[kind][
            'provisioning_status']

    # What members have

    @property
    def instances(self):
        return [self.cloud.compute.by_amphora(amphora_id)
                for amphora_id in self.get_members().values()]

    def read_configurations(self):
        return [each.run_inside(
            'cat', f'/var/lib/octavia/{self.lb.id}/haproxy.cfg').stdout
            for each in self.instances]

    def count_refusals(self):
        """How many members have what haproxy has rejected; it is removed."""
        path = f'/var/lib/octavia/{self.lb.id}/haproxy.cfg.new-failed'
        return sum(not each.run_inside('rm', path, check=False).returncode
                   for each in self.instances)

    def ask(self, instance, url):
        name = url.split('/')[2].partition(':')[0]
        return instance.run_inside(
            'curl', '-s', '--max-time', '5', '--connect-to',
            f'{name}::{self.lb.vip_address}:', '--cacert',
            self.authority.certificate_path, url, check=False).stdout

    def assertAnswers(self, name='web.example'):
        """Check that each member serves all listeners."""
        urls = ('http://a.example/', 'http://a.example:81/',
                f'https://{name}/')
        for instance in self.instances:
            for url in urls:
                self.cloud.wait_for(
                    lambda instance=instance, url=url:
                    self.ask(instance, url) in self.names,
                    f'answer of {instance.name} to {url}', _RELOAD)

    def check_beginnings(self):
        """Do what systemd does before it starts haproxy."""
        for instance in self.instances:
            instance.run_inside(
                'haproxy', '-c', '-q', '-f',
                f'/var/lib/octavia/{self.lb.id}/haproxy.cfg', '-f',
                '/var/lib/octavia/haproxy-default-user-group.conf')

    # Changes

    def find_cases(self):
        """Yield a name, a kind, an id, what is refused, and what is good."""
        for name, certificate, key in (
                ('other key', self.issue('bad.example'), self.other_key),
                ('same certificate', self.certificate, self.other_key),
                ('weak key', self.issue('bad.example', self.weak_key),
                 self.weak_key)):
            yield (name, 'listener', self.tls,
                   {'default_tls_container_ref': self.add_pair(certificate,
                                                               key)},
                   {'default_tls_container_ref': self.add_pair(
                       self.certificate)})
        yield ('listener ciphers', 'listener', self.tls,
               {'tls_ciphers': 'NO-SUCH-CIPHER', 'tls_versions': ['TLSv1.2']},
               {'tls_ciphers': 'ECDHE-RSA-AES256-GCM-SHA384'})
        yield ('pool ciphers', 'pool', self.pool,
               {'tls_enabled': True, 'tls_ciphers': 'NO-SUCH-CIPHER'},
               {'tls_enabled': False, 'tls_ciphers': None})
        yield ('name of a cookie', 'pool', self.pool,
               {'session_persistence': {'type': 'APP_COOKIE',
                                        'cookie_name': 'a#b'}},
               {'session_persistence': None})
        yield ('health monitor', 'healthmonitor', self.monitor,
               {'delay': 3000000, 'timeout': 5}, {'delay': 4})

    def test_refused(self):
        self.make()
        self.count_refusals()
        self.assertAnswers()
        found = {}
        for name, kind, resource_id, bad, good in self.find_cases():
            before = self.read_configurations()
            amphorae = self.get_members()
            probe = self.client.start_probe(self.lb.vip_address, rate=20)
            self.put(kind, resource_id, bad)
            status = self.get_status(kind, resource_id)
            is_same = before == self.read_configurations()
            told = self.count_refusals()
            report = probe.stop()
            # What they begin with after a crash, or a reboot.
            self.check_beginnings()
            self.assertAnswers()
            probe = self.client.start_probe(self.lb.vip_address, rate=20)
            self.put(kind, resource_id, good)
            found[name] = (status, is_same, told, report.failed,
                           self.get_status(kind, resource_id),
                           probe.stop().failed,
                           amphorae == self.get_members())
            self.assertAnswers()
        self.assertEqual(dict.fromkeys(found, (
            'ERROR', True, 2, 0, 'ACTIVE', 0, True)), found,
            json.dumps(found))
        self.put('listener', self.tls, {
            'default_tls_container_ref': self.add_pair(
                self.issue('new.example'))})
        self.assertAnswers('new.example')
        self.cloud.delete_cluster(self.lb)
        self.assertNothingLeft()


class TestDiesLater(clusters.ClusterTestCase):
    """haproxy takes a change, and dies of it when all members have it."""

    TIMEOUT_SCALING_FACTOR = 4
    options = {'health_manager': {'heartbeat_interval': 3,
                                  'heartbeat_timeout': 20}}

    def setUp(self):
        super().setUp()
        self.built = []
        self.cloud.compute.before['build'] = (
            lambda name, **_: self.built.append(name))
        self.ends = threading.Event()
        self.lb = self.cloud.add_cluster('web', self.members, desired_size=2)
        self.wait_until_whole(self.lb, 2)
        self.listener_id = self.lb.listeners[0]['id']
        killer = threading.Thread(target=self.kill)
        killer.start()
        self.addCleanup(killer.join)
        self.addCleanup(self.ends.set)

    def kill(self):
        """Have haproxies be as systemd leaves those that it gives up."""
        path = f'/var/lib/octavia/{self.lb.id}/haproxy.cfg'
        while not self.ends.wait(_AFTER):
            for instance in list(self.cloud.compute.instances.values()):
                # It may be deleted meanwhile.
                with contextlib.suppress(OSError, subprocess.SubprocessError,
                                         IndexError, TypeError):
                    if f'maxconn {_DEADLY}' in instance.run_inside(
                            'cat', path, check=False).stdout:
                        self.ends.wait(_AFTER)
                        instance.systemctl('stop', f'haproxy-{self.lb.id}')

    def has_logged(self, words):
        return any(words in each.log() for each in self.cloud.house_keepers)

    def test_dies_later(self):
        self.built.clear()
        self.api.update_listener(self.listener_id,
                                 connection_limit=_DEADLY)
        self.cloud.wait_until_active(self.lb.id)
        for hold in (60, 120):
            self.cloud.wait_for(
                lambda hold=hold: self.has_logged(
                    f'The next are built in {hold} s'),
                lambda hold=hold: f'wait of {hold} s; built: {self.built}, '
                f'{self.rows("hmsync_cluster_member")}', 600)
            # Two each time, and what could not be built at first.
            self.assertLessEqual(len(self.built), hold // 30 + 2)
        self.api.update_listener(self.listener_id, connection_limit=1000)
        self.wait_until_whole(self.lb, 2)
        self.assertServes(self.lb)
