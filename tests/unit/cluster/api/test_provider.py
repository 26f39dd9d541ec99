# SPDX-License-Identifier: Apache-2.0

"""What octavia-api asks provider amphora_cluster for, and what comes of it."""

import contextlib
import json
import types
import unittest
from unittest import mock

import fixtures
import hypothesis
from hypothesis import strategies as st
from octavia.common import constants
from octavia.common import exceptions as octavia_except
from octavia.common import rpc
from octavia.network import base as network_base
from octavia.network import data_models as network_models
from octavia_lib.api.drivers import data_models
from octavia_lib.api.drivers import exceptions as driver_except
from openstack import exceptions as sdk_exc
from oslo_config import fixture as config_fixture
import oslo_messaging
import requests

from octavia_hmsync.cluster.api import provider
from octavia_hmsync.cluster.api import topics
from octavia_hmsync.cluster.distribution.ovn import nat
from octavia_hmsync.cluster.rules import sizes
from octavia_hmsync import compat
from octavia_hmsync.compat import provider as compat_provider
from octavia_hmsync.conf import ovn as ovn_conf
from octavia_hmsync.db import schema
from octavia_hmsync import exceptions
from tests.unit import base


scalars = (st.none() | st.booleans() | st.integers(-2, 12) | st.floats() |
           st.text(max_size=5))
json_values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) |
    st.dictionaries(st.text(max_size=5), inner, max_size=3), max_leaves=5)
flavors = st.dictionaries(
    st.sampled_from([*sizes.KEYS, 'compute_flavor', 'amp_image_tag',
                     'sriov_vip', 'loadbalancer_topology', 'other']),
    scalars | st.sampled_from(sizes.AFFINITIES), max_size=4)


class Queue:
    """What is cast, by topic; nobody listens where topics are missing."""

    def __init__(self):
        self.cast = []
        self.missing = set()

    def get_client(self, target, **_):
        return Client(self, target)


class Client:

    def __init__(self, queue, target, is_sure=False):
        self._queue = queue
        self._target = target
        self._is_sure = is_sure

    def prepare(self, transport_options):
        return Client(self._queue, self._target,
                      transport_options.at_least_once)

    def cast(self, _context, method, **arguments):
        if self._target.topic in self._queue.missing:
            if self._is_sure:
                raise oslo_messaging.MessageUndeliverable(
                    None, None, None, None)
            return
        self._queue.cast.append((self._target.topic, method, arguments))


class Network:
    """The network driver of a cloud with one network."""

    def __init__(self):
        self.is_secure = True
        # Neutron tells it to administrators.
        self.kind = None
        self.vnic_types = {}
        self.ports = set()
        self.fails_to_delete = False
        self.in_use = False
        self.free = 10
        self.error = None
        # (subnet, owner of the router's port), where somebody asks.
        self.routers = set()
        # Subnets whose router goes outside.
        self.outside = set()
        self.network_proxy = types.SimpleNamespace(
            ports=self.get_routers, get=self.get,
            find_router=self.find_router)
        # What Neutron shows of the network, and with which status.
        self.shown = {'l2_adjacency': True}
        self.status = 200

    def get_network(self, network_id, context=None):
        return network_models.Network(
            id=network_id, port_security_enabled=self.is_secure,
            provider_network_type=self.kind)

    def get(self, path):
        assert path == '/networks/network'
        answer = requests.Response()
        answer.status_code = self.status
        answer.headers['Content-Type'] = 'application/json'
        answer._content = json.dumps({'network': self.shown}).encode()
        return answer

    def get_port(self, port_id, context=None):
        return network_models.Port(
            id=port_id, vnic_type=self.vnic_types.get(port_id, 'normal'))

    def allocate_vip(self, load_balancer):
        if self.error:
            raise self.error
        if self.in_use:
            raise network_base.VIPInUseException('taken', orig_msg='taken')
        vip = load_balancer.vip
        if not vip.port_id:
            vip.port_id = 'made'
            self.ports.add('made')
        return vip, load_balancer.additional_vips

    def get_routers(self, network_id, device_owner):
        assert network_id == 'network'
        return [types.SimpleNamespace(fixed_ips=[{'subnet_id': subnet}],
                                      device_id=f'router-{subnet}')
                for subnet, owner in self.routers if owner == device_owner]

    def find_router(self, router_id):
        subnet = router_id.removeprefix('router-')
        if subnet == 'gone':
            return None
        return types.SimpleNamespace(external_gateway_info={
            'network_id': 'public'} if subnet in self.outside else None)

    def get_network_ip_availability(self, network):
        if self.free is None:
            raise network_base.NetworkException('no such extension')
        return network_models.Network_IP_Availability(
            network_id=network.id, subnet_ip_availability=[
                {'subnet_id': 'other', 'total_ips': 1, 'used_ips': 1},
                {'subnet_id': 'subnet', 'total_ips': 250,
                 'used_ips': 250 - self.free}])

    def delete_port(self, port_id):
        if self.fails_to_delete:
            raise network_base.NetworkException('Neutron is away')
        self.ports.remove(port_id)


