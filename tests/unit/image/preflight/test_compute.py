# SPDX-License-Identifier: Apache-2.0

import dataclasses

from keystoneauth1 import loading
import requests

from octavia_hmsync.cli import finding
from octavia_hmsync import exceptions
from octavia_hmsync.image.preflight import compute
from octavia_hmsync.image.preflight import compute_reading
from octavia_hmsync.image.preflight import facts
from octavia_hmsync.image import target
from tests.unit import base
from tests.unit.image import fakes
from tests.unit.image.preflight import test_preflight
from tests.unit.image import test_outdated

SUCCESS, WARNING, FAILURE = finding.Severity
HARD, SOFT = 'anti-affinity', 'soft-anti-affinity'
SECRET = facts.Hidden('it is a secret')


def make_pair(**values):
    return test_outdated.add(test_outdated.make(
        'old', topology='ACTIVE_STANDBY', server_group_id='group',
        **values), status='ALLOCATED', image_id='old')


class TestHosts(test_preflight.CheckTestCase):

    def assertHosts(self, severity, pair, *words, zone=None, policy=HARD,
                    members=2, **known):
        self.assertFound(severity, compute.check_hosts, test_preflight.make(
            pair, build=facts.Build(zone=zone), compute=facts.Compute(
                {'group': facts.ServerGroup(policy, members)}, **known)),
            *words)

    def test_hosts(self):
        """One more than it has amphorae."""
        for found, severity in (({'a': 2}, FAILURE), ({}, FAILURE),
                                ({'a': 2, 'b': 1}, SUCCESS),
                                ({'a': 3}, SUCCESS), (SECRET, WARNING)):
            self.assertHosts(severity, make_pair(), hosts=found)
        self.assertHosts(FAILURE, make_pair(), 'takes 3 hosts', 'has 2 that',
                         hosts={'a': 2})

    def test_zones(self):
        """Only those count where the next instance is to be."""
        found = {'a': 2, 'b': 3}
        self.assertHosts(FAILURE, make_pair(), 'has 2 in the zone a',
                         zone='a', hosts=found)
        self.assertHosts(SUCCESS, make_pair(), zone='b:compute1',
                         hosts=found)
        self.assertHosts(SUCCESS, make_pair(), hosts=found)

    def test_no_host_at_all(self):
        for pair in (make_pair(), test_outdated.make('old')):
            for zone, severity in ((None, SUCCESS), ('b', FAILURE)):
                self.assertHosts(severity, pair, policy=SOFT, zone=zone,
                                 hosts={'a': 1})
            self.assertHosts(SUCCESS, pair, policy=SOFT, hosts=SECRET)

    def test_group_that_is_gone(self):
        self.assertFailure(compute.check_hosts, test_preflight.make(
            make_pair(), compute=facts.Compute()),
            'group is not in Nova any more')

    def test_full_group(self):
        """Of a cluster, which may have many members."""
        for most, severity in ((None, SUCCESS), (3, SUCCESS), (2, FAILURE)):
            self.assertHosts(severity, make_pair(), policy=SOFT,
                             hosts={'a': 9}, limits={'members': most})

    def test_nobody_knows(self):
        self.assertNotChecked(compute.check_hosts, test_preflight.make(
            make_pair(), compute=None), 'Compute service')
        self.assertNotChecked(compute.check_hosts, test_preflight.make(
            make_pair(), compute=facts.Compute(SECRET)), SECRET.reason)

    def test_hosts_of_another_compute_service(self):
        """All that is known is in octavia.conf."""
        for is_apart, severity in ((True, WARNING), (False, SUCCESS)):
            self.assertFound(
                severity, compute.check_hosts, test_preflight.make(
                    make_pair(), compute=None, settings=facts.Settings(
                        is_apart=is_apart, has_nova=False)))


