# SPDX-License-Identifier: Apache-2.0

"""A replacement that this process has claimed."""

import threading
import types
from unittest import mock

import fixtures
from keystoneauth1 import exceptions as ks_exc
from octavia.certificates.manager import noop
from oslo_config import fixture as config_fixture

from octavia_hmsync.amphora import agent_client
from octavia_hmsync import compat
from octavia_hmsync.compat import amphora as compat_amphora
from octavia_hmsync import exceptions
from octavia_hmsync.image.replace import pair
from octavia_hmsync.image.replace import single
from octavia_hmsync.image.replace import work as work_
from tests.unit.amphora import test_agent_client
from tests.unit import base
from tests.unit.cluster import clusters


class TestWork(base.TestCase):

    def test_neutron_is_down(self):
        """Octavia's driver passes on what its request met with."""
        self.useFixture(fixtures.MockPatchObject(
            work_.agent_client, 'RestAgentClient'))
        self.useFixture(fixtures.MockPatchObject(
            compat_amphora, 'load_network_driver',
            side_effect=ks_exc.ConnectFailure('Unable to\nconnect.')))
        error = self.assertRaises(
            exceptions.CloudUnavailable, work_.Work, mock.Mock(),
            mock.sentinel.engine, mock.Mock(), mock.Mock())
        self.assertEqual('A driver of the network or compute service cannot '
                         'be used: Unable to connect.', str(error))

    def test_neutron_does_not_tell(self):
        """What it says no to is another thing than no answer."""
        self.useFixture(fixtures.MockPatchObject(
            work_.agent_client, 'RestAgentClient'))
        for name in ('load_network_driver', 'load_compute_driver'):
            self.useFixture(fixtures.MockPatchObject(compat_amphora, name))
        work = work_.Work(mock.Mock(host='hk'), mock.sentinel.engine,
                          mock.Mock(), mock.Mock())

        def ask(error):
            raise error

        error = self.assertRaises(
            exceptions.CloudUnavailable, work.ask_network, 'amphora', ask,
            compat_amphora.network_base.NetworkException('down'))
        self.assertIn('how amphora amphora is plugged in: see the log of the '
                      'housekeeper hk', str(error))
        for error in (compat_amphora.PortNotFound('gone'), KeyError('mtu')):
            self.assertRaises(type(error), work.ask_network, 'amphora', ask,
                              error)
        self.assertEqual('port', work.ask_network('amphora', str, 'port'))

    def test_time_to_take_listeners(self):
        """As much as Octavia's driver gives one of these requests."""
        for target, name in ((work_.agent_client, 'RestAgentClient'),
                             (compat_amphora, 'load_network_driver'),
                             (compat_amphora, 'load_compute_driver')):
            self.useFixture(fixtures.MockPatchObject(target, name))
        listeners = self.useFixture(fixtures.MockPatchObject(
            work_, 'Listeners')).mock
        conf = mock.MagicMock()
        work_.Work(conf, mock.sentinel.engine, mock.Mock(),
                   mock.Mock()).get_listeners(mock.sentinel.lb)
        self.assertIs(conf.haproxy_amphora.rest_request_read_timeout,
                      listeners.call_args.args[-1])


NAMES = ('old', 'other', 'new')
REF = 'https://barbican/v1/containers/1'


