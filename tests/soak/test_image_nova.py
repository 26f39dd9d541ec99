# SPDX-License-Identifier: Apache-2.0

"""What image upgrades ask of a real Nova, beside Octavia's compute driver."""

import contextlib
import json
import os
import sys

import fixtures
import openstack
from openstack import exceptions as sdk_exc

from tests.cloud import glance
from tests.cloud import http_proxy
from tests.cloud import mariadb
from tests.cloud import network
from tests.cloud import neutron
from tests.cloud import nova
from tests.cloud import octavia_conf
from tests.cloud import process
from tests.cloud import rabbitmq
from tests.unit.cli import base

TAG = 'amphora'
# What a worker does with an instance; in a process of its own, because
# Octavia's configuration is one for all of it.
_COMPUTE = """
import json, sys, time
from oslo_config import cfg
from octavia.common import config
from octavia.compute.drivers import nova_driver
path, action, *arguments = sys.argv[1:]
cfg.CONF(['--config-file', path], project='octavia')
compute = nova_driver.VirtualMachineManager()
if action == 'group':
    print(json.dumps(compute.create_server_group(*arguments).id))
else:
    flavor, tag, network, group = arguments
    made = compute.build(
        amphora_flavor=flavor, image_tag=tag, network_ids=[network],
        server_group_id=group or None)
    for _ in range(120):
        amphora, fault = compute.get_amphora(made)
        if amphora.status in ('ACTIVE', 'ERROR'):
            break
        time.sleep(0.5)
    print(json.dumps([made, amphora.status, amphora.image_id,
                      fault and fault['message']]))
"""


class Services(fixtures.Fixture):
    """Nova with what it stands on."""

    def _setUp(self):
        self.directory = self.useFixture(fixtures.TempDir(
            rootdir=mariadb.LASTING_DIRECTORY)).path
        self.rabbitmq = self.useFixture(
            rabbitmq.RabbitMQServer(self.directory))
        self.neutron = self.useFixture(neutron.Neutron(self.directory))
        self.glance = self.useFixture(glance.Glance(self.directory))
        for service in (self.rabbitmq, self.neutron, self.glance):
            service.wait_until_ready()
        self.nova = self.useFixture(nova.Nova(
            self.directory, self.rabbitmq.url, self.neutron, self.glance))
        self.connection = openstack.connect(
            load_envvars=False, load_yaml_config=False, auth_type='none',
            auth={'endpoint': self.neutron.url},
            network_endpoint_override=self.neutron.url,
            image_endpoint_override=self.glance.url,
            compute_endpoint_override=self.nova.url)
        self.addCleanup(self.connection.close)
        self.nova.wait_until_ready(self.connection)
        made = self.connection.network.create_network(
            name='lb-mgmt-net', project_id=nova.PROJECT_ID)
        self.connection.network.create_subnet(
            network_id=made.id, cidr='172.31.0.0/24', ip_version=4,
            project_id=nova.PROJECT_ID)
        self.network_id = made.id
        self.flavor_id = self.connection.compute.create_flavor(
            name='amphora', ram=512, vcpus=1, disk=1).id

    def add_image(self, name, **values):
        return self.connection.image.create_image(
            name=name, container_format='bare', disk_format='raw', data=b'x',
            tags=[TAG], validate_checksum=False, allow_duplicates=True,
            **values)


