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

from octavia_hmsync.image import phases
from tests.unit import base

Phase, Next = phases.Phase, phases.Next
WAY = [Phase.LOCK, Phase.BUILD, Phase.PROVE, Phase.SWITCH,
       Phase.PROVE_SWITCHED, Phase.DELETE_OLD, Phase.UNLOCK]


class TestPhases(base.TestCase):

    def test_way(self):
        phase, way = Phase.LOCK, []
        while phase is not None:
            way.append(phase)
            phase = phases.get_next(phase)
        self.assertEqual(WAY, way)
        self.assertIsNone(phases.get_next(Phase.BACK))

    def test_after_death(self):
        self.assertEqual(
            [Next.AGAIN, Next.BACK, Next.BACK, Next.PROOF, Next.PROOF,
             Next.FORWARD, Next.FORWARD],
            [phases.after_death(phase.value) for phase in WAY])
        self.assertEqual(Next.BACK, phases.after_death('BACK'))
        self.assertEqual(Next.AGAIN, phases.after_death(None))
        for phase in Phase:
            phases.after_death(phase)

    def test_failover(self):
        """One amphora after the other; what a worker has is its own."""
        self.assertEqual(Phase.FAILOVER, phases.get_next(Phase.ASK))
        self.assertEqual(Phase.LOCK, phases.get_next(Phase.FAILOVER))
        self.assertEqual(
            [Next.BACK, Next.WAIT],
            [phases.after_death(phase) for phase in ('ASK', 'FAILOVER')])
        self.assertEqual(
            [Next.BACK, Next.WAIT],
            [phases.after_failure(phase)
             for phase in (Phase.ASK, Phase.FAILOVER)])

    def test_unknown(self):
        """Of a newer release."""
        self.assertRaises(ValueError, phases.after_death, 'MEDITATE')
        self.assertRaises(ValueError, phases.has_lock, 'MEDITATE')

    def test_after_proof(self):
        self.assertEqual(Phase.DELETE_OLD, phases.after_proof(True))
        self.assertEqual(Phase.BACK, phases.after_proof(False))

    def test_after_failure(self):
        self.assertEqual(
            [Next.AGAIN] + [Next.BACK] * 4 + [Next.FORWARD] * 2,
            [phases.after_failure(phase) for phase in WAY])
        self.assertEqual(Next.BACK, phases.after_failure(Phase.BACK))

    def test_no_way_back_from_the_deletion(self):
        """And none forward that was not proven."""
        for phase in (Phase.DELETE_OLD, Phase.UNLOCK):
            self.assertEqual({Next.FORWARD}, {phases.after_death(phase),
                                              phases.after_failure(phase)})
        for phase in WAY[:5]:
            self.assertNotIn(Next.FORWARD, {phases.after_death(phase),
                                            phases.after_failure(phase)})

    def test_lock(self):
        """What somebody died with before it was locked is not unlocked."""
        for phase in Phase:
            self.assertEqual(phases.after_death(phase) is not Next.AGAIN,
                             phases.has_lock(phase))
        self.assertFalse(phases.has_lock(None))
