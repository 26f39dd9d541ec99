# SPDX-License-Identifier: Apache-2.0

"""Load balancers of provider amphora_cluster, asked of a real octavia-api."""

import json
import uuid

from openstack import exceptions as sdk_exceptions
from oslotest import base
from testtools import content

from octavia_hmsync.cluster.distribution.ovs import routers
from octavia_hmsync import compat
from tests.cloud import api_clients
from tests.cloud import front
from tests.cloud import neutron
from tests.functional import clients

SIZES = {'cluster_desired_size': 4, 'cluster_min_size': 2,
         'cluster_affinity': 'FLOW'}


class ProviderTestCase(base.BaseTestCase):

    neutron_options = None

    def setUp(self):
        super().setUp()
        self.front = self.useFixture(front.Front(
            neutron_options=self.neutron_options))
        self.addOnException(lambda _: self.addDetail(
            'octavia-api', content.text_content(
                self.front.api.log_tail(60))))
        self.api = self.front.connection.load_balancer

    def serve(self):
        self.front.workers.serve(front.CLUSTER_TOPIC)

    def create(self, api=None, **attributes):
        attributes = {'name': 'lb', 'project_id': neutron.PROJECT_ID,
                      **attributes}
        if not {'vip_network_id', 'vip_port_id'} & set(attributes):
            attributes.setdefault('vip_subnet_id', self.front.subnet.id)
        return (api or self.api).create_load_balancer(**attributes)

    def add_flavor(self, provider_name='amphora_cluster', **data):
        profile = self.api.create_flavor_profile(
            name=f'profile-{uuid.uuid4()}', provider_name=provider_name,
            flavor_data=json.dumps(data))
        return self.api.create_flavor(
            name=f'flavor-{uuid.uuid4()}', is_enabled=True,
            flavor_profile_id=profile.id)

    def take(self, count=1):
        taken = self.front.workers.take(count)
        self.assertEqual(count, len(taken), taken)
        return taken

    def assertAsked(self, method, arguments):
        """Workers that serve clusters were asked for that, and no others."""
        self.assertEqual([(front.CLUSTER_TOPIC, method, arguments)],
                         self.take())

    def count_load_balancers(self):
        return self.front.execute(
            'SELECT count(*) FROM load_balancer').scalar()

    def assertRefused(self, words, call, *args, status=501, **kwargs):
        """It is told why, nothing is asked of anybody, nothing is left."""
        before = (self.count_load_balancers(),
                  {port.id for port in self.front.ports(self.front.network)})
        e = self.assertRaises(sdk_exceptions.HttpException, call, *args,
                              **kwargs)
        for word in words:
            self.assertIn(word, str(e))
        self.assertEqual(status, e.status_code, e)
        self.assertEqual([], self.front.workers.take(0))
        self.assertEqual(before, (
            self.count_load_balancers(),
            {port.id for port in self.front.ports(self.front.network)}))
        return e


