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

from keystoneauth1 import loading
import requests

from octavia_hmsync import exceptions
from octavia_hmsync.image.preflight import compute
from octavia_hmsync.image.preflight import compute_reading
from octavia_hmsync.image.preflight import facts
from octavia_hmsync.image.preflight import finding
from tests.unit import base
from tests.unit.image import fakes
from tests.unit.image import test_outdated
from tests.unit.image import test_preflight

SUCCESS, WARNING, FAILURE = finding.Severity
HARD, SOFT = 'anti-affinity', 'soft-anti-affinity'


def make_pair(**values):
    return test_outdated.add(test_outdated.make(
        'old', topology='ACTIVE_STANDBY', server_group_id='group',
        **values), status='ALLOCATED', image_id='old')


class TestChecks(test_preflight.CheckTestCase):

    def assertHosts(self, severity, pair, *words, settings=None, **known):
        self.assertFound(severity, compute.check_hosts, test_preflight.make(
            pair, settings=settings or facts.Settings(),
            compute=facts.Compute({'group': HARD}, **known)), *words)

    def test_hosts(self):
        """One more than it has amphorae."""
        for hosts, severity in (({'a': 2}, FAILURE), ({}, FAILURE),
                                ({'a': 2, 'b': 1}, SUCCESS),
                                ({'a': 3}, SUCCESS), (None, WARNING)):
            self.assertHosts(severity, make_pair(), hosts=hosts)
        self.assertHosts(FAILURE, make_pair(), 'takes 3 hosts', 'has 2 that',
                         hosts={'a': 2})

    def test_zones(self):
        """That of a load balancer with one of Octavia's is not known."""
        zoned = facts.Settings(zone='a')
        hosts = {'a': 2, 'b': 1}
        self.assertHosts(FAILURE, make_pair(), 'has 2 in the zone a',
                         settings=zoned, hosts=hosts)
        self.assertHosts(SUCCESS, make_pair(availability_zone='other'),
                         settings=zoned, hosts=hosts)

    def test_other_policies(self):
        for policies, severity, words in (
                ({'group': SOFT}, SUCCESS, ()),
                ({}, FAILURE, ('group is not in Nova any more',))):
            known = test_preflight.make(make_pair(),
                                        compute=facts.Compute(policies))
            self.assertFound(severity, compute.check_hosts, known, *words)
        self.assertFound(SUCCESS, compute.check_hosts, test_preflight.make())

    def test_nobody_knows(self):
        pair = make_pair()
        self.assertNotChecked(compute.check_hosts, test_preflight.make(pair),
                              'Compute service')
        for check in (compute.check_flavor, compute.check_quota):
            self.assertNotChecked(check, [test_preflight.make()],
                                  'Compute service')

    def test_hosts_of_another_compute_service(self):
        """All that is known is in octavia.conf."""
        for is_apart, severity in ((True, WARNING), (False, SUCCESS)):
            self.assertFound(
                severity, compute.check_hosts, test_preflight.make(
                    make_pair(), settings=facts.Settings(
                        is_apart=is_apart, has_nova=False)))

    def test_flavor(self):
        wanted = facts.Settings(compute_flavor='small')
        for settings, flavor, severity in (
                (wanted, None, WARNING), (wanted, {'cores': 1}, SUCCESS),
                (facts.Settings(), None, SUCCESS)):
            self.assertFound(severity, compute.check_flavor, [
                test_preflight.make(settings=settings, compute=facts.Compute(
                    flavor=flavor))])

    def test_quota(self):
        flavor = {'cores': 2, 'ram': 1000}
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
                                      flavor=flavor))
            self.assertFound(severity, compute.check_quota, [known] * number,
                             *words)

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
        self.nova.flavors = {'small': (1, 512)}

    def read(self, *group_ids, flavor_id='small'):
        return compute_reading.ComputeReader(
            self.conf, self.nova, flavor_id).read(group_ids)

    def test_what_there_is(self):
        self.nova.services += [('compute3', 'b', 'up', 'enabled'),
                               ('compute4', 'b', 'down', 'enabled'),
                               ('compute5', 'b', 'up', 'disabled')]
        self.assertEqual(facts.Compute(
            {'hard': HARD, 'soft': SOFT}, {'nova': 2, 'b': 1},
            {'instances': 7, 'cores': None, 'ram': 4096},
            {'cores': 1, 'ram': 512}), self.read('hard', 'soft', 'gone'))

    def test_what_there_is_not(self):
        self.assertIsNone(self.read(flavor_id='gone').flavor)
        self.assertIsNone(self.read(flavor_id=None).flavor)
        self.nova.limits['totalInstancesUsed'] = 12
        self.assertEqual(0, self.read().left['instances'])

    def test_many_groups(self):
        """The number of requests does not grow with them as such."""
        self.nova.groups.update({f'g{n}': HARD for n in range(1200)})
        wanted = [f'g{n}' for n in range(600)]
        found = self.read(*wanted, 'gone').policies
        self.assertEqual(set(wanted), set(found))
        self.assertLess(len(self.nova.asked), 10)
        # With answers that are shorter than the questions, too.
        self.nova.page = 100
        self.assertEqual(found, self.read(*wanted, 'gone').policies)

    def test_hosts_are_a_secret(self):
        self.nova.errors['/os-services'] = 403
        self.assertIsNone(self.read().hosts)

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

    def test_nonsense(self):
        self.nova.limits = {}
        e = self.assertRaises(exceptions.CloudUnavailable, self.read)
        self.assertIn('[nova] endpoint is the address of Nova', str(e))
