# SPDX-License-Identifier: Apache-2.0

import hypothesis
from hypothesis import strategies as st

from octavia_hmsync.cluster.db import member_probe as probe_repo
from octavia_hmsync.cluster.distribution.ovn import plan
from octavia_hmsync.cluster.distribution.ovn import probes
from tests.unit import base

ONE = plan.Backend('m1', 'p1', ('192.0.2.10', 'fd00::10'))
TWO = plan.Backend('m2', 'p2', ('192.0.2.11',))


class TestMake(base.TestCase):

    def test_example(self):
        found = plan.make('c', 7, 'FLOW', ['192.0.2.5', 'fd00:0::5'],
                          [TWO, ONE], [443, 80, 80], '192.0.2.9')
        self.assertEqual({
            '192.0.2.5': '192.0.2.11,192.0.2.10',
            '192.0.2.5:80': '192.0.2.11:80,192.0.2.10:80',
            '192.0.2.5:443': '192.0.2.11:443,192.0.2.10:443',
            'fd00::5': 'fd00::10', '[fd00::5]:80': '[fd00::10]:80',
            '[fd00::5]:443': '[fd00::10]:443'}, found.vips)
        self.assertEqual({'192.0.2.5:80', '192.0.2.5:443'}, found.checks)
        self.assertEqual({'192.0.2.10': 'p1:192.0.2.9',
                          '192.0.2.11': 'p2:192.0.2.9'},
                         found.ip_port_mappings)
        self.assertEqual({'octavia-hmsync:cluster': 'c',
                          'octavia-hmsync:version': '7'}, found.external_ids)
        self.assertEqual((), found.selection_fields)
        # Whoever finds nobody is told so.
        self.assertEqual('true', found.options['reject'])

    def test_source_ip(self):
        found = plan.make('c', 7, 'SOURCE_IP', ['192.0.2.5'], [ONE], [80],
                          None)
        self.assertEqual(('ip_src',), found.selection_fields)
        # Nobody asks from nowhere.
        self.assertEqual((frozenset(), {}),
                         (found.checks, found.ip_port_mappings))

    def test_nobody(self):
        found = plan.make('c', 1, 'FLOW', ['192.0.2.5'], [], [80],
                          '192.0.2.9')
        self.assertEqual({'192.0.2.5': '', '192.0.2.5:80': ''}, found.vips)
        self.assertEqual(frozenset(), found.checks)
        self.assertEqual({}, plan.make_probe('c', 1, [], [80],
                                             '192.0.2.9').vips)

    def test_look(self):
        found = plan.make_probe('c', 7, [ONE, TWO], [80], '192.0.2.9')
        self.assertNotEqual(plan.get_name('c'), found.name)
        self.assertEqual({'0.0.0.1:80': '192.0.2.10:80,192.0.2.11:80'},
                         found.vips)
        self.assertEqual({'0.0.0.1:80'}, found.checks)
        self.assertEqual({}, plan.make_probe('c', 7, [ONE], [80], None).vips)

    @hypothesis.given(
        st.lists(st.sampled_from(('10.0.0.5', '10.1.0.5', 'fd00::5')),
                 unique=True),
        st.lists(st.integers(1, 200), unique=True, max_size=8),
        st.sets(st.integers(1, 65535), max_size=4), st.booleans())
    def test_in_any_network(self, addresses, members, ports, has_source):
        backends = [plan.Backend(f'm{n}', f'p{n}', (
            f'10.0.1.{n}', f'fd00:1::{n:x}')) for n in members]
        found = plan.make('c', 1, 'FLOW', addresses, backends, ports,
                          '10.0.2.1' if has_source else None)
        self.assertEqual(len(addresses) * (1 + len(ports)), len(found.vips))
        self.assertLessEqual(found.checks, found.vips.keys())
        for key, value in found.vips.items():
            # A family has its own alone, in the order of slots.
            is_v6 = key.count(':') > 1
            own = value.split(',') if value else []
            self.assertEqual(len(members), len(own))
            for n, one in zip(members, own):
                self.assertIn(f'fd00:1::{n:x}' if is_v6 else f'10.0.1.{n}',
                              one)
        for key in found.checks:
            for one in found.vips[key].split(','):
                # OVN knows who asks whom.
                self.assertIn(one.rpartition(':')[0], found.ip_port_mappings)

    def test_open(self):
        for before, answers, wanted in (
                ((), [], False), ((), [False], True), ((), [True], False),
                ((), [False, False, True], False),
                ((), [False, False, False], True),
                ((80,), [False, False, True], True),
                ((80,), [False, True], False), ((80,), [], False),
                ((80,), [True, True, False], False)):
            self.assertEqual({80} if wanted else set(), plan.choose_open(
                before, {80: answers, 443: [True]}), (before, answers))
        self.assertEqual({80, 443}, plan.read_ports(
            plan.write_ports({443, 80})))
        self.assertEqual(set(), plan.read_ports(plan.write_ports(())))
        vips = {'192.0.2.5': '192.0.2.10', '192.0.2.5:80': '192.0.2.10:80',
                '192.0.2.5:443': '192.0.2.10:443', '192.0.2.5:81': '',
                'fd00::5': 'fd00::10', '[fd00::5]:80': '[fd00::10]:80'}
        self.assertEqual({'192.0.2.5:443'}, plan.find_checks(
            vips, {'192.0.2.10': 'p:192.0.2.9'}, {80}))
        self.assertEqual(set(), plan.find_checks(vips, {}))

    def test_cidrs(self):
        for text, wanted in (
                ('', ()), ('192.0.2.7/24', ('192.0.2.7',)),
                ('192.0.2.7/24 fd00::7/64 192.0.2.8/24',
                 ('192.0.2.7', 'fd00::7')), ('what is this', ())):
            self.assertEqual(wanted, plan.read_cidrs(text))