class TestChoices(clients.ClientsMixin, ProviderTestCase):

    def test_choices(self):
        self.serve()
        self.assertIn('amphora_cluster',
                      [found.name for found in self.api.providers()])
        self._by_provider()
        self._by_flavor()
        self._by_default()
        self.assertEachSeesTheSame(api_clients.SDK,
                                   api_clients.CloudProvider)

    def _by_provider(self):
        made = self.create(provider='amphora_cluster')
        self.assertEqual(('amphora_cluster', 'PENDING_CREATE'),
                         (made.provider, made.provisioning_status))
        self.assertAsked('create_load_balancer', {
            'load_balancer_id': made.id, 'flavor': SIZES,
            'availability_zone': {}})
        self.front.settle()
        self.api.failover_load_balancer(made.id)
        self.assertAsked('failover_load_balancer',
                         {'load_balancer_id': made.id})
        self.front.settle()
        self.api.delete_load_balancer(made.id)
        self.assertAsked('delete_load_balancer', {
            'load_balancer_id': made.id, 'cascade': False})
        self.front.settle()

    def _by_flavor(self):
        flavor = self.add_flavor(cluster_desired_size=6,
                                 cluster_affinity='SOURCE_IP',
                                 compute_flavor='m1')
        made = self.create(flavor_id=flavor.id, listeners=[{
            'name': 'http', 'protocol': 'HTTP', 'protocol_port': 80}])
        self.assertEqual('amphora_cluster', made.provider)
        self.assertAsked('create_load_balancer', {
            'load_balancer_id': made.id, 'availability_zone': {},
            'flavor': {'compute_flavor': 'm1', 'cluster_desired_size': 6,
                       'cluster_min_size': 2,
                       'cluster_affinity': 'SOURCE_IP'}})
        self.front.settle()
        self.api.delete_load_balancer(made.id, cascade=True)
        self.assertAsked('delete_load_balancer', {
            'load_balancer_id': made.id, 'cascade': True})
        self.front.settle()

    def _by_default(self):
        other = self.front.add_api('api2', {'api_settings': {
            'default_provider_driver': 'amphora_cluster'}})
        other.wait_until_ready()
        api = self.front.connect(other).load_balancer
        made = self.create(api)
        self.assertEqual('amphora_cluster', made.provider)
        self.assertAsked('create_load_balancer', {
            'load_balancer_id': made.id, 'flavor': SIZES,
            'availability_zone': {}})
        # The others are there as well.
        self.create(api, provider='amphora')
        self.assertEqual(front.OCTAVIA_TOPIC, self.take()[0][0])


