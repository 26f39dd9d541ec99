# SPDX-License-Identifier: Apache-2.0

import os
import re
from unittest import mock

from cryptography.hazmat.primitives.asymmetric import rsa
import fixtures

from octavia_hmsync.amphora import agent_info
from octavia_hmsync import cloud
from octavia_hmsync import compat
from octavia_hmsync import compute
from octavia_hmsync import exceptions
from octavia_hmsync.image.preflight import compute_reading
from tests.cloud import certificates
from tests.cloud import octavia_conf
from tests.cloud import records
from tests.unit.cli import base
from tests.unit.image import fakes

COLUMNS = ['loadbalancer_id', 'name', 'outdated', 'blocked_by']
LONG_COLUMNS = ['project_id', 'topology', 'tag', 'target_image_id',
                'provisioning_status', 'flavor_id', 'flavor',
                'availability_zone', 'haproxy_version', 'amphorae']


class ImageTestCase(base.CommandTestCase):

    def setUp(self):
        super().setUp()
        self.images = fakes.ImageDriver({'amphora': 'new', 'arm': 'arm-new'})
        self.neutron = fakes.Neutron()
        for owner, name, value in (
                (compat, 'load_image_driver', self.images),
                (cloud, 'connect', self.neutron)):
            patch = mock.patch.object(owner, name, autospec=True,
                                      return_value=value)
            setattr(self, name, patch.start())
            self.addCleanup(patch.stop)
        self.nova = fakes.Nova()
        patch = mock.patch.object(compute, 'connect_to_nova', autospec=True,
                                  return_value=self.nova)
        self.connect_nova = patch.start()
        self.addCleanup(patch.stop)
        self.neutron.things['networks']['lb-mgmt-net'] = {
            'subnets': ['lb-mgmt-subnet']}
        self.neutron.things['subnets']['lb-mgmt-subnet'] = {
            'network_id': 'lb-mgmt-net'}
        self.nova.flavors['small'] = (1, 512, 2)
        self.set_options()

    def set_options(self, **groups):
        """Write octavia.conf, with these options of groups as well."""
        octavia_conf.write(
            os.path.join(self.directory, 'octavia.conf'), octavia_conf.merge(
                {'database': {'connection': self.database.connection},
                 'controller_worker': {
                     'amp_image_tag': 'amphora', 'amp_flavor_id': 'small',
                     'amp_boot_network_list': 'lb-mgmt-net'},
                 'hmsync_image': {'image_timeout': 20}}, groups))

    def add(self, *images, topology=None, **values):
        """Add a load balancer with amphorae of these images."""
        topology = topology or {0: 'SINGLE', 1: 'SINGLE'}.get(
            len(images), 'ACTIVE_STANDBY')
        lb_id = self.records.add_load_balancer(topology)
        if values:
            self.records.change('load_balancer', lb_id, **values)
        for image_id, role in zip(images, records.ROLES[topology]):
            amphora_id = self.records.add_amphora('192.0.2.1', lb_id, role)
            self.records.change('amphora', amphora_id, image_id=image_id)
        vip = next(row for row in self.records.rows('vip')
                   if row['load_balancer_id'] == lb_id)
        self.neutron.things['ports'][vip['port_id']] = {'fixed_ips': [{
            'subnet_id': vip['subnet_id'], 'ip_address': vip['ip_address']}]}
        self.neutron.things['subnets'][vip['subnet_id']] = {
            'network_id': vip['network_id']}
        self.neutron.things['networks'][vip['network_id']] = {
            'subnets': [vip['subnet_id']]}
        self.neutron.things['security_groups'][records.new_id()] = {
            'name': f'lb-{lb_id}'}
        return lb_id

    def add_zone(self, name, data):
        """Add an availability zone of Octavia's."""
        profile_id = records.new_id()
        self.records.insert_all({
            'availability_zone_profile': [{
                'id': profile_id, 'name': name, 'provider_name': 'amphora',
                'availability_zone_data': data}],
            'availability_zone': [{
                'name': name, 'enabled': True,
                'availability_zone_profile_id': profile_id}]})


