#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

import dataclasses

from keystoneauth1 import loading
import requests

from octavia_hmsync import exceptions
from octavia_hmsync.image.preflight import database
from octavia_hmsync.image.preflight import facts
from octavia_hmsync.image.preflight import finding
from octavia_hmsync.image.preflight import modes
from octavia_hmsync.image.preflight import network
from octavia_hmsync.image.preflight import reading
from octavia_hmsync.image.preflight import run
from octavia_hmsync.image import target
from tests.unit import base
from tests.unit.image import fakes
from tests.unit.image import test_outdated

NEEDS = facts.Needs(frozenset({'port1'}), frozenset({'subnet1', 'subnet2'}),
                    frozenset({'group1'}), 'policy1', frozenset({'ref1'}))
NETWORK = facts.Network(
    frozenset({'port1'}), {'subnet1': 'net1', 'subnet2': 'net2'},
    frozenset({'group1'}), frozenset({'policy1'}), 3)


def make(load_balancer=None, **values):
    """Facts of a load balancer with which nothing is wrong."""
    return facts.Facts(**{
        'load_balancer': load_balancer or test_outdated.make('old'),
        'needs': NEEDS, 'target': target.Target('new'), 'network': NETWORK,
        **values})


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
        known = make(needs=dataclasses.replace(NEEDS, secrets=frozenset()),
                     compute=facts.Compute())
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
        self.assertFalse(modes.check_mode(make(
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
                ({'protocols': frozenset({'HTTP', 'UDP', 'SCTP'})},
                 'SCTP and UDP')):
            self.assertWarning(modes.check_mode, make(
                needs=facts.Needs(**values)), words, 'failover')
        self.assertFound(finding.Severity.SUCCESS, modes.check_mode, make(
            needs=facts.Needs(addresses=frozenset({'192.0.2.1',
                                                   '2001:db8::1'}),
                              protocols=frozenset({'HTTP', 'TCP'}))))


class TestNetworkChecks(CheckTestCase):

    def test_what_is_gone(self):
        empty = facts.Network(qos_policy_ids=frozenset())
        for check, words in (
                (network.check_vip, ('port1',)),
                (network.check_subnets, ('subnet1, subnet2',)),
                (network.check_security_groups, ('group1',)),
                (network.check_qos_policy, ('policy1',))):
            self.assertFailure(check, make(network=empty), *words)
            self.assertNotChecked(check, make(network=None), 'Neutron')
            self.assertFound(finding.Severity.SUCCESS, check,
                             make(network=empty, needs=facts.Needs()))

    def test_no_qos_policies_at_all(self):
        self.assertFailure(network.check_qos_policy,
                           make(network=facts.Network()), 'any more')

    def test_ports(self):
        self.assertEqual(3, network.count_ports(make()))
        self.assertEqual(2, network.count_ports(make(needs=facts.Needs())))
        self.assertEqual(4, network.count_ports(make(
            settings=facts.Settings(boot_networks=2))))

    def test_quota(self):
        """The largest need of all counts."""
        small = make(needs=facts.Needs())
        for left, severity in ((None, 0), (3, 0), (2, 2)):
            known = [small, make()]
            known = [dataclasses.replace(one, network=dataclasses.replace(
                NETWORK, ports_left=left)) for one in known]
            self.assertFound(severity, network.check_port_quota, known)
        self.assertNotChecked(network.check_port_quota, [make(network=None)])

    def test_quota_of_several_at_once(self):
        """The largest needs may come together."""
        for left, parallel, number, severity in (
                (6, 2, 3, 0), (5, 2, 3, 1), (5, 2, 1, 0), (2, 2, 3, 2),
                (8, 3, 9, 1), (None, 50, 99, 0)):
            self.assertFound(severity, network.check_port_quota, [
                make(network=dataclasses.replace(NETWORK, ports_left=left),
                     settings=facts.Settings(parallel=parallel))] * number)


class TestReading(base.TestCase):

    def setUp(self):
        super().setUp()
        self.conf = self.make_conf()
        loading.register_auth_conf_options(self.conf, 'neutron')
        self.neutron = fakes.Neutron(
            ports={'port1': {}, 'other': {}},
            subnets={'subnet1': {'network_id': 'net1'}},
            security_groups={'group1': {}}, policies={'policy1': {}},
            quota={'limit': 10, 'used': 6, 'reserved': 1})

    def read(self, *needs):
        return reading.NetworkReader(self.conf, self.neutron).read(
            needs or [NEEDS])

    def test_what_there_is(self):
        self.assertEqual(facts.Network(
            frozenset({'port1'}), {'subnet1': 'net1'}, frozenset({'group1'}),
            frozenset({'policy1'}), 3), self.read())

    def test_nobody_asks_for_nothing(self):
        self.read(facts.Needs())
        self.assertEqual(['/quotas/octavia/details.json'],
                         self.neutron.asked)

    def test_many(self):
        """With answers that are shorter than the questions, too."""
        ids = frozenset(f'port{n}' for n in range(250))
        self.neutron.things['ports'] = dict.fromkeys(ids, {})
        needs = facts.Needs(ids | {'gone'})
        self.assertEqual(ids, self.read(needs).port_ids)
        self.assertEqual(4, len(self.neutron.asked) - 1)
        self.neutron.limit = 7
        self.assertEqual(ids, self.read(needs).port_ids)

    def test_what_neutron_does_not_know(self):
        self.neutron.things['policies'] = None
        self.neutron.quota = None
        found = self.read()
        self.assertIsNone(found.qos_policy_ids)
        self.assertIsNone(found.ports_left)

    def test_no_project(self):
        """As without Keystone."""
        self.neutron.current_project_id = None
        self.assertIsNone(self.read().ports_left)
        self.assertNotIn('/quotas/octavia/details.json', self.neutron.asked)

    def test_no_limit(self):
        self.neutron.quota = {'limit': -1, 'used': 5, 'reserved': 0}
        self.assertIsNone(self.read().ports_left)
        self.neutron.quota = {'limit': 3, 'used': 5, 'reserved': 0}
        self.assertEqual(0, self.read().ports_left)

    def test_down_at_each_request(self):
        self.read()
        for path in set(self.neutron.asked):
            for error, kind in (
                    (500, exceptions.CloudUnavailable),
                    (403, exceptions.CloudRefused),
                    (requests.ConnectionError('no answer'),
                     exceptions.CloudUnavailable)):
                self.neutron.errors = {path: error}
                e = self.assertRaises(kind, self.read)
                self.assertNotIn('\n', str(e))

    def test_settings(self):
        self.assertEqual(facts.Settings(), reading.read_settings(self.conf))
        self.conf.set_override('volume_driver', 'volume_cinder_driver',
                               group='controller_worker')
        self.conf.set_override('amp_boot_network_list', ['net1', 'net2'],
                               group='controller_worker')
        self.conf.set_override('enable_anti_affinity', True, group='nova')
        self.conf.set_override('rollout_parallel', 4, group='hmsync_image')
        self.conf.set_override('availability_zone', 'az1', group='nova')
        for option in ('compute_driver', 'amp_flavor_id'):
            self.conf.set_override(option, option, group='controller_worker')
        self.assertEqual(facts.Settings(True, True, 2, False, 'az1',
                                        'amp_flavor_id', 4),
                         reading.read_settings(self.conf))
        self.conf.set_override('anti_affinity_policy', 'soft-anti-affinity',
                               group='nova')
        self.assertFalse(reading.read_settings(self.conf).is_apart)