class TestChecks(test_preflight.CheckTestCase):

    def test_nobody_knows(self):
        known = test_preflight.make(
            compute=None, build=facts.Build('small', 'az'),
            image=target.ImageNeeds(1), settings=facts.Settings(
                key_name='key', file_size=1))
        for check in (compute.check_flavor, compute.check_fit,
                      compute.check_zone):
            self.assertNotChecked(check, known, 'Compute service')
            self.assertFound(SUCCESS, check, dataclasses.replace(
                known, settings=facts.Settings(has_nova=False)))
        for check in (compute.check_quota, compute.check_key,
                      compute.check_files):
            self.assertNotChecked(check, [known], 'Compute service')
        hidden = dataclasses.replace(known, compute=facts.Compute(
            *[SECRET] * 7))
        for check in (compute.check_flavor, compute.check_fit,
                      compute.check_zone):
            self.assertNotChecked(check, hidden, SECRET.reason)
        for check in (compute.check_quota, compute.check_key,
                      compute.check_files):
            self.assertNotChecked(check, [hidden], SECRET.reason)

    def test_flavor(self):
        for flavor_id, lb_flavor, severity, words in (
                ('small', None, SUCCESS, ()), (None, 'of', SUCCESS, ()),
                ('', None, FAILURE, ('names a flavor',)),
                ('gone', None, FAILURE, ('flavor gone', 'amp_flavor_id.')),
                ('gone', 'of', FAILURE, ('the compute_flavor of its',))):
            self.assertFound(severity, compute.check_flavor,
                             test_preflight.make(
                                 test_outdated.make('old',
                                                    flavor_id=lb_flavor),
                                 build=facts.Build(flavor_id)), *words)

    def test_image_and_flavor(self):
        """Nova looks at what the image says, and at how large it is."""
        gib = 2 ** 30
        for image, severity, words in (
                (None, SUCCESS, ()),
                (target.ImageNeeds(2, 512, 2 * gib), SUCCESS, ()),
                (target.ImageNeeds(ram=513), FAILURE, ('513', 'has 512')),
                (target.ImageNeeds(disk=3), FAILURE, ('3 GB', 'has 2')),
                (target.ImageNeeds(size=2 * gib + 1), FAILURE, ('3 GB',))):
            self.assertFound(severity, compute.check_fit,
                             test_preflight.make(image=image), *words)
        # A disk of 0 is one of any size; of an unknown flavor nothing is.
        for flavors in ({'small': facts.ComputeFlavor(1, 512)}, {}):
            self.assertFound(SUCCESS, compute.check_fit, test_preflight.make(
                image=target.ImageNeeds(disk=99),
                compute=facts.Compute(flavors=flavors)))

    def test_image_and_volume(self):
        for size, severity in ((3, SUCCESS), (2, FAILURE)):
            self.assertFound(severity, compute.check_fit, test_preflight.make(
                image=target.ImageNeeds(disk=3), settings=facts.Settings(
                    has_cinder=True, volume_size=size)))

    def test_zone(self):
        known = facts.Compute(zones={'a': True, 'b': False})
        for zone, severity, words in (
                (None, SUCCESS, ()), ('a', SUCCESS, ()),
                ('a:host', SUCCESS, ()), ('b', FAILURE, ('no host',)),
                ('c', FAILURE, ('c of its next instance is not in Nova',))):
            self.assertFound(severity, compute.check_zone,
                             test_preflight.make(
                                 compute=known,
                                 build=facts.Build(zone=zone)), *words)

    def test_key(self):
        for name, has_key, severity in (
                (None, None, SUCCESS), ('key', True, SUCCESS),
                ('key', False, FAILURE)):
            self.assertFound(severity, compute.check_key, [
                test_preflight.make(
                    settings=facts.Settings(key_name=name),
                    compute=facts.Compute(has_key=has_key))])

    def test_files(self):
        for limits, size, severity, words in (
                ({}, 99999, SUCCESS, ()),
                ({'files': 4, 'bytes': 10240}, 10240, SUCCESS, ()),
                ({'files': 3, 'bytes': 10240}, 1, FAILURE, ('takes 3',)),
                ({'files': 3}, None, SUCCESS, ()),
                ({'bytes': 10240}, 10241, FAILURE, ('client_ca', '10241'))):
            known = test_preflight.make(
                settings=facts.Settings(file_size=size),
                compute=facts.Compute(limits=limits))
            self.assertFound(severity, compute.check_files, [known], *words)

    def test_quota(self):
        flavors = {'small': facts.ComputeFlavor(2, 1000),
                   'tiny': facts.ComputeFlavor(1, 500)}
        plenty = {'instances': 9, 'cores': None, 'ram': 9000}
        for left, parallel, number, severity, words in (
                ({}, 1, 1, SUCCESS, ()),
                ({'instances': 0}, 1, 1, FAILURE, ('1 instances', 'have 0')),
                ({'cores': 1}, 1, 1, FAILURE, ('2 cores',)),
                ({'ram': 999}, 1, 1, FAILURE, ('1000 MB of RAM',)),
                ({'ram': 1999}, 2, 1, SUCCESS, ()),
                ({'ram': 1999}, 2, 5, WARNING, ('2000 MB of RAM', '1999')),
                ({'instances': 4}, 5, 5, WARNING, ('5 replacements',))):
            known = test_preflight.make(
                settings=facts.Settings(parallel=parallel),
                compute=facts.Compute(left={**plenty, **left},
                                      flavors=flavors))
            small = dataclasses.replace(known, build=facts.Build('tiny'))
            self.assertFound(severity, compute.check_quota,
                             [small] + [known] * number, *words)

    def test_quota_of_an_unknown_flavor(self):
        """An instance it is in any case."""
        known = facts.Compute(left={'instances': 1, 'cores': 0, 'ram': 0})
        self.assertFound(SUCCESS, compute.check_quota,
                         [test_preflight.make(compute=known)])


