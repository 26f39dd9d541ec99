# SPDX-License-Identifier: Apache-2.0

"""Which amphorae a replacement is for."""

import dataclasses
import datetime
import types

from hypothesis import given
from hypothesis import strategies as st

from octavia_hmsync.cluster.rules import places
from octavia_hmsync import compute
from octavia_hmsync.image import causes
from octavia_hmsync.image import outdated
from tests.unit import base

Kind = causes.Kind
SOON = datetime.datetime(2026, 1, 1)


def amphora(amphora_id, **values):
    return outdated.Amphora(amphora_id, 'ALLOCATED', **values)


def load_balancer(*amphorae, lb_id='lb', **values):
    return outdated.LoadBalancer(**{
        'id': lb_id, 'name': lb_id, 'project_id': 'p', 'provider': 'amphora',
        'status': 'ACTIVE', 'topology': 'SINGLE', 'flavor_id': None,
        'availability_zone': None, 'tag': 'amphora', 'amphorae': amphorae,
        **values})


class TestFind(base.TestCase):

    def find(self, kind, value, *amphorae, place=causes.Place(), **values):
        return [each.id for each in causes.find(
            causes.Cause(kind, value), load_balancer(*amphorae, **values),
            'new', place)]

    def test_image(self):
        self.assertEqual(['a'], self.find(
            Kind.IMAGE, None, amphora('a', image_id='old'),
            amphora('b', image_id='new')))

    def test_host_and_network(self):
        """What only Nova and Neutron know."""
        for kind in (Kind.HOST, Kind.NETWORK):
            self.assertEqual(['a'], self.find(
                kind, 'x', amphora('a', compute_id='1'),
                amphora('b', compute_id='2'), amphora('c'),
                place=causes.Place({'1', '3'})))

    def test_zone(self):
        self.assertEqual(['a'], self.find(
            Kind.ZONE, 'az1', amphora('a', zone='az1'),
            amphora('b', zone='az2'), amphora('c')))

    def spread(self, *zones):
        return causes.Place(zones=causes.Zones(
            {'az': {'cluster_compute_zones': list(zones)}}))

    @given(st.lists(st.sampled_from(['az1', 'az2', 'az3', 'gone', None]),
                    max_size=12), st.sets(st.sampled_from(['az1', 'az2'])))
    def test_balance(self, where, drained):
        """What is selected, put where it is fewest, makes it even."""
        names = ['az1', 'az2', 'az3']
        zones = dataclasses.replace(self.spread(*names).zones,
                                    drained=drained)
        found = self.find(
            Kind.BALANCE, None,
            *(amphora(str(n), zone=zone) for n, zone in enumerate(where)),
            provider='amphora_cluster', availability_zone='az',
            place=causes.Place(zones=zones))
        self.assertEqual(len(found), len(set(found)))
        members = [types.SimpleNamespace(zone=zone, state='ACTIVE',
                                         health=None) for zone in where]
        for chosen in map(int, found):
            # Make before break.
            members.append(types.SimpleNamespace(
                zone=places.choose(names, members, (), drained),
                state='ACTIVE', health=None))
            members[chosen].zone = None
        counts = [sum(m.zone == name for m in members)
                  for name in names if name not in drained]
        self.assertLessEqual(max(counts) - min(counts), 1)

    def test_balance_is_for_clusters_alone(self):
        amphorae = [amphora(str(n), zone='az1') for n in range(4)]
        for values in ({'provider': 'amphora', 'availability_zone': 'az'},
                       {'provider': 'amphora_cluster'},
                       {'provider': 'amphora_cluster',
                        'availability_zone': 'other'}):
            self.assertEqual([], self.find(
                Kind.BALANCE, None, *amphorae, **values,
                place=self.spread('az1', 'az2')))

    def test_balance_of_a_pair(self):
        """One that left a zone goes back there, where Nova chooses."""
        zones = causes.Zones({'az': {'compute_zone': 'az2'}},
                             enabled={'az1', 'az2'}, left={'lb': 'az1'})
        pair = {'topology': 'ACTIVE_STANDBY'}
        both = (amphora('a', zone='az2'), amphora('b', zone='az2'))
        for expected, amphorae, changed, values in (
                (['a', 'b'], both, {}, pair),
                ([], both, {'left': {}}, pair),
                ([], both, {'left': {'other': 'az1'}}, pair),
                ([], both, {'drained': {'az1'}}, pair),
                ([], both, {'enabled': {'az2'}}, pair),
                ([], both, {'default': 'az2'}, pair),
                ([], both, {}, {**pair, 'availability_zone': 'az'}),
                ([], both[:1], {}, {}),
                # It is back, or nothing can be said.
                ([], (amphora('a', zone='az2'), amphora('b', zone='az1')),
                 {}, pair),
                ([], (amphora('a', zone='az2'), amphora('b')), {}, pair),
                ([], (), {}, pair)):
            self.assertEqual(expected, self.find(
                Kind.BALANCE, None, *amphorae, **values, place=causes.Place(
                    zones=dataclasses.replace(zones, **changed))))

    def test_flavor(self):
        amphorae = (amphora('a', compute_flavor='small'),
                    amphora('b', compute_flavor='large'), amphora('c'))
        for flavor_id, wanted, expected in (
                ('f', 'large', ['a']), ('other', 'large', []),
                ('f', None, [])):
            self.assertEqual(expected, self.find(
                Kind.FLAVOR, 'f', *amphorae, flavor_id=flavor_id,
                place=causes.Place(compute_flavor=wanted)))

    def test_topology(self):
        """By their roles: of one without a role nothing is known."""
        amphorae = (amphora('a', role='STANDALONE'),
                    amphora('b', role='MASTER'), amphora('c', role='BACKUP'),
                    amphora('d'))
        for topology, expected, new in (('SINGLE', ['b', 'c'], 1),
                                        ('ACTIVE_STANDBY', ['a'], 2)):
            self.assertEqual(expected, self.find(Kind.TOPOLOGY, topology,
                                                 *amphorae))
            self.assertEqual(new, causes.count_new(causes.Cause(
                Kind.TOPOLOGY, topology)))
        self.assertEqual(1, causes.count_new(causes.Cause()))

    def test_certificate(self):
        second = datetime.timedelta(seconds=1)
        self.assertEqual(['a'], self.find(
            Kind.CERTIFICATE, SOON.isoformat(),
            amphora('a', certificate_ends_at=SOON - second),
            amphora('b', certificate_ends_at=SOON), amphora('c')))

    def test_age(self):
        second = datetime.timedelta(seconds=1)
        self.assertEqual(['a'], self.find(
            Kind.AGE, SOON.isoformat(), amphora('a', created_at=SOON - second),
            amphora('b', created_at=SOON), amphora('c')))

    def test_who_is_no_amphora_yet(self):
        building = outdated.Amphora('a', 'BOOTING', compute_id='1')
        self.assertEqual([], self.find(Kind.HOST, 'x', building,
                                       place=causes.Place({'1'})))

    def test_each_is_described(self):
        for kind in Kind:
            self.assertTrue(causes.Cause(kind, 'x').describe())

    def test_many(self):
        """Of ten thousand, by what a host has."""
        place = causes.Place({str(number) for number in range(0, 10000, 100)})
        cause = causes.Cause(Kind.HOST, 'x')
        found = [number for number in range(10000) if causes.find(
            cause, load_balancer(amphora('a', compute_id=str(number))), None,
            place)]
        self.assertEqual(list(range(0, 10000, 100)), found)


