# SPDX-License-Identifier: Apache-2.0

"""What image upgrades read of Octavia's load balancers."""

import collections
import json

from octavia_hmsync.image.db import inventory as inventory_repo
from octavia_hmsync.image.db import needs as needs_repo
from octavia_hmsync.image import inventory
from octavia_hmsync.image import outdated
from tests.cloud import records
from tests.db_cases import base

OLD, NEW = 'image-old', 'image-new'


class InventoryCases(base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.conf.set_override('amp_image_tag', 'amphora',
                               group='controller_worker')

    def add(self, number, images=(OLD,), **values):
        """Add load balancers with amphorae, and return their ids."""
        topology = 'SINGLE' if len(images) == 1 else 'ACTIVE_STANDBY'
        ids = sorted(records.new_id() for _ in range(number))
        self.records.insert_all({
            'load_balancer': [
                {**records.load_balancer_row(lb_id, topology), **values}
                for lb_id in ids],
            'amphora': [
                {**records.amphora_row(records.new_id(), '192.0.2.1', lb_id,
                                       role), 'image_id': image_id}
                for lb_id in ids for image_id, role in zip(
                    images, records.ROLES[topology])]})
        return ids

    def inventory(self):
        return inventory.Inventory(self.conf, self.engine)

    def ids(self, **wanted):
        return [found.id for found in self.inventory().get_page(**wanted)]

    def test_pages(self):
        """Each load balancer once, with its own amphorae and no others."""
        ids = self.add(7)
        first = self.inventory().get_page(limit=3)
        self.assertEqual(ids[:3], [found.id for found in first])
        self.assertEqual([1, 1, 1], [len(found.amphorae) for found in first])
        self.assertEqual(ids[3:6], self.ids(after=ids[2], limit=3))
        self.assertEqual(ids[6:], self.ids(after=ids[5], limit=3))
        self.assertEqual([], self.ids(after=ids[6], limit=3))

    def test_one(self):
        lb_id, = self.add(1, (OLD, NEW), availability_zone=None,
                          server_group_id='group')
        self.add(3)
        found = self.inventory().get(lb_id)
        self.assertEqual((lb_id, 'demo', 'amphora', 'ACTIVE_STANDBY',
                          'ACTIVE', 'group', 'amphora'), (
            found.id, found.project_id, found.provider, found.topology,
            found.status, found.server_group_id, found.tag))
        self.assertEqual({('MASTER', OLD), ('BACKUP', NEW)}, {
            (amphora.role, amphora.image_id) for amphora in found.amphorae})
        self.assertIsNone(self.inventory().get('nobody'))

    def test_deleted(self):
        """Neither load balancers nor amphorae that are."""
        gone, left = self.add(2)
        self.records.change('load_balancer', gone,
                            provisioning_status='DELETED')
        self.records.add_amphora('192.0.2.2', left, status='DELETED')
        self.assertEqual([left], self.ids())
        found = self.inventory().get(left)
        self.assertEqual([OLD], [a.image_id for a in found.amphorae])
        self.assertIsNone(self.inventory().get(gone))
        self.assertTrue(inventory_repo.exists(self.engine, gone))
        self.assertFalse(inventory_repo.exists(self.engine, 'nobody'))

    def test_busy(self):
        lb_id, = self.add(1, (OLD, OLD))
        busy, idle = (a.id for a in self.inventory().get(lb_id).amphorae)
        self.records.set_health(busy, busy=True)
        self.records.set_health(idle)
        self.assertEqual([True, False], [
            a.is_busy for a in self.inventory().get(lb_id).amphorae])

    def test_other_providers(self):
        """Only who asks for one by its id gets it."""
        self.add(1, provider='ovn')
        ids = sorted(self.add(1, provider='octavia') +
                     self.add(1, provider=None) + self.add(1))
        self.assertEqual(ids, self.ids())
        ovn, = self.add(1, provider='ovn')
        self.assertEqual('ovn', self.inventory().get(ovn).provider)

    def test_tags_of_flavors(self):
        tagged = self.records.add_flavor('{"amp_image_tag": "arm"}')
        same = self.records.add_flavor('{"amp_image_tag": "amphora"}')
        other = self.records.add_flavor(
            json.dumps({'loadbalancer_topology': 'SINGLE'}))
        broken = self.records.add_flavor('no JSON')
        plain, = self.add(1)
        of = {flavor: self.add(1, flavor_id=flavor)[0]
              for flavor in (tagged, same, other, broken)}
        self.assertEqual(
            {plain: 'amphora', of[tagged]: 'arm', of[same]: 'amphora',
             of[other]: 'amphora', of[broken]: None},
            {found.id: found.tag for found in self.inventory().get_page()})
        self.assertEqual([of[tagged]], self.ids(tag='arm'))
        self.assertEqual(sorted([plain, of[same], of[other]]),
                         self.ids(tag='amphora'))
        self.assertEqual([], self.ids(tag='nobody'))
        self.assertEqual([of[same]], self.ids(flavor=same))
        self.assertEqual([], self.ids(flavor=same, tag='arm'))
        self.assertEqual([], self.ids(flavor='nobody'))

    def test_filters(self):
        pair, = self.add(1, (OLD, OLD))
        single, = self.add(1, project_id='other')
        self.assertEqual([pair], self.ids(topology='ACTIVE_STANDBY'))
        self.assertEqual([single], self.ids(project_id='other'))
        self.assertEqual([], self.ids(project_id='other',
                                      topology='ACTIVE_STANDBY'))
        self.assertEqual([], self.ids(availability_zone='nowhere'))

    def test_statements(self):
        """As many for ten thousand load balancers as for one."""
        counts = {}
        for number in (1, 4999, 5000):
            self.add(number, (OLD, NEW) if number == 5000 else (OLD,))
            with self.count_statements() as statements:
                found = self.inventory().get_page()
            counts[len(found)] = len(statements)
        self.assertEqual({1: 3, 5000: 3, 10000: 3}, counts)
        self.assertEqual(
            {outdated.Outdated.YES: 5000, outdated.Outdated.MIXED: 5000},
            collections.Counter(outdated.judge(lb, NEW) for lb in found))
        with self.count_statements() as statements:
            self.inventory().get_page(found[10].id, 20)
        self.assertEqual(3, len(statements))
        self.assertIn('LIMIT', statements[1])


class NeedsCases(base.DatabaseTestCase):

    def insert(self, table, **values):
        self.records.insert_all({table: [values]})

    def add_rich(self):
        """Add a load balancer that needs one of each, and return its id."""
        lb_id = self.records.add_load_balancer()
        vip = self.records.tables['vip']
        with self.engine.begin() as connection:
            connection.execute(vip.update().where(
                vip.c.load_balancer_id == lb_id).values(
                port_id='port1', subnet_id='subnet1',
                qos_policy_id='policy1', ip_address='192.0.2.1',
                vnic_type='direct'))
        self.insert('additional_vip', load_balancer_id=lb_id,
                    port_id='port2', subnet_id='subnet2',
                    ip_address='2001:db8::1')
        self.insert('vip_security_group', load_balancer_id=lb_id,
                    sg_id='group1')
        states = {'project_id': 'demo', 'provisioning_status': 'ACTIVE',
                  'operating_status': 'ONLINE', 'enabled': True}
        pool_id = records.new_id()
        self.insert('pool', id=pool_id, load_balancer_id=lb_id,
                    protocol='HTTP', lb_algorithm='ROUND_ROBIN',
                    tls_enabled=True, ca_tls_certificate_id='ca1',
                    tls_certificate_id=None, crl_container_id='', **states)
        for n, subnet_id in enumerate(('subnet3', 'subnet3', None)):
            self.insert('member', id=records.new_id(), pool_id=pool_id,
                        subnet_id=subnet_id, ip_address=f'192.0.2.{n}',
                        protocol_port=80, backup=False, **states)
        self.records.insert_all({'listener': [{
            **records.listener_row(records.new_id(), lb_id),
            'tls_certificate_id': 'tls1',
            'client_ca_tls_certificate_id': 'ca2',
            'client_crl_container_id': 'crl1'}]})
        listener_id = self.records.rows('listener')[-1]['id']
        self.insert('sni', listener_id=listener_id, tls_container_id='sni1')
        return lb_id

    def test_each_kind(self):
        lb_id = self.add_rich()
        self.assertEqual({
            'port': {'port1', 'port2'},
            'vip_subnet': {'subnet1'}, 'more_subnet': {'subnet2'},
            'member_subnet': {'subnet3'},
            'security_group': {'group1'}, 'qos_policy': {'policy1'},
            'address': {'192.0.2.1', '2001:db8::1'},
            'vnic_type': {'direct'}, 'protocol': {'HTTP'},
            'secret': {'tls1', 'sni1'},
            'authority': {'ca1', 'ca2', 'crl1'}},
            needs_repo.get_all(self.engine, lb_id, lb_id)[lb_id])

    def test_uncommon(self):
        """Nothing of those that have nothing of that."""
        for _ in range(3):
            self.records.add_listener(self.records.add_load_balancer())
        self.assertEqual({}, needs_repo.get_uncommon(self.engine))
        lb_id = self.add_rich()
        self.insert('listener', **{
            **records.listener_row(records.new_id(), lb_id),
            'protocol': 'UDP'})
        self.assertEqual(
            {lb_id: {'vnic_type': {'direct'}, 'protocol': {'UDP'}}},
            needs_repo.get_uncommon(self.engine))

    def test_statements(self):
        """As many for a hundred load balancers as for one."""
        ids = [self.records.add_load_balancer()]
        for number in (1, 100):
            while len(ids) < number:
                ids.append(self.records.add_load_balancer())
            with self.count_statements() as statements:
                found = needs_repo.get_all(self.engine, min(ids), max(ids))
            self.assertEqual(set(ids), set(found))
            self.assertEqual(7, len(statements))
        first, second = sorted(ids)[:2]
        self.assertEqual({first, second},
                         set(needs_repo.get_all(self.engine, first, second)))
