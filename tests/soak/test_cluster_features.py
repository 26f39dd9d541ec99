# SPDX-License-Identifier: Apache-2.0

"""What a load balancer has through Octavia's API, on all members.

Whoever is asked is a member of the cluster itself, where its haproxy is: it
has the VIPs. So each shows that it has taken a change, whoever the
distributor sends a client to.
"""

import csv
import dataclasses
import json
import os
import re
import sys

import sqlalchemy as sa

from tests.cloud import certificates
from tests.cloud import process
from tests.cloud import tenant_secrets
from tests.functional import clusters

# Asks the haproxy of an amphora what it has counted, as CSV.
_STATISTICS = """
import socket, sys
with socket.socket(socket.AF_UNIX) as client:
    client.connect(sys.argv[1])
    client.sendall(b'show stat -1 1 -1\\n')
    print(client.makefile().read())
"""
# Speaks TLS with an address, and says whether it was resumed, and the session
# that it is from then on.
_SESSION = r"""
directory=$(mktemp -d)
echo "$3" > "$directory/in"
printf 'GET / HTTP/1.0\r\n\r\n' | timeout 10 openssl s_client -ign_eof \
    -connect "$1" "$2" -sess_out "$directory/out" \
    ${3:+-sess_in "$directory/in"} 2> /dev/null | grep -Eo '^(New|Reused),'
cat "$directory/out" 2> /dev/null || cat "$directory/in"
rm -r "$directory"
"""
# Seconds until the haproxy that read its configuration anew serves alone.
_RELOAD = 20
# What curl tells as the status of connections that TLS ends.
_NO_TLS = 0
# What a worker says that has something to do.
_CREATED = re.compile(r'Creating (?:listener|pool|member|health monitor|'
                      r"l7policy|l7rule) '")


@dataclasses.dataclass(frozen=True)
class Answer:
    """What somebody got: the status of HTTP, and whatever comes with it."""

    status: int
    text: str = ''


