# SPDX-License-Identifier: Apache-2.0

from hypothesis import given
from hypothesis import strategies as st

from octavia_hmsync.distributor import probe_rules
from tests.unit import base

ERRORS = st.sampled_from([None, probe_rules.SILENT, probe_rules.REFUSED])


def judge(answers, misses=2, before=None):
    verdict = before or probe_rules.Verdict()
    for answer in answers:
        verdict = probe_rules.judge(verdict, answer, misses)
    return verdict


class TestJudge(base.TestCase):

    def test_first(self):
        self.assertIsNone(probe_rules.Verdict().state)
        self.assertFalse(probe_rules.Verdict().is_in_doubt)
        self.assertEqual(probe_rules.UP, judge([None]).state)
        self.assertIsNone(judge([probe_rules.SILENT]).state)

    def test_one_miss_is_no_news(self):
        verdict = judge([None, probe_rules.SILENT])
        self.assertEqual((probe_rules.UP, None, True), (
            verdict.state, verdict.error, verdict.is_in_doubt))
        verdict = judge([None], before=verdict)
        self.assertEqual((probe_rules.UP, 0, False), (
            verdict.state, verdict.misses, verdict.is_in_doubt))

    def test_down(self):
        verdict = judge([None, probe_rules.SILENT, probe_rules.REFUSED])
        self.assertEqual((probe_rules.DOWN, probe_rules.REFUSED, False), (
            verdict.state, verdict.error, verdict.is_in_doubt))

    def test_up_again(self):
        down = judge([probe_rules.SILENT] * 2)
        verdict = judge([None], before=down)
        self.assertEqual((probe_rules.DOWN, probe_rules.SILENT, True), (
            verdict.state, verdict.error, verdict.is_in_doubt))
        self.assertEqual(probe_rules.DOWN, judge(
            [probe_rules.SILENT, None], before=verdict).state)
        self.assertEqual(probe_rules.UP, judge([None], before=verdict).state)

    def test_ports(self):
        """A miss goes to the next port, an answer stays with it."""
        self.assertEqual([1, 1, 1, 2], [
            judge(answers).turn for answers in (
                [probe_rules.SILENT], [probe_rules.SILENT, None],
                [probe_rules.SILENT, None, None],
                [probe_rules.SILENT, None, probe_rules.SILENT])])

    def test_one_port_of_two(self):
        """Whoever serves one of them is not DOWN for long."""
        verdict = probe_rules.Verdict()
        for _ in range(20):
            verdict = probe_rules.judge(
                verdict, None if verdict.turn % 2 else probe_rules.REFUSED, 2)
        self.assertEqual(probe_rules.UP, verdict.state)

    @given(st.lists(ERRORS, max_size=30), st.integers(1, 5))
    def test_any(self, answers, misses):
        verdict = probe_rules.Verdict()
        for number, answer in enumerate(answers):
            before = verdict
            verdict = probe_rules.judge(before, answer, misses)
            recent = answers[max(0, number + 1 - misses):number + 1]
            if verdict.state == probe_rules.DOWN != before.state:
                self.assertEqual(misses, len(recent))
                self.assertNotIn(None, recent)
            if (before.state, verdict.state) == (probe_rules.DOWN,
                                                 probe_rules.UP):
                self.assertEqual([None] * probe_rules.HITS, answers[
                    number + 1 - probe_rules.HITS:number + 1])
            if before.state is not None:
                self.assertIsNotNone(verdict.state)
            self.assertEqual(verdict.state == probe_rules.DOWN,
                             verdict.error is not None)
            # It is known whoever answers or is silent for long enough.
            if len(recent) == misses and len(set(
                    one is None for one in recent)) == 1:
                self.assertIsNotNone(verdict.state)

    @given(st.integers(1, 5), st.randoms())
    def test_ends(self, misses, source):
        """Whatever was before, what stays so is told in the end."""
        start = judge([source.choice([None, probe_rules.SILENT])
                       for _ in range(source.randrange(20))], misses)
        self.assertEqual(probe_rules.UP, judge(
            [None] * probe_rules.HITS, misses, start).state)
        self.assertEqual(probe_rules.DOWN, judge(
            [probe_rules.SILENT] * misses, misses, start).state)
