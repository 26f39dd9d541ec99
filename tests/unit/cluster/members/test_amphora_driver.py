# SPDX-License-Identifier: Apache-2.0

"""Whom the amphora driver hmsync asks, and that others notice nothing."""

import inspect
from unittest import mock

import fixtures
from octavia.common import data_models
from octavia.network import data_models as network_models
from oslo_config import fixture as config_fixture

from octavia_hmsync.cluster.members import amphora_driver
from octavia_hmsync.cluster.members import update
from octavia_hmsync import compat
from octavia_hmsync.compat import amphora_driver as compat_driver
from tests.unit import base
from tests.unit.cluster import clusters

AGENT_CONFIG = ('[controller_worker]\nloadbalancer_topology = SINGLE\n'
                '[x]\nloadbalancer_topologies = 1\n')
SUBNET = {'cidr': '192.0.2.0/24', 'gateway_ip': '192.0.2.1',
          'host_routes': []}
NETWORK = {'vip_subnet': SUBNET, 'additional_vip_data': [],
           'vrrp_port': {'mac_address': 'fa:16:3e:00:00:01'}}
TIMEOUTS = {'conn_max_retries': 2, 'conn_retry_interval': 1}


class Client(compat_driver._Notes):
    """One that takes note of all that it is asked for."""

    def __init__(self):
        super().__init__()
        self.asked = []

    def request(self, method, amp, path='/', timeout_dict=None,
                retry_404=True, raise_retry_exception=False, **kwargs):
        self.asked.append((method, amp.id, path, timeout_dict, retry_404,
                           raise_retry_exception, repr(kwargs)))
        return super().request(method, amp, path, timeout_dict, **kwargs)


class DriverTestCase(base.TestCase):

    def setUp(self):
        super().setUp()
        self.useFixture(config_fixture.Config(compat.CONF)).config(
            group='certificates', cert_manager='noop_cert_manager')
        self.updater = mock.create_autospec(update.Updater, instance=True)
        self.get_updater = self.useFixture(fixtures.MockPatchObject(
            amphora_driver, 'get_updater', return_value=self.updater)).mock

    def make(self, topology, role):
        """Make a load balancer with two amphorae, and listeners."""
        self.lb = lb = clusters.make_load_balancer()
        lb.id = 'lb'
        lb.topology = topology
        lb.vrrp_group = data_models.VRRPGroup(vrrp_group_name='group')
        for number in '12':
            amphora = clusters.add_amphora(lb, f'amphora-{number}',
                                           f'192.0.2.13{number}',
                                           f'192.0.2.{number}')
            amphora.role = role
            amphora.vrrp_interface = 'eth1'
        clusters.add_listener(lb, 'l1', persistence='SOURCE_IP')
        clusters.add_listener(lb, 'l2', protocol='TERMINATED_HTTPS',
                              tls_certificate_id='the ref')
        udp = clusters.add_listener(lb, 'l3', protocol='UDP')
        udp.default_pool.protocol = 'UDP'
        self.port = network_models.Port(
            id='port', mac_address='fa:16:3e:00:00:01', fixed_ips=[],
            network=network_models.Network(mtu=1450), vnic_type='normal')

    def calls(self):
        """Arguments of each call that Octavia makes, by method."""
        one = self.lb.amphorae[0]
        return {
            'update': [(self.lb,)],
            'update_amphora_listeners': [(self.lb, one, TIMEOUTS),
                                         (self.lb, one), (self.lb, None)],
            'delete': [(self.lb.listeners[2],), (self.lb.listeners[1],)],
            'start': [(self.lb,), (self.lb, one), (self.lb, one, TIMEOUTS)],
            'reload': [(self.lb,), (self.lb, one, TIMEOUTS)],
            'post_network_plug': [(one, self.port, {})],
            'upload_cert_amp': [(one, b'PEM')],
            'update_amphora_agent_config': [(one, AGENT_CONFIG),
                                            (one, AGENT_CONFIG, TIMEOUTS)],
            'update_vrrp_conf': [
                (self.lb, {one.id: NETWORK}, one, TIMEOUTS)],
        }

    def test_all_that_differs_is_asked_for(self):
        self.make('SINGLE', 'STANDALONE')
        own = {name for name, value
               in vars(amphora_driver.ClusterAmphoraDriver).items()
               if callable(value) and not name.startswith('_')}
        self.assertEqual(own, set(self.calls()))