class TestRefused(ProviderTestCase):

    # Networks that a Neutron may have, without agents.
    neutron_options = {
        'DEFAULT': {'service_plugins': 'segments'},
        'ml2': {'type_drivers': 'vxlan, vlan'},
        'ml2_type_vlan': {'network_vlan_ranges': 'physical'}}

    def test_refused(self):
        self._nobody_serves_clusters()
        self.serve()
        with_ovn = self.front.add_api('api2', {'controller_worker': {
            'distributor_driver': 'hmsync_ovn'}})
        self._flavors()
        self._flavor_that_fits_no_more()
        self._networks()
        self._addresses()
        self._protocols()
        self._later()
        self._distributed_router()
        self._segments()
        with_ovn.wait_until_ready()
        self._vlan(self.front.connect(with_ovn).load_balancer)

    def _refuse(self, words, status=501, **attributes):
        return self.assertRefused(
            words, self.create, status=status,
            **{'provider': 'amphora_cluster', **attributes})

    def _nobody_serves_clusters(self):
        self._refuse(['not set up'])
        self.assertIn('no octavia-worker serves clusters',
                      self.front.api.log())

    def _flavors(self):
        for data, words in (
                ({'cluster_desired_size': 0}, ['cluster_desired_size: 0']),
                ({'cluster_desired_size': 9}, ['8 amphorae at most']),
                ({'cluster_desired_size': 2, 'cluster_min_size': 3},
                 ['cluster_min_size is 3', 'cluster_desired_size, 2']),
                ({'cluster_affinity': 'NONE'}, ['cluster_affinity']),
                ({'sriov_vip': True}, ['sriov_vip', 'vnic_type direct']),
                ({'loadbalancer_topology': 'SINGLE'}, ['ACTIVE_ACTIVE']),
                ({'nonsense': 1}, ['nonsense'])):
            self.assertRefused(words, self.add_flavor, **data)
        # A flavor of another provider does not get in by the back door.
        self._refuse(['not compatible'], 400,
                     flavor_id=self.add_flavor('amphora').id)

    def _flavor_that_fits_no_more(self):
        """The limit was lowered since the flavor was made."""
        flavor = self.add_flavor(cluster_desired_size=8)
        self.front.execute(
            'UPDATE flavor_profile SET flavor_data = :data WHERE id = :id',
            data='{"cluster_desired_size": 9}', id=flavor.flavor_profile_id)
        self._refuse(['cluster_desired_size is 9'], flavor_id=flavor.id)

    def _networks(self):
        _, subnet = self.front.add_network('10.2.0.0/24',
                                           port_security_enabled=False)
        self._refuse(['Port security is off'], vip_subnet_id=subnet.id)
        _, subnet = self.front.add_network('10.3.0.0/29')
        self._refuse(['5 free addresses', '4 amphorae takes 6'],
                     vip_subnet_id=subnet.id)
        # Three amphorae have room there.
        self.create(vip_subnet_id=subnet.id, flavor_id=self.add_flavor(
            cluster_desired_size=3).id)
        self.take()
        port = self.front.connection.network.create_port(
            network_id=self.front.network.id, binding_vnic_type='direct')
        self._refuse(['vnic_type direct'], vip_port_id=port.id)

    def _addresses(self):
        self._refuse(['10.9.9.9'], vip_address='10.9.9.9')
        taken = self.front.connection.network.create_port(
            network_id=self.front.network.id)
        self._refuse(['already in use'], 409,
                     vip_address=taken.fixed_ips[0]['ip_address'])

    def _protocols(self):
        port = self.front.connection.network.create_port(
            network_id=self.front.network.id)
        for protocol in ('UDP', 'SCTP'):
            listener = {'name': 'one', 'protocol': protocol,
                        'protocol_port': 53}
            pool = {'name': 'pool', 'protocol': protocol,
                    'lb_algorithm': 'ROUND_ROBIN'}
            for parts in ({'listeners': [listener]}, {'pools': [pool]},
                          {'listeners': [{**listener, 'default_pool': pool}]},
                          {'listeners': [listener], 'vip_port_id': port.id}):
                self._refuse([f'of protocol {protocol}', 'HTTPS'], **parts)

    def _later(self):
        """The same of a load balancer that is there."""
        made = self.create(provider='amphora_cluster')
        self.take()
        self.front.settle()
        for protocol in ('UDP', 'SCTP'):
            words = [f'of protocol {protocol}']
            self.assertRefused(
                words, self.api.create_listener, name='one',
                protocol=protocol, protocol_port=53, load_balancer_id=made.id)
            self.assertRefused(
                words, self.api.create_pool, protocol=protocol,
                lb_algorithm='ROUND_ROBIN', loadbalancer_id=made.id)
        self.assertRefused(
            ['SOURCE_IP_PORT'], self.api.create_pool, protocol='TCP',
            lb_algorithm='SOURCE_IP_PORT', loadbalancer_id=made.id)
        # What was refused has locked nothing.
        for number, protocol in enumerate(('TCP', 'HTTP', 'PROMETHEUS')):
            self.api.create_listener(
                name=protocol, protocol=protocol, protocol_port=80 + number,
                load_balancer_id=made.id)
            self.assertEqual([front.OCTAVIA_TOPIC],
                             [topic for topic, _, _ in self.take()])
            self.front.settle()

    def _add_router(self, subnet, owner='network:router_interface'):
        """Add the port of a router; Neutron has no routers here."""
        return self.front.connection.network.create_port(
            network_id=subnet.network_id, device_owner=owner,
            device_id=str(uuid.uuid4()),
            fixed_ips=[{'subnet_id': subnet.id}])

    def _make(self, subnet, api=None):
        self.create(api, vip_subnet_id=subnet.id, provider='amphora_cluster')
        self.assertEqual(front.CLUSTER_TOPIC, self.take()[0][0])

    def _distributed_router(self):
        """It is refused, and found where it comes later."""
        found = routers.RouterPorts(None, self.front.connection)
        subnets = [self.front.add_network(f'10.{number}.0.0/24')[1]
                   for number in range(2, 5)]
        for subnet in subnets[:2]:
            self._make(subnet)
        port = self._add_router(subnets[0], compat.DISTRIBUTED_ROUTER)
        self._add_router(subnets[1])
        self.assertEqual({subnets[0].id: port.device_id},
                         found.find({subnet.id for subnet in subnets}))
        self._refuse([f'Subnet {subnets[0].id} has a distributed router'],
                     vip_subnet_id=subnets[0].id)
        self._make(subnets[1])

    def _segments(self):
        made, subnet = self.front.add_network('10.5.0.0/24')
        api = self.front.connection.network
        segment, = api.segments(network_id=made.id)
        # With a subnet in it Neutron takes the network for a routed one.
        api.delete_subnet(subnet)
        subnet = api.create_subnet(
            network_id=made.id, cidr='10.5.0.0/24', ip_version=4,
            enable_dhcp=False, segment_id=segment.id,
            project_id=neutron.PROJECT_ID)
        self._refuse([f'Network {made.id} is a routed one'],
                     vip_subnet_id=subnet.id)

    def _vlan(self, with_ovn):
        """OVN refuses it, distributors do not."""
        made, subnet = self.front.add_network(
            '10.6.0.0/24', provider_network_type='vlan',
            provider_physical_network='physical',
            provider_segmentation_id=100)
        self._add_router(subnet)
        self._refuse([f'Network {made.id} is of type vlan', 'type geneve'],
                     api=with_ovn, vip_subnet_id=subnet.id)
        self._make(subnet)
        _, subnet = self.front.add_network('10.7.0.0/24')
        self._add_router(subnet)
        self._make(subnet, with_ovn)


