# SPDX-License-Identifier: Apache-2.0

import dataclasses
import os

import fixtures
from keystoneauth1 import loading
import requests

from octavia_hmsync.cli import finding
from octavia_hmsync.image import inventory
from octavia_hmsync.image.preflight import database
from octavia_hmsync.image.preflight import facts
from octavia_hmsync.image.preflight import reading
from octavia_hmsync.image.preflight import run
from octavia_hmsync.image import target
from tests.cloud import records
from tests.db_cases import base as cases
from tests.unit import base
from tests.unit.db import sqlite
from tests.unit.image.cli import test_image
from tests.unit.image import test_outdated

NEEDS = facts.Needs(
    frozenset({'port1'}), 'subnet1', frozenset({'subnet2'}),
    security_group_ids=frozenset({'group1'}), qos_policy_id='policy1',
    secrets=frozenset({'ref1'}), addresses=frozenset({'192.0.2.1'}))
BUILD = facts.Build('small', boot_networks=('mgmt',))
NETWORK = facts.Network(
    {'port1': frozenset({'192.0.2.1'})},
    {'subnet1': facts.Subnet('net1'), 'subnet2': facts.Subnet('net2'),
     'boot1': facts.Subnet('mgmt')},
    {'mgmt': facts.Net(('boot1',)), 'net1': facts.Net(('subnet1',)),
     'net2': facts.Net(('subnet2',))},
    security_group_ids=frozenset({'group1'}),
    vip_groups=frozenset({'lb-lb1'}), qos_policy_ids=frozenset({'policy1'}),
    ports_left=3)
COMPUTE = facts.Compute(hosts={'nova': 2}, flavors={
    'small': facts.ComputeFlavor(1, 512, 2)})


def make(load_balancer=None, **values):
    """Facts of a load balancer with which nothing is wrong."""
    return facts.Facts(**{
        'load_balancer': load_balancer or test_outdated.make('old'),
        'needs': NEEDS, 'build': BUILD, 'target': target.Target('new'),
        'network': NETWORK, 'compute': COMPUTE, **values})


class CheckTestCase(base.TestCase):

    def assertFound(self, severity, check, known, *words):
        found = check(known)
        self.assertEqual(severity, found.severity, found)
        for word in words:
            self.assertIn(word, found.details)
        self.assertNotIn('\n', found.details or '')

    def assertFailure(self, check, known, *words):
        self.assertFound(finding.Severity.FAILURE, check, known, *words)

    def assertWarning(self, check, known, *words):
        self.assertFound(finding.Severity.WARNING, check, known, *words)

    def assertNotChecked(self, check, known, *words):
        self.assertFound(None, check, known, *words)


class TestDatabaseChecks(CheckTestCase):

    def test_nothing_is_wrong(self):
        known = make(needs=dataclasses.replace(NEEDS, secrets=frozenset()))
        for name, check in run.CHECKS:
            self.assertFound(finding.Severity.SUCCESS, check, known)

    def test_provider(self):
        self.assertFailure(database.check_provider,
                           make(test_outdated.make(provider='ovn')), 'ovn')

    def test_cluster(self):
        """Each member is made before it is broken, whatever it serves."""
        cluster = test_outdated.make('old', 'old', provider='amphora_cluster',
                                     topology='ACTIVE_ACTIVE')
        for check in (database.check_provider, database.check_state,
                      database.check_topology, database.check_amphorae):
            self.assertFalse(check(make(cluster)).severity)
        self.assertFalse(database.check_mode(make(
            cluster, needs=facts.Needs(addresses=frozenset({'2001:db8::1'})))
        ).severity)
        self.assertFailure(
            database.check_amphorae,
            make(test_outdated.add(cluster, status='ERROR')),
            'housekeeping replaces them: another')

    def test_state(self):
        for status in ('PENDING_UPDATE', 'ERROR'):
            self.assertFailure(database.check_state, make(
                test_outdated.make('old', status=status)), status)

    def test_topology(self):
        self.assertFailure(database.check_topology, make(
            test_outdated.make('old', topology='ACTIVE_ACTIVE')),
            'ACTIVE_ACTIVE')

    def test_amphorae(self):
        pair = test_outdated.make('old', topology='ACTIVE_STANDBY')
        for values, words in (
                ({'status': 'ERROR'}, ('in ERROR', 'another')),
                ({'status': 'BOOTING'}, ('another (BOOTING)',)),
                ({'status': 'ALLOCATED', 'is_busy': True},
                 ('another (busy)',))):
            self.assertFailure(database.check_amphorae,
                               make(test_outdated.add(pair, **values)),
                               *words)
        self.assertFailure(database.check_amphorae, make(pair), 'has 1',
                           'the 2 of')

    def test_image(self):
        self.assertFailure(database.check_image, make(
            target=target.Target(None, 'there is none')), 'there is none')
        self.assertNotChecked(database.check_image, make(target=None),
                              'Image service')

    def test_image_ids(self):
        unknown = test_outdated.make(None)
        self.assertWarning(database.check_image_ids, make(unknown),
                           'image_id for amphora0')
        self.assertWarning(database.check_image_ids, make(
            unknown, settings=facts.Settings(boots_from_volume=True)),
            'Cinder', 'amphora0')

    def test_mode(self):
        for values, words in (
                ({'is_direct': True}, 'SR-IOV'),
                ({'protocols': frozenset({'HTTP', 'UDP', 'SCTP'})}, 'SCTP')):
            self.assertWarning(database.check_mode, make(
                needs=facts.Needs(**values)), words, 'failover')
        self.assertFound(finding.Severity.SUCCESS, database.check_mode, make(
            needs=facts.Needs(addresses=frozenset({'192.0.2.1',
                                                   '2001:db8::1'}),
                              protocols=frozenset({'HTTP', 'UDP'}))))