class ProviderTestCase(base.TestCase):

    def setUp(self):
        super().setUp()
        self.queue = Queue()
        self.useFixture(fixtures.MockPatchObject(
            rpc, 'get_client', self.queue.get_client))
        self.network = Network()
        self.useFixture(fixtures.MockPatchObject(
            compat_provider.utils, 'get_network_driver',
            lambda: self.network))
        self.schema = None
        self.useFixture(fixtures.MockPatchObject(
            schema, 'check', self._check_schema))
        self.useFixture(fixtures.MockPatchObject(
            compat_provider, 'begin', self._begin))
        self.conf = self.useFixture(config_fixture.Config(compat.CONF))
        self.driver = provider.ClusterProviderDriver()
        self.set(amphora_driver='hmsync', distributor_driver='hmsync_ovs')
        self.set_cluster(distributors=['https://network1:9444'],
                         desired_size=4, min_size=2)
        self.log = self.useFixture(fixtures.FakeLogger())

    def set(self, **options):
        self.conf.config(group='controller_worker', **options)

    def set_cluster(self, **options):
        self.conf.config(group='hmsync_cluster', **options)

    @contextlib.contextmanager
    def _begin(self):
        class Session:
            def connection(self):
                return None
        yield Session()

    def _check_schema(self, _connection):
        if self.schema:
            raise self.schema

    def create(self, port_id=None, flavor=data_models.Unset, **attributes):
        vip = {'vip_network_id': 'network', 'vip_subnet_id': 'subnet'}
        if port_id:
            vip['vip_port_id'] = port_id
        vip, _ = self.driver.create_vip_port('lb', 'project', vip, [])
        self.driver.loadbalancer_create(data_models.LoadBalancer(
            loadbalancer_id='lb', vip_port_id=vip['vip_port_id'],
            vip_network_id='network', vip_subnet_id='subnet',
            flavor=flavor, **attributes))

    def assertRefused(self, kind, words, call, *args, **kwargs):
        """Nothing is cast, no port is left, and the user is told why."""
        e = self.assertRaises(kind, call, *args, **kwargs)
        for word in words:
            self.assertIn(word, e.user_fault_string)
        self.assertEqual([], self.queue.cast)
        self.assertEqual(set(), self.network.ports)
        return e

    def assertUnsupported(self, words, call, *args, **kwargs):
        return self.assertRefused(
            driver_except.UnsupportedOptionError, words, call, *args, **kwargs)

    def assertNotSetUp(self, words):
        """The user is sent to the operator, whose log has what to do."""
        e = self.assertUnsupported(['not set up'], self.create)
        for word in words:
            self.assertIn(word, e.operator_fault_string)
            self.assertIn(word, self.log.output)
            self.assertNotIn(word, e.user_fault_string)


