# SPDX-License-Identifier: Apache-2.0

"""The table of load balancers, and pictures of them, without a cloud."""

import types

from tests.cloud.world import picture
from tests.cloud.world import rows
from tests.unit import base

MEMBER = types.SimpleNamespace(
    name='member', addresses=['192.0.2.1', '2001:db8::1'])
PLACES = types.SimpleNamespace(
    near=[MEMBER, MEMBER], second=MEMBER, far=MEMBER,
    subnet=types.SimpleNamespace(id='subnet'),
    subnet6=types.SimpleNamespace(id='subnet6'),
    second_subnet=types.SimpleNamespace(id='second'),
    far_subnet=types.SimpleNamespace(id='far'),
    client=types.SimpleNamespace(address='192.0.2.9'),
    tls_refs=['a', 'b'], client_ca_ref='ca',
    certificates=types.SimpleNamespace(
        client_path='client', server_authority=types.SimpleNamespace(
            certificate_path='authority')),
    add_qos_policy=lambda: 'policy', add_security_group=lambda: 'group',
    availability_zone='zone')


class TestRows(base.TestCase):

    def test_each(self):
        """As Octavia takes them: ports and pools of one are told apart."""
        self.assertEqual(len(rows.ROWS), len({each.name
                                              for each in rows.ROWS}))
        for each in rows.ROWS:
            self.assertIs(each, rows.find(each.name))
            listeners = each.make(PLACES)['listeners']
            pools = [one['default_pool']['name'] for one in listeners
                     if 'default_pool' in one]
            ports = [one['protocol_port'] for one in listeners]
            for found in (pools, ports):
                self.assertEqual(sorted(set(found)), sorted(found), each.name)
            used = {use.how.get('port', 80) for use in each.uses(PLACES)}
            self.assertLessEqual(used, set(ports), each.name)

    def test_families(self):
        six, four = rows.find('two-families').make(PLACES)['listeners']
        self.assertEqual(['2001:db8::1', '192.0.2.1'], [
            each['default_pool']['members'][0]['address']
            for each in (six, four)])


class TestPicture(base.TestCase):

    def test_words(self):
        """Of an address that begins like another one's nothing is changed."""
        words = {'10.0.0.1': '<own>', 'fd00::1': '<own6>', 'abc-1': '<id>'}
        for line, expected in (
                ('inet 10.0.0.1/24', 'inet <own>/24'),
                ('10.0.0.11 10.0.0.1', '10.0.0.11 <own>'),
                ('fd00::1 fd00::12', '<own6> fd00::12'),
                ('peer x 10.0.0.1:1025', 'peer x <own>:1025'),
                ('peer x fd00::1:1025', 'peer x <own6>:1025'),
                ('octavia-lb-vrrp-abc-1', 'octavia-lb-vrrp-<id>'),
                ('local_peer abc-1', 'local_peer <own>')):
            self.assertEqual(expected, picture._put_in_words(
                line, words, 'abc-1'))

    def test_vip(self):
        for line, expected in (
                ('<mac-master-n> 10.0.0.1/32 ', True),
                ('<mac-master-n> 10.0.0.11/32 ', False),
                ('default dev <mac-backup-n> proto keepalived', True)):
            self.assertEqual(expected, picture._is_of_vip(line, ['10.0.0.1']))
        self.assertEqual('dev <mac-n> src < in 10.0.0.0/24>',
                         picture._ROLE.sub('', 'dev <mac-backup-n> src '
                                               '<backup in 10.0.0.0/24>'))

    def test_compress(self):
        for value, expected in (
                ('fd00:0001:0000::0005', 'fd00:1::5'),
                ('fd00:0001:0000::0/64', 'fd00:1::/64'),
                ('10.0.0.1', '10.0.0.1'), (7, 7), (None, None)):
            self.assertEqual(expected, picture._compress(value))

    def test_compare(self):
        before = {'routes': ['a', 'b'], 'gone': ['x'], 'same': ['y']}
        after = {'routes': ['b', 'c'], 'same': ['y'], 'new': ['z']}
        self.assertEqual(
            {'routes': (['a'], ['c']), 'gone': (['x'], []),
             'new': ([], ['z'])}, picture.compare(before, after))
        self.assertEqual({}, picture.compare(before, dict(before)))
