# SPDX-License-Identifier: Apache-2.0

"""What would make a replacement fail, asked of a real Neutron."""

import ipaddress
from unittest import mock
import uuid

import fixtures
import openstack.connection
from openstack import exceptions as sdk_exc

from tests.cloud import http_proxy
from tests.functional import mgmt_network


class TestImageCheck(mgmt_network.NetworkTestCase):

    def setUp(self):
        super().setUp()
        self.lb_id = self.records.add_load_balancer()
        amphora_id = self.records.add_amphora('192.0.2.1', self.lb_id)
        self.records.change('amphora', amphora_id, image_id='old')
        network = self.network.create_network(name=self.name)
        self.addCleanup(self.network.delete_network, network.id)
        self.subnet = self.network.create_subnet(
            network_id=network.id, ip_version=4, cidr=mgmt_network.CIDR,
            is_dhcp_enabled=False)
        self.port = self.network.create_port(network_id=network.id)
        # As Octavia calls it.
        self.group = self.network.create_security_group(
            name=f'lb-{self.lb_id}')
        self.addCleanup(self.network.delete_security_group, self.group.id)
        self.addCleanup(self.network.delete_port, self.port.id,
                        ignore_missing=True)
        self.set_vip(port_id=self.port.id, subnet_id=self.subnet.id,
                     network_id=network.id,
                     ip_address=self.port.fixed_ips[0]['ip_address'])
        self.records.insert_all({'vip_security_group': [
            {'load_balancer_id': self.lb_id, 'sg_id': self.group.id}]})

    def set_options(self, url=None, **options):
        super().set_options(url, **options)
        self.groups['controller_worker'] = {
            'image_driver': 'image_noop_driver', 'amp_image_tag': 'amphora',
            'compute_driver': 'compute_noop_driver'}
        if hasattr(self, 'directory'):
            self.conf_path = self.write_conf()

    def set_vip(self, **values):
        vip = self.records.tables['vip']
        with self.engine.begin() as connection:
            connection.execute(vip.update().values(**values).where(
                vip.c.load_balancer_id == self.lb_id))

    def add_amphora_port(self, subnet=None):
        """Add one as Octavia does for the VIP of an amphora."""
        subnet = subnet or self.subnet
        port = self.network.create_port(
            network_id=subnet.network_id,
            fixed_ips=[{'subnet_id': subnet.id}],
            allowed_address_pairs=[{'ip_address': '198.51.100.99'}],
            security_groups=[self.group.id])
        self.addCleanup(self.network.delete_port, port.id,
                        ignore_missing=True)
        return port

    def assertFinds(self, check, result, *words):
        _code, found = self.check(self.lb_id)
        self.assertEqual(result, found[check][0], found)
        for word in words:
            self.assertIn(word, found[check][1])

    def check(self, *argv):
        """Return the exit code, and {check: (result, details)}."""
        code, out, err = self.run_command('image', 'check', *argv, '-f',
                                          'json')
        self.assertEqual('', err)
        return code, {row['check']: (row['result'], row['details'])
                      for row in mgmt_network.base.json.loads(out)}

    def test_all_there(self):
        code, found = self.check(self.lb_id)
        self.assertEqual((0, {'Success'}), (code, {
            result for check, (result, _) in found.items()
            if not check.startswith('Authority')}), found)
        self.assertEqual(('Success', '1'), found['Image'])
        row, = self.run_json('image', 'list', '--long')
        self.assertEqual(('YES', '1', []), (
            row['outdated'], row['target_image_id'], row['blocked_by']))

    def test_what_is_gone(self):
        self.network.delete_port(self.port.id)
        gone = [str(uuid.uuid4()) for _ in range(3)]
        self.set_vip(subnet_id=gone[0], qos_policy_id=gone[1])
        self.records.insert_all({'vip_security_group': [
            {'load_balancer_id': self.lb_id, 'sg_id': gone[2]}]})
        code, found = self.check()
        self.assertEqual(2, code)
        for check, missing in (('VIP port', self.port.id),
                               ('Subnets', gone[0]), ('QoS policy', gone[1]),
                               ('Security groups', gone[2])):
            self.assertEqual('Failure', found[check][0], found)
            self.assertIn(missing, found[check][1])
        self.assertNotIn(self.group.id, found['Security groups'][1])

    def test_full_subnet(self):
        """What it finds is what Neutron does."""
        first = ipaddress.ip_address(self.port.fixed_ips[0]['ip_address'])
        # The gateway's is none of a pool, but counts as used once it is.
        self.network.update_subnet(self.subnet.id, allocation_pools=[
            {'start': str(first), 'end': str(first + 1)}])
        gateway = self.network.create_port(
            network_id=self.subnet.network_id,
            fixed_ips=[{'ip_address': self.subnet.gateway_ip}])
        self.addCleanup(self.network.delete_port, gateway.id)
        self.assertFinds('Addresses', 'Success')
        port = self.add_amphora_port()
        self.assertFinds('Addresses', 'Failure', self.subnet.id)
        self.assertRaises(sdk_exc.ConflictException, self.add_amphora_port)
        self.network.delete_port(port.id)
        self.assertFinds('Addresses', 'Success')
        self.network.update_subnet(self.subnet.id, allocation_pools=[])
        self.assertFinds('Addresses', 'Failure')
        self.assertRaises(sdk_exc.ConflictException, self.add_amphora_port)

    def test_port_security(self):
        self.add_amphora_port()
        self.network.update_network(self.subnet.network_id,
                                    is_port_security_enabled=False)
        self.assertFinds('Port security', 'Failure', self.subnet.network_id)
        self.assertRaises(sdk_exc.HttpException, self.add_amphora_port)

    def test_lost_address(self):
        """The port is there, without what Octavia looks for."""
        lost = self.port.fixed_ips[0]['ip_address']
        # Neutron chooses addresses by chance.
        network = ipaddress.ip_network(mgmt_network.CIDR)
        other = next(address for address in map(str, (network[99],
                                                      network[100]))
                     if address != lost)
        self.network.update_port(self.port.id, fixed_ips=[
            {'subnet_id': self.subnet.id, 'ip_address': other}])
        self.assertFinds('VIP port', 'Failure', lost)

    def test_security_group_of_the_vip(self):
        self.network.update_security_group(self.group.id, name='another')
        self.assertFinds('VIP security group', 'Failure',
                         f'lb-{self.lb_id}')

    def set_boot_networks(self, *network_ids):
        self.set_options()
        self.groups['controller_worker'][
            'amp_boot_network_list'] = ','.join(network_ids)
        self.conf_path = self.write_conf()

    def test_boot_networks(self):
        network = self.network.create_network(name=f'{self.name}-boot')
        self.addCleanup(self.network.delete_network, network.id)
        gone = str(uuid.uuid4())
        self.set_boot_networks(network.id, gone)
        self.assertFinds('Boot networks', 'Failure', gone)
        self.set_boot_networks(network.id)
        self.assertFinds('Boot networks', 'Failure', 'no subnet')
        subnets = [self.network.create_subnet(
            network_id=network.id, ip_version=4, cidr=cidr,
            is_dhcp_enabled=False) for cidr in ('198.51.100.0/29',
                                                '198.51.100.8/29')]
        self.assertFinds('Boot networks', 'Success')
        # As Nova asks for one: in any subnet.
        for subnet in subnets:
            self.assertFinds('Boot networks', 'Success')
            self.network.update_subnet(subnet.id, allocation_pools=[])
        self.assertFinds('Boot networks', 'Failure', 'no IPv4 address')
        self.assertRaises(sdk_exc.ConflictException,
                          self.network.create_port, network_id=network.id)
        self.network.update_network(network.id, is_admin_state_up=False)
        self.network.update_subnet(subnets[0].id, allocation_pools=[
            {'start': '198.51.100.2', 'end': '198.51.100.5'}])
        self.assertFinds('Boot networks', 'Warning', 'admin_state_up')

    def test_many_ports(self):
        """More than go into one request."""
        for _ in range(150):
            lb_id = self.records.add_load_balancer()
            self.records.add_amphora('192.0.2.1', lb_id)
        code, out, _err = self.run_command('image', 'check', '-f', 'json')
        rows = mgmt_network.base.json.loads(out)
        self.assertEqual(2, code)
        found = [one['id'] for row in rows if row['check'] == 'VIP port'
                 for one in row['loadbalancers']]
        self.assertEqual(150, len(found))
        self.assertNotIn(self.lb_id, found)

    def test_quota(self):
        """That of Octavia's own project, which Keystone would tell."""
        for project_id, result in (('octavia', 'Failure'),
                                   ('another', 'Success')):
            self.useFixture(fixtures.MockPatchObject(
                openstack.connection.Connection, 'current_project_id',
                new_callable=mock.PropertyMock, return_value=project_id))
            if result == 'Failure':
                self.network.update_quota(project_id, ports=1)
                self.addCleanup(self.network.delete_quota, project_id)
            _code, found = self.check()
            self.assertEqual(result, found['Port quota'][0], found)

    def test_down_at_each_request(self):
        """That is a finding; the others are shown all the same."""
        self.records.change('load_balancer', self.lb_id,
                            provisioning_status='ERROR')
        proxy = self.useFixture(http_proxy.FaultyProxy(self.neutron.port))
        self.set_options(proxy.url)
        number = 0
        while True:
            number += 1
            proxy.fail_at(number)
            code, found = self.check(self.lb_id)
            proxy.heal()
            self.assertEqual((2, 'Failure'), (code, found['State'][0]))
            if found['Neutron'][0] == 'Success':
                break
            self.assertEqual(('Failure', 'Not checked'), (
                found['Neutron'][0], found['VIP port'][0]))
            self.assertIn('Neutron', found['Neutron'][1])
        self.assertGreater(number, 3)
