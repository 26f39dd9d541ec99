# SPDX-License-Identifier: Apache-2.0

from octavia_hmsync.image import phases
from tests.unit import base

Phase, Next = phases.Phase, phases.Next
WAY = [Phase.LOCK, Phase.BUILD, Phase.PROVE, Phase.SWITCH,
       Phase.PROVE_SWITCHED, Phase.DELETE_OLD, Phase.UNLOCK]


class TestPhases(base.TestCase):

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
        self.assertEqual(
            [Next.BACK, Next.WAIT],
            [phases.after_death(phase) for phase in ('ASK', 'FAILOVER')])

    def test_unknown(self):
        """Of a newer release."""
        self.assertRaises(ValueError, phases.after_death, 'MEDITATE')
        self.assertTrue(phases.has_lock('MEDITATE'))

    def test_no_way_back_from_the_deletion(self):
        """And none forward that was not proven."""
        for phase in (Phase.DELETE_OLD, Phase.UNLOCK):
            self.assertEqual(Next.FORWARD, phases.after_death(phase))
        for phase in WAY[:5]:
            self.assertNotEqual(Next.FORWARD, phases.after_death(phase))

    def test_cancelled(self):
        """Never half a switch, and nothing from the deletion on."""
        self.assertEqual(
            [Phase.LOCK, Phase.BUILD, Phase.PROVE, Phase.PROVE_SWITCHED],
            [phase for phase in Phase if phases.may_be_cancelled(phase)])
        self.assertTrue(phases.may_be_cancelled(None))
        self.assertFalse(phases.may_be_cancelled('MEDITATE'))

    def test_lock(self):
        """What somebody died with before it was locked is not unlocked."""
        for phase in Phase:
            self.assertEqual(phases.after_death(phase) is not Next.AGAIN,
                             phases.is_begun(phase))
            self.assertEqual(phases.is_begun(phase) and phase != 'ORDER',
                             phases.has_lock(phase))
        self.assertFalse(phases.has_lock(None))