class TestFeatures(clusters.ClusterTestCase):

    workers = 2
    neutron_options = {
        'DEFAULT': {'service_plugins': 'ovn-router, qos'},
        'ml2': {'extension_drivers': 'port_security, qos'}}

    def setUp(self):
        self.secrets = self.useFixture(tenant_secrets.Secrets())
        self.options = self.secrets.octavia_options()
        self.options['certificates']['server_certs_key_passphrase'] = 'x' * 32
        super().setUp()
        self.certificates = self.useFixture(certificates.Certificates(
            os.path.join(self.cloud.directory, 'tenant')))

    def prepare(self):
        self.subnet6 = self.cloud.add_subnet(
            self.cloud.network, 'fd00:1::/64', 'fd00:1::1',
            self.cloud.router)

    def test_features(self):
        self.make_load_balancer()
        self.names = {each.name for each in self.members}
        self.listeners = {80: self.lb.listeners[0]['id']}
        self.pool_id = self.api.get_listener(
            self.listeners[80]).default_pool_id
        for make in (self.make_tls, self.make_client_authentication,
                     self.make_l7, self.make_health_monitor):
            make()
        self.set_qos(self.add_qos_policy('slow', 200000))
        self.check_all(2)
        # One more, which has all of it from the beginning.
        self.grow(3)
        self.check_all(3)
        self.change_certificate()
        self.check_statistics()
        self.check_traffic()
        self.check_workers()
        self.cloud.delete_cluster(self.lb)
        self.assertNothingLeft()

    def check_all(self, size):
        self.wait_until_whole(self.lb, size)
        self.check_addresses()
        self.check_tls()
        self.check_sessions()
        self.check_client_authentication()
        self.check_l7()
        self.check_health_monitor()
        self.check_qos()

    # Whoever is asked

    @property
    def amphorae(self):
        """{id of an amphora: its instance} of all members."""
        return {amphora_id: self.cloud.compute.by_amphora(amphora_id)
                for amphora_id in self.get_members().values()}

    def curl(self, run, address, url, *arguments):
        """Ask at an address; returns an Answer.

        :param run: what runs a command there.
        :param url: with a name in place of the address.
        """
        name = re.match('https?://([^/:]+)', url)[1]
        address = f'[{address}]' if ':' in address else address
        out = run('curl', '-s', '--max-time', '5', '--connect-to',
                  f'{name}::{address}:', '-w', '\n%{http_code} '
                  '%{redirect_url}', *arguments, url, check=False).stdout
        text, _, rest = out.rpartition('\n')
        status, _, redirect = rest.partition(' ')
        return Answer(int(status), redirect or text)

    def ask_all(self, url, *arguments):
        """Have each member asked at each address, and the VIPs by a client.

        :returns: {(whom, address): Answer}
        """
        ways = {'client': self.client.namespace.run, **{
            amphora_id: instance.run_inside
            for amphora_id, instance in self.amphorae.items()}}
        return {(whom, address): self.curl(run, address, url, *arguments)
                for whom, run in ways.items() for address in self.vips}

    def assertAnswers(self, status, texts, url, *arguments):
        """Check what all answer, as soon as all configurations are read.

        :param texts: one of them is the text; None for any.
        """
        found = {}

        def is_as_wanted():
            found.update(self.ask_all(url, *arguments))
            return all(each.status == status and
                       (texts is None or each.text in texts)
                       for each in found.values())

        self.cloud.wait_for(is_as_wanted, lambda: f'{status} {texts} of '
                            f'{url} {arguments}: {found}', _RELOAD)

    def settle(self):
        """Wait until a change is in force; one that failed leaves an ERROR."""
        self.cloud.wait_until_active(self.lb.id)
        there = (*self.api.listeners(load_balancer_id=self.lb.id),
                 *self.api.pools(loadbalancer_id=self.lb.id))
        self.assertEqual(dict.fromkeys((each.name for each in there),
                                       'ACTIVE'),
                         {each.name: each.provisioning_status
                          for each in there})

    # What there is

    def make_load_balancer(self):
        """One with an address of each kind: two of IPv4, and of IPv6."""
        more = self.cloud.add_subnet(self.cloud.network, '10.3.0.0/24',
                                     '10.3.0.1', self.cloud.router)
        self.lb = self.cloud.add_cluster('web', self.members, additional_vips=[
            {'subnet_id': self.subnet6.id}, {'subnet_id': more.id}])
        self.vips = [self.lb.vip_address, *(
            each['ip_address'] for each in self.lb.additional_vips)]

    def check_addresses(self):
        self.assertEqual([4, 4, 6], sorted(
            6 if ':' in each else 4 for each in self.vips))
        self.assertAnswers(200, self.names, 'http://web.example/')
        for address in self.vips:
            self.assertEqual(self.names, {self.client.get(address)
                                          for _ in range(12)})

    def add_listener(self, port, **values):
        # openstacksdk leaves out what it does not know.
        answer = self.api.post('/lbaas/listeners', json={'listener': {
            'loadbalancer_id': self.lb.id, 'name': f'port-{port}',
            'protocol': 'TERMINATED_HTTPS', 'protocol_port': port,
            'default_pool_id': self.pool_id,
            'default_tls_container_ref': self.add_certificate('web.example'),
            **values}})
        self.assertEqual(201, answer.status_code, answer.text)
        self.listeners[port] = answer.json()['listener']['id']
        self.settle()

    def add_certificate(self, name):
        return self.secrets.add_pair(self.certificates.server_path(name))

    def make_tls(self):
        """One certificate, and another one by SNI."""
        self.add_listener(443, sni_container_refs=[
            self.add_certificate('shop.example')])

    def trust(self):
        return ('--cacert',
                self.certificates.server_authority.certificate_path)

    def check_tls(self, default='web.example', unknown='other.example'):
        """Who asks for a name gets its certificate, which curl checks."""
        for name in (default, 'shop.example'):
            self.assertAnswers(200, self.names, f'https://{name}/',
                               *self.trust())
        self.assertAnswers(_NO_TLS, None, f'https://{unknown}/',
                           *self.trust())

    def check_sessions(self):
        """Each member resumes the sessions of all others, and the VIP too."""
        ways = [instance.run_inside for instance in self.amphorae.values()]
        for version in ('-tls1_2', '-tls1_3'):
            session = ''
            for number, run in enumerate([*ways, *ways[:1],
                                          *[self.client.namespace.run] * 8]):
                said = run('sh', '-c', _SESSION, 'sh',
                           f'{self.lb.vip_address}:443', version,
                           session).stdout
                how, _, session = said.partition(',\n')
                self.assertEqual('Reused' if number else 'New', how,
                                 f'{version}, number {number}: {said}')

    def check_traffic(self):
        """What goes through each member, as operators are told."""
        rows = json.loads(self.cloud.command(
            'octavia-hmsync', 'cluster', 'member', 'list', '--traffic',
            '--long', '-f', 'json'))
        self.assertEqual(set(self.amphorae),
                         {row['amphora_id'] for row in rows})
        for row in rows:
            for name in ('packets', 'bytes', 'bytes_in', 'bytes_out',
                         'total_connections'):
                self.assertGreater(row[name], 0, rows)

    def change_certificate(self):
        self.api.update_listener(
            self.listeners[443],
            default_tls_container_ref=self.add_certificate('new.example'))
        self.settle()
        self.check_tls('new.example', 'web.example')

    def make_client_authentication(self):
        """Who has a certificate that was not revoked."""
        self.client_paths = {name: self.certificates.issue_client(name)
                             for name in ('alice', 'mallory')}
        authority = self.certificates.client_authority
        with open(authority.certificate_path, 'rb') as pem:
            ref = self.secrets.add(pem.read())
        self.add_listener(
            8443, client_authentication='MANDATORY',
            client_ca_tls_container_ref=ref,
            client_crl_container_ref=self.secrets.add(
                authority.revoke(self.client_paths['mallory'])))

    def check_client_authentication(self):
        url = 'https://web.example:8443/'
        self.assertAnswers(200, self.names, url, *self.trust(), '--cert',
                           self.client_paths['alice'])
        for refused in ((), ('--cert', self.client_paths['mallory'])):
            self.assertAnswers(_NO_TLS, None, url, *self.trust(), *refused)

    def make_l7(self):
        """A policy of each kind, one of which leads to a member of IPv6."""
        pool = self.api.create_pool(
            loadbalancer_id=self.lb.id, name='one', protocol='HTTP',
            lb_algorithm='ROUND_ROBIN')
        self.settle()
        self.only = self.members[1]
        self.api.create_member(
            pool, protocol_port=80, subnet_id=self.subnet6.id,
            address=next(each for each in self.only.addresses if ':' in each))
        self.settle()
        for action, rule in (
                ({'action': 'REDIRECT_TO_URL',
                  'redirect_url': 'http://new.example/'},
                 {'type': 'PATH', 'compare_type': 'STARTS_WITH',
                  'rule_value': '/old'}),
                ({'action': 'REJECT'},
                 {'type': 'HEADER', 'key': 'X-Bad',
                  'compare_type': 'EQUAL_TO', 'rule_value': 'yes'}),
                ({'action': 'REDIRECT_TO_POOL', 'redirect_pool_id': pool.id},
                 {'type': 'HOST_NAME', 'compare_type': 'EQUAL_TO',
                  'rule_value': 'one.example'})):
            policy = self.api.create_l7_policy(
                listener_id=self.listeners[80], **action)
            self.settle()
            self.api.create_l7_rule(policy, **rule)
            self.settle()

    def check_l7(self):
        self.assertAnswers(302, {'http://new.example/'},
                           'http://web.example/old/shoes')
        self.assertAnswers(403, None, 'http://web.example/', '-H',
                           'X-Bad: yes')
        # Whoever is asked would take turns otherwise.
        for _ in self.members:
            self.assertAnswers(200, {self.only.name}, 'http://one.example/')

    def make_health_monitor(self):
        self.api.create_health_monitor(
            pool_id=self.pool_id, type='HTTP', delay=1, timeout=1,
            max_retries=1, max_retries_down=1, url_path='/')
        self.settle()

    def check_health_monitor(self):
        """Of a server that ends all members know."""
        ended, other = self.members
        self.wait_for_statuses({ended.name: 'ONLINE', other.name: 'ONLINE'})
        ended.server.kill_tree()
        self.wait_for_statuses({ended.name: 'ERROR', other.name: 'ONLINE'})
        for _ in self.members:
            self.assertAnswers(200, {other.name}, 'http://web.example/')
        ended.server.start()
        self.wait_for_statuses({ended.name: 'ONLINE', other.name: 'ONLINE'})

    def wait_for_statuses(self, expected):
        names = {each.address: each.name for each in self.members}

        def read():
            return {names[each.address]: each.operating_status
                    for each in self.api.members(self.pool_id)}

        self.cloud.wait_for(lambda: read() == expected, lambda: f'{expected} '
                            f'of members, who are {read()}')

    # Bandwidth

    def add_qos_policy(self, name, max_kbps):
        api = self.cloud.connection.network
        policy = api.create_qos_policy(name=name)
        for direction in ('egress', 'ingress'):
            api.create_qos_bandwidth_limit_rule(
                policy, max_kbps=max_kbps, max_burst_kbps=max_kbps,
                direction=direction)
        return policy.id

    def set_qos(self, policy_id):
        self.policy_id = policy_id
        self.api.update_load_balancer(self.lb.id,
                                      vip_qos_policy_id=policy_id)
        self.settle()

    def check_qos(self):
        """Neutron has it for the port of each, and OVN limits it."""
        ports = [self.api.get_amphora(amphora_id).vrrp_port_id
                 for amphora_id in self.amphorae]
        self.assertEqual(dict.fromkeys(ports, self.policy_id), {
            port_id: self.cloud.connection.network.get_port(
                port_id).qos_policy_id for port_id in ports})
        rules = self.read_qos_rules()
        for port_id in ports:
            self.assertEqual(2, sum(port_id in each for each in rules), rules)

    def read_qos_rules(self):
        central = self.cloud.networking.central
        found = json.loads(process.run(
            'ovn-nbctl', f'--db={central.connection("nb")}', '--format=json',
            '--columns=match', 'list', 'QoS'))
        return [match for match, in found['data']]

    # One more

    def grow(self, size):
        """Have one more member; its tenant changes his mind meanwhile."""
        policy_id = self.add_qos_policy('slower', 100000)
        before = self.cloud.compute.before
        before['build'] = lambda **_: self.set_qos(policy_id)
        self.cloud.set_size(self.lb, size)
        del before['build']
        self.assertEqual(policy_id, self.policy_id)

    # What is counted

    def check_statistics(self):
        """Octavia tells the sum of what all members have counted."""
        listener = self.api.create_listener(
            load_balancer_id=self.lb.id, name='counted', protocol='HTTP',
            protocol_port=8080, default_pool_id=self.pool_id)
        self.settle()
        url = 'http://web.example:8080/'
        self.assertAnswers(200, self.names, url)
        for number, instance in enumerate(self.amphorae.values(), 1):
            for _ in range(3 * number):
                self.curl(instance.run_inside, self.lb.vip_address, url)
        counted = {}

        def is_told():
            counted.update(self.count(listener.id))
            told = self.api.get_listener_statistics(listener.id)
            return (counted == self.read_statistics(listener.id) and
                    told.bytes_out == sum(counted.values()))

        self.cloud.wait_for(is_told, lambda: f'a sum of {counted}; there are '
                            f'{self.read_statistics(listener.id)}')
        self.assertEqual(3, len(counted))
        self.assertTrue(all(counted.values()), counted)
        told = self.api.get_load_balancer_statistics(self.lb.id)
        self.assertGreaterEqual(told.bytes_out, sum(counted.values()))
        self.assertGreaterEqual(told.total_connections, 18)

    def count(self, listener_id):
        """Bytes that each haproxy has sent, by the id of its amphora."""
        found = {}
        for amphora_id, instance in self.amphorae.items():
            table = instance.run_inside(
                sys.executable, '-ISc', _STATISTICS,
                f'/var/lib/octavia/{self.lb.id}.sock').stdout
            found[amphora_id] = next(
                int(row['bout']) for row in csv.DictReader(table.splitlines())
                if row['# pxname'] == listener_id)
        return found

    def read_statistics(self, listener_id):
        """The same, as the database has it."""
        with self.cloud.engine.connect() as connection:
            return dict(connection.execute(sa.text(
                'SELECT amphora_id, bytes_out FROM listener_statistics '
                'WHERE listener_id = :id'), {'id': listener_id}).all())

    def check_workers(self):
        """Both have had part in it."""
        for each in self.cloud.workers:
            self.assertRegex(each.log(), _CREATED)