class TestPlaces(base.TestCase):

    LINKS = (
        plan.Link('own', 'r1', ('192.0.2.1/24', 'fd00::1/64')),
        plan.Link('other', 'r1', ('10.0.0.1/24',)),
        plan.Link('outside', 'r1', ('203.0.113.7/24',), True),
        plan.Link('far', 'r2', ('10.1.0.1/24',)),
        plan.Link('own', 'r3', ('192.0.2.2/24',)),
        plan.Link('third', 'r3', ('10.2.0.1/24',)))

    def find(self, *addresses, links=LINKS, switch='own'):
        return plan.find_places(links, switch, addresses)

    def test_all_routers_and_their_switches(self):
        self.assertEqual(
            plan.Places(frozenset(('own', 'other', 'third')),
                        frozenset(('r1', 'r3')), ()),
            self.find('192.0.2.5', 'fd00::5'))

    def test_no_router(self):
        self.assertEqual(
            plan.Places(frozenset(('own',)), frozenset(), ('192.0.2.5',)),
            self.find('192.0.2.5', links=()))
        # One in another subnet of the network answers for that.
        self.assertEqual(('198.51.100.5',),
                         self.find('192.0.2.5', '198.51.100.5').unrouted)
        # A gateway to there is none.
        self.assertEqual(('203.0.113.5',), self.find(
            '203.0.113.5', switch='outside').unrouted)

    @hypothesis.given(st.lists(st.builds(
        plan.Link, st.sampled_from('abcd'), st.sampled_from('xyz'),
        st.just(('10.0.0.1/8',)), st.booleans())))
    def test_in_any_cloud(self, links):
        found = self.find('10.0.0.5', links=links, switch='a')
        inner = [link for link in links if not link.is_gateway]
        self.assertIn('a', found.switches)
        self.assertEqual(bool(found.unrouted), not found.routers)
        for link in inner:
            if link.switch == 'a':
                self.assertIn(link.router, found.routers)
            if link.router in found.routers:
                self.assertIn(link.switch, found.switches)


class TestJudge(base.TestCase):

    def test_states(self):
        for statuses, wanted in (
                ((), None), (('error',), None), (('online',), 'UP'),
                (('offline', 'online'), 'UP'), (('offline',), 'DOWN'),
                (('offline', 'error'), 'DOWN')):
            look = probes.judge(statuses)
            self.assertEqual(wanted, look and look.state, statuses)
            self.assertEqual(wanted == probe_repo.DOWN,
                             bool(look and look.error))