class ListenersTestCase(test_agent_client.AgentClientTestCase):
    """A load balancer whose amphorae are simulated agents."""

    secret_timeout = 30
    agent_timeout = 10

    def setUp(self):
        super().setUp()
        self.useFixture(config_fixture.Config(compat.CONF)).config(
            group='certificates', cert_manager='noop_cert_manager')
        # Octavia's driver marks listeners that it leaves out.
        self.useFixture(fixtures.MockPatch(
            'octavia.amphorae.drivers.haproxy.rest_api_driver.db_api',
            mock.MagicMock()))
        repositories = self.useFixture(fixtures.MockPatch(
            'octavia.amphorae.drivers.haproxy.rest_api_driver.repo',
            mock.MagicMock())).mock
        self.mark = repositories.ListenerRepository.return_value.update
        self.get_cert = self.useFixture(fixtures.MockPatchObject(
            noop.NoopCertManager, 'get_cert', autospec=True,
            side_effect=noop.NoopCertManager.get_cert)).mock
        self.client = agent_client.RestAgentClient(self.make_client_conf())
        self.lb = clusters.make_load_balancer()
        self.lb.topology = 'ACTIVE_STANDBY'
        self.agents = {}
        for number, name in enumerate(NAMES, 1):
            agent = self.useFixture(clusters.Agent(
                name, f'127.0.1.{number}', self.certificates,
                port=self.port))
            self.agents[name] = agent
            amphora = clusters.add_amphora(self.lb, name,
                                           agent.lb_network_ip,
                                           f'192.0.2.{number}')
            amphora.role = 'MASTER'

    def get(self):
        return work_.Listeners(self.client, self.lb, self.secret_timeout,
                               self.agent_timeout)

    def changes(self):
        """Return who was asked for something else than to tell."""
        return [name for name, agent in self.agents.items()
                if any(method != 'GET' for method, _path, _body
                       in agent.requests)]


class TestListeners(ListenersTestCase):

    def update(self):
        self.get().update(self.lb, self.lb.amphorae[2])

    def test_all(self):
        clusters.add_listener(self.lb, 'web')
        clusters.add_listener(self.lb, 'tls', protocol='TERMINATED_HTTPS',
                              tls_certificate_id=REF)
        self.update()
        self.assertEqual(['new'], self.changes())
        agent = self.agents['new']
        configuration = agent.state.files[f'{self.lb.id}/haproxy'].decode()
        self.assertIn('frontend web', configuration)
        self.assertIn('frontend tls', configuration)
        self.assertTrue(any(path.endswith('.pem') for path in agent.asked()))

    def test_none(self):
        self.update()
        self.assertEqual([], self.changes())

    def test_certificate_is_not_taken(self):
        """Octavia's driver would go on without the listener."""
        clusters.add_listener(self.lb, 'web')
        clusters.add_listener(self.lb, 'tls', protocol='TERMINATED_HTTPS',
                              tls_certificate_id=REF)
        self.agents['new'].statuses['certificates/'] = 500
        e = self.assertRaises(exceptions.AgentRefused, self.update)
        self.assertIn('are not taken: amphora new: its agent answered 500 to '
                      'PUT', str(e))
        self.assertFalse(any(path.endswith('/haproxy') for path in
                             self.agents['new'].asked()))
        self.mark.assert_not_called()

    def test_left_out(self):
        """Whatever the reason is: it is not uploaded without the listener."""
        clusters.add_listener(self.lb, 'web')
        clusters.add_listener(self.lb, 'tls', protocol='TERMINATED_HTTPS',
                              tls_certificate_id=REF)
        self.useFixture(fixtures.MockPatch(
            'octavia.amphorae.drivers.haproxy.rest_api_driver.cert_parser.'
            'build_pem', side_effect=ValueError))
        e = self.assertRaises(exceptions.AgentRefused, self.update)
        self.assertIn('leaves listener tls out', str(e))
        self.assertEqual([], self.changes())

    def test_secret_that_is_lost(self):
        clusters.add_listener(self.lb, 'web')
        clusters.add_listener(self.lb, 'tls', protocol='TERMINATED_HTTPS',
                              tls_certificate_id=REF)
        self.get_cert.side_effect = ValueError('not\nthere')
        e = self.assertRaises(exceptions.SecretsUnavailable, self.update)
        self.assertIn('What listener tls needs cannot be fetched', str(e))
        self.assertEqual([], self.changes())

    def test_nothing_secret_is_said(self):
        clusters.add_listener(self.lb, 'tls', protocol='TERMINATED_HTTPS',
                              tls_certificate_id=REF)
        self.agents['new'].statuses['certificates/'] = 500
        e = self.assertRaises(exceptions.AgentRefused, self.update)
        self.assertNotIn('ouch', str(e))
        self.assertNotIn('BEGIN', str(e))


