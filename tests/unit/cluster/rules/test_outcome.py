# SPDX-License-Identifier: Apache-2.0

"""What follows from who has taken a change, in any cluster."""

import hypothesis
from hypothesis import strategies as st

from octavia_hmsync.cluster.rules import outcome
from tests.unit import base

STATES = st.dictionaries(st.text('abcdefgh', min_size=1, max_size=2),
                         st.sampled_from(sorted(outcome.TOLD)), max_size=12)


@st.composite
def worlds(draw):
    states = draw(STATES)
    failed = draw(st.sets(st.sampled_from(sorted(states)))) if states else ()
    return (states, dict.fromkeys(failed, 'why'),
            draw(st.integers(1, max(1, len(states)))))


class TestJudge(base.TestCase):

    @hypothesis.given(worlds())
    def test_in_any_world(self, world):
        states, failures, min_size = world
        verdict = outcome.judge(*world)
        took = {member for member, state in states.items()
                if state == outcome.ACTIVE and member not in failures}
        self.assertEqual(len(took) >= min_size, verdict.is_success)
        # Who takes new connections afterwards.
        left = {member for member, state in states.items()
                if state == outcome.ACTIVE} - set(verdict.to_drain)
        if verdict.is_success:
            self.assertEqual(took, left)
        else:
            self.assertEqual(((), ()), (verdict.to_drain, verdict.to_fail))
        # Nobody who has taken it loses anything.
        self.assertLessEqual({*verdict.to_drain, *verdict.to_fail},
                             set(failures))
        for member in verdict.to_fail:
            self.assertEqual(outcome.STANDBY, states[member])

    def test_examples(self):
        states = {'a': 'ACTIVE', 'b': 'ACTIVE', 'c': 'STANDBY',
                  'd': 'DRAINING'}
        why = {'b': 'hangs', 'c': 'refuses', 'd': 'is dead'}
        self.assertEqual(outcome.Verdict(True, ('b',), ('c',)),
                         outcome.judge(states, why, 1))
        self.assertEqual(outcome.Verdict(False),
                         outcome.judge(states, why, 2))
        # Those who carry no traffic do not count.
        self.assertEqual(outcome.Verdict(False),
                         outcome.judge(states, {'a': '', 'b': ''}, 1))
