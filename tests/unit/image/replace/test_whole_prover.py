# SPDX-License-Identifier: Apache-2.0

from unittest import mock

from octavia_hmsync import exceptions
from octavia_hmsync.image.replace import whole_prover
from tests.unit.image.replace import test_prover


class TestWholeProver(test_prover.ProverTestCase):

    def setUp(self):
        super().setUp()
        self.prover = whole_prover.WholeProver(self.work)
        self.agents = {'old': self.agent}
        self.holding = {'old': True, 'new': False}
        self.work.agent_of = self._get_agent
        self.asked = None
        self.say_each('new')
        self.say_each('old')
        self.work.find_holders = self._find_holders

    def _find_holders(self, amphorae, vip):
        self.asked = {amphora.id for amphora in amphorae}
        return self.holding

    def _get_agent(self, amphora):
        return self.agents.get(amphora.id, self.agent)

    def _read(self):
        """Both send heartbeats."""
        found = super()._read()
        new = found.amphorae['new']
        found.amphorae['old'] = test_prover.dataclasses.replace(
            found.amphorae['old'], heard_at=new.heard_at,
            listeners=new.listeners)
        return found

    def assertTakes(self, seconds, *amphora_ids):
        began = self.clock.now
        self.prover.prove_all(set(amphora_ids) or None)
        self.assertAlmostEqual(seconds, self.clock.now - began, delta=3)

    def assertNotProven(self, text, *amphora_ids):
        e = self.assertRaises(exceptions.NotProven, self.prover.prove_all,
                              set(amphora_ids) or None)
        self.assertEqual(f'Not every amphora is shown to serve: {text}.',
                         str(e))

    def test_shown(self):
        """Whichever has the VIP, and of whatever image the old one is."""
        self.assertTakes(20)
        self.holding = {'old': False, 'new': True}
        self.assertTakes(20)

    def test_target_image(self):
        """Of the new one alone."""
        self.replacement.target_image_id = 'another'
        self.assertTakes(20, 'old')
        self.assertNotProven('amphora new is of image image, not of another')
        self.work.new_id = None
        self.assertTakes(20)

    def test_one_does_not_serve(self):
        self.agents['old'] = mock.Mock()
        self.agents['old'].count_haproxies.return_value = 1
        self.agents['old'].get_listeners.return_value = {'web': 'ERROR'}
        self.assertNotProven('the agent of amphora old has listener web as '
                             'ERROR')
        self.assertTakes(20, 'new')

    def test_one_does_not_answer(self):
        self.agents['old'] = mock.Mock()
        self.agents['old'].count_haproxies.return_value = 1
        self.agents['old'].get_listeners.side_effect = (
            exceptions.AgentUnreachable('It does not answer.'))
        self.assertNotProven('It does not answer')

    def test_what_concerns_all_is_told_once(self):
        for holding, text in (
                ({'old': True, 'new': True},
                 'new, old have the VIP at once'),
                ({'old': False, 'new': False}, 'no amphora has the VIP')):
            self.holding = holding
            self.assertNotProven(text)

    def test_members_of_a_cluster_share_the_vip(self):
        """Others may be on their way out."""
        self.prover = whole_prover.WholeProver(self.work, is_vip_shared=True)
        self.holding = {'new': True}
        self.assertTakes(20, 'new')
        self.assertEqual({'new'}, self.asked)
        self.holding = {'old': True, 'new': True}
        self.assertTakes(20)
        self.assertEqual({'old', 'new'}, self.asked)
        self.holding = {'new': False}
        self.assertNotProven('amphora new does not have the VIP', 'new')

    def test_silent(self):
        self.clock.now = 40
        self.is_silent = True
        self.at(70, setattr, self, 'is_silent', False)
        self.assertTakes(50)

    def test_gone(self):
        self.assertNotProven('amphora other is gone', 'new', 'other')

    def test_members(self):
        """With those that were there, and time for their monitors."""
        self.prover.remember()
        self.down_after = 45
        self.members['added meanwhile'] = 'OFFLINE'
        self.assertTakes(65)
        self.at(self.clock.now + 20, self.members.update, member='ERROR')
        self.assertNotProven('members that were better before: member')