class TestList(ImageTestCase):

    def list(self, *argv):
        return self.run_json('image', 'list', *argv)

    def ids(self, *argv):
        return [row['loadbalancer_id'] for row in self.list(*argv)]

    def test_columns(self):
        pair = self.add('new', 'old', name='web')
        row, = self.list('--long')
        self.assertEqual(COLUMNS + LONG_COLUMNS, list(row))
        self.assertEqual(
            (pair, 'web', 'MIXED', [], 'demo', 'ACTIVE_STANDBY', 'amphora',
             'new', 'ACTIVE', None, None, None, None),
            tuple(row.values())[:-1])
        self.assertEqual(
            {('MASTER', 'new'), ('BACKUP', 'old')},
            {(each['role'], each['image_id']) for each in row['amphorae']})
        self.assertIn('BACKUP: old', self.run_ok('image', 'list', '--long'))
        row, = self.list()
        self.assertEqual(COLUMNS, list(row))
        self.assertEqual('demo', self.list('-c', 'project_id')[0][
            'project_id'])

    def test_cluster(self):
        """It is known whether it is outdated; nothing is in the way."""
        lb_id = self.records.add_load_balancer('ACTIVE_ACTIVE')
        self.records.change('load_balancer', lb_id,
                            provider='amphora_cluster')
        for image_id in ('old', 'new', 'new'):
            amphora_id = self.records.add_amphora('192.0.2.1', lb_id,
                                                  'IN_CLUSTER')
            self.records.set_health(amphora_id, busy=True)
            self.records.change('amphora', amphora_id, image_id=image_id)
        self.add('old')
        row, = self.list('--topology', 'active_active')
        self.assertEqual((lb_id, 'MIXED', []), (
            row['loadbalancer_id'], row['outdated'], row['blocked_by']))

    def test_outdated(self):
        flavor = self.records.add_flavor('{"amp_image_tag": "arm"}')
        missing = self.records.add_flavor('{"amp_image_tag": "none"}')
        ids = {self.add('new'): 'NO', self.add('old'): 'YES',
               self.add(None): 'UNKNOWN', self.add('old', 'new'): 'MIXED',
               self.add('new', flavor_id=flavor): 'YES',
               self.add('arm-new', flavor_id=flavor): 'NO',
               self.add('old', flavor_id=missing): 'UNKNOWN'}
        rows = self.list('--long')
        self.assertEqual(ids, {row['loadbalancer_id']: row['outdated']
                               for row in rows})
        self.assertEqual(sorted(ids), [row['loadbalancer_id'] for row in rows])
        self.assertEqual([['NO_IMAGE']], [
            row['blocked_by'] for row in rows if row['tag'] == 'none'])
        # One question for each tag, each time.
        self.assertEqual({'amphora', 'arm', 'none'},
                         {tag for tag, _ in self.images.asked})
        self.assertEqual(3, len(self.images.asked))
        for value in ('NO', 'YES', 'MIXED', 'UNKNOWN'):
            self.assertEqual(sorted(lb_id for lb_id in ids
                                    if ids[lb_id] == value),
                             self.ids('--outdated', value.lower()))
        wanted = sorted(lb_id for lb_id in ids if ids[lb_id] != 'NO')
        argv = ('--outdated', 'YES', '--outdated', 'MIXED', '--outdated',
                'UNKNOWN')
        self.assertEqual(wanted, self.ids(*argv))
        found = self.ids(*argv, '--limit', '2')
        self.assertEqual(wanted[:2], found)
        self.assertEqual(wanted[2:4], self.ids(
            *argv, '--limit', '2', '--marker', found[-1]))

    def test_pages_and_filters(self):
        ids = sorted(self.add('old') for _ in range(3))
        pair = self.add('old', 'old', project_id='other')
        self.assertEqual([pair], self.ids('--project', 'other'))
        self.assertEqual([pair], self.ids('--topology', 'active_standby'))
        self.assertEqual(ids, self.ids('--project', 'demo'))
        self.assertEqual(ids[:2], self.ids('--project', 'demo', '--limit',
                                           '2'))
        self.assertEqual(ids[2:], self.ids('--project', 'demo', '--marker',
                                           ids[1]))
        flavor = self.records.add_flavor('{"amp_image_tag": "arm"}')
        self.assertEqual([], self.ids('--tag', 'arm'))
        self.add_zone('az1', '{}')
        self.assertEqual([], self.ids('--availability-zone', 'az1'))
        self.neutron.identity.projects['a1'] = 'shop'
        self.assertEqual([], self.ids('--project', 'shop'))
        self.assertEqual([], self.ids('--flavor', flavor))
        # What nothing has would select nothing, without a word.
        for option, words in (
                ('flavor', 'There is no flavor x'),
                ('project', 'There is no project x'),
                ('availability-zone', 'There is no availability zone x'),
                ('tag', 'boots from an image with the tag x')):
            self.assertFails(words, 'image', 'list', f'--{option}', 'x')
        self.assertFails('no load balancer nobody to go on from', 'image',
                         'list', '--marker', 'nobody')

    def test_blocked(self):
        self.add('old', provisioning_status='PENDING_UPDATE')
        row, = self.list('--long')
        self.assertEqual(('PENDING_UPDATE', ['PENDING']), (
            row['provisioning_status'], row['blocked_by']))

    def test_image_service_down(self):
        self.add('old')
        self.images.images['amphora'] = ValueError('no\nanswer')
        self.assertFails('image service cannot be asked', 'image', 'list')

    def test_agents(self):
        self.add('old', 'new')
        asked = []

        def get(conf, amphorae):
            asked.extend(amphorae)
            return {amphorae[0][0]: '2.6.12'}

        with mock.patch.object(agent_info, 'get_haproxy_versions',
                               autospec=True, side_effect=get):
            row, = self.list('--ask-agents')
        self.assertEqual(['2.6.12', '?'], row['haproxy_version'])
        self.assertEqual(['192.0.2.1'] * 2, [ip for _id, ip in asked])


