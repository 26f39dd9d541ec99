# SPDX-License-Identifier: Apache-2.0

"""A housekeeper is killed hard at each step of a replacement.

Another one goes on: back up to the first proof, with the switch and the second
proof, and forward from the deletion on. No client notices; nothing is left.
"""

from tests.cloud.compute import bad_images
from tests.cloud import steps as cloud_steps
from tests.functional import fleets

BACK, DONE = 'SKIPPED', 'DONE'
# Of each: where the housekeeper dies, and how the replacement ends.
SINGLE = (
    ('before lock$', DONE),
    ('after lock$', BACK),
    # There is a row, and nothing else.
    ('after built .*create-amphora-indb', BACK),
    # There is an instance whose id nobody recorded.
    ('before built .*-compute-create', BACK),
    ('before built .*-compute-wait', BACK),
    # There is a port whose id nobody recorded.
    ('after POST .*/ports', BACK),
    ('before built .*-attach-port', BACK),
    ('before built .*amphora-post-vip-plug', BACK),
    ('after enter PROVE$', BACK),
    ('before listeners ', BACK),
    ('after enter SWITCH$', DONE),
    ('after agent .* PUT config', DONE),
    # Both have the VIP.
    ('after agent .* POST plug/network', DONE),
    ('after agent .* PUT loadbalancer/.*/start', DONE),
    ('after enter PROVE_SWITCHED', DONE),
    ('after enter DELETE_OLD', DONE),
    ('before DELETE .*/ports', DONE),
    ('before set_gone', DONE),
    ('after set_gone', DONE),
    ('after enter UNLOCK', DONE),
    ('before unlock', DONE),
    ('after unlock', DONE))
PAIR = (
    ('after built .*-compute-wait', BACK),
    ('after agent .* PUT vrrp/upload', BACK),
    ('after agent .* PUT vrrp/reload', BACK),
    ('after agent .* PUT vrrp/start', BACK),
    ('after enter SWITCH$', DONE),
    ('after enter PROVE_SWITCHED', DONE),
    ('after enter DELETE_OLD', DONE),
    ('after set_gone', DONE),
    ('after enter UNLOCK', DONE),
    ('after unlock', DONE))


class KilledTestCase(fleets.FleetTestCase):

    def check(self, steps):
        steps = list(steps)
        size = len(self.fleet)
        for n in range(0, len(steps), size):
            some = dict(steps[n:n + size])
            ended = self.kill_amid({pattern: pattern for pattern in some})
            self.assertStates(ended, some)
        self.assertEqual([], self.errors)

    def check_way_back(self):
        """One that is bad once it has the VIP: killed at each step back."""
        bad = self.cloud.add_image('bad', like=bad_images.fails_with_vip())
        lb = self.fleet[0]
        self.cloud.steps.clear()
        with self.under_probes({'uninterrupted': lb}):
            row = self.replace(lb, bad, forced=True)
        self.assertEqual('FAILED', row.state)
        self.assertSane('uninterrupted', lb)
        seen = [(step.what, step.when) for step in self.cloud.steps.seen
                if step.whose == row.id]
        begun = seen.index(('enter BACK', 'after'))
        # What is done again and again comes once; reading changes nothing.
        patterns = list(dict.fromkeys(
            cloud_steps.generalize(*each) for each in seen[begun + 1:]
            if 'GET' not in each[0]))
        print(patterns)
        self.assertGreater(len(patterns), 5)
        size = len(self.fleet)
        for n in range(0, len(patterns), size):
            some = patterns[n:n + size]
            ended = self.kill_amid({each: each for each in some}, image=bad,
                                   since='after enter BACK$')
            # Whoever goes on knows that it goes back, and not why.
            self.assertStates(ended, dict.fromkeys(some, f'FAILED|{BACK}'))
        self.assertEqual([], self.errors)


class TestSingleKilled(KilledTestCase):

    topologies = ('SINGLE',) * 6

    def test_until_proof(self):
        self.check(SINGLE[:12])

    def test_from_switch_on(self):
        self.check(SINGLE[12:])

    def test_way_back(self):
        self.check_way_back()

    def test_stopped(self):
        """One that is asked to end does so soon, and loses no time."""
        expected = {
            'before built .*-compute-create': BACK,
            'before enter PROVE$': BACK, 'before listeners ': BACK,
            'before agent .* PUT config': DONE,
            'after enter PROVE_SWITCHED': DONE,
            'before DELETE .*/ports': DONE}
        self.assertStates(self.stop_amid({each: each for each in expected}),
                          expected)
        self.assertEqual([], self.errors)


class TestPairKilled(KilledTestCase):

    topologies = ('ACTIVE_STANDBY',) * 2

    def test_each(self):
        self.check(PAIR)

    def test_way_back(self):
        self.check_way_back()