class TestHang(ListenersTestCase):

    secret_timeout = 0.5

    def test_it(self):
        clusters.add_listener(self.lb, 'tls', protocol='TERMINATED_HTTPS',
                              tls_certificate_id=REF)
        ended = threading.Event()
        self.addCleanup(ended.set)
        self.get_cert.side_effect = lambda *_a, **_k: ended.wait(60)
        e = self.assertRaises(exceptions.SecretsUnavailable, self.get)
        self.assertIn('within 0.5 s, and no amphora was changed', str(e))
        self.assertEqual([], self.changes())


class TestTopologies(ListenersTestCase):
    """The certificate manager is away; nobody who serves is touched."""

    def make_work(self, holder):
        self.keepalived = []
        work = mock.Mock(spec=work_.Work, engine=None, network=None)

        def get_load_balancer(without=()):
            found = clusters.make_load_balancer()
            vars(found).update(vars(self.lb))
            found.amphorae = [each for each in self.lb.amphorae
                              if each.id not in without]
            return found
        work.get_load_balancer.side_effect = get_load_balancer
        work.get_listeners.side_effect = lambda lb: self.get()
        work.insist.side_effect = lambda function, *args: function(*args)
        work.agent_of.side_effect = lambda each: types.SimpleNamespace(
            get_interface=lambda address: 'eth1',
            upload_keepalived=lambda text: None,
            reload_keepalived=lambda: self.keepalived.append(each.id),
            start_keepalived=lambda: self.keepalived.append(each.id))
        work.find_holders.side_effect = lambda amphorae, vip: {
            each.id: each.id == holder for each in amphorae}
        for target, name, new in (
                (pair.octavia_repo, 'set_interface', lambda *args: None),
                (pair.compat_amphora, 'render_keepalived',
                 lambda *args: 'usual'),
                (pair, 'prefer', lambda text: text),
                (single.own_list, 'give_of_zone', lambda *args: None)):
            self.useFixture(fixtures.MockPatchObject(target, name, new))
        return work

    def test_pair(self):
        for persistence in (None, 'SOURCE_IP', 'APP_COOKIE'):
            for protocols in (('TERMINATED_HTTPS',),
                              ('HTTP', 'TERMINATED_HTTPS')):
                with self.subTest(f'{persistence} {protocols}'):
                    self._test_pair(persistence, protocols)

    def _test_pair(self, persistence, protocols):
        del self.lb.listeners[:]
        del self.lb.pools[:]
        for number, protocol in enumerate(protocols):
            clusters.add_listener(
                self.lb, f'listener{number}', persistence, protocol,
                tls_certificate_id=REF if number == len(protocols) - 1
                else None)
        old, _other, new = self.lb.amphorae
        topology = pair.Pair(self.make_work('old'))
        self.get_cert.side_effect = OSError('503')
        self.assertRaises(exceptions.SecretsUnavailable, topology.configure,
                          old, new)
        self.assertEqual([], self.keepalived)
        # As after a proof that failed.
        self.assertRaises(exceptions.SecretsUnavailable, topology.settle,
                          'new')
        self.assertEqual(['old', 'other'], self.keepalived)
        self.assertEqual([], self.changes())
        self.mark.assert_not_called()

    def test_single(self):
        clusters.add_listener(self.lb, 'tls', protocol='TERMINATED_HTTPS',
                              tls_certificate_id=REF)
        old, _other, new = self.lb.amphorae
        self.get_cert.side_effect = OSError('503')
        self.assertRaises(exceptions.SecretsUnavailable, single.Single(
            self.make_work('old')).configure, old, new)
        self.assertEqual([], self.changes())