class TestNotSetUp(ProviderTestCase):

    VARIANTS = {
        'amphora-driver': ({'controller_worker': {
            'amphora_driver': 'amphora_haproxy_rest_driver'}},
            'amphora_driver is amphora_haproxy_rest_driver'),
        'distributor-driver': ({'controller_worker': {
            'distributor_driver': 'distributor_noop_driver'}},
            'distributor_driver is distributor_noop_driver'),
        'distributors': ({'hmsync_cluster': {'distributors': ''}},
                         'distributors is empty'),
        'sizes': ({'hmsync_cluster': {'min_size': 5}},
                  'min_size = 5 is more than'),
    }

    def test_not_set_up(self):
        self.serve()
        made = self.create(provider='amphora_cluster')
        self.take()
        self.front.settle()
        others = {name: self.front.add_api(name, options)
                  for name, (options, _) in self.VARIANTS.items()}
        for name, other in others.items():
            other.wait_until_ready()
            self._look(other, self.VARIANTS[name][1])
            # What is there is not out of reach.
            self.front.connect(other).load_balancer.update_load_balancer(
                made.id, name='x')
            self.take()
            self.front.settle()
        self.front.connect(other).load_balancer.delete_load_balancer(made.id)
        self.assertEqual(front.CLUSTER_TOPIC, self.take()[0][0])
        self._tables()

    def _look(self, api, words):
        self.assertRefused(
            ['not set up', 'Ask its operator'], self.create,
            self.front.connect(api).load_balancer,
            provider='amphora_cluster')
        self.assertIn(words, api.log())
        # All others can be made.
        self.create(self.front.connect(api).load_balancer,
                    provider='amphora')
        self.assertEqual(front.OCTAVIA_TOPIC, self.take()[0][0])

    def _tables(self):
        self.front.execute('DROP TABLE hmsync_alembic_version')
        self._look(self.front.api, 'run "octavia-hmsync db upgrade"')


