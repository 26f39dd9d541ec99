# SPDX-License-Identifier: Apache-2.0

import dataclasses

from keystoneauth1 import loading
import requests

from octavia_hmsync.cli import finding
from octavia_hmsync import exceptions
from octavia_hmsync.image.preflight import facts
from octavia_hmsync.image.preflight import network
from octavia_hmsync.image.preflight import network_reading
from tests.unit import base
from tests.unit.image import fakes
from tests.unit.image.preflight import test_preflight
from tests.unit.image import test_outdated

SUCCESS, WARNING, FAILURE = finding.Severity
NEEDS, NETWORK = test_preflight.NEEDS, test_preflight.NETWORK
SETTINGS = facts.Settings(boot_groups=('group1', 'default', 'mgmt-sg'))
SECRET = facts.Hidden('it is a secret')


def make(load_balancer=None, needs=NEEDS, build=test_preflight.BUILD,
         settings=SETTINGS, **values):
    """Facts with another Network."""
    return test_preflight.make(
        load_balancer, needs=needs, build=build, settings=settings,
        network=dataclasses.replace(NETWORK, **values))


class TestChecks(test_preflight.CheckTestCase):

    def test_what_is_gone(self):
        empty = facts.Network(qos_policy_ids=frozenset())
        for check, words in (
                (network.check_vip, ('port1',)),
                (network.check_subnets, ('subnet1, subnet2',)),
                (network.check_security_groups, ('group1',)),
                (network.check_qos_policy, ('policy1',))):
            gone = test_preflight.make(network=empty)
            self.assertFailure(check, gone, *words)
            self.assertIs(finding.Whose.TENANT, check(gone).whose)
            self.assertNotChecked(check, test_preflight.make(network=None),
                                  'Neutron')
            self.assertFound(SUCCESS, check, test_preflight.make(
                network=empty, needs=facts.Needs()))

    def test_no_qos_policies_at_all(self):
        self.assertFailure(network.check_qos_policy,
                           make(qos_policy_ids=None), 'any more')

    def test_secrets(self):
        """What a policy hides is not checked, and says why."""
        for attribute, checks in (
                ('ports', [network.check_vip]),
                ('subnets', [network.check_subnets, network.check_addresses,
                             network.check_port_security]),
                ('full', [network.check_addresses]),
                ('networks', [network.check_port_security,
                              network.check_networks]),
                ('security_group_ids', [network.check_security_groups]),
                ('vip_groups', [network.check_vip_group]),
                ('qos_policy_ids', [network.check_qos_policy])):
            for check in checks:
                self.assertNotChecked(check, make(**{attribute: SECRET}),
                                      SECRET.reason)
        self.assertNotChecked(network.check_port_quota,
                              [make(ports_left=SECRET)], SECRET.reason)
        self.assertNotChecked(network.check_groups, [make(boot_groups=SECRET)],
                              SECRET.reason)

    def test_address_of_the_vip(self):
        """By its value, not by how it is written."""
        lost = make(ports={'port1': frozenset({'192.0.2.9'})})
        self.assertFailure(network.check_vip, lost, '192.0.2.1', 'port1')
        self.assertIs(finding.Whose.TENANT, network.check_vip(lost).whose)
        self.assertFound(SUCCESS, network.check_vip, make(
            needs=dataclasses.replace(NEEDS, addresses=frozenset(
                {'2001:DB8:0::1'})),
            ports={'port1': frozenset({'2001:db8::1'})}))

    def test_full_subnets(self):
        for subnet_id in ('subnet1', 'subnet2'):
            for project_id, whose in (
                    ('demo', finding.Whose.TENANT),
                    ('another', finding.Whose.OPERATOR)):
                full = make(subnets={**NETWORK.subnets, subnet_id:
                                     facts.Subnet('net', project_id,
                                                  is_full=True)})
                self.assertFailure(network.check_addresses, full, subnet_id)
                self.assertIs(whose, network.check_addresses(full).whose)
        # That of another VIP is only looked up.
        self.assertFound(SUCCESS, network.check_addresses, make(
            needs=facts.Needs(more_subnet_ids=frozenset({'subnet1'})),
            subnets={'subnet1': facts.Subnet('net1', is_full=True)}))

    def test_port_security(self):
        self.assertFound(SUCCESS, network.check_port_security, make())
        insecure = make(networks={
            **NETWORK.networks, 'net1': facts.Net(is_secure=False,
                                                  project_id='demo')})
        self.assertFailure(network.check_port_security, insecure, 'net1')
        self.assertIs(finding.Whose.TENANT,
                      network.check_port_security(insecure).whose)

    def test_vip_group(self):
        for groups, severity in ((None, SUCCESS), (frozenset(), FAILURE),
                                 (frozenset({'lb-lb1'}), SUCCESS)):
            self.assertFound(severity, network.check_vip_group,
                             make(vip_groups=groups))
        self.assertFound(SUCCESS, network.check_vip_group, make(
            test_outdated.make('old', provider='amphora_cluster'),
            vip_groups=frozenset()))

    def test_ports(self):
        self.assertEqual(3, network.count_ports(make()))
        self.assertEqual(2, network.count_ports(make(needs=facts.Needs())))
        self.assertEqual(4, network.count_ports(make(
            build=facts.Build(boot_networks=('net1', 'net2')))))

    def test_quota(self):
        """The largest need of all counts."""
        for left, severity in ((None, 0), (3, 0), (2, 2)):
            known = [make(needs=facts.Needs(), ports_left=left),
                     make(ports_left=left)]
            self.assertFound(severity, network.check_port_quota, known)
        self.assertNotChecked(network.check_port_quota,
                              [test_preflight.make(network=None)])

    def test_quota_of_several_at_once(self):
        """The largest needs may come together."""
        for left, parallel, number, severity in (
                (6, 2, 3, 0), (5, 2, 3, 1), (5, 2, 1, 0), (2, 2, 3, 2),
                (8, 3, 9, 1), (None, 50, 99, 0)):
            self.assertFound(severity, network.check_port_quota, [
                make(ports_left=left,
                     settings=facts.Settings(parallel=parallel))] * number)