class TestLoadBalancers(ProviderTestCase):

    def test_created(self):
        self.create(flavor={'compute_flavor': 'm1'},
                    availability_zone={'compute_zone': 'az1'})
        self.assertEqual([(topics.TOPIC, topics.CREATE, {
            'load_balancer_id': 'lb',
            'flavor': {'compute_flavor': 'm1', 'cluster_desired_size': 4,
                       'cluster_min_size': 2, 'cluster_affinity': 'FLOW'},
            'availability_zone': {'compute_zone': 'az1'}})], self.queue.cast)
        self.assertEqual({'made'}, self.network.ports)

    def test_nothing_set(self):
        self.create()
        self.assertEqual({}, self.queue.cast[0][2]['availability_zone'])

    def test_deleted(self):
        for cascade in (False, True):
            self.driver.loadbalancer_delete(
                data_models.LoadBalancer(loadbalancer_id='lb'), cascade)
        self.assertEqual([
            (topics.TOPIC, topics.DELETE,
             {'load_balancer_id': 'lb', 'cascade': False}),
            (topics.TOPIC, topics.DELETE,
             {'load_balancer_id': 'lb', 'cascade': True})], self.queue.cast)

    def test_failed_over(self):
        self.driver.loadbalancer_failover('lb')
        self.assertEqual([(topics.TOPIC, topics.FAILOVER,
                           {'load_balancer_id': 'lb'})], self.queue.cast)

    def test_signatures(self):
        """Whoever serves them gets what is written down."""
        self.create()
        self.driver.loadbalancer_delete(
            data_models.LoadBalancer(loadbalancer_id='lb'))
        self.driver.loadbalancer_failover('lb')
        self.assertEqual(set(topics.SIGNATURES),
                         {method for _, method, _ in self.queue.cast})
        for _, method, arguments in self.queue.cast:
            signature = topics.SIGNATURES[method]
            self.assertEqual(set(signature.parameters), set(arguments))

    def test_all_else_is_octavias(self):
        self.driver.loadbalancer_update(
            data_models.LoadBalancer(loadbalancer_id='lb'),
            data_models.LoadBalancer(loadbalancer_id='lb', name='x'))
        self.driver.listener_create(data_models.Listener(
            listener_id='listener', protocol='TCP'))
        self.driver.pool_create(data_models.Pool(
            pool_id='pool', protocol='HTTP', lb_algorithm='ROUND_ROBIN'))
        self.assertEqual(
            [(constants.TOPIC_AMPHORA_V2, method) for method in (
                'update_load_balancer', 'create_listener', 'create_pool')],
            [cast[:2] for cast in self.queue.cast])

    @unittest.skipUnless(hasattr(driver_except, 'Conflict'),
                         'is refused as anything else in this release')
    def test_address_taken(self):
        self.network.in_use = True
        self.assertRefused(driver_except.Conflict, ['taken'], self.create)


