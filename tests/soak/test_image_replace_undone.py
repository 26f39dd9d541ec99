# SPDX-License-Identifier: Apache-2.0

"""Replacements on a whole Octavia that fail, or whose housekeeper dies."""

import contextlib
import threading

from oslo_utils import uuidutils

from tests.cloud.compute import bad_images
from tests.cloud.compute import hypervisor
from tests.cloud import waiting
from tests.functional import replacements


class TestUndone(replacements.ReplacementTestCase):
    """What fails is as it was, and says why."""

    options = {'hmsync_image': {'proof_timeout': 12,
                                'replacements_at_once': 6}}
    house_keepers = 2

    def add(self, kind, like=None):
        """Make a SINGLE load balancer, and an image for it alone."""
        self.cloud.add_image(f'{kind}-good', tags=[kind])
        made = self.cloud.add_load_balancer(
            kind, members=self.members, wait=False,
            flavor_id=self.cloud.add_flavor(amp_image_tag=kind))
        return made, lambda: self.cloud.add_image(f'{kind}-bad', tags=[kind],
                                                  like=like)

    def leftovers(self):
        network = self.cloud.connection.network
        return (sorted(self.cloud.compute.instances),
                sorted(port.id for port in network.ports()))

    def test_undone(self):
        cases = {
            'refuses': (bad_images.refuses_listeners(),
                        'are not taken'),
            'late': (bad_images.fails_with_vip(), 'as ERROR'),
            'boots-not': (bad_images.never_boots(), 'could not be built'),
            'no-room': (None, 'No valid host'),
            'killed-build': (None, 'ended in the middle'),
            'killed-switch': (None, None),
            'killed-proof': (bad_images.fails_with_vip(), 'as ERROR')}
        # Another one than the one that is going to be killed.
        self.cloud.house_keepers[1].stop()
        made = {kind: self.add(kind, like)
                for kind, (like, _reason) in cases.items()}
        for lb, _ in made.values():
            self.cloud.wait_until_active(lb.id)
        for lb, _ in made.values():
            self.wait_until_online(lb)
        lbs = {kind: lb for kind, (lb, _) in made.items()}
        before = {kind: self.look_at(lb) for kind, lb in lbs.items()}
        left = self.leftovers()
        bad = {kind: add_image() for kind, (_, add_image) in made.items()}

        def refuse(image_id, **_):
            if image_id == bad['no-room'].id:
                raise hypervisor.Refusal('ComputeBuildException',
                                         'No valid host was found')

        self.cloud.compute.before['build'] = refuse
        first = [kind for kind in cases if not kind.startswith('killed')]
        with contextlib.ExitStack() as stack:
            seen = {kind: stack.enter_context(
                self.under_probe(lbs[kind], rate=20)) for kind in first}
            begun = {kind: self.begin(lbs[kind], bad[kind])
                     for kind in first}
            ended = {kind: self.wait_until_ended(each)
                     for kind, each in begun.items()}
        for kind in first:
            self.assertEqual('FAILED', ended[kind].state)
            # To the new one, and back.
            self.assertHardlyNoticed(seen[kind].report,
                                     2 if kind == 'late' else 0)
            self.assertIn(cases[kind][1], ended[kind].reason)
            self.cloud.wait_for(
                lambda: self.look_at(lbs[kind]) == before[kind],
                lambda: f'{kind} as {before[kind]}, but '
                        f'{self.look_at(lbs[kind])}')
        self.cloud.wait_for(lambda: self.leftovers() == left,
                            'end of what was built')
        self.check_killed(lbs, bad, before)
        self.cloud.wait_for(lambda: len(self.leftovers()[0]) == len(left[0])
                            and len(self.leftovers()[1]) == len(left[1]),
                            'end of what was built')

    def check_killed(self, lbs, images, before):
        """The housekeeper dies amid three; another one takes them up."""
        steps = {'killed-build': 'before built .*compute-wait',
                 'killed-switch': 'after agent .* POST plug/network',
                 'killed-proof': 'after enter PROVE_SWITCHED'}
        ids = {kind: uuidutils.generate_uuid() for kind in steps}
        killed, meet = threading.Event(), threading.Barrier(len(steps))

        def die(step):
            if meet.wait(waiting.LIMIT * waiting.get_factor()) == 0:
                self.kill(step)
                killed.set()
            waiting.happens(killed)

        for kind, pattern in steps.items():
            self.cloud.steps.at(pattern, die, ids[kind])
        with contextlib.ExitStack() as stack:
            seen = [stack.enter_context(self.under_probe(lbs[kind], rate=20))
                    for kind in steps]
            for kind in steps:
                self.begin(lbs[kind], images[kind], ids[kind])
            self.assertTrue(waiting.happens(killed), self.cloud.steps.seen)
            self.cloud.house_keepers[1].start()
            ended = {kind: self.wait_until_ended(ids[kind])
                     for kind in steps}
        self.assertEqual({'killed-build': 'SKIPPED',
                          'killed-switch': 'DONE', 'killed-proof': 'SKIPPED'},
                         {kind: each.state for kind, each in ended.items()},
                         ended)
        for each in seen:
            self.assertHardlyNoticed(each.report, 2)
        for kind in ('killed-build', 'killed-proof'):
            self.assertIn('ended in the middle', ended[kind].reason)
            self.cloud.wait_for(
                lambda: self.look_at(lbs[kind]) == before[kind],
                lambda: f'{kind} as {before[kind]}, but '
                        f'{self.look_at(lbs[kind])}')
        row, = self.look_at(lbs['killed-switch'])['amphorae'].values()
        self.assertEqual(images['killed-switch'].id, row[1])