class TestCheck(ImageTestCase):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        made = fixtures.TempDir()
        cls.addClassCleanup(made.cleanUp)
        made.setUp()
        cls.authority = certificates.Authority(made.path, 'authority')
        cls.client_path = os.path.join(made.path, 'client.pem')
        with open(cls.client_path, 'wb') as file:
            file.write(cls.authority.issue(
                'client', rsa.generate_private_key(65537, 2048)))

    def set_options(self, **groups):
        path = self.authority.certificate_path
        super().set_options(**octavia_conf.merge({
            'certificates': {'ca_certificate': path,
                             'ca_private_key': self.authority.key_path,
                             'cert_validity_time': 86400},
            'haproxy_amphora': {'server_ca': path,
                                'client_cert': self.client_path},
            'controller_worker': {'client_ca': path}}, groups))

    def check(self, expected, *argv):
        code, out, err = self.run_command('image', 'check', *argv, '-f',
                                          'json')
        self.assertEqual((expected, ''), (code, err), out)
        return [(each['id'] if each else None, row['check'], row['result'],
                 row['details']) for row in base.json.loads(out)
                for each in row['loadbalancers'] or [None]]

    def test_nothing_is_wrong(self):
        lb_id = self.add('old')
        found = self.check(0, lb_id)
        self.assertEqual({'Success'}, {row[2] for row in found}, found)
        self.assertEqual(32, len(found))
        self.assertEqual({None, lb_id}, {row[0] for row in found})
        self.assertEqual(11, len(self.check(0)))

    def assertOne(self, code, lb_id, check, result, *words):
        """One finding is made, and is the only one."""
        row, = (row for row in self.check(code) if row[2] != 'Success')
        self.assertEqual((lb_id, check, result), row[:3])
        for word in words:
            self.assertIn(word, row[3])
        self.assertNotIn('\n', row[3])

    def test_full_subnet(self):
        """One address is needed beside that of the old amphora."""
        lb_id = self.add('old')
        vip, = self.records.rows('vip')
        subnet = self.neutron.things['subnets'][vip['subnet_id']]
        subnet['allocation_pools'] = [
            {'start': '198.51.100.1', 'end': '198.51.100.2'}]
        self.check(0)
        self.neutron.things['ports']['amphora'] = {'fixed_ips': [{
            'subnet_id': vip['subnet_id'], 'ip_address': '198.51.100.2'}]}
        self.assertOne(2, lb_id, 'Addresses', 'Failure', vip['subnet_id'])

    def test_no_boot_network(self):
        lb_id = self.add('old')
        self.set_options(controller_worker={'amp_boot_network_list': ''})
        self.assertOne(2, lb_id, 'Boot networks', 'Failure',
                       'amp_boot_network_list is empty')
        self.set_options(controller_worker={'amp_boot_network_list': 'gone'})
        self.assertOne(2, lb_id, 'Boot networks', 'Failure', 'network gone')

    def test_full_boot_network(self):
        lb_id = self.add('old')
        self.neutron.things['subnets']['lb-mgmt-subnet'][
            'allocation_pools'] = []
        self.assertOne(2, lb_id, 'Boot networks', 'Failure', 'lb-mgmt-net')

    def test_keypair(self):
        self.add('old')
        self.set_options(controller_worker={'amp_ssh_key_name': 'octavia'})
        self.assertOne(2, None, 'Keypair', 'Failure', 'octavia')
        self.nova.keys.add('octavia')
        self.check(0)

    def test_security_group(self):
        self.add('old')
        self.set_options(controller_worker={'amp_secgroup_list': 'mgmt-sg'})
        self.assertOne(2, None, 'Security groups of amphorae', 'Failure',
                       'mgmt-sg')

    def test_security_group_of_the_vip(self):
        lb_id = self.add('old')
        self.neutron.things['security_groups'].clear()
        self.assertOne(2, lb_id, 'VIP security group', 'Failure',
                       f'lb-{lb_id}')

    def test_compute_flavor(self):
        """That of the flavor, which may be another one."""
        lb_id = self.add('old', flavor_id=self.records.add_flavor(
            '{"compute_flavor": "large"}'))
        self.assertOne(2, lb_id, 'Compute flavor', 'Failure', 'flavor large')
        self.nova.flavors['large'] = (2, 8192, 2)
        self.assertOne(2, None, 'Compute quota', 'Failure', '8192 MB of RAM')

    def test_image_that_is_too_large(self):
        lb_id = self.add('old')
        with mock.patch.object(compat, 'read_image', autospec=True,
                               return_value={'min_ram': 1024}):
            self.assertOne(2, lb_id, 'Image and flavor', 'Failure',
                           '1024 MB of RAM')

    def test_zone_of_nova(self):
        lb_id = self.add('old')
        self.set_options(nova={'availability_zone': 'az1'})
        self.nova.services.append(('compute3', 'az1', 'up', 'enabled'))
        self.assertOne(2, lb_id, 'Compute zone', 'Failure', 'zone az1')

    def test_hosts_of_a_zone(self):
        """Of the zone of Nova that the load balancer's has."""
        self.add_zone('edge', '{"compute_zone": "nova-edge"}')
        lb_id = self.add('old', 'old', server_group_id='hard',
                         availability_zone='edge')
        self.nova.groups['hard'] = 'anti-affinity'
        self.nova.zones['nova-edge'] = True
        self.nova.services += [
            ('compute3', 'nova', 'up', 'enabled'),
            ('compute4', 'nova-edge', 'up', 'enabled')]
        self.assertOne(2, lb_id, 'Hosts', 'Failure', 'takes 3 hosts, and '
                       'Nova has 1 in the zone nova-edge')

    def test_management_network_of_a_zone(self):
        self.add_zone('edge', '{"management_network": "edge-net"}')
        lb_id = self.add('old', availability_zone='edge')
        self.assertOne(2, lb_id, 'Boot networks', 'Failure',
                       'network edge-net', 'zone edge')

    def test_quota_of_cinder(self):
        self.add('old')
        self.set_options(
            controller_worker={'volume_driver': 'volume_cinder_driver'})
        cinder = fakes.Cinder()
        patch = mock.patch.object(compute_reading, 'connect', autospec=True,
                                  return_value=cinder)
        connect = patch.start()
        self.addCleanup(patch.stop)
        self.check(0)
        cinder.quota['gigabytes'] = (1000, 990)
        self.assertOne(2, None, 'Volume quota', 'Failure', '16 GB')
        connect.side_effect = exceptions.CloudUnavailable('Down.')
        self.assertIn((None, 'Volume service', 'Failure', 'Down.'),
                      self.check(2))

    def test_files(self):
        """Those of this host, if there are any."""
        lb_id = self.add('old')
        self.set_options(certificates={'ca_certificate': '/no/such/file'})
        found = {row[1]: row[2:] for row in self.check(0, lb_id)}
        self.assertEqual('Not checked', found['Authority of agents'][0])
        self.assertIn('/no/such/file', found['Authority of agents'][1])
        self.set_options(certificates={
            'ca_private_key': self.authority.certificate_path})
        self.assertOne(2, None, 'Authority of agents', 'Failure',
                       'ca_private_key')

    def test_policies(self):
        """What they forbid is not checked, and is no failure."""
        lb_id = self.add('old')
        for service, path, check in (
                (self.neutron, '/ports', 'VIP port'),
                (self.neutron, '/network-ip-availabilities', 'Addresses'),
                (self.nova, '/limits', 'Compute quota'),
                (self.nova, '/flavors/small', 'Compute flavor')):
            service.errors[path] = 403
            found = {row[1]: row[2:] for row in self.check(0, lb_id)}
            self.assertEqual('Not checked', found[check][0])
            self.assertIn('does not let', found[check][1])

    def test_number_of_requests(self):
        """It does not go by the number of load balancers."""
        counts = []
        for number in (10, 45):
            while len(self.records.rows('load_balancer')) < number:
                self.add('old')
            for service in (self.neutron, self.nova):
                service.asked.clear()
            self.check(0)
            counts.append(len(self.neutron.asked + self.nova.asked))
        self.assertEqual(counts[0], counts[1])

    def test_one_cause_in_common(self):
        """It is said once, though it names each load balancer."""
        ids = sorted(self.add('old', name=f'web{n}') for n in range(7))
        other = self.add('old', provisioning_status='PENDING_UPDATE')
        self.neutron.things['security_groups'].clear()
        code, out, err = self.run_command('image', 'check', '-f', 'json')
        self.assertEqual((2, ''), (code, err))
        rows = [row for row in base.json.loads(out) if row['loadbalancers']]
        self.assertEqual(
            [('State', [other]), ('VIP security group', sorted(
                [*ids, other]))],
            sorted((row['check'], [each['id'] for each in
                                   row['loadbalancers']]) for row in rows))
        self.assertEqual(1, sum('lb-ID' in row['details'] for row in rows))
        _code, out, _err = self.run_command('image', 'check')
        self.assertIn('and 3 more', out)
        self.assertEqual(6, len(re.findall(r'web\d|lb-[0-9a-f]{8}', out)))

    def test_nobody(self):
        self.assertEqual([], self.check(0))
        self.add('new')
        self.assertEqual([], self.check(0))

    def test_one_by_its_name(self):
        self.add('new', name='web')
        self.assertEqual(32, len(self.check(0, 'web')))
        self.add('new', name='web')
        for name, words in (('web', 'There are 2 load balancers web'),
                            ('nobody', 'There is no load balancer nobody')):
            code, out, err = self.run_command('image', 'check', name)
            self.assertEqual((2, '', 1), (code, out, err.count('\n')))
            self.assertIn(words, err)

    def test_failures(self):
        pending = self.add('old', provisioning_status='PENDING_UPDATE')
        no_port = self.add('old')
        self.add('old')
        vip = next(row for row in self.records.rows('vip')
                   if row['load_balancer_id'] == no_port)
        del self.neutron.things['ports'][vip['port_id']]
        found = [row for row in self.check(2) if row[0]]
        self.assertEqual({(pending, 'State', 'Failure'),
                          (no_port, 'VIP port', 'Failure')},
                         {row[:3] for row in found})
        self.assertEqual(2, len(found))

    def test_warning(self):
        lb_id = self.add(None)
        (found,) = (row for row in self.check(1) if row[0])
        self.assertEqual((lb_id, 'Image ids', 'Warning'), found[:3])

    def test_other_provider(self):
        """Nothing else is said of it."""
        lb_id = self.add(provider='ovn')
        found = [row for row in self.check(2, lb_id) if row[0]]
        self.assertEqual([(lb_id, 'Provider', 'Failure')],
                         [row[:3] for row in found])
        self.assertEqual([], self.check(0))

    def test_no_image(self):
        self.images.images.clear()
        lb_id = self.add('old')
        found = [row[:3] for row in self.check(2) if row[0]]
        self.assertEqual([(lb_id, 'Image', 'Failure')], found)

    def test_somebody_is_down(self):
        """The others' findings are shown all the same."""
        self.connect.side_effect = exceptions.CloudUnavailable('Down.')
        self.images.images['amphora'] = ValueError('no answer')
        lb_id = self.add('old', provisioning_status='ERROR')
        for found in (self.check(2), self.check(2, lb_id)):
            self.assertLessEqual(
                {(None, 'Neutron', 'Failure'),
                 (None, 'Image service', 'Failure'),
                 (lb_id, 'State', 'Failure')}, {row[:3] for row in found})
        self.assertIn((lb_id, 'Subnets', 'Not checked'),
                      {row[:3] for row in found})
        # Once in each run, whatever the number of load balancers.
        self.assertEqual(2, len(self.images.asked))

    def test_hosts(self):
        lb_id = self.add('old', 'old', server_group_id='hard')
        self.nova.groups['hard'] = 'anti-affinity'
        row, = (row for row in self.check(2) if row[2] == 'Failure')
        self.assertEqual((lb_id, 'Hosts'), row[:2])
        self.assertIn('takes 3 hosts, and Nova has 2', row[3])
        self.nova.services.append(('compute3', 'nova', 'up', 'enabled'))
        self.check(0)

    def test_nova_is_down(self):
        lb_id = self.add('old', 'old', server_group_id='hard')
        self.connect_nova.side_effect = exceptions.CloudUnavailable('Down.')
        found = {row[1]: row[2:] for row in self.check(2, lb_id)}
        self.assertEqual(['Failure', 'Down.'],
                         list(found['Compute service']))
        for check in ('Compute flavor', 'Compute quota', 'Hosts'):
            self.assertEqual('Not checked', found[check][0])

    def test_other_compute_drivers(self):
        """Nobody asks Nova, and nothing is said of it."""
        self.add('old')
        self.set_options(controller_worker={'compute_driver': 'another'})
        self.assertNotIn('Compute service', {
            row[1] for row in self.check(0)})
        self.connect_nova.assert_not_called()

    def test_quota(self):
        self.add('old')
        self.neutron.quota = {'limit': 5, 'used': 4, 'reserved': 0}
        row, = (row for row in self.check(2) if row[2] == 'Failure')
        self.assertEqual((None, 'Port quota'), row[:2])

    def test_no_database(self):
        path = self.write_conf(database={'connection': 'sqlite:////no/db'})
        code, out, err = self.run_command('--config-file', path, 'image',
                                          'check', conf=False)
        self.assertEqual((2, ''), (code, out))
        self.assertEqual(1, err.count('\n'), err)