class TestBootChecks(test_preflight.CheckTestCase):

    def assertNet(self, severity, *words, settings=SETTINGS, **values):
        self.assertFound(severity, network.check_networks, make(
            settings=settings, networks={'mgmt': facts.Net(**{
                'subnet_ids': ('boot1',), **values})}), *words)

    def test_networks(self):
        self.assertNet(SUCCESS)
        self.assertNet(FAILURE, 'no subnet', subnet_ids=())
        self.assertNet(WARNING, 'admin_state_up', is_up=False)
        self.assertNet(FAILURE, 'port security', is_secure=False)
        self.assertNet(SUCCESS, is_secure=False, settings=facts.Settings())
        self.assertFailure(network.check_networks, make(networks={}), 'mgmt',
                           'amp_boot_network_list.')
        self.assertFailure(network.check_networks, make(
            test_outdated.make('old', availability_zone='edge'), networks={}),
            'management_network of the availability zone edge')

    def test_addresses(self):
        """One of each family, from any subnet."""
        for full, severity in (
                ((False, False, False), SUCCESS),
                ((True, False, False), SUCCESS),
                ((True, True, False), FAILURE),
                ((False, False, True), FAILURE)):
            subnets = {f'boot{n}': facts.Subnet('mgmt', version=version,
                                                is_full=is_full)
                       for n, (version, is_full) in enumerate(
                           zip((4, 4, 6), full))}
            self.assertFound(severity, network.check_networks, make(
                subnets=subnets,
                networks={'mgmt': facts.Net(tuple(subnets))}), *(
                    ('address that is free',) if severity else ()))

    def test_none_named(self):
        """Nova takes the only one that there is."""
        nowhere = facts.Build('small')
        for choices, severity in ((0, FAILURE), (1, WARNING), (2, FAILURE),
                                  (None, None), (SECRET, None)):
            self.assertFound(severity, network.check_networks, make(
                build=nowhere, choices=choices))
        self.assertFound(SUCCESS, network.check_networks, make(
            build=nowhere, settings=facts.Settings(has_nova=False)))

    def test_unreadable_zone(self):
        self.assertFailure(network.check_networks, make(
            build=facts.Build(problem='It cannot be read.')),
            'It cannot be read.')

    def test_groups(self):
        ids = frozenset({'group1'})
        for values, severity, words in (
                ({'security_group_ids': ids, 'boot_groups': {'mgmt-sg': 1}},
                 SUCCESS, ()),
                ({'security_group_ids': ids, 'boot_groups': {'mgmt-sg': 2}},
                 FAILURE, ('Several', 'mgmt-sg')),
                ({'security_group_ids': ids}, FAILURE, ('mgmt-sg of',)),
                ({'security_group_ids': frozenset(),
                  'boot_groups': {'mgmt-sg': 1}}, FAILURE, ('group1 of',))):
            self.assertFound(severity, network.check_groups, [make(**values)],
                             *words)
        for settings in (facts.Settings(), dataclasses.replace(
                SETTINGS, has_nova=False)):
            self.assertFound(SUCCESS, network.check_groups, [make(
                security_group_ids=frozenset(), settings=settings)])


