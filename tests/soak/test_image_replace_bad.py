# SPDX-License-Identifier: Apache-2.0

"""Each bad image, for a SINGLE load balancer and for a pair.

See also tests/functional/test_image_replace.py.
"""

import contextlib

from tests.cloud.compute import bad_images
from tests.cloud import octavia_conf
from tests.functional import replacements

# Each image, and what the reason names.
REASONS = {
    'never_boots': 'could not be built',
    'other_api_version': 'could not be built',
    'refuses_listeners': 'are not taken',
    'never_sends_heartbeats': 'no heartbeat of amphora',
    'fails_with_vip': 'as ERROR'}
# Those that another amphora's heartbeats may hide.
HIDDEN = {'haproxy_does_not_stay': 'was gone 3 times, and started again',
          'reaches_no_member': 'members that were better before'}


class BadImageTestCase(replacements.ReplacementTestCase):

    options = {'hmsync_image': {'proof_timeout': 12,
                                'replacements_at_once': 8},
               'controller_worker': {'amp_active_retries': 20},
               'haproxy_amphora': {'connection_max_retries': 15}}
    topology = 'SINGLE'

    def check(self, *kinds):
        made = {kind: self.add(kind) for kind in kinds}
        for each in made.values():
            self.cloud.wait_until_active(each.id)
            self.wait_until_online(each)
            self.cloud.wait_for(lambda: self.holders(each), 'a holder')
        before = {kind: self.look_at(each) for kind, each in made.items()}
        left = self.count()
        with contextlib.ExitStack() as stack:
            seen = {kind: stack.enter_context(self.under_probe(each, 20))
                    for kind, each in made.items()}
            begun = {kind: self.begin(each, self.cloud.add_image(
                f'{kind}-bad', tags=[kind],
                like=getattr(bad_images, kind)()))
                for kind, each in made.items()}
            ended = {kind: self.wait_until_ended(each, 400)
                     for kind, each in begun.items()}
        for kind, each in made.items():
            self.assertEqual('FAILED', ended[kind].state, ended[kind])
            self.assertIn({**REASONS, **HIDDEN}[kind], ended[kind].reason)
            self.assertHardlyNoticed(seen[kind].report,
                                     2 * (kind == 'fails_with_vip'))
            self.cloud.wait_for(
                lambda: self.look_at(each) == before[kind],
                lambda: f'{kind} as {before[kind]}, but '
                        f'{self.look_at(each)}')
        self.cloud.wait_for(lambda: self.count() == left,
                            'end of what was built')

    def add(self, kind, **kwargs):
        self.cloud.add_image(f'{kind}-good', tags=[kind])
        return self.cloud.add_load_balancer(
            kind, self.topology, self.members, wait=False,
            flavor_id=self.cloud.add_flavor(
                amp_image_tag=kind, loadbalancer_topology=self.topology),
            **kwargs)


class TestSingle(BadImageTestCase):

    def test_each(self):
        self.check(*REASONS)


class TestRestarts(BadImageTestCase):
    """As long as clouds have it, since only agents tell without monitors.

    An agent says whether haproxy runs when it is asked, and so misses some of
    its restarts.
    """

    options = octavia_conf.merge(BadImageTestCase.options, {
        'health_manager': {'heartbeat_interval': 10, 'heartbeat_timeout': 60}})

    def test_haproxy_that_does_not_stay(self):
        self.check('haproxy_does_not_stay')


class TestMonitored(BadImageTestCase):
    """With health monitors; the fixture's heartbeats come each second."""

    def add(self, kind):
        return super().add(kind, listeners=[{
            'name': 'http', 'protocol': 'HTTP', 'protocol_port': 80,
            'default_pool': {
                'name': 'members', 'protocol': 'HTTP',
                'lb_algorithm': 'ROUND_ROBIN',
                'healthmonitor': {'type': 'TCP', 'delay': 2, 'timeout': 1,
                                  'max_retries': 2, 'max_retries_down': 2},
                'members': [{'address': member.address, 'protocol_port': 80}
                            for member in self.members]}}])

    def test_each(self):
        self.check(*HIDDEN)


class TestPair(BadImageTestCase):

    topology = 'ACTIVE_STANDBY'

    def test_before_it_has_the_vip(self):
        self.check('refuses_listeners', 'never_sends_heartbeats',
                   'other_api_version')