class TestReading(base.TestCase):

    def setUp(self):
        super().setUp()
        self.conf = self.make_conf()
        loading.register_auth_conf_options(self.conf, 'service_auth')
        self.nova = fakes.Nova()
        self.nova.groups = {'hard': HARD, 'soft': SOFT, 'other': 'affinity'}
        self.nova.members = {'hard': 2}
        self.nova.flavors = {'small': (1, 512, 2)}
        self.nova.keys = {'my key'}

    def read(self, *group_ids, flavor_id='small', key_name='my key'):
        return compute_reading.ComputeReader(self.conf, self.nova).read([
            test_preflight.make(
                test_outdated.make('old', server_group_id=group_id),
                build=facts.Build(flavor_id, 'nova'),
                settings=facts.Settings(key_name=key_name))
            for group_id in group_ids or [None]])

    def test_what_there_is(self):
        self.nova.keys = {'my%20key'}
        self.nova.services += [('compute3', 'b', 'up', 'enabled'),
                               ('compute4', 'b', 'down', 'enabled'),
                               ('compute5', 'b', 'up', 'disabled')]
        self.assertEqual(facts.Compute(
            {'hard': facts.ServerGroup(HARD, 2),
             'soft': facts.ServerGroup(SOFT)}, {'nova': 2, 'b': 1},
            {'nova': True, 'internal': True},
            {'instances': 7, 'cores': None, 'ram': 4096},
            {'members': 10, 'files': 5, 'bytes': 10240},
            {'small': facts.ComputeFlavor(1, 512, 2)}, True),
            self.read('hard', 'soft', 'gone'))

    def test_what_there_is_not(self):
        self.assertEqual({}, self.read(flavor_id='gone').flavors)
        self.assertEqual({}, self.read(flavor_id='').flavors)
        self.assertIs(False, self.read(key_name='gone').has_key)
        self.assertIsNone(self.read(key_name=None).has_key)
        self.nova.limits['totalInstancesUsed'] = 12
        self.assertEqual(0, self.read().left['instances'])

    def test_newer_api(self):
        """It has no files any more."""
        for name in ('maxPersonality', 'maxPersonalitySize'):
            del self.nova.limits[name]
        self.assertEqual({'members': 10, 'files': None, 'bytes': None},
                         self.read().limits)

    def test_many_groups(self):
        """The number of requests does not grow with them as such."""
        self.nova.groups.update({f'g{n}': HARD for n in range(1200)})
        wanted = [f'g{n}' for n in range(600)]
        found = self.read(*wanted, 'gone').groups
        self.assertEqual(set(wanted), set(found))
        self.assertLess(len(self.nova.asked), 12)
        # With answers that are shorter than the questions, too.
        self.nova.page = 100
        self.assertEqual(found, self.read(*wanted, 'gone').groups)

    def test_down_at_each_request(self):
        self.read('hard')
        for path in set(self.nova.asked):
            for error, kind in (
                    (500, exceptions.CloudUnavailable),
                    (401, exceptions.CloudUnavailable),
                    (409, exceptions.CloudRefused),
                    (requests.ConnectionError('no answer'),
                     exceptions.CloudUnavailable)):
                self.nova.errors = {path: error}
                e = self.assertRaises(kind, self.read, 'hard')
                self.assertNotIn('\n', str(e))

    def test_policies_at_each_request(self):
        """What they forbid is hidden; all others are read."""
        self.read('hard')
        for path in set(self.nova.asked):
            self.nova.errors = {path: 403}
            found = self.read('hard')
            hidden = [name for name in vars(found)
                      if isinstance(getattr(found, name), facts.Hidden)]
            self.assertEqual(2 if path == '/limits' else 1, len(hidden))

    def test_nonsense(self):
        self.nova.limits = {'nothing': 1}
        e = self.assertRaises(exceptions.CloudUnavailable, self.read)
        self.assertIn('[nova] endpoint is the address of Nova', str(e))
