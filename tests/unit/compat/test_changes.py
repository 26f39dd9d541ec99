# SPDX-License-Identifier: Apache-2.0

"""What has changed in Octavia is found, and named, before it matters."""

from unittest import mock

import fixtures

from octavia_hmsync.compat import amphora as compat_amphora
from octavia_hmsync.compat import changes
from octavia_hmsync.image.db import rollout as rollout_repo
from octavia_hmsync.image.replace import known_octavia
from tests.unit import base

MODES = (rollout_repo.REPLACE, rollout_repo.FAILOVER)


class Changed:
    """What somebody has changed."""

    def one_more(self, prefix, role, host):
        pass

    def one_renamed(self, prefix, part='STANDALONE'):
        pass

    def more_of_its_own(self, prefix, role=None, host=None, *, zone=None):
        pass


def why_not():
    return [known_octavia.why_not(mode) for mode in MODES]


class TestChanges(base.TestCase):

    def assertRefused(self, *words):
        """By mode replace alone, in one line that says what else to do."""
        replace, failover = why_not()
        self.assertIsNone(failover)
        for word in (*words, 'Use --mode failover'):
            self.assertIn(word, replace)
        self.assertNotIn('\n', replace)

    def test_this_octavia(self):
        self.assertEqual([None, None], why_not())

    def test_parameters(self):
        name = (f'{changes._WORKER}.flows.amphora_flows.AmphoraFlows.'
                f'get_amphora_for_lb_failover_subflow')
        with mock.patch(name, Changed.one_more):
            self.assertRefused(name, "missing a required argument: 'host'")
        with mock.patch(name, Changed.one_renamed):
            self.assertRefused(name, "unexpected keyword argument 'role'")
        with mock.patch(name, Changed.more_of_its_own):
            self.assertEqual([], changes.find_of_replace())
        with mock.patch(name, 'no function'):
            self.assertRefused(f'{name} is something else')

    def test_each_call(self):
        """Each one that is gone is named, and nothing else is."""
        for call in {*changes._REPLACE, *changes._FAILOVER,
                     *changes._LISTENERS, *changes._MEMBERS}:
            gone = changes.Call(call.module, f'{call.name}_gone')
            self.assertEqual([f'{gone} is gone'], changes._find([gone]))
            # With what it gets, and not with whatever.
            self.assertEqual([], changes._find([call]))
            more = changes.Call(call.module, call.name, call.positional + 9)
            if call.name != 'GetVIPSecurityGroupID':
                found, = changes._find([more])
                self.assertIn(f'{call} takes other arguments', found)

    def test_module_is_gone(self):
        self.assertEqual(
            ['octavia.nowhere.thing is gone'],
            changes._find([changes.Call('octavia.nowhere', 'thing')]))

    def test_listeners(self):
        name = ('octavia.amphorae.drivers.haproxy.rest_api_driver.'
                'HaproxyAmphoraLoadBalancerDriver.update_amphora_listeners')
        with mock.patch(name, lambda self, loadbalancer: None):
            self.assertRefused(name, 'takes other')

    def test_members(self):
        self.assertEqual([], changes.find_of_members())
        name = ('octavia.amphorae.drivers.haproxy.rest_api_driver.'
                'HaproxyAmphoraLoadBalancerDriver.delete')
        with mock.patch(name, lambda self: None):
            found, = changes.find_of_members()
        self.assertIn(f'{name} takes other arguments', found)

    def test_driver_that_is_not_there(self):
        changes.CONF.set_override('network_driver', 'nobodys',
                                  'controller_worker')
        self.addCleanup(changes.CONF.clear_override, 'network_driver',
                        'controller_worker')
        self.assertRefused('network_driver nobodys cannot be loaded')

    def test_constants(self):
        self.useFixture(fixtures.MockPatchObject(
            changes, '_CONSTANTS_OF_REPLACE', ('NOTHING_SUCH',)))
        self.assertRefused('octavia.common.constants.NOTHING_SUCH is gone')

    def test_flow(self):
        """It has a task by which we know what was built, and needs no more."""
        with mock.patch.object(compat_amphora, 'CREATE_TASK', 'other'):
            self.assertRefused('has no task other')
        with mock.patch.object(compat_amphora, '_STORED', {'vip'}):
            self.assertRefused('needs flavor, too', 'needs loadbalancer, too')

    def test_zone_of_a_build(self):
        """That of its profile, or else the one that the caller names."""
        lb = mock.Mock(additional_vips=[])
        for zone, expected in (({}, 'az2'), ({'compute_zone': 'az1'}, 'az1')):
            with mock.patch.object(compat_amphora, 'get_metadata',
                                   autospec=True, return_value=({}, zone)), (
                    mock.patch('octavia.api.drivers.utils.'
                               'db_loadbalancer_to_provider_loadbalancer',
                               autospec=True)):
                _flow, store = compat_amphora.make_build_flow(
                    lb, compat_amphora.SINGLE_ROLE, 'az2')
            self.assertEqual({'compute_zone': expected},
                             store['availability_zone'])

    def test_failover(self):
        with mock.patch('octavia.controller.queue.v2.endpoints.Endpoints.'
                        'failover_amphora', lambda self, context: None):
            replace, failover = why_not()
        self.assertIsNone(replace)
        self.assertIn('Mode failover does not know', failover)
        self.assertIn('failover_amphora takes other arguments', failover)