class TestOnly(base.TestCase):

    def test_text(self):
        for only in (causes.Only(), causes.Only('p', 't', ('a', 'b')),
                     causes.Only(load_balancer_ids=())):
            self.assertEqual(only, causes.Only.from_text(only.to_text()))
        self.assertEqual('', causes.Only().to_text())

    def test_holds(self):
        for only, expected in (
                (causes.Only(), True), (causes.Only('p'), True),
                (causes.Only('q'), False), (causes.Only(tag='t'), True),
                (causes.Only('q', 't'), False),
                (causes.Only(load_balancer_ids=('lb',)), True),
                (causes.Only(load_balancer_ids=('other',)), False)):
            self.assertEqual(expected, only.holds(load_balancer(), {'lb'}),
                             only)
        self.assertFalse(causes.Only(tag='t').holds(load_balancer(), set()))


class TestDrained(base.TestCase):

    def test_why_not(self):
        hosts = [compute.Host('a', is_enabled=False), compute.Host('b')]
        self.assertIsNone(causes.why_not_drained(hosts, 'a'))
        for name, words in (('c', 'no compute host c'),
                            ('b', 'service set --disable b nova-compute')):
            self.assertIn(words, causes.why_not_drained(hosts, name))
        for last in (compute.Host('b', is_enabled=False),
                     compute.Host('b', is_up=False)):
            self.assertIn('have no place to go to', causes.why_not_drained(
                [hosts[0], last], 'a'))

    def test_why_it_stays_in_a_zone(self):
        zones = causes.Zones({
            'here': {'compute_zone': 'az1'},
            'on-host': {'compute_zone': 'az1:host1'},
            'there': {'compute_zone': 'az2'}, 'any': {},
            'both': {'cluster_compute_zones': ['az1', 'az2']},
            'with-drained': {'cluster_compute_zones': ['az1', 'az3']}},
            drained={'az3'})
        cluster, other = 'amphora_cluster', 'amphora'
        only, enabled = (causes.Stays.ONLY_IN_ZONE,
                         causes.Stays.ZONE_ENABLED)
        for name, provider, default, hosts, expected in (
                ('here', other, None, (), only),
                ('here', cluster, None, (), only),
                ('on-host', other, None, (), only),
                ('there', other, 'az1', {'az1'}, None),
                ('any', other, None, {'az2'}, None),
                ('any', other, None, {'az1', 'az2'}, enabled),
                (None, other, None, {'az1'}, enabled),
                (None, other, 'az1', (), only),
                (None, other, 'az2', {'az1'}, None),
                ('both', cluster, None, {'az1', 'az2'}, None),
                # What only clusters have.
                ('both', other, None, {'az1', 'az2'}, enabled),
                ('with-drained', cluster, None, {'az1'}, only)):
            self.assertEqual(expected, dataclasses.replace(
                zones, default=default, enabled=hosts).why_stays(
                load_balancer(provider=provider, availability_zone=name),
                'az1'), (name, provider, default))

    def test_why_a_zone_is_not_drained(self):
        hosts = [compute.Host('a', 'az1'), compute.Host('b', 'az2')]
        self.assertIsNone(causes.why_zone_not_drained(hosts, 'az1'))
        self.assertIn('no compute zone az3',
                      causes.why_zone_not_drained(hosts, 'az3'))
        self.assertIsNone(causes.why_zone_not_drained(
            hosts, 'az1', 'az2', ['az3']))
        for drained, there, other in (
                ([], [], 'az1'), (['az2'], [], 'az2'), ([], [], 'az3'),
                ([], [compute.Host('c', 'az3', is_up=False)], 'az3')):
            self.assertIn(
                f'Nothing can be built in zone {other}',
                causes.why_zone_not_drained([*hosts, *there], 'az1', other,
                                            drained))
        for last in (compute.Host('b', 'az2', is_enabled=False),
                     compute.Host('b', 'az2', is_up=False),
                     compute.Host('b', 'az1')):
            self.assertIn('have no place to go to',
                          causes.why_zone_not_drained([hosts[0], last],
                                                      'az1'))

    def test_second_host(self):
        pair = load_balancer(amphora('a', compute_id='1'),
                             amphora('b', compute_id='2'))
        for hosts, expected in (({'1': 'x', '2': 'x'}, True),
                                ({'1': 'x', '2': 'y'}, False)):
            self.assertEqual(expected, causes.find_without_second(
                pair, 'x', hosts))