class TestReading(base.TestCase):

    def setUp(self):
        super().setUp()
        self.conf = self.make_conf()
        loading.register_auth_conf_options(self.conf, 'neutron')
        self.group_id = 'd9b1c5cc-3c1f-4a8b-9a3e-6d0a6f0d4b1e'
        self.neutron = fakes.Neutron(
            ports={'port1': {'fixed_ips': [
                {'subnet_id': 'subnet1', 'ip_address': '192.0.2.1'}]},
                'other': {}},
            subnets={'subnet1': {'network_id': 'net1'},
                     'boot1': {'network_id': 'mgmt'}},
            networks={'mgmt': {'subnets': ['boot1']},
                      'net1': {'subnets': ['subnet1']},
                      'public': {'shared': True, 'project_id': 'admin'}},
            security_groups={'group1': {}, self.group_id: {},
                             'group2': {'name': 'mgmt-sg'},
                             'group3': {'name': 'lb-lb1'}},
            policies={'policy1': {}},
            quota={'limit': 10, 'used': 6, 'reserved': 1})

    def read(self, *needs, **values):
        return network_reading.NetworkReader(self.conf, self.neutron).read([
            test_preflight.make(needs=each, settings=facts.Settings(
                boot_groups=(self.group_id, 'mgmt-sg', 'gone')), **values)
            for each in needs or [NEEDS]])

    def fill(self, subnet_id, number, first=0):
        """Give a subnet so many addresses, all of them taken."""
        self.neutron.things['subnets'][subnet_id]['allocation_pools'] = [
            {'start': f'198.51.100.{first + 1}',
             'end': f'198.51.100.{first + number}'}]
        for n in range(number):
            self.neutron.things['ports'][f'{subnet_id}-{n}'] = {
                'fixed_ips': [{'subnet_id': subnet_id, 'ip_address':
                               f'198.51.100.{first + n + 1}'}]}

    def test_what_there_is(self):
        self.assertEqual(facts.Network(
            {'port1': frozenset({'192.0.2.1'})},
            {'subnet1': facts.Subnet('net1', 'demo'),
             'boot1': facts.Subnet('mgmt', 'demo')},
            {'mgmt': facts.Net(('boot1',), project_id='octavia'),
             'net1': facts.Net(('subnet1',), project_id='octavia')},
            None, frozenset({'group1', self.group_id}), {'mgmt-sg': 1},
            frozenset({'lb-lb1'}), frozenset({'policy1'}), 3), self.read())

    def test_what_nobody_needs_is_not_asked_for(self):
        network_reading.NetworkReader(self.conf, self.neutron).read([
            test_preflight.make(needs=facts.Needs(), build=facts.Build(),
                                settings=facts.Settings(has_nova=False))])
        self.assertEqual(['/security-groups', '/quotas/octavia/details.json'],
                         self.neutron.asked)

    def test_many(self):
        """With answers that are shorter than the questions, too."""
        ids = frozenset(f'{n:0>36}' for n in range(250))
        self.neutron.things['ports'] = dict.fromkeys(ids, {})
        needs = facts.Needs(ids | {'gone'})
        self.assertEqual(ids, self.read(needs).ports.keys())
        self.assertEqual(6, self.neutron.asked.count('/ports'))
        self.neutron.limit = 7
        self.assertEqual(ids, self.read(needs).ports.keys())

    def test_number_of_requests(self):
        """It goes by how many fifties of things, whatever is full."""
        ids = [f'{n:0>36}' for n in range(150)]
        self.neutron.things['subnets'].update(
            (subnet_id, {'network_id': subnet_id})
            for subnet_id in ids)
        self.neutron.things['networks'].update(
            (subnet_id, {'subnets': [subnet_id]})
            for subnet_id in ids)
        for n, subnet_id in enumerate(ids):
            self.fill(subnet_id, 1, first=n)
        found = self.read(*(facts.Needs(
            vip_subnet_id='subnet1',
            member_subnet_ids=frozenset({subnet_id})) for subnet_id in ids))
        self.assertEqual(set(ids), {
            subnet_id for subnet_id, subnet in found.subnets.items()
            if subnet.is_full})
        self.assertLess(len(self.neutron.asked), 30)

    def test_full_subnets(self):
        self.fill('subnet1', 3)
        self.assertTrue(self.read().subnets['subnet1'].is_full)
        self.assertFalse(self.read().subnets['boot1'].is_full)
        self.fill('boot1', 3)
        self.assertTrue(self.read().subnets['boot1'].is_full)
        del self.neutron.things['ports']['subnet1-1']
        self.assertFalse(self.read().subnets['subnet1'].is_full)
        # A router's is in use, and not of a pool.
        self.neutron.more_used = 1
        self.assertFalse(self.read().subnets['subnet1'].is_full)

    def test_many_ports_in_a_full_subnet(self):
        self.fill('subnet1', 20)
        self.neutron.limit = 7
        self.assertTrue(self.read().subnets['subnet1'].is_full)

    def test_no_pools(self):
        self.neutron.things['subnets']['subnet1']['allocation_pools'] = []
        self.assertTrue(self.read().subnets['subnet1'].is_full)

    def test_free_addresses_are_a_secret(self):
        self.fill('subnet1', 3)
        self.neutron.has_availability = False
        found = self.read()
        self.assertIn('network-ip-availability', found.full.reason)
        self.assertFalse(found.subnets['subnet1'].is_full)

    def test_choices_of_nova(self):
        """Those of the project, and those that all have."""
        self.assertEqual(3, self.read(build=facts.Build()).choices)
        del self.neutron.things['networks']['public']
        self.neutron.things['networks']['net1']['project_id'] = 'demo'
        self.assertEqual(1, self.read(build=facts.Build()).choices)

    def test_what_neutron_does_not_know(self):
        self.neutron.things['policies'] = None
        self.neutron.quota = None
        found = self.read()
        self.assertIsNone(found.qos_policy_ids)
        self.assertIsNone(found.ports_left)

    def test_no_security_groups(self):
        self.neutron.things['security_groups'] = None
        found = network_reading.NetworkReader(self.conf, self.neutron).read([
            test_preflight.make(needs=facts.Needs())])
        self.assertIsNone(found.vip_groups)

    def test_no_project(self):
        """As without Keystone."""
        self.neutron.current_project_id = None
        found = self.read(build=facts.Build())
        self.assertEqual((None, None), (found.ports_left, found.choices))
        self.assertNotIn('/quotas/octavia/details.json', self.neutron.asked)

    def test_no_limit(self):
        self.neutron.quota = {'limit': -1, 'used': 5, 'reserved': 0}
        self.assertIsNone(self.read().ports_left)
        self.neutron.quota = {'limit': 3, 'used': 5, 'reserved': 0}
        self.assertEqual(0, self.read().ports_left)

    def test_down_at_each_request(self):
        self.fill('subnet1', 1)
        self.read()
        for path in set(self.neutron.asked):
            for error, kind in (
                    (500, exceptions.CloudUnavailable),
                    (409, exceptions.CloudRefused),
                    (requests.ConnectionError('no answer'),
                     exceptions.CloudUnavailable)):
                self.neutron.errors = {path: error}
                e = self.assertRaises(kind, self.read)
                self.assertNotIn('\n', str(e))

    def test_policies_at_each_request(self):
        """What they forbid is hidden; all others are read."""
        self.fill('subnet1', 1)
        self.read()
        for path in set(self.neutron.asked):
            self.neutron.errors = {path: 403}
            found = self.read()
            hidden = {name for name in vars(found)
                      if isinstance(getattr(found, name), facts.Hidden)}
            self.assertTrue(hidden, path)
            self.assertLessEqual(hidden, {
                '/ports': {'ports', 'full'},
                '/subnets': {'subnets', 'networks', 'full'},
                '/networks': {'subnets', 'networks', 'full'},
                '/network-ip-availabilities': {'full'},
                '/security-groups': {'security_group_ids', 'boot_groups',
                                     'vip_groups'},
                '/qos/policies': {'qos_policy_ids'},
                '/quotas/octavia/details.json': {'ports_left'}}[path])
