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

"""A housekeeper is killed hard at each step of a replacement.

Another one goes on: back up to the first proof, with the switch and the second
proof, and forward from the deletion on. No client notices; nothing is left.
"""

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
    ('before PUT .*/reload', BACK),
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


class TestSingleKilled(KilledTestCase):

    topologies = ('SINGLE',) * 6

    def test_until_proof(self):
        self.check(SINGLE[:12])

    def test_from_switch_on(self):
        self.check(SINGLE[12:])

    def test_stopped(self):
        """One that is asked to end does so soon, and loses no time."""
        expected = {
            'before built .*-compute-create': BACK,
            'before enter PROVE$': BACK, 'before PUT .*/reload': BACK,
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