class TestProtocols(ProviderTestCase):

    def listener(self, protocol):
        return data_models.Listener(listener_id='listener', protocol=protocol)

    def pool(self, protocol):
        return data_models.Pool(pool_id='pool', protocol=protocol,
                                lb_algorithm='ROUND_ROBIN')

    def assert_refused(self, protocol, *words):
        words = [f'has no {{}} of protocol {protocol}', 'TERMINATED_HTTPS',
                 'Provider amphora', *words]
        for kind in ('listener', 'pool'):
            self.assertUnsupported(
                [word.format(kind) for word in words],
                getattr(self.driver, f'{kind}_create'),
                getattr(self, kind)(protocol))

    def test_refused(self):
        for protocol in ('UDP', 'SCTP'):
            self.assert_refused(protocol, 'distributors of Open vSwitch')

    def test_ovn(self):
        """OVN follows datagrams; nobody has tried SCTP with it."""
        self.conf.config(group='controller_worker',
                         distributor_driver='hmsync_ovn')
        self.assert_refused('SCTP', 'has not been tried', 'UDP')
        self.driver.listener_create(self.listener('UDP'))
        self.driver.pool_create(self.pool('UDP'))
        self.assertEqual(2, len(self.queue.cast))

    def test_refused_with_the_load_balancer(self):
        for protocol in ('UDP', 'SCTP'):
            for parts in ({'listeners': [self.listener('TCP'),
                                         self.listener(protocol)]},
                          {'pools': [self.pool(protocol)]}):
                self.assertUnsupported(
                    [f'of protocol {protocol}'], self.create, **parts)

    def test_all_others(self):
        for protocol in ('TCP', 'HTTP', 'HTTPS', 'TERMINATED_HTTPS',
                         'PROMETHEUS'):
            self.driver.listener_create(self.listener(protocol))
        self.assertEqual(5, len(self.queue.cast))

    def test_a_given_port_is_left(self):
        """What a tenant gave is not ours to delete."""
        self.network.ports.add('theirs')
        self.assertRaises(driver_except.UnsupportedOptionError, self.create,
                          'theirs', pools=[self.pool('UDP')])
        self.assertEqual({'theirs'}, self.network.ports)

    def test_port_that_cannot_be_deleted(self):
        """What was wrong with the request is what is told."""
        self.network.fails_to_delete = True
        self.assertRaises(driver_except.UnsupportedOptionError, self.create,
                          pools=[self.pool('UDP')])
        self.assertIn('Port made of a load balancer that was refused',
                      self.log.output)
        self.assertIn('Neutron is away', self.log.output)


