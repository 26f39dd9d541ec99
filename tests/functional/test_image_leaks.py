# SPDX-License-Identifier: Apache-2.0

"""What leaked of amphorae, at a real Neutron and a Nova of the tests."""

import uuid

from octavia_hmsync.image.db import claim as claims_repo
from octavia_hmsync.image.db import replacement as replace_repo
from octavia_hmsync.image.db import rollout as rollout_repo
from tests.cloud import fake_nova
from tests.cloud import http_proxy
from tests.cloud import octavia_conf
from tests.cloud import records
from tests.db_cases.image import calls as image_calls
from tests.functional import mgmt_network

LONG_AGO = records.utcnow() - records.datetime.timedelta(hours=2)


class TestImageLeaks(mgmt_network.NetworkTestCase):

    def setUp(self):
        self.nova = self.useFixture(fake_nova.FakeNova())
        super().setUp()
        self.made = self.network.create_network(name=self.name)
        self.addCleanup(self.network.delete_network, self.made.id)
        self.lb = self.records.add_load_balancer()

    def set_options(self, url=None, **options):
        super().set_options(url, **options)
        self.groups = octavia_conf.merge(self.groups,
                                         self.nova.octavia_options())
        if hasattr(self, 'directory'):
            self.conf_path = self.write_conf()

    def add_amphora(self, status='ALLOCATED', lb=None, **values):
        """Add an old amphora; returns its id."""
        amphora_id = self.records.add_amphora('192.0.2.1', lb, status=status)
        self.records.change('amphora', amphora_id,
                            **{'created_at': LONG_AGO, **values})
        return amphora_id

    def add_instance(self, amphora_id, **kwargs):
        server_id = self.nova.add(f'amphora-{amphora_id}', **kwargs)
        if amphora_id:
            self.records.change('amphora', amphora_id, compute_id=server_id)
        return server_id

    def add_port(self, name, **attributes):
        port = self.network.create_port(network_id=self.made.id, name=name,
                                        **attributes)
        self.addCleanup(self.network.delete_port, port.id,
                        ignore_missing=True)
        return port.id

    def leaks(self, *argv):
        """Return {id: outcome}, of nothing younger than a moment."""
        return {row['id']: row['outcome'] for row in self.run_json(
            'image', 'leaks', '--long', '--older-than', '0.001', *argv)
            if self.is_ours(row)}

    def is_ours(self, row):
        # Others make ports at the Neutron that all tests share.
        return row['kind'] != 'PORT' or self.network.find_port(
            row['id'], network_id=self.made.id) or row['id'] in self.known

    known: set[str] = set()

    def test_nothing(self):
        serving = self.add_amphora(lb=self.lb)
        server_id = self.add_instance(serving)
        for name in (f'octavia-lb-vrrp-{serving}', f'octavia-lb-{self.lb}',
                     f'octavia-lb-member-{serving}', 'octavia-lb-vrrp-mine',
                     'web', ''):
            self.add_port(name, device_id=server_id)
        self.nova.add('web')
        self.assertEqual({}, self.leaks())
        self.assertEqual({}, self.leaks('--delete'))
        self.assertEqual(2, len(self.nova.servers))

    def test_leaks(self):
        deleted = self.add_amphora('DELETED')
        unknown = str(uuid.uuid4())
        instances = {self.add_instance(deleted),
                     self.nova.add(f'amphora-{unknown}')}
        plugged = self.add_port(f'octavia-lb-vrrp-{deleted}',
                                device_id=sorted(instances)[0])
        ports = {plugged, self.add_port(f'octavia-lb-member-{unknown}')}
        # Of a row whose worker died before it wrote down the instance.
        left = self.add_amphora('PENDING_CREATE', compute_id=None)
        by_name = self.nova.add(f'amphora-{left}')
        ports_of_left = self.add_port(f'octavia-lb-vrrp-{left}')
        expected = {*instances, *ports, left}
        self.assertEqual(dict.fromkeys(expected, 'LEAKED'), self.leaks())
        self.assertIn(by_name, self.nova.servers)
        # Nothing is young enough for a default of an hour.
        rows = self.run_json('image', 'leaks', '--long')
        self.assertEqual(instances | {left}, {
            row['id'] for row in rows if row['kind'] != 'PORT'})
        self.assertEqual([], [row for row in rows if row['id'] in ports])

        self.known = ports
        self.assertEqual(dict.fromkeys(expected, 'DELETED'),
                         self.leaks('--delete'))
        self.assertEqual({}, self.nova.servers)
        self.assertEqual([], list(self.network.ports(
            network_id=self.made.id)))
        self.assertIsNone(self.network.find_port(ports_of_left))
        self.assertEqual({'DELETED'}, {
            row['status'] for row in self.records.rows('amphora')})
        self.assertEqual({}, self.leaks())

    def test_database_restored_from_a_backup(self):
        """It knows the load balancer, and an amphora that is gone."""
        self.add_amphora(lb=self.lb)
        self.network.create_subnet(network_id=self.made.id, ip_version=4,
                                   cidr='198.51.100.0/24')
        new = str(uuid.uuid4())
        server_id = self.nova.add(f'amphora-{new}')
        vip = self.network.create_port(
            network_id=self.made.id, name=f'octavia-lb-{self.lb}',
            device_id=f'lb-{self.lb}', device_owner='Octavia')
        self.addCleanup(self.network.delete_port, vip.id)
        address = vip.fixed_ips[0]['ip_address']
        plugged = self.add_port(
            f'octavia-lb-vrrp-{new}', device_id=server_id,
            allowed_address_pairs=[{'ip_address': address}])
        of_members = self.add_port(f'octavia-lb-member-{new}',
                                   device_id=server_id)
        self.neutron.execute('UPDATE ports SET status = ? WHERE id = ?',
                             'ACTIVE', plugged)
        kept = dict.fromkeys((server_id, plugged, of_members), 'KEPT')
        self.assertEqual(kept, self.leaks())
        self.assertEqual(kept, self.leaks('--delete'))
        row = next(row for row in self.run_json(
            'image', 'leaks', '--older-than', '0.001')
            if row['id'] == server_id)
        self.assertIn(f'its port {plugged} is ACTIVE and has the VIP '
                      f'{address} of load balancer {self.lb}', row['reason'])
        # With an amphora that serves beside it, it is one too many.
        self.records.set_health(*(
            each['id'] for each in self.records.rows('amphora')))
        self.known = {plugged, of_members}
        self.assertEqual(dict.fromkeys(kept, 'DELETED'),
                         self.leaks('--delete'))

    def test_what_a_replacement_names_is_kept(self):
        new = self.add_amphora('BOOTING', lb=self.lb)
        server_id = self.add_instance(new)
        self.assertEqual({new: 'LEAKED'}, self.leaks())
        rollout_repo.add(self.engine, 'rollout', image_calls.SETTINGS)
        claims_repo.begin(
            self.engine, 'rollout', rollout_repo.get_active(
                self.engine).version,
            [replace_repo.New('replacement', self.lb, 'replace', 'image')],
            'owner', 60)
        claims_repo.set_phase(self.engine, 'replacement', 'owner', 60,
                              'BUILD', new_amphora_id=new)
        self.assertEqual({}, self.leaks('--delete'))
        self.assertIn(server_id, self.nova.servers)

    def test_one_of_a_locked_load_balancer_is_kept(self):
        new = self.add_amphora('BOOTING', lb=self.lb)
        self.records.change('load_balancer', self.lb,
                            provisioning_status='PENDING_UPDATE')
        self.assertEqual({new: 'KEPT'}, self.leaks('--delete'))
        self.assertEqual('BOOTING', self.records.rows('amphora')[0]['status'])

    def test_one_that_cannot_be_deleted(self):
        ids = sorted(self.nova.add(f'amphora-{uuid.uuid4()}')
                     for _ in range(3))
        self.nova.errors['DELETE', f'/v2.1/servers/{ids[1]}'] = 403
        code, out, err = self.run_command(
            'image', 'leaks', '--delete', '--long', '-f', 'json')
        self.assertEqual((1, 1), (code, err.count('\n')), err)
        self.assertIn('Nova does not let', err)
        self.assertEqual(
            {ids[0]: 'DELETED', ids[1]: 'FAILED', ids[2]: 'DELETED'},
            {row['id']: row['outcome']
             for row in mgmt_network.base.json.loads(out)
             if row['kind'] == 'INSTANCE'})
        self.assertEqual([ids[1]], list(self.nova.servers))

    def test_a_port_that_is_in_use_is_kept(self):
        server_id = self.nova.add('web')
        port_id = self.add_port(f'octavia-lb-vrrp-{uuid.uuid4()}',
                                device_id=server_id)
        self.assertEqual({port_id: 'KEPT'}, self.leaks('--delete'))
        self.nova.servers.clear()
        self.known = {port_id}
        self.assertEqual({port_id: 'DELETED'}, self.leaks('--delete'))

    def test_nova_is_down(self):
        self.nova.errors['GET', '/v2.1/servers/detail'] = 503
        self.assertFails('Nova or Keystone answers HTTP 503', 'image',
                         'leaks')

    def test_neutron_is_down_at_each_request(self):
        """Nothing is deleted before all is known."""
        server_id = self.nova.add(f'amphora-{uuid.uuid4()}')
        proxy = self.useFixture(http_proxy.FaultyProxy(self.neutron.port))
        self.set_options(proxy.url)
        number = 0
        while server_id in self.nova.servers:
            number += 1
            proxy.fail_at(number)
            code, out, err = self.run_command('image', 'leaks', '--delete')
            proxy.heal()
            if server_id in self.nova.servers:
                self.assertEqual((1, 1), (code, err.count('\n')), err)
                self.assertIn('Neutron', err)
                # Asked once more right before it is deleted.
                self.assertEqual(bool(out), 'FAILED' in out)
        self.assertGreater(number, 1)

    def test_instances_that_nobody_lists(self):
        self.groups['controller_worker']['compute_driver'] = (
            'compute_noop_driver')
        self.conf_path = self.write_conf()
        rows = self.run_json('image', 'leaks', '--long')
        self.assertEqual([('INSTANCE', None, 'NOT_CHECKED')], [
            (row['kind'], row['id'], row['outcome']) for row in rows])