class TestBehindOurBack(ProviderTestCase):
    """What Octavia's API does to a cluster without asking its provider."""

    neutron_options = {
        'DEFAULT': {'service_plugins': 'qos'},
        'ml2': {'extension_drivers': 'port_security, qos'}}

    def setUp(self):
        super().setUp()
        self.serve()
        self.lb = self.create(provider='amphora_cluster')
        self.take()
        self.front.settle()
        records = self.front.database.records
        # As the worker does.
        records.change('load_balancer', self.lb.id, topology='ACTIVE_ACTIVE')
        self.amphorae = [
            records.add_amphora(f'192.0.2.{number}', self.lb.id, 'IN_CLUSTER')
            for number in range(1, 4)]

    def status(self):
        return self.api.get_load_balancer(self.lb.id).provisioning_status

    def assertSent(self, topic, method, locked=True):
        self.assertEqual([(topic, method)],
                         [found[:2] for found in self.take()])
        self.assertEqual('PENDING_UPDATE' if locked else 'ACTIVE',
                         self.status())
        self.front.settle()

    def test_operations(self):
        self._amphorae()
        self._load_balancer()
        self._what_cannot_change()
        self._while_it_is_in_error()
        self._additional_vips()

    def _amphorae(self):
        self.assertEqual({'IN_CLUSTER'}, {
            found.role for found in self.api.amphorae(
                loadbalancer_id=self.lb.id)})
        self.api.failover_amphora(self.amphorae[0])
        self.assertSent(front.OCTAVIA_TOPIC, 'failover_amphora')
        self.api.configure_amphora(self.amphorae[0])
        self.assertSent(front.OCTAVIA_TOPIC, 'update_amphora_agent_config',
                        locked=False)
        # Octavia deletes none but those in ERROR.
        url = f'{self.front.url}/v2/octavia/amphorae/{self.amphorae[0]}'
        self.assertEqual(409, self.api.delete(url).status_code)
        self.front.database.records.set_status(self.amphorae[0], 'ERROR')
        self.assertEqual(204, self.api.delete(url).status_code)
        self.assertSent(front.OCTAVIA_TOPIC, 'delete_amphora', locked=False)

    def _load_balancer(self):
        self.api.failover_load_balancer(self.lb.id)
        self.assertSent(front.CLUSTER_TOPIC, 'failover_load_balancer')
        group = self.front.connection.network.create_security_group(
            name='vip', project_id=neutron.PROJECT_ID)
        self.addCleanup(self.front.connection.network.delete_security_group,
                        group)
        policy = self.front.connection.network.create_qos_policy(name='slow')
        for change in ({'name': 'y'}, {'is_admin_state_up': False},
                       {'vip_sg_ids': [group.id]},
                       {'vip_qos_policy_id': policy.id},
                       {'vip_qos_policy_id': None}):
            self.api.update_load_balancer(self.lb.id, **change)
            self.assertSent(front.OCTAVIA_TOPIC, 'update_load_balancer')

    def _what_cannot_change(self):
        for change in ({'provider': 'amphora'}, {'topology': 'SINGLE'},
                       {'flavor_id': self.add_flavor().id},
                       {'availability_zone': 'az'}):
            answer = self.api.put(
                f'{self.front.url}/v2/lbaas/loadbalancers/{self.lb.id}',
                json={'loadbalancer': change})
            self.assertEqual(400, answer.status_code, answer.text)
        self.assertEqual('ACTIVE', self.status())

    def _while_it_is_in_error(self):
        """Failover and delete are the ways out."""
        def break_it():
            self.front.database.records.change(
                'load_balancer', self.lb.id, provisioning_status='ERROR')

        break_it()
        self.api.failover_load_balancer(self.lb.id)
        self.assertSent(front.CLUSTER_TOPIC, 'failover_load_balancer')
        break_it()
        self.api.delete_load_balancer(self.lb.id)
        self.assertEqual([(front.CLUSTER_TOPIC, 'delete_load_balancer')],
                         [found[:2] for found in self.take()])
        self.assertEqual('PENDING_DELETE', self.status())

    def _additional_vips(self):
        """Each is an address of the one port of the VIP."""
        subnet = self.front.connection.network.create_subnet(
            network_id=self.front.network.id, cidr='fd00::/64', ip_version=6,
            enable_dhcp=False, gateway_ip=None,
            project_id=neutron.PROJECT_ID)
        made = self.create(provider='amphora_cluster', name='two',
                           additional_vips=[{'subnet_id': subnet.id}])
        self.assertAsked('create_load_balancer', {
            'load_balancer_id': made.id, 'flavor': SIZES,
            'availability_zone': {}})
        port = self.front.connection.network.get_port(made.vip_port_id)
        self.assertEqual(
            {made.vip_address, made.additional_vips[0]['ip_address']},
            {address['ip_address'] for address in port.fixed_ips})