class TestNetworks(ProviderTestCase):

    def test_no_port_security(self):
        self.network.is_secure = False
        self.assertUnsupported(['Port security is off in network network'],
                               self.create)

    def test_routed(self):
        """Before there is a port; whoever waited would find ERROR."""
        self.network.shown = {'l2_adjacency': False}
        for port_id in (None, 'theirs'):
            self.assertUnsupported(
                ['Network network is a routed one', 'with one segment'],
                self.create, port_id)

    def test_nobody_knows_of_segments(self):
        """Neutron has no such extension, or Octavia's driver is noop."""
        self.network.shown = {}
        self.create()
        del self.network.network_proxy
        self.network.ports.clear()
        self.create()
        self.assertEqual(2, len(self.queue.cast))

    def test_segments_and_neutron_down(self):
        self.network.status = 503
        self.assertRaises(sdk_exc.HttpException, self.create)
        self.assertEqual(([], set()), (self.queue.cast, self.network.ports))

    def test_given_port(self):
        self.create('theirs')
        self.assertEqual(1, len(self.queue.cast))

    def test_direct_port(self):
        self.network.vnic_types['theirs'] = 'direct'
        self.assertUnsupported(
            ['Port theirs has the vnic_type direct', 'vnic_type normal'],
            self.create, 'theirs')

    def test_port_that_neutron_refuses(self):
        self.network.error = network_base.AllocateVIPException(
            'failed', orig_msg='not in the subnet', orig_code=400)
        self.assertUnsupported(['not in the subnet'], self.create)

    def test_neutron_down(self):
        """It is nobody's request that is wrong."""
        for code in (503, None):
            self.network.error = network_base.AllocateVIPException(
                'failed', orig_msg='overloaded', orig_code=code)
            self.assertRefused(driver_except.DriverError, ['overloaded'],
                               self.create)

    def test_addresses(self):
        for distributors, free, is_enough in (
                (1, 5, True), (1, 4, False), (2, 6, True), (2, 5, False),
                (3, 6, True)):
            self.set_cluster(distributors=[
                f'https://network{number}:9444'
                for number in range(distributors)])
            self.network.free = free
            self.network.ports.clear()
            self.queue.cast.clear()
            if is_enough:
                self.create()
                continue
            self.assertUnsupported(
                [f'Subnet subnet has {free} free addresses',
                 f'4 amphorae takes {4 + distributors}'], self.create)

    def test_addresses_of_distributors_in_instances(self):
        for listed, booted, needed in ((0, 2, 6), (1, 1, 6), (1, 4, 6),
                                       (0, 1, 5)):
            self.set_cluster(distributor_instances=booted, distributors=[
                f'https://network{number}:9444'
                for number in range(listed)])
            self.network.free = needed - 1
            self.network.ports.clear()
            self.queue.cast.clear()
            self.assertUnsupported([f'4 amphorae takes {needed}'],
                                   self.create)
            self.network.free = needed
            self.create()

    def test_routers_with_ovn(self):
        """A router answers for the VIP."""
        self.set(distributor_driver='hmsync_ovn')
        self.set_cluster(distributors=[])
        more = [{'ip_address': 'fd00::5', 'subnet_id': 'subnet6'}]
        self.assertUnsupported(
            ['No router is in subnet subnet,', 'Add the subnet to a router'],
            self.create)
        self.network.routers.add(('subnet', 'network:router_interface'))
        self.network.routers.add(('subnet6', 'network:dhcp'))
        self.create()
        self.queue.cast.clear()
        self.network.ports.clear()
        self.assertUnsupported(['No router is in subnet subnet6,'],
                               self.create, additional_vips=more)
        self.network.routers.add(
            ('subnet6', 'network:router_interface_distributed'))
        self.create(additional_vips=more)

    def test_networks_outside_of_ovn(self):
        """Neither a router nor who is outside of OVN reaches a member."""
        self.network.routers.add(('subnet', 'network:router_interface'))
        for driver, kind, is_refused in (
                ('hmsync_ovn', 'vlan', True), ('hmsync_ovn', 'flat', True),
                ('hmsync_ovn', 'geneve', False),
                ('hmsync_ovs', 'vlan', False)):
            self.set(distributor_driver=driver)
            self.network.kind = kind
            self.network.ports.clear()
            if is_refused:
                self.assertUnsupported(
                    [f'Network network is of type {kind}', 'type geneve'],
                    self.create)
            else:
                self.create()
        self.assertEqual(2, len(self.queue.cast))

    def test_distributed_routers(self):
        """Their clients would not come to distributors."""
        distributed = 'network:router_interface_distributed'
        self.network.routers.update((
            ('subnet', 'network:router_interface'), ('other', distributed)))
        self.create()
        self.queue.cast.clear()
        self.network.ports.clear()
        self.network.routers.add(('subnet6', distributed))
        more = [{'ip_address': 'fd00::5', 'subnet_id': 'subnet6'}]
        self.assertUnsupported(
            ['Subnet subnet6 has a distributed router (DVR)',
             'Choose a subnet whose router is not'],
            self.create, additional_vips=more)
        self.network.routers.add(('subnet', distributed))
        self.assertUnsupported(['Subnet subnet has a distributed router'],
                               self.create)
        # Octavia's noop driver does not tell.
        del self.network.network_proxy
        self.network.ports.clear()
        self.create()

    def test_distributed_floating_ips(self):
        """OVN would translate nothing back."""
        found = {}
        self.useFixture(fixtures.MockPatchObject(
            nat, 'find_distributed', lambda conf, timeout: found))
        self.network.routers.update(
            (subnet, 'network:router_interface')
            for subnet in ('subnet', 'other', 'gone'))
        self.network.outside.add('subnet')
        found['port'] = '203.0.113.9'
        # Nobody says where OVN is, as with ML2/OVS.
        self.create()
        self.conf.register_opts(ovn_conf.OPTS, group='ovn')
        self.conf.config(group='ovn',
                         ovn_nb_connection=['tcp:192.0.2.1:6641'])
        self.network.ports.clear()
        self.queue.cast.clear()
        self.assertUnsupported(
            ['Subnet subnet has a router with an external gateway.',
             'Choose a subnet whose router has no'], self.create)
        self.network.outside.remove('subnet')
        self.network.outside.add('other')
        self.create()
        self.network.outside.add('subnet')
        for driver, distributed in (('hmsync_ovs', {}),
                                    ('hmsync_ovn', {'port': '::1'})):
            self.set(distributor_driver=driver)
            found.clear()
            found.update(distributed)
            self.network.ports.clear()
            self.create()
        # Octavia's noop driver does not tell.
        self.set(distributor_driver='hmsync_ovs')
        found['port'] = '203.0.113.9'
        del self.network.network_proxy
        self.network.ports.clear()
        self.create()

    def test_addresses_with_ovn(self):
        """It asks members from one of its own."""
        self.set(distributor_driver='hmsync_ovn')
        self.network.routers.add(('subnet', 'network:router_interface'))
        self.network.free = 4
        self.assertUnsupported(['4 free addresses', 'takes 5'], self.create)
        self.network.free = 5
        self.create()
        # Octavia's noop driver does not tell.
        del self.network.network_proxy
        self.network.ports.clear()
        self.create()

    def test_addresses_for_standby(self):
        self.set_cluster(standby=1)
        self.network.free = 5
        self.assertUnsupported(['5 free addresses', '5 amphorae'],
                               self.create)

    def test_addresses_of_a_flavor(self):
        self.network.free = 5
        self.create(flavor={'cluster_desired_size': 3})
        self.assertEqual(1, len(self.queue.cast))

    def test_nobody_knows_of_addresses(self):
        self.network.free = None
        self.create()
        self.assertEqual(1, len(self.queue.cast))


