# SPDX-License-Identifier: Apache-2.0

import types

from octavia_hmsync.metrics import instruments
from octavia_hmsync import version
from tests.unit import base

PREFIX = 'octavia_hmsync_'


class TestInstruments(base.TestCase):

    def test_build_info(self):
        for subject, service in (
                (instruments.HealthManagerInstruments(), 'health_manager'),
                (instruments.HouseKeepingInstruments(), 'house_keeping')):
            self.assertEqual(1, subject.registry.get_sample_value(
                PREFIX + 'build_info', {
                    'service': service,
                    'version': version.version_string()}))

    def test_threads(self):
        """Each scrape looks at them anew."""
        threads = [types.SimpleNamespace(name=name, succeeded_at=0.0,
                                         failures=0)
                   for name in ('planner', 'metrics')]
        subject = instruments.HouseKeepingInstruments()
        subject.watch(threads)
        threads[0].succeeded_at, threads[1].failures = 1234.5, 2

        def values(name):
            return [subject.registry.get_sample_value(
                PREFIX + name, {'thread': thread.name})
                for thread in threads]
        self.assertEqual([1234.5, 0],
                         values('thread_last_success_timestamp_seconds'))
        self.assertEqual([0, 2], values('thread_failures_total'))

    def test_two_of_a_kind_do_not_share(self):
        one, other = (instruments.HouseKeepingInstruments()
                      for _ in range(2))
        one.on_decision(instruments.HELD)
        self.assertEqual([1, 0], [subject.registry.get_sample_value(
            PREFIX + 'plan_decisions_total', {'decision': 'held'})
            for subject in (one, other)])

    def test_repairs(self):
        subject = instruments.HouseKeepingInstruments()
        for repairs in ({'rule': 2}, {}, {'rule': 1}):
            subject.on_repairs(repairs)
        self.assertEqual(3, subject.registry.get_sample_value(
            PREFIX + 'cluster_repairs_total', {'what': 'rule'}))

    def test_distributors(self):
        """One that does not answer any more is not there."""
        subject = instruments.HouseKeepingInstruments()
        for full, expected in (({'a': True, 'b': False}, [1, 0]),
                               ({'b': True}, [None, 1])):
            subject.on_distributors(full)
            self.assertEqual(expected, [subject.registry.get_sample_value(
                PREFIX + 'distributor_full', {'distributor': name})
                for name in 'ab'])
