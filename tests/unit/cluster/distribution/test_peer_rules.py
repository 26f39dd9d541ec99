# SPDX-License-Identifier: Apache-2.0

"""Rules that let distributors call the haproxy of members."""

import json
import types

from hypothesis import given
from hypothesis import strategies as st
from octavia.network.drivers.neutron import allowed_address_pairs
from openstack import exceptions as sdk_exc
import requests

from octavia_hmsync.cluster.distribution.ovs import peer_rules
from octavia_hmsync import exceptions
from tests.unit import base

RULES = st.tuples(st.sampled_from('gh'), st.sampled_from(('a', 'b', 'c')))


class TestFindChanges(base.TestCase):

    @given(st.sets(RULES), st.lists(RULES))
    def test_any(self, wanted, there):
        rules = {str(number): rule for number, rule in enumerate(there)}
        missing, surplus = peer_rules.find_changes(wanted, rules)
        left = [rule for key, rule in rules.items() if key not in surplus]
        self.assertEqual(sorted(wanted), sorted([*left, *missing]))
        self.assertFalse(set(missing) & set(left))


class TestPeerRules(base.TestCase):
    """Of a Neutron with two load balancers, one of which has no group."""

    current_project_id = 'octavia'

    def setUp(self):
        super().setUp()
        self.network = self
        self.groups = {'lb-one': 'group1'}
        self.rules = {}
        self.deleted, self.asked = [], []
        self.error = None
        self.subject = peer_rules.PeerRules(
            self.make_conf(hmsync_network={'api_timeout': 60}), self)

    # Neutron

    def get(self, path, params=None):
        self.assertEqual(('/security-groups', 'octavia'),
                         (path, params['project_id']))
        self.asked.append(params['name'])
        answer = requests.Response()
        answer.status_code = 200
        answer._content = json.dumps({'security_groups': [
            {'id': self.groups[name], 'name': name,
             'security_group_rules': []}
            for name in params['name'] if name in self.groups]}).encode()
        return answer

    def security_group_rules(self, description, project_id):
        self.assertEqual(peer_rules.DESCRIPTION, description)
        return [types.SimpleNamespace(id=key, **rule)
                for key, rule in self.rules.items()]

    def create_security_group_rule(self, **values):
        if self.error:
            raise self.error
        self.rules[f'rule{len(self.rules)}'] = values

    def delete_security_group_rule(self, rule_id):
        del self.rules[rule_id]
        self.deleted.append(rule_id)

    def get_rules(self):
        return sorted((rule['security_group_id'], rule['ether_type'],
                       rule['remote_ip_prefix'])
                      for rule in self.rules.values())

    def test_all(self):
        wanted = {'one': {'10.0.0.9', 'fd00::9'}, 'two': {'10.0.0.8'}}
        self.subject.ensure(wanted)
        expected = [('group1', 'IPv4', '10.0.0.9/32'),
                    ('group1', 'IPv6', 'fd00::9/128')]
        self.assertEqual(expected, self.get_rules())
        for rule in self.rules.values():
            # Octavia deletes what it knows as TCP, and did not make.
            self.assertEqual(('6', 1025, 1025, 'ingress'), (
                rule['protocol'], rule['port_range_min'],
                rule['port_range_max'], rule['direction']))
        # Nobody is asked for a group that is known and has them.
        self.subject.ensure(wanted)
        self.assertEqual([['lb-one', 'lb-two'], ['lb-two']], self.asked)
        self.assertEqual(expected, self.get_rules())
        # A distributor is another one now.
        self.subject.ensure({'one': {'10.0.0.7'}})
        self.assertEqual([('group1', 'IPv4', '10.0.0.7/32')],
                         self.get_rules())
        self.subject.ensure({})
        self.assertEqual([], self.get_rules())

    def test_octavia_leaves_it(self):
        """Each change of a listener has Octavia look at all rules."""
        self.subject.ensure({'one': {'10.0.0.9'}})
        self.rules['by name'] = {**self.rules['rule0'], 'protocol': 'tcp'}
        driver = object.__new__(
            allowed_address_pairs.AllowedAddressPairsDriver)
        driver.network_proxy = types.SimpleNamespace(
            security_group_rules=lambda security_group_id: [
                {'id': key, **rule} for key, rule in self.rules.items()],
            delete_security_group_rule=self.delete_security_group_rule)
        driver._update_security_group_rules(types.SimpleNamespace(
            vip=types.SimpleNamespace(sg_ids=[], ip_address='10.0.0.5'),
            listeners=[], additional_vips=[], topology='ACTIVE_ACTIVE'),
            'group1')
        self.assertEqual(['by name'], self.deleted)

    def test_neutron_refuses(self):
        """As another controller was first: others are seen to."""
        self.error = sdk_exc.ConflictException(
            'it is there', http_status=409)
        self.groups['lb-two'] = 'group2'
        self.subject.ensure({'one': {'10.0.0.9'}, 'two': {'10.0.0.8'}})
        self.assertEqual([], self.get_rules())
        self.error = requests.ConnectionError('it is away')
        self.assertRaises(exceptions.CloudUnavailable, self.subject.ensure,
                          {'one': {'10.0.0.9'}})
