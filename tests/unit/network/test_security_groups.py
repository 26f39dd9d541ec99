# SPDX-License-Identifier: Apache-2.0

"""Which rules the security groups have to have."""

import types

from openstack import exceptions as sdk_exc

from octavia_hmsync import exceptions
from octavia_hmsync.network import changes as network_changes
from octavia_hmsync.network import marks
from octavia_hmsync.network import parts
from octavia_hmsync.network import security_groups
from tests.unit import base

Rule = security_groups.Rule


def raw(rule, **values):
    """The rule as Neutron lists it."""
    return {'direction': rule.direction, 'ethertype': rule.ether_type,
            'protocol': rule.protocol, 'port_range_min': rule.port,
            'port_range_max': rule.port, 'remote_group_id': rule.remote,
            'remote_ip_prefix': None, **values}


class Proxy:
    """A Neutron that refuses each rule, with these words."""

    def __init__(self, words):
        self.words = words

    def create_security_group_rule(self, **values):
        raise sdk_exc.ConflictException(self.words, http_status=409)

    def delete_security_group_rule(self, rule_id):
        raise AssertionError('nothing was made')


class Parts:
    """What of parts.Parts is asked about a group that is not ours."""

    scope: dict[str, str] = {}

    def description(self, part):
        return 'made'

    def has_made(self, part, description):
        return False


class TestRefusals(base.TestCase):
    """Neutron knows rules to be the same that this does not."""

    def ensure(self, words):
        conf = self.make_conf()
        changes = network_changes.Changes(conf)
        connection = types.SimpleNamespace(network=Proxy(words))
        group = types.SimpleNamespace(id='group', description='theirs',
                                      security_group_rules=[])
        security_groups.Rules(
            conf, connection, changes, Parts(), remove=True).ensure(
                parts.Part(parts.GROUP, marks.AMPHORA_GROUP, 'amphorae'),
                group, 4, types.SimpleNamespace(id='other'))
        return changes.done

    def test_already_exists(self):
        self.assertEqual([], self.ensure(
            'Security group rule already exists. Rule id is 1234.'))

    def test_another_conflict(self):
        self.assertRaises(exceptions.CloudRefused, self.ensure,
                          'It is in use.')


class TestRules(base.TestCase):

    def wanted(self, role, version=4, **options):
        conf = self.make_conf(
            hmsync_network=options, health_manager={'bind_port': 5000},
            haproxy_amphora={'bind_port': 9000})
        return [str(rule) for rule in security_groups.wanted_rules(
            conf, role, version, 'other')]

    def test_ports_are_octavias(self):
        self.assertEqual(['egress IPv4 anything', 'ingress IPv4 tcp 9000'],
                         self.wanted(marks.AMPHORA_GROUP))
        self.assertEqual(['egress IPv4 anything', 'ingress IPv4 udp 5000',
                          'ingress IPv4 udp 514'],
                         self.wanted(marks.HEALTH_MANAGER_GROUP))

    def test_options(self):
        options = {'allow_ssh': True, 'allow_icmp': True}
        for version, icmp in ((4, 'icmp'), (6, 'ipv6-icmp')):
            self.assertEqual(
                [f'egress IPv{version} anything',
                 f'ingress IPv{version} tcp 9000',
                 f'ingress IPv{version} tcp 22',
                 f'ingress IPv{version} {icmp}'],
                self.wanted(marks.AMPHORA_GROUP, version, **options))
            self.assertEqual(3, len(self.wanted(
                marks.HEALTH_MANAGER_GROUP, version, **options)))

    def test_nobody_gets_in_by_address(self):
        for role in (marks.AMPHORA_GROUP, marks.HEALTH_MANAGER_GROUP):
            conf = self.make_conf(hmsync_network={'allow_ssh': True})
            for rule in security_groups.wanted_rules(conf, role, 4, 'other'):
                if rule.direction == security_groups.INGRESS:
                    self.assertEqual('other', rule.remote)

    def test_read_back(self):
        for rule in (Rule('egress', 'IPv4'),
                     Rule('ingress', 'IPv6', 'udp', 514, 'other')):
            self.assertEqual(rule, security_groups.read_rule(raw(rule)))
        icmp = Rule('ingress', 'IPv6', 'ipv6-icmp', None, 'other')
        for name in ('icmpv6', 'ipv6-icmp', '58'):
            self.assertEqual(icmp, security_groups.read_rule(
                raw(icmp, protocol=name)))

    def test_written_otherwise(self):
        """As the API of Neutron 29 takes it for the same, tried there."""
        for wanted, ways in (
                (Rule('egress', 'IPv4'),
                 ({'remote_ip_prefix': '0.0.0.0/0'}, {'protocol': 'any'})),
                (Rule('egress', 'IPv6'), ({'remote_ip_prefix': '::/0'},)),
                (Rule('ingress', 'IPv4', 'icmp', None, 'other'),
                 ({'protocol': '1'},)),
                (Rule('ingress', 'IPv6', 'ipv6-icmp', None, 'other'),
                 ({'protocol': 'icmp'}, {'protocol': '1'})),
                (Rule('ingress', 'IPv4', 'tcp', 9443, 'other'),
                 ({'protocol': '6'},)),
                (Rule('ingress', 'IPv4', 'udp', 514, 'other'),
                 ({'protocol': '17'},))):
            for values in ways:
                self.assertEqual(wanted, security_groups.read_rule(
                    raw(wanted, **values)), values)

    def test_protocol_0_is_not_any(self):
        any_protocol = Rule('egress', 'IPv4')
        for values in ({'protocol': '0'}, {'protocol': 'ip'},
                       {'remote_ip_prefix': '10.0.0.5/0'}):
            self.assertNotEqual(any_protocol, security_groups.read_rule(
                raw(any_protocol, **values)), values)

    def test_type_of_icmp_is_not_all_of_it(self):
        icmp = Rule('ingress', 'IPv4', 'icmp', None, 'other')
        for kind, code in ((0, 0), (0, None), (8, None), (8, 8)):
            self.assertNotEqual(icmp, security_groups.read_rule(
                raw(icmp, port_range_min=kind, port_range_max=code)))

    def test_not_the_same(self):
        rule = Rule('ingress', 'IPv4', 'tcp', 9443)
        for values in ({'port_range_max': 9500}, {'port_range_min': 1},
                       {'remote_ip_prefix': '10.0.0.0/8'},
                       {'remote_address_group_id': 'some'},
                       {'remote_group_id': 'third'}, {'protocol': 'udp'},
                       {'direction': 'egress'}, {'ethertype': 'IPv6'}):
            self.assertNotEqual(rule, security_groups.read_rule(
                raw(rule, **values)), values)
