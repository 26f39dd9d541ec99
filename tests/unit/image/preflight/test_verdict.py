# SPDX-License-Identifier: Apache-2.0

from keystoneauth1 import loading
import requests

from octavia_hmsync.image import inventory
from octavia_hmsync.image.preflight import verdict
from octavia_hmsync.image import target
from tests.cloud import records
from tests.unit.image.cli import test_image


class TestVerdict(test_image.ImageTestCase):

    def judge(self, lb_id, mode='replace', **options):
        conf = self.make_conf(controller_worker={
            'amp_image_tag': 'amphora', 'amp_flavor_id': 'small',
            'amp_boot_network_list': ['lb-mgmt-net']})
        loading.register_auth_conf_options(conf, 'neutron')
        return verdict.judge(
            conf, self.engine, inventory.Inventory(conf, self.engine).get(
                lb_id), target.Targets(conf), mode, **options)

    def test_nothing_in_the_way(self):
        self.assertEqual(verdict.Verdict(),
                         self.judge(self.add('old')))

    def test_in_the_way(self):
        lb_id = self.add('old')
        self.neutron.things['ports'].clear()
        found = self.judge(lb_id)
        self.assertEqual((False, True), (found.is_passing, found.is_tenants))
        self.assertIn(f'{lb_id} cannot be replaced: VIP port: ',
                      found.failures[0])

    def test_whose(self):
        """What the tenant broke is told apart from what concerns others."""
        lb_id = self.add('old')
        self.assertFalse(self.judge(lb_id).is_tenants)
        self.neutron.things['ports'].clear()
        self.assertTrue(self.judge(lb_id).is_tenants)
        # Still the tenant's, when Glance is back.
        self.images.images['amphora'] = OSError('no answer')
        self.assertTrue(self.judge(lb_id).is_tenants)
        # No image: the operator's as well.
        self.images.images.clear()
        self.assertFalse(self.judge(lb_id).is_tenants)
        self.neutron.errors['/ports'] = 500
        self.assertFalse(self.judge(lb_id).is_tenants)

    def test_passing(self):
        """By itself, in a while; not together with what does not."""
        lb_id = self.add('old', provisioning_status='PENDING_UPDATE')
        self.assertTrue(self.judge(lb_id).is_passing)
        self.records.change('load_balancer', lb_id,
                            provisioning_status='ACTIVE')
        for error, is_passing in ((requests.ConnectionError(), True),
                                  (500, True), (409, False)):
            self.neutron.errors['/ports'] = error
            found = self.judge(lb_id)
            self.assertIn('Neutron: ', found.failures[0])
            self.assertEqual(is_passing, found.is_passing, error)
            self.assertFalse(found.is_tenants)
        # What a policy forbids is not checked, and in nothing's way.
        self.neutron.errors['/ports'] = 403
        self.assertEqual(verdict.Verdict(), self.judge(lb_id))
        self.neutron.errors.clear()
        self.images.images['amphora'] = OSError('no answer')
        found = self.judge(lb_id)
        self.assertIn('Image service: ', found.failures[0])
        self.assertTrue(found.is_passing)
        self.assertFalse(found.is_tenants)
        self.neutron.things['ports'].clear()
        found = self.judge(lb_id)
        self.assertEqual((False, True), (found.is_passing, found.is_tenants))

    def test_files(self):
        """In the way only of the housekeeper that is to build."""
        lb_id = self.add('old')
        self.assertEqual((), self.judge(lb_id).failures)
        for mode, number in (('replace', 2), ('failover', 0)):
            found = self.judge(lb_id, mode, is_housekeeper=True)
            self.assertEqual(number, len(found.failures), found)
            self.assertFalse(found.is_tenants)

    def test_mode(self):
        lb_id = self.add('old')
        self.records.insert_all({'listener': [{
            **records.listener_row('listener', lb_id), 'protocol': 'UDP'}]})
        failure, = self.judge(lb_id).failures
        self.assertIn('Use --mode failover', failure)
        self.assertNotIn('\n', failure)
        self.assertEqual((), self.judge(lb_id, 'failover').failures)