class TestNotSetUp(ProviderTestCase):

    def test_amphora_driver(self):
        self.set(amphora_driver='amphora_haproxy_rest_driver')
        self.assertNotSetUp(['amphora_driver is amphora_haproxy_rest_driver',
                             'set it to hmsync'])

    def test_distributor_driver(self):
        self.set(distributor_driver='distributor_noop_driver')
        self.assertNotSetUp(['distributor_driver is distributor_noop_driver',
                             'set it to hmsync_ovs'])

    def test_no_distributors(self):
        self.set_cluster(distributors=[])
        self.assertNotSetUp(['[hmsync_cluster] distributors is empty'])

    def test_distributor_driver_by_others(self):
        """It is told too little; see cluster-operations.rst."""
        self.set(distributor_driver='another')
        self.assertNotSetUp(['distributor_driver is another',
                             'set it to hmsync_ovs'])

    def test_no_distributor_address(self):
        self.set_cluster(distributors=['network1'])
        self.assertNotSetUp(['[hmsync_cluster] distributors cannot be used'])

    def test_sizes(self):
        self.set_cluster(min_size=5)
        self.assertNotSetUp(['min_size', 'desired_size'])

    def test_no_tables(self):
        self.schema = exceptions.SchemaMissing(
            'run "octavia-hmsync db upgrade"')
        self.assertNotSetUp(['octavia-hmsync db upgrade'])

    def test_newer_tables(self):
        self.schema = exceptions.SchemaNewer('newer')
        self.create()
        self.assertEqual(1, len(self.queue.cast))

    def test_nobody_serves_clusters(self):
        self.queue.missing.add(topics.TOPIC)
        self.assertNotSetUp(['no octavia-worker serves clusters'])

    def test_what_is_there_can_be_deleted(self):
        self.set(amphora_driver='amphora_haproxy_rest_driver')
        self.driver.loadbalancer_delete(
            data_models.LoadBalancer(loadbalancer_id='lb'), True)
        self.assertEqual(1, len(self.queue.cast))


