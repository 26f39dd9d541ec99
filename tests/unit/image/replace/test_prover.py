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
"""How long a new amphora is looked at, with a clock of the test's own."""

import dataclasses
import datetime
import types
from unittest import mock

import fixtures

from octavia_hmsync import exceptions
from octavia_hmsync.image.replace import prover
from octavia_hmsync.image.replace import work as work_
from tests.unit import base
from tests.unit.image.replace import test_proof

INTERVAL = 10
TIMEOUT = 100


class Clock:
    """A time that passes when somebody waits; .at has what happens when."""

    def __init__(self):
        self.now = 0.0
        self.at = []

    def monotonic(self):
        return self.now

    def pause(self, seconds=work_.INTERVAL):
        self.now += seconds
        while self.at and self.at[0][0] <= self.now:
            self.at.pop(0)[1]()


class ProverTestCase(base.TestCase):

    def setUp(self):
        super().setUp()
        self.clock = Clock()
        self.useFixture(fixtures.MockPatchObject(prover, 'time', self.clock))
        self.members = {'member': 'ONLINE'}
        self.listeners = {'web': 'ACTIVE'}
        self.down_after = 0
        self.is_silent = False
        self.agent = mock.Mock()
        self.agent.get_listeners.side_effect = lambda: self.listeners
        self.agent.holds.return_value = True
        self.replacement = types.SimpleNamespace(target_image_id='image')
        self.work = types.SimpleNamespace(
            conf=types.SimpleNamespace(
                health_manager=types.SimpleNamespace(
                    heartbeat_interval=INTERVAL),
                controller_worker=types.SimpleNamespace(
                    statistics_drivers=['stats_db', 'hmsync'])),
            options=types.SimpleNamespace(proof_timeout=TIMEOUT),
            replacement=self.replacement, old_id='old', new_id='new',
            read=self._read, pause=self.clock.pause,
            agent_of=lambda amphora: self.agent,
            get_load_balancer=lambda: types.SimpleNamespace(
                vip=types.SimpleNamespace(ip_address='192.0.2.5'),
                listeners=[types.SimpleNamespace(id='web', enabled=True)]),
            find_holders=lambda amphorae, vip: {'old': False, 'new': True})
        self.prover = prover.Prover(self.work, lambda *args: frozenset())

    def _read(self):
        now = test_proof.NOW + datetime.timedelta(seconds=self.clock.now)
        heard_at = test_proof.NOW if self.is_silent else now
        return dataclasses.replace(
            test_proof.EVIDENCE, now=now, members=dict(self.members),
            down_after=self.down_after, amphorae={
                'old': test_proof.OLD, 'new': dataclasses.replace(
                    test_proof.NEW, heard_at=heard_at)})

    def at(self, seconds, function, *arguments, **keywords):
        self.clock.at.append(
            (seconds, lambda: function(*arguments, **keywords)))


class TestProver(ProverTestCase):

    def assertTakes(self, seconds, is_switched=False):
        began = self.clock.now
        self.prover.prove(is_switched)
        self.assertAlmostEqual(seconds, self.clock.now - began, delta=3)

    def assertNotProven(self, text, is_switched=False):
        e = self.assertRaises(exceptions.NotProven, self.prover.prove,
                              is_switched)
        self.assertEqual(f'The new amphora is not shown to serve: {text}.',
                         str(e))

    def test_shown(self):
        """For two heartbeats, and for one when it has the VIP."""
        self.prover.remember()
        self.assertTakes(20)
        self.assertTakes(10, is_switched=True)

    def test_monitors_have_time(self):
        self.down_after = 45
        self.assertTakes(65)
        self.assertTakes(10, is_switched=True)

    def test_again_from_the_beginning(self):
        """What comes and goes is not shown."""
        self.at(15, self.listeners.clear)
        self.at(25, self.listeners.update, web='ACTIVE')
        self.assertTakes(46)

    def test_never(self):
        self.listeners.clear()
        self.assertNotProven('the agent of amphora new has listener web as '
                             'none of its own')
        self.assertAlmostEqual(TIMEOUT + 20, self.clock.now, delta=3)

    def test_agent_is_silent(self):
        self.agent.get_listeners.side_effect = exceptions.AgentUnreachable(
            'It did not answer.')
        self.assertNotProven('It did not answer')

    def test_falls_silent(self):
        self.at(5, setattr, self, 'is_silent', True)
        self.down_after = 60
        self.assertNotProven('no heartbeat of amphora new arrives')

    def test_members(self):
        """One look at a member is enough: the old one's comes next."""
        self.prover.remember()
        for second in range(10, 300, 10):
            self.at(second, self.members.update, member='ERROR')
            self.at(second + 0.5, self.members.update, member='ONLINE')
        self.assertNotProven('members that were better before: member')
        self.clock.at.clear()
        self.members['member'] = 'ONLINE'
        self.assertFalse(self.prover.were_members_at_fault())

    def test_members_failed_by_themselves(self):
        self.prover.remember()
        self.at(8, self.members.update, member='ERROR')
        self.assertNotProven('members that were better before: member')
        self.assertTrue(self.prover.were_members_at_fault())

    def test_not_only_members(self):
        """What else is wrong is the new one's fault."""
        self.prover.remember()
        self.listeners.clear()
        self.at(8, self.members.update, member='ERROR')
        self.assertRaises(exceptions.NotProven, self.prover.prove, False)
        self.assertFalse(self.prover.were_members_at_fault())

    def test_members_were_bad_before(self):
        """In either of the looks before."""
        self.at(1, self.members.update, member='ERROR')
        self.at(2, self.members.update, member='ONLINE')
        self.prover.remember()
        self.members['member'] = 'ERROR'
        self.assertTakes(20)

    def test_how_they_were_is_not_known(self):
        """To one that goes on for somebody who died."""
        self.members['member'] = 'ERROR'
        self.assertTakes(10, is_switched=True)

    def test_remembers_listeners(self):
        self.prover.remember()
        self.assertEqual({'web': ('ACTIVE', 'ONLINE')}, self.prover.listeners)

    def test_serves(self):
        new = test_proof.NEW
        self.assertTrue(self.prover.serves(new))
        self.assertFalse(self.prover.serves(None))
        self.listeners.clear()
        self.assertFalse(self.prover.serves(new))
        self.agent.holds.return_value = False
        self.assertFalse(self.prover.serves(new))
        self.agent.holds.side_effect = exceptions.AgentUnreachable('no')
        self.assertFalse(self.prover.serves(new))