class TestReading(base.TestCase):

    def setUp(self):
        super().setUp()
        self.conf = self.make_conf()

    def test_settings(self):
        self.assertEqual(facts.Settings(), reading.read_settings(self.conf))
        authorities = os.path.join(
            self.useFixture(fixtures.TempDir()).path, 'authorities.pem')
        with open(authorities, 'w') as file:
            file.write('x' * 70)
        for group, options in {
                'controller_worker': {
                    'volume_driver': 'volume_cinder_driver',
                    'amp_ssh_key_name': 'key', 'client_ca': authorities,
                    'amp_secgroup_list': ['group']},
                'cinder': {'volume_size': 9, 'volume_type': 'fast'},
                'nova': {'enable_anti_affinity': True},
                'hmsync_image': {'rollout_parallel': 4}}.items():
            for name, value in options.items():
                self.conf.set_override(name, value, group)
        self.assertEqual(facts.Settings(
            True, True, 9, 'fast', True, True, 4, 'key', ('group',), 70),
            reading.read_settings(self.conf))
        self.conf.set_override('anti_affinity_policy', 'soft-anti-affinity',
                               'nova')
        # Then there are no files.
        self.conf.set_override('user_data_config_drive', True,
                               'controller_worker')
        self.conf.set_override('compute_driver', 'another',
                               'controller_worker')
        found = reading.read_settings(self.conf)
        self.assertEqual(
            (True, False, False, False, None),
            (found.boots_from_volume, found.has_cinder, found.is_apart,
             found.has_nova, found.file_size))


class TestBuilds(sqlite.SqliteMixin, cases.DatabaseTestCase):
    """What a flavor or an availability zone says goes before octavia.conf."""

    def read(self, flavor=None, zone=None, **groups):
        conf = self.make_conf(**groups)
        lb_id = self.records.add_load_balancer()
        self.records.change('load_balancer', lb_id, flavor_id=flavor,
                            availability_zone=zone)
        return reading.read_builds(conf, self.engine, [
            inventory.Inventory(conf, self.engine).get(lb_id)])[lb_id]

    def test_configuration(self):
        self.assertEqual(facts.Build(), self.read())
        self.assertEqual(
            facts.Build('small', 'az1', 'az2', ('net1', 'net2')), self.read(
                controller_worker={
                    'amp_flavor_id': 'small',
                    'amp_boot_network_list': ['net1', 'net2'],
                    'volume_driver': 'volume_cinder_driver'},
                nova={'availability_zone': 'az1'},
                cinder={'availability_zone': 'az2'}))

    def test_profiles(self):
        flavor = self.records.add_flavor('{"compute_flavor": "large"}')
        self.add_zone('edge', 'edge-net', 'edge-zone')
        self.add_zone('empty')
        options = {'controller_worker': {
            'amp_flavor_id': 'small', 'amp_boot_network_list': ['net1']},
            'nova': {'availability_zone': 'az1'}}
        self.assertEqual(facts.Build('large', 'edge-zone', None,
                                     ('edge-net',)),
                         self.read(flavor, 'edge', **options))
        self.assertEqual(facts.Build('small', 'az1', None, ('net1',)),
                         self.read(None, 'empty', **options))

    def test_profiles_that_cannot_be_read(self):
        for text in ('{', '[]'):
            flavor = self.records.add_flavor(text)
            self.assertIsNone(self.read(flavor).flavor_id)
        self.add_zone('edge')
        profile = self.records.tables['availability_zone_profile']
        with self.engine.begin() as connection:
            connection.execute(profile.update().values(
                availability_zone_data='{'))
        self.assertIn('availability zone edge cannot be read',
                      self.read(None, 'edge').problem)

    def test_statements(self):
        """As many for a hundred load balancers as for one."""
        conf = self.make_conf()
        for number in (1, 100):
            while len(self.records.rows('load_balancer')) < number:
                self.records.add_load_balancer()
            known = inventory.Inventory(conf, self.engine).get_page()
            with self.count_statements() as statements:
                found = reading.read_builds(conf, self.engine, known)
            self.assertEqual((number, 2), (len(found), len(statements)))


class TestVerdict(test_image.ImageTestCase):

    def judge(self, lb_id, mode='replace', **options):
        conf = self.make_conf(controller_worker={
            'amp_image_tag': 'amphora', 'amp_flavor_id': 'small',
            'amp_boot_network_list': ['lb-mgmt-net']})
        loading.register_auth_conf_options(conf, 'neutron')
        return run.judge(
            conf, self.engine, inventory.Inventory(conf, self.engine).get(
                lb_id), target.Targets(conf), mode, **options)

    def test_nothing_in_the_way(self):
        self.assertEqual(run.Verdict(),
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
        self.assertEqual(run.Verdict(), self.judge(lb_id))
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
            **records.listener_row('listener', lb_id), 'protocol': 'SCTP'}]})
        failure, = self.judge(lb_id).failures
        self.assertIn('Use --mode failover', failure)
        self.assertNotIn('\n', failure)
        self.assertEqual((), self.judge(lb_id, 'failover').failures)
