# SPDX-License-Identifier: Apache-2.0

"""image clone against a whole Octavia; no octavia.conf is anywhere near."""

from oslotest import base

from tests.cloud import machines
from tests.cloud import neutron
from tests.cloud import octavia
from tests.functional import clones

SORRY = {'name': 'same', 'protocol': 'HTTP', 'lb_algorithm': 'SOURCE_IP'}


class TestImageClone(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.cloud = self.useFixture(octavia.Octavia(
            neutron_options={'DEFAULT': {'service_plugins': 'router'}}))
        self.cloud.wait_until_ready()
        self.api = self.cloud.connection.load_balancer
        self.members = [
            self.useFixture(machines.Member(self.cloud, f'member{number}'))
            for number in (1, 2)]
        self.client = self.useFixture(machines.Client(self.cloud, 'client'))
        self.clone = self.useFixture(clones.Tenant(self.cloud)).clone

    def add_floating_ip(self, load_balancer, number):
        """Make one in an external network of its own; returns its id.

        A VIP has one of each external network. No agent serves them.
        """
        api = self.cloud.connection.network
        outside = api.create_network(name=f'outside{number}',
                                     is_router_external=True)
        api.create_subnet(network_id=outside.id, ip_version=4,
                          cidr=f'203.0.113.{64 * number}/26')
        router = api.create_router(
            name=f'router{number}', project_id=neutron.PROJECT_ID,
            external_gateway_info={'network_id': outside.id})
        port = api.create_port(network_id=self.cloud.network.id,
                               project_id=neutron.PROJECT_ID)
        api.add_interface_to_router(router, port_id=port.id)
        return api.create_ip(
            floating_network_id=outside.id, port_id=load_balancer.vip_port_id,
            project_id=neutron.PROJECT_ID).id

    def leads_to(self, floating_ips):
        return {self.cloud.connection.network.get_ip(each).fixed_ip_address
                for each in floating_ips}

    def add_load_balancer(self):
        """Make a rich one, with two pools of one name."""
        members = [{'address': member.address, 'protocol_port': 80,
                    'weight': number} for number, member in
                   enumerate(self.members, 1)]
        made = self.cloud.add_load_balancer(
            'web', tags=['shop'], description='all of it', listeners=[
                {'name': 'http', 'protocol': 'HTTP', 'protocol_port': 80,
                 'insert_headers': {'X-Forwarded-For': 'true'},
                 'allowed_cidrs': ['10.0.0.0/8'], 'connection_limit': 100,
                 'timeout_client_data': 30000,
                 'default_pool': {
                     'name': 'same', 'protocol': 'HTTP',
                     'lb_algorithm': 'ROUND_ROBIN', 'session_persistence': {
                         'type': 'APP_COOKIE', 'cookie_name': 'nobody'},
                     'members': [*members, {
                         'address': '10.1.0.250', 'protocol_port': 80,
                         'admin_state_up': False, 'tags': ['off']}],
                     'healthmonitor': {
                         'type': 'HTTP', 'delay': 2, 'timeout': 2,
                         'max_retries': 2, 'url_path': '/'}},
                 'l7policies': [
                     {'name': 'to pool', 'action': 'REDIRECT_TO_POOL',
                      'redirect_pool': {
                          **SORRY, 'name': 'other', 'members': [{
                              **members[0], 'backup': True}]}, 'rules': [
                          {'type': 'PATH', 'compare_type': 'STARTS_WITH',
                           'value': '/other', 'invert': False}]},
                     {'name': 'away', 'action': 'REDIRECT_TO_URL',
                      'redirect_url': 'https://a.example/', 'rules': [
                          {'type': 'HEADER', 'compare_type': 'EQUAL_TO',
                           'key': 'X-Away', 'value': 'yes'}]}]},
                {'name': 'tcp', 'protocol': 'TCP', 'protocol_port': 81,
                 'default_pool': {'name': 'same'}}],
            pools=[{**SORRY, 'name': 'alone', 'tags': ['spare']}])
        return made

    def test_clone_switch_back_retire(self):
        source = self.add_load_balancer()
        for pool in list(self.api.pools(loadbalancer_id=source.id)):
            self.api.update_pool(pool, name='same')
            self.cloud.wait_until_active(source.id)
        self.cloud.wait_for(
            lambda: 'OFFLINE' != self.api.get_load_balancer(
                source.id).operating_status, 'the first statistics')
        floating_ips = [self.add_floating_ip(source, number)
                        for number in (1, 2)]
        newer = self.cloud.add_image('second')

        made = self.clone('create', source.id)
        self.assertEqual(('READY', source.id),
                         (made['phase'], made['loadbalancer_id']))
        self.assertEqual([newer.id], [
            each.image_id for each in
            self.api.amphorae(loadbalancer_id=made['clone_id'])])
        self.assertEqual(made, {**self.clone('create', 'web'),
                                'members_up': made['members_up']})
        self.assertEqual({source.vip_address}, self.leads_to(floating_ips))

        row = self.clone('switch', 'web', '--timeout', '120')
        self.assertEqual('SWITCHED', row['phase'])
        self.assertEqual('3/3', row['members_up'])
        self.assertEqual({made['vip_address']}, self.leads_to(floating_ips))
        self.assertEqual({'OK'}, {each['result'] for each in
                                  self.clone('check', 'web')})
        self.assertEqual({'member1', 'member2'}, {
            self.client.get(made['vip_address']) for _number in range(6)})

        self.assertEqual('READY', self.clone('back', 'web')['phase'])
        self.assertEqual({source.vip_address}, self.leads_to(floating_ips))
        self.assertEqual('SWITCHED', self.clone('switch', 'web')['phase'])
        self.assertEqual('RETIRED', self.clone(
            'retire', 'web', '--timeout', '120')['phase'])
        left, = self.api.load_balancers()
        self.assertEqual((made['clone_id'], ['shop']), (left.id, left.tags))
        self.assertEqual([], self.clone('list'))
        self.assertEqual({made['vip_address']}, self.leads_to(floating_ips))