class TestImageNova(base.CommandTestCase):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.cloud = Services()
        cls.addClassCleanup(cls.cloud.cleanUp)
        cls.cloud.setUp()

    def stop_clock(self):
        """What Nova and Neutron have made gets older."""

    def setUp(self):
        super().setUp()
        self.cloud.nova.set_roles(nova.EVERYBODY)
        self.addCleanup(self.empty_nova)
        self.conf_path = self.write_options()

    def empty_nova(self):
        api = self.cloud.connection.compute
        for server in list(api.servers()):
            # Nobody counts on it.
            with contextlib.suppress(sdk_exc.HttpException):
                api.delete_server(server.id)

    def write_options(self, url=None, **groups):
        """Write octavia.conf, with another URL of Nova, and more options."""
        options = octavia_conf.merge(
            self.cloud.neutron.octavia_options(),
            self.cloud.glance.octavia_options(),
            self.cloud.nova.octavia_options(), {
                'database': {'connection': self.database.connection},
                'controller_worker': {
                    'amp_image_tag': TAG,
                    'amp_flavor_id': self.cloud.flavor_id,
                    'amp_boot_network_list': self.cloud.network_id},
                'hmsync_image': {'image_timeout': 60}},
            {'nova': {'endpoint': url}} if url else None, groups)
        path = os.path.join(self.directory, 'octavia.conf')
        octavia_conf.write(path, options)
        return path

    def compute(self, *arguments):
        """Have Octavia's compute driver do something."""
        out = process.run(
            sys.executable, '-W', 'ignore', '-c', _COMPUTE, self.conf_path,
            *arguments, env=process.environment(self.directory))
        return json.loads(out.splitlines()[-1])

    def build(self, group_id):
        return self.compute('build', self.cloud.flavor_id, TAG,
                            self.cloud.network_id, group_id)

    def build_active(self, group_id):
        """Build one that has to come up; returns its id, and its image's.

        A service of Nova that finds its SQLite file locked gives up: once
        more, then.
        """
        for _ in range(3):
            compute_id, status, image_id, fault = self.build(group_id)
            if status == 'ACTIVE':
                return compute_id, image_id
        self.fail(f'{status}: {fault}\n' + '\n'.join(
            each.log_tail(30) for each in self.cloud.nova.computes.values()))

    def add_pair(self, policy):
        """Have a pair as Octavia would; returns its id, and its group."""
        self.image = self.cloud.add_image('first')
        group_id = self.compute('group', 'pair', policy)
        lb_id = self.records.add_load_balancer('ACTIVE_STANDBY')
        self.cloud.connection.network.create_security_group(
            name=f'lb-{lb_id}')
        self.records.change('load_balancer', lb_id, server_group_id=group_id)
        for role in ('MASTER', 'BACKUP'):
            compute_id, image_id = self.build_active(group_id)
            self.assertEqual(self.image.id, image_id)
            amphora_id = self.records.add_amphora('192.0.2.1', lb_id, role)
            self.records.change('amphora', amphora_id, image_id=image_id,
                                compute_id=compute_id)
        return lb_id, group_id

    def check(self, *argv):
        """Return the exit code, and {check: (result, details)}."""
        code, out, err = self.run_command('image', 'check', *argv, '-f',
                                          'json')
        self.assertEqual('', err)
        return code, {row['check']: (row['result'], row['details'])
                      for row in json.loads(out)}

    def assertHosts(self, lb_id, result, *words):
        _code, found = self.check(lb_id)
        self.assertEqual(result, found['Hosts'][0], found)
        for word in words:
            self.assertIn(word, found['Hosts'][1])

    def test_hard_anti_affinity(self):
        lb_id, group_id = self.add_pair('anti-affinity')
        row, = self.run_json('image', 'list', '--long')
        self.assertEqual(('NO', self.image.id),
                         (row['outdated'], row['target_image_id']))
        newer = self.cloud.add_image('newer')
        row, = self.run_json('image', 'list', '--long')
        self.assertEqual(('YES', newer.id),
                         (row['outdated'], row['target_image_id']))
        # It is named beforehand, and that is what happens.
        self.assertHosts(lb_id, 'Failure', 'takes 3 hosts', 'Nova has 2')
        _id, status, _image_id, fault = self.build(group_id)
        self.assertEqual('ERROR', status)
        self.assertIn('No valid host', fault)
        # Who may not see the hosts is told so.
        self.cloud.nova.set_roles('member,reader')
        self.assertHosts(lb_id, 'Warning', 'takes 3 hosts',
                         'does not let')
        self.cloud.nova.set_roles(nova.EVERYBODY)
        self.cloud.nova.add_compute('compute3')
        self.cloud.nova.wait_until_ready(self.cloud.connection)
        self.assertHosts(lb_id, 'Success')
        self.assertEqual(newer.id, self.build_active(group_id)[1])

    def test_soft_anti_affinity(self):
        lb_id, group_id = self.add_pair('soft-anti-affinity')
        self.assertHosts(lb_id, 'Success')
        for _ in range(2):
            self.build_active(group_id)

    def test_group_that_is_gone(self):
        lb_id, group_id = self.add_pair('soft-anti-affinity')
        self.cloud.connection.compute.delete_server_group(group_id)
        self.assertHosts(lb_id, 'Failure', group_id)
        self.assertRaises(RuntimeError, self.build, group_id)

    def assertFinds(self, check, result, *words, **groups):
        """With these options of octavia.conf, and no other failure."""
        self.conf_path = self.write_options(**groups)
        _code, found = self.check(self.lb_id)
        self.assertEqual(result, found[check][0], found)
        for word in words:
            self.assertIn(word, found[check][1])
        # A record of Octavia's has no port and no subnet behind it.
        self.assertLessEqual(
            {name for name in found if found[name][0] == 'Failure'},
            {check, 'VIP port', 'Subnets'})

    def test_what_a_build_asks_for(self):
        """It is named beforehand, and Nova rejects just that."""
        self.cloud.add_image('first')
        self.lb_id = self.records.add_load_balancer()
        self.cloud.connection.network.create_security_group(
            name=f'lb-{self.lb_id}')
        self.records.add_amphora('192.0.2.1', self.lb_id)
        self.assertFinds('Keypair', 'Success')
        self.assertFinds('Keypair', 'Failure', 'octavia key',
                         controller_worker={'amp_ssh_key_name':
                                            'octavia key'})
        self.cloud.connection.compute.create_keypair(name='octavia key')
        self.assertFinds('Keypair', 'Success', controller_worker={
            'amp_ssh_key_name': 'octavia key'})
        self.assertFinds('Security groups of amphorae', 'Failure', 'mgmt-sg',
                         controller_worker={'amp_secgroup_list': 'mgmt-sg'})
        self.assertFinds('Boot networks', 'Warning', 'is empty',
                         controller_worker={'amp_boot_network_list': ''})
        self.assertFinds('Compute flavor', 'Failure', 'flavor gone',
                         controller_worker={'amp_flavor_id': 'gone'})
        self.assertRaises(RuntimeError, self.compute, 'build', 'gone', TAG,
                          self.cloud.network_id, '')
        for zone, result in (('nova', 'Success'), ('nowhere', 'Failure')):
            self.assertFinds('Compute zone', result,
                             nova={'availability_zone': zone})
        self.assertRaises(RuntimeError, self.build, '')
        self.conf_path = self.write_options()
        # The flavor has 512 MB, and 1 GB of disk.
        for values, result in (({'min_ram': 513}, 'Failure'),
                               ({'min_disk': 2}, 'Failure'),
                               ({'min_ram': 512, 'min_disk': 1}, 'Success')):
            image = self.cloud.add_image('another', **values)
            self.assertFinds('Image and flavor', result)
            if result == 'Failure':
                self.assertRaises(RuntimeError, self.build, '')
            self.cloud.connection.image.delete_image(image.id)

    def test_quota(self):
        lb_id, _group_id = self.add_pair('soft-anti-affinity')
        self.addCleanup(self.cloud.nova.set_quota)
        limits = self.cloud.connection.compute.get(
            '/limits').json()['limits']['absolute']
        for resource, used, more, words in (
                ('instances', 'totalInstancesUsed', 0, '1 instances'),
                ('cores', 'totalCoresUsed', 0, '1 cores'),
                ('ram', 'totalRAMUsed', 511, '512 MB of RAM')):
            for left, result in ((more, 'Failure'), (512, 'Success')):
                self.cloud.nova.set_quota(**{resource: limits[used] + left})
                code, found = self.check(lb_id)
                self.assertEqual(result, found['Compute quota'][0], found)
                if result == 'Failure':
                    self.assertEqual(2, code)
                    self.assertIn(words, found['Compute quota'][1])

    def test_down(self):
        """One clear line, at each request; the others' are shown, too."""
        lb_id, _group_id = self.add_pair('anti-affinity')
        proxy = self.useFixture(http_proxy.FaultyProxy(
            self.cloud.nova.port))
        number = 0
        while True:
            number += 1
            self.conf_path = self.write_options(f'{proxy.url}/v2.1')
            proxy.fail_at(number)
            code, found = self.check(lb_id)
            proxy.heal()
            if found['Compute service'][0] == 'Success':
                break
            self.assertDown(code, found)
        self.assertGreater(number, 3)
        self.conf_path = self.write_options(
            f'http://127.0.0.1:{network.free_port()}/v2.1')
        self.assertDown(*self.check(lb_id))

    def assertDown(self, code, found):
        result, details = found['Compute service']
        self.assertEqual((2, 'Failure'), (code, result))
        self.assertNotIn('\n', details)
        self.assertIn('Nova', details)
        self.assertEqual('Not checked', found['Hosts'][0])
        self.assertEqual('Success', found['Neutron'][0])
