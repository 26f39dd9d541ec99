# SPDX-License-Identifier: Apache-2.0

"""The keys of TLS session tickets that members of a cluster share."""

import base64
from unittest import mock

from octavia.certificates.manager import noop

from octavia_hmsync.cluster.db import claim as claim_repo
from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.members import ticket_keys
from octavia_hmsync.cluster.members import ticket_rotation
from octavia_hmsync.cluster import work as work_
from octavia_hmsync.compat import amphora_driver as compat_driver
from octavia_hmsync import exceptions
from tests.cloud import records
from tests.unit import base
from tests.unit.cluster import clusters

PASSPHRASE = 'S3cret-of-all-controllers-1234567'[:32]
PERIOD = 28800
NOW = 1800000000


class TestTicketKeys(base.TestCase):

    def setUp(self):
        super().setUp()
        self.subject = self.make()

    def make(self, passphrase=PASSPHRASE, load_balancer_id='lb',
             seconds=PERIOD):
        return ticket_keys.TicketKeys(passphrase, load_balancer_id, seconds)

    def test_file(self):
        """The format of haproxy, make before break."""
        files = [self.subject.render('name', number).splitlines()
                 for number in (7, 8, 9)]
        self.assertEqual({3}, {*map(len, files)})
        self.assertEqual({80}, {len(base64.b64decode(line))
                                for lines in files for line in lines})
        # By the last but one tickets are made; who is a period ahead, or
        # behind, has that.
        self.assertEqual(files[0][1:], files[1][:2])
        self.assertEqual(files[1][1:], files[2][:2])
        self.assertEqual(5, len({line for lines in files for line in lines}))

    def test_all_controllers_have_the_same(self):
        self.assertEqual(self.subject.render('name', 7),
                         self.make().render('name', 7))

    def test_what_makes_another_key(self):
        found = {subject.render(name, 7) for subject in (
            self.subject, self.make('another'), self.make(
                load_balancer_id='lb2')) for name in ('one', 'two')}
        self.assertEqual(6, len(found))

    def test_periods(self):
        period = self.subject.get_period(NOW)
        self.assertEqual(period + 1, self.subject.get_period(NOW + PERIOD))
        changes = {n for n in range(0, PERIOD, 60)
                   if self.subject.get_period(NOW + n) !=
                   self.subject.get_period(NOW + n - 60)}
        self.assertEqual(1, len(changes))
        # Load balancers do not all take theirs at one moment.
        self.assertEqual(2, len({
            self.make(load_balancer_id=f'lb{n}').get_period(NOW + PERIOD // 2)
            for n in range(50)}))

    def add(self, options, crt_list='one', subject=None, version='2.6.12-1'):
        """Return the configuration, and the paths of what comes with it."""
        text = ('frontend l1\n    bind 192.0.2.5:443 '
                f'ssl crt-list /certs/lb/l1.pem{options}\n    mode http\n')
        requests = (subject or self.subject).add([
            compat_driver.Request(
                'PUT', 'loadbalancer/lb/certificates/l1.pem', crt_list),
            compat_driver.Request('PUT', 'loadbalancer/a/lb/haproxy', text),
            compat_driver.Request('PUT', 'loadbalancer/lb/reload')],
            version, NOW)
        return requests[-2].body, requests[1:-2]

    def test_add(self):
        text, (files,) = self.add(' verify required')
        name, = ticket_keys.find_files(text)
        self.assertEqual(
            ('PUT', f'loadbalancer/lb/certificates/{name}', True),
            (files.method, files.path, files.unless_same))
        self.assertIn(f'l1.pem verify required tls-ticket-keys '
                      f'/certs/lb/{name}\n    mode http\n', text)
        self.assertEqual(self.subject.render(
            name, self.subject.get_period(NOW)), files.body)
        self.assertNotIn(files.body, repr(files))

    def test_several_addresses(self):
        """Own addresses of a member are no other listener."""
        line = '    bind {}:443 ssl crt-list /certs/lb/l1.pem\n'
        *files, request = self.subject.add([compat_driver.Request(
            'PUT', 'loadbalancer/a/lb/haproxy', 'frontend l1\n' + ''.join(
                line.format(address) for address in (
                    '192.0.2.5', '2001:db8::5', '192.0.2.17')))],
            '2.6.12', NOW)
        self.assertEqual((1, 3), (len(files), request.body.count(
            ' tls-ticket-keys ')))

    def test_what_is_demanded_of_clients(self):
        """A ticket is worth nothing where another certificate is demanded."""
        names = {ticket_keys.find_files(self.add(*args)[0])[0] for args in (
            ('',), (' ca-file /certs/lb/aa.pem verify required',),
            (' ca-file /certs/lb/aa.pem verify optional',),
            (' ca-file /certs/lb/bb.pem verify required',),
            (' ca-file /certs/lb/aa.pem verify required crl-file /c.pem',),
            (' ciphers AES256-SHA',), (' no-tlsv12',), ('', 'another'))}
        self.assertEqual(8, len(names))

    def test_no_keys(self):
        for why, args in (
                ('no TLS 1.3 with keys of that size', {'version': '1.8.8'}),
                ('unknown version', {'version': ''}),
                ('nobody shares anything', {'subject': self.make(None)}),
                ('switched off', {'subject': self.make(seconds=0)}),
                ('its own', {'options': ' no-tls-tickets'}),
                ('its own ', {'options': ' tls-ticket-keys /etc/mine'})):
            with self.subTest(why):
                text, files = self.add(**{'options': '', **args})
                self.assertEqual(([], []),
                                 (files, ticket_keys.find_files(text)))

    def test_other_lines(self):
        request = compat_driver.Request(
            'PUT', 'loadbalancer/a/lb/haproxy',
            'frontend l1\n    bind 192.0.2.5:80 \n    mode http\n'
            'backend p\n    server s 10.0.0.1:443 ssl crt /certs/lb/c.pem\n')
        self.assertEqual([request],
                         self.subject.add([request], '2.6.12', NOW))

    def test_names_that_a_member_tells(self):
        """It may be hostile: they go into the path of a request."""
        right = f'/certs/lb/l1-{"a" * 32}-tickets.pem'
        self.assertEqual([right.rpartition('/')[2]], ticket_keys.find_files(
            '\n'.join(f'bind * ssl tls-ticket-keys {path}' for path in (
                right, right, f'{right}?x', '/certs/lb/l1.pem',
                f'/certs/lb/l1 HTTP/1.1-{"a" * 32}-tickets.pem',
                f'/certs/lb/{"l" * 65}-{"a" * 32}-tickets.pem'))))

    def test_passphrase(self):
        conf = self.make_conf()
        # What everybody knows is no secret.
        self.assertIsNone(ticket_keys.find_passphrase(conf))
        cases = [(PASSPHRASE, PASSPHRASE), (None, None)]
        # Octavia 16 has one.
        if isinstance(conf.certificates.server_certs_key_passphrase, list):
            cases += [([PASSPHRASE, 'o' * 32], PASSPHRASE), ([], None)]
        for value, expected in cases:
            conf.set_override('server_certs_key_passphrase', value,
                              group='certificates')
            self.assertEqual(expected, ticket_keys.find_passphrase(conf))
        old = mock.Mock(spec_set=['certificates'])
        old.certificates = mock.Mock(
            spec_set=['server_certs_key_passphrase'],
            server_certs_key_passphrase=PASSPHRASE)
        self.assertEqual(PASSPHRASE, ticket_keys.find_passphrase(old))


class TicketsTestCase(clusters.ClusterTestCase):
    """Two members that serve by TLS."""

    def setUp(self):
        super().setUp()
        self.conf.set_override('server_certs_key_passphrase', PASSPHRASE,
                               group='certificates')
        self.conf.set_override('tls_ticket_period', PERIOD,
                               group='hmsync_cluster')
        self.patch(noop.NoopCertManager, 'get_secret',
                   lambda _self, _context, ref: f'content of {ref}')
        self.add_cluster(2)
        self.listener = self.add_listener(
            'l1', protocol='TERMINATED_HTTPS', tls_certificate_id='the ref')

    def get_files(self, agent):
        """Return {name: content} of those that its haproxy reads."""
        return {name: agent.state.files[f'{self.lb.id}/{name}'].decode()
                for name in ticket_keys.find_files(self.configuration(agent))}


class TestUpdate(TicketsTestCase):

    def test_all_have_the_same(self):
        self.subject.update(self.lb)
        one, two = map(self.get_files, self.agents)
        self.assertEqual(1, len(one))
        self.assertEqual(one, two)
        # haproxy finds it when it looks.
        asked = self.agents[0].asked()
        name, = one
        self.assertLess(
            asked.index(f'loadbalancer/{self.lb.id}/certificates/{name}'),
            asked.index(f'loadbalancer/amphora-1/{self.lb.id}/haproxy'))
        # It is no configuration: members with other keys have the same one.
        before = self.digests()
        self.conf.set_override('tls_ticket_period', 0, group='hmsync_cluster')
        self.subject.update(self.lb)
        self.assertEqual(before, self.digests())
        self.assertEqual({}, self.get_files(self.agents[0]))

    def test_each_listener_has_its_own(self):
        self.add_listener('l2', protocol='TERMINATED_HTTPS',
                          tls_certificate_id='the ref')
        self.subject.update(self.lb)
        found = self.get_files(self.agents[0])
        self.assertEqual(2, len({*found.values()}))

    def test_another_certificate_is_demanded(self):
        """Who has a ticket from before is asked for it."""
        self.subject.update(self.lb)
        before = self.get_files(self.agents[0])
        self.listener.client_ca_tls_certificate_id = 'authority'
        self.listener.client_authentication = 'MANDATORY'
        self.subject.update(self.lb)
        after = self.get_files(self.agents[0])
        self.assertNotIn(*before.values(), after.values())
        self.listener.client_ca_tls_certificate_id = 'another'
        self.subject.update(self.lb)
        self.assertNotIn(*after.values(),
                         self.get_files(self.agents[0]).values())

    def test_listener_is_deleted(self):
        other = self.add_listener('l2', protocol='TERMINATED_HTTPS',
                                  tls_certificate_id='the ref')
        self.subject.update(self.lb)
        before = self.get_files(self.agents[0])
        self.subject.delete_listener(other)
        after = self.get_files(self.agents[0])
        self.assertEqual(1, len(after))
        self.assertLessEqual(after.items(), before.items())

    def test_change_that_a_member_does_not_take(self):
        """What it had before it has again, and its keys."""
        self.subject.update(self.lb)
        before = self.configuration(self.agents[0])
        files = self.get_files(self.agents[0])
        self.listener.client_ca_tls_certificate_id = 'authority'
        self.listener.client_authentication = 'MANDATORY'
        for agent in self.agents:
            agent.statuses['PUT /1.0/loadbalancer/amphora'] = 400
        self.assertRaises(exceptions.ClusterNotUpdated, self.subject.update,
                          self.lb)
        self.assertEqual(before, self.configuration(self.agents[0]))
        self.assertEqual(files, self.get_files(self.agents[0]))

    def test_member_refuses_the_file(self):
        """As it refuses anything else; and nobody reads what is in it."""
        self.agents[0].statuses['-tickets.pem'] = 500
        self.subject.update(self.lb)
        self.assertEqual(['DRAINING', 'ACTIVE'], self.states())
        error = self.members()['amphora-1'].error
        self.assertIn('answered 500 to PUT loadbalancer/', error)
        for secret in (*self.get_files(self.agents[1]).values(), PASSPHRASE,
                       'ouch'):
            self.assertNotIn(secret.strip(), error)


class TestRotation(TicketsTestCase):

    def setUp(self):
        super().setUp()
        listener = records.listener_row('l1', self.lb.id, 443)
        self.records.insert_all({
            'load_balancer': [records.load_balancer_row(self.lb.id)],
            'listener': [{**listener, 'protocol': 'TERMINATED_HTTPS'}]})
        for agent in self.agents:
            self.add_row(agent)
        # A period of this load balancer begins: minutes later it is the same.
        get_period = ticket_keys.make(self.conf, self.lb.id).get_period
        self.now = next(now for now in range(NOW, NOW + PERIOD + 60, 60)
                        if get_period(now) != get_period(now - 60))
        self.patch(ticket_rotation.time, 'time', lambda: self.now)
        self.subject.update(self.lb)
        self.forget()
        self.context = work_.Context(self.conf, self.engine)
        self.addCleanup(self.context.claims.end)
        self.rotation = self.make()

    def add_row(self, agent):
        self.records.insert_all({'amphora': [records.amphora_row(
            agent.amphora_id, agent.lb_network_ip, self.lb.id)]})

    def make(self):
        return ticket_rotation.TicketRotation(self.context,
                                              clock=lambda: self.now)

    def forget(self):
        for agent in self.agents:
            agent.requests.clear()

    def asked(self):
        return [[(method, path.rpartition('/')[2][-11:]) for method, path, _
                 in agent.requests] for agent in self.agents]

    LOOKS = [('GET', 'haproxy'), ('GET', 'tickets.pem')]
    TAKES = [*LOOKS, ('PUT', 'tickets.pem'), ('PUT', 'reload')]
    NOTHING = []

    def test_nothing_new(self):
        """Who has been told of a configuration has keys; one look tells."""
        self.rotation.run_once()
        self.assertEqual([self.LOOKS] * 2, self.asked())
        self.forget()
        self.rotation.run_once()
        self.assertEqual([self.NOTHING] * 2, self.asked())

    def test_rotation(self):
        """The next key, in an order in which all know it before."""
        before = self.get_files(self.agents[0])
        digests = self.digests()
        version = cluster_repo.get(self.engine, self.cluster_id).version
        self.now += PERIOD
        self.rotation.run_once()
        self.assertEqual([self.TAKES] * 2, self.asked())
        one, two = map(self.get_files, self.agents)
        self.assertEqual(one, two)
        (name, old), = before.items()
        self.assertEqual(old.splitlines()[1:], one[name].splitlines()[:2])
        # It is no change of the configuration.
        self.assertEqual(digests, self.digests())
        self.assertEqual(version, cluster_repo.get(
            self.engine, self.cluster_id).version)
        # Of another controller, too.
        self.forget()
        self.make().run_once()
        self.assertEqual([self.LOOKS] * 2, self.asked())
        # Whoever wants to work on it may.
        self.assertTrue(claim_repo.claim(self.engine, self.cluster_id,
                                         'somebody', 60))

    def test_who_gets_them(self):
        states = {state: self.add_member(state) for state in (
            'STANDBY', 'DRAINING', 'BUILDING', 'FAILED')}
        for agent in states.values():
            self.add_row(agent)
        self.rotation.run_once()
        self.assertEqual({'STANDBY'}, {
            state for state, agent in states.items() if agent.requests})
        # Without a configuration there is nothing to read.
        self.assertEqual([], states['STANDBY'].asked())

    def test_one_refuses(self):
        """The others keep theirs: it may be the fault of the keys."""
        before = self.get_files(self.agents[1])
        for path in ('/certificates', '/reload'):
            self.agents[0].statuses = {
                f'PUT /1.0/loadbalancer/{self.lb.id}{path}': 500}
            self.now += PERIOD
            self.forget()
            with self.assertLogs('octavia_hmsync', 'WARNING') as logs:
                self.rotation.run_once()
            self.assertIn('as one does not take a new one', logs.output[0])
            self.assertIn(self.cluster_id, logs.output[0])
            for secret in (PASSPHRASE, 'ouch'):
                self.assertNotIn(secret, logs.output[0])
            self.assertEqual(self.NOTHING, self.asked()[1])
            self.assertEqual(before, self.get_files(self.agents[1]))
        # Not all the time.
        self.forget()
        self.rotation.run_once()
        self.assertEqual([self.NOTHING] * 2, self.asked())
        # What was uploaded is not in force as long as nobody reads it.
        self.agents[0].statuses = {}
        self.now += 600
        self.rotation.run_once()
        self.assertEqual([[*self.LOOKS, ('PUT', 'reload')], self.TAKES],
                         self.asked())
        self.assertEqual(*map(self.get_files, self.agents))

    def test_one_that_is_not_reached(self):
        self.now += PERIOD
        # Nobody listens there.
        self.records.change('amphora', 'amphora-1',
                            lb_network_ip='127.0.1.99')
        self.rotation.run_once()
        self.assertEqual([self.NOTHING, self.TAKES], self.asked())
        self.records.change('amphora', 'amphora-1',
                            lb_network_ip=self.agents[0].lb_network_ip)
        self.now += 600
        self.forget()
        self.rotation.run_once()
        self.assertEqual([self.TAKES, self.LOOKS], self.asked())

    def test_a_fault(self):
        """One cluster keeps nobody from the others, nor itself for good."""
        self.now += PERIOD
        real = ticket_rotation.tls_repo.get_agents
        self.patch(ticket_rotation.tls_repo, 'get_agents', lambda *_: 1 / 0)
        with self.assertLogs('octavia_hmsync', 'ERROR') as logs:
            self.rotation.run_once()
        self.assertIn(self.cluster_id, logs.output[0])
        self.assertTrue(claim_repo.claim(self.engine, self.cluster_id,
                                         'somebody', 60))
        claim_repo.release(self.engine, self.cluster_id, 'somebody')
        self.patch(ticket_rotation.tls_repo, 'get_agents', real)
        self.now += 600
        self.rotation.run_once()
        self.assertEqual([self.TAKES] * 2, self.asked())

    def test_somebody_changes_it(self):
        """A change brings the keys itself."""
        self.now += PERIOD
        self.records.change('load_balancer', self.lb.id,
                            provisioning_status='PENDING_UPDATE')
        self.rotation.run_once()
        self.records.change('load_balancer', self.lb.id,
                            provisioning_status='ACTIVE')
        claim_repo.claim(self.engine, self.cluster_id, 'somebody', 60)
        self.rotation.run_once()
        self.assertEqual([self.NOTHING] * 2, self.asked())
        claim_repo.release(self.engine, self.cluster_id, 'somebody')
        self.rotation.run_once()
        self.assertEqual([self.TAKES] * 2, self.asked())

    def test_nobody_listens_with_tls(self):
        self.records.change('listener', 'l1', protocol='HTTP')
        self.rotation.run_once()
        self.assertEqual([self.NOTHING] * 2, self.asked())

    def test_no_passphrase(self):
        self.conf.clear_override('server_certs_key_passphrase',
                                 group='certificates')
        self.now += PERIOD
        self.rotation.run_once()
        self.assertEqual([self.NOTHING] * 2, self.asked())

    def test_another_passphrase(self):
        self.conf.set_override('server_certs_key_passphrase',
                               'a' * 32, group='certificates')
        before = self.get_files(self.agents[0])
        self.rotation.run_once()
        self.assertEqual([self.TAKES] * 2, self.asked())
        self.assertNotIn(*before.values(),
                         self.get_files(self.agents[0]).values())