class TestOtherLoadBalancers(DriverTestCase):

    def ask(self, driver, topology, role, name):
        """Return all that an agent is asked for by a method's calls."""
        driver = driver()
        client = Client()
        driver.clients = {'base': client, '1.0': client}
        self.make(topology, role)
        for args in self.calls()[name]:
            getattr(driver, name)(*args)
        return client.asked

    def test_they_are_octavias(self):
        for topology, role in (('SINGLE', 'STANDALONE'),
                               ('ACTIVE_STANDBY', 'MASTER'),
                               ('ACTIVE_STANDBY', 'BACKUP')):
            self.make(topology, role)
            for name in self.calls():
                with self.subTest(topology=topology, name=name):
                    stock = self.ask(compat_driver.StockDriver, topology,
                                     role, name)
                    self.assertNotEqual([], stock)
                    self.assertEqual(stock, self.ask(
                        amphora_driver.ClusterAmphoraDriver, topology, role,
                        name))
        self.get_updater.assert_not_called()

    def test_it_takes_what_octavias_takes(self):
        for name in self._methods():
            stock, own = (inspect.signature(getattr(driver, name))
                          for driver in (compat_driver.StockDriver,
                                         amphora_driver.ClusterAmphoraDriver))
            self.assertEqual(list(stock.parameters), list(own.parameters))

    def _methods(self):
        self.make('SINGLE', 'STANDALONE')
        return self.calls()


class TestClusters(DriverTestCase):

    def setUp(self):
        super().setUp()
        self.make('ACTIVE_ACTIVE', 'IN_CLUSTER')
        self.driver = amphora_driver.ClusterAmphoraDriver()
        # It asks nobody by itself.
        self.driver.clients = {}
        self.one = self.lb.amphorae[0]

    def assertAsked(self, name, *args):
        self.assertEqual([getattr(mock.call, name)(*args)],
                         self.updater.mock_calls)
        self.updater.reset_mock()

    def test_all(self):
        self.driver.update(self.lb)
        self.assertAsked('update', self.lb)
        self.driver.delete(self.lb.listeners[0])
        self.assertAsked('delete_listener', self.lb.listeners[0])
        self.driver.start(self.lb)
        self.assertAsked('act', self.lb, 'start')
        self.driver.reload(self.lb, None, TIMEOUTS)
        self.assertAsked('act', self.lb, 'reload')

    def test_one(self):
        self.driver.update_amphora_listeners(self.lb, self.one, TIMEOUTS)
        self.assertAsked('update_amphora', self.lb, self.one)
        self.driver.start(self.lb, self.one)
        self.assertAsked('act_on', self.lb, self.one, 'start')
        self.driver.post_network_plug(self.one, self.port, {})
        self.assertAsked('tell_member', self.one, 'post_network_plug',
                         self.port, {})
        self.driver.upload_cert_amp(self.one, b'PEM')
        self.assertAsked('tell_amphora', self.one, 'upload_cert_amp', b'PEM')

    def test_one_that_is_gone(self):
        self.driver.update_amphora_listeners(self.lb, None)
        self.one.status = 'DELETED'
        self.driver.update_amphora_listeners(self.lb, self.one)
        self.assertEqual([], self.updater.mock_calls)

    def test_its_agent_is_always_one_of_a_pair(self):
        """Else it announces the VIP whenever haproxy is loaded anew."""
        self.driver.update_amphora_agent_config(self.one, AGENT_CONFIG)
        self.assertAsked(
            'tell_amphora', self.one, 'update_amphora_agent_config',
            '[controller_worker]\nloadbalancer_topology = ACTIVE_STANDBY\n'
            '[x]\nloadbalancer_topologies = 1\n')

    def test_its_keepalived_is_never_one_of_a_pair(self):
        self.driver.update_vrrp_conf(self.lb, {self.one.id: NETWORK},
                                     self.one)
        (name, (amphora, requests), _), = self.updater.mock_calls
        self.assertEqual(('give', self.one), (name, amphora))
        upload, start = requests
        self.assertEqual(['vrrp/upload', 'vrrp/start'],
                         [upload.path, start.path])
        self.assertIn(f'{clusters.VIP}/32 dev lo', upload.body)
        self.assertNotIn('vrrp_instance', upload.body)
