# SPDX-License-Identifier: Apache-2.0

"""Each request of a replacement is refused in turn; no client notices."""

import re
import threading

from tests.cloud.compute import hypervisor
from tests.cloud import steps
from tests.functional import fleets

_REQUEST = re.compile('(GET|PUT|POST|DELETE) |agent |listeners ')


class TestRefused(fleets.FleetTestCase):

    topologies = ('SINGLE',) * 6

    def setUp(self):
        super().setUp()
        self.patterns = []

    def refuse(self, step):
        raise steps.Refused('refused by the test')

    def learn(self):
        """Return the pattern of each request that a replacement makes."""
        self.cloud.steps.clear()
        self.assertDone(self.replace(self.fleet[0], self.target, forced=True))
        return sorted({steps.generalize(step.what)
                       for step in self.cloud.steps.seen
                       if _REQUEST.match(step.what)})

    def check(self, patterns, times):
        size = len(self.fleet)
        for n in range(0, len(patterns), size):
            some = patterns[n:n + size]
            cases = dict(zip(some, self.fleet, strict=False))
            with self.under_probes(cases):
                ended = self.run_cases(
                    {pattern: (pattern, self.refuse) for pattern in some},
                    times)
                for case, lb in cases.items():
                    self.assertSane(case, lb)
            self.assertNothingLeft(f'after {some}')
            for case, row in ended.items():
                print(case, row.state, row.reason)
                if row.state != 'DONE' and not row.reason:
                    self.note(f'{case}: {row.state} without a reason')

    def test_always(self):
        # What cannot be deleted at all is left, and told. Where no amphora
        # can be started, the old one as little as the new one, none serves.
        self.check([each for each in self.learn()
                    if 'DELETE' not in each and not each.endswith('/start$')],
                   1000)
        self.assertEqual([], self.errors)

    def test_once(self):
        self.check([each for each in self.learn()], 1)
        self.assertEqual([], self.errors)

    def test_compute(self):
        """Whom it hits, it hits once each."""
        refused = {}

        def make(name):
            refused[name] = threading.Event()

            def refuse(**arguments):
                if not refused[name].is_set():
                    refused[name].set()
                    raise hypervisor.Refusal('ComputeBuildException', name)
            return refuse

        for name in ('build', 'get', 'attach', 'delete'):
            self.cloud.compute.before[name] = make(name)
        cases = {name: lb for name, lb in zip(refused, self.fleet,
                                              strict=False)}
        with self.under_probes(cases):
            ids = {case: self.begin(lb, self.target, forced=True)
                   for case, lb in cases.items()}
            states = sorted(self.wait_until_ended(each).state
                            for each in ids.values())
            for case, lb in cases.items():
                self.assertSane(case, lb)
        self.assertEqual(['DONE', 'FAILED', 'FAILED', 'FAILED'], states)
        self.assertTrue(all(each.is_set() for each in refused.values()))
        self.assertNothingLeft('compute')
        self.assertEqual([], self.errors)
