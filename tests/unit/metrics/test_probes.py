# SPDX-License-Identifier: Apache-2.0

from octavia_hmsync.metrics import probes
from tests.unit import base


class Thread:
    def __init__(self, name, succeeded_at=0.0, is_alive=True):
        self.name, self.succeeded_at = name, succeeded_at
        self.is_alive = lambda: is_alive


class TestProbes(base.TestCase):

    def test_what_does_not_live_is_not_ready(self):
        subject = probes.Probes(lambda: ['dead'], lambda: ['late'])
        self.assertEqual(['dead'], subject.find_faults())
        self.assertEqual(['dead', 'late'], subject.find_lacks())

    def test_ended(self):
        threads = [Thread('planner'), Thread('keepalive', is_alive=False)]
        self.assertEqual(['The thread "keepalive" has ended.'],
                         probes.find_ended(threads))

    def test_overdue(self):
        threads = [Thread('never'), Thread('on time', 964.0),
                   Thread('late', 963.0)]
        self.assertEqual(
            ['The thread "never" has not done its work yet.',
             'The thread "late" has not done its work for 37 s, longer than '
             '36 s.'],
            probes.find_overdue(threads, 2, lambda: 1000.0))