class TestFlavors(ProviderTestCase):

    def test_metadata(self):
        self.assertEqual(
            {'cluster_desired_size', 'cluster_min_size', 'cluster_affinity',
             'cluster_manager', 'compute_flavor', 'amp_image_tag'},
            set(self.driver.get_supported_flavor_metadata()))
        self.assertTrue(all(
            self.driver.get_supported_flavor_metadata().values()))

    def test_right(self):
        for flavor in ({}, {'cluster_desired_size': 8}, {
                'cluster_desired_size': 3, 'cluster_min_size': 3,
                'cluster_affinity': 'SOURCE_IP'}, {
                'cluster_manager': 'reference'}):
            self.driver.validate_flavor(flavor)

    def test_checks_of_octavia(self):
        self.conf.config(group='controller_worker',
                         compute_driver='compute_noop_driver',
                         image_driver='image_noop_driver')
        self.driver.validate_flavor({
            'compute_flavor': 'm1', 'amp_image_tag': 'amphora'})
        self.driver.validate_availability_zone({'compute_zone': 'az'})

    def test_not_found(self):
        """What is not there is the request's fault, not the provider's."""
        for error, words in (
                (octavia_except.InvalidSubresource(
                    resource='Nova flavor', id='m9'), 'Nova flavor m9 not'),
                (driver_except.NotFound(user_fault_string='no image'),
                 'no image'),
                (network_base.NetworkNotFound('no network'), 'no network')):
            for method, kind in (
                    ('validate_flavor', self.driver.validate_flavor),
                    ('validate_availability_zone',
                     self.driver.validate_availability_zone)):
                with mock.patch.object(
                        compat_provider.AmphoraProviderDriver, method,
                        autospec=True, side_effect=error):
                    self.assertUnsupported([words], kind, {})

    def test_service_down(self):
        with mock.patch.object(
                compat_provider.AmphoraProviderDriver, 'validate_flavor',
                autospec=True, side_effect=RuntimeError('down')):
            self.assertRaises(RuntimeError, self.driver.validate_flavor, {})

    @hypothesis.given(json_values | flavors)
    def test_any_flavor(self, flavor):
        """It is refused in one line, or is what a worker can build."""
        with mock.patch.object(compat_provider.AmphoraProviderDriver,
                               'validate_flavor', autospec=True) as octavias:
            try:
                self.driver.validate_flavor(flavor)
            except driver_except.UnsupportedOptionError as e:
                self.assertNotIn('\n', e.user_fault_string)
                return
        # Octavia's own takes nothing that it does not know.
        known = octavias.call_args.args[1]
        self.assertEqual(set(flavor) - set(sizes.KEYS), set(known))
        size = sizes.resolve(flavor, sizes.Defaults(4, 2, 8, sizes.FLOW))
        self.assertTrue(1 <= size.minimum <= size.desired <= 8)

    def test_refused(self):
        for flavor, words in (
                ({'cluster_desired_size': 0}, ['cluster_desired_size: 0']),
                ({'cluster_desired_size': '3'}, ["cluster_desired_size: '3'"]),
                ({'cluster_desired_size': 9}, ['cluster_desired_size is 9']),
                ({'cluster_min_size': 5}, ['cluster_min_size is 5']),
                ({'cluster_affinity': 'NONE'}, ['cluster_affinity: ']),
                ({'cluster_manager': ''}, ['cluster_manager: ']),
                ({'cluster_manager': 'other'},
                 ['cluster_manager is other', 'one of reference']),
                ({'desired_size': 3}, ['desired_size']),
                ({'sriov_vip': True}, ['sriov_vip', 'direct']),
                ({'sriov_vip': False}, ['sriov_vip']),
                ({'loadbalancer_topology': 'SINGLE'}, ['ACTIVE_ACTIVE']),
                ({'allow_member_sriov': True}, ['allow_member_sriov']),
                ([], ['object']), ('x', ['object'])):
            self.assertUnsupported(words, self.driver.validate_flavor, flavor)
