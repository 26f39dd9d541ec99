# SPDX-License-Identifier: Apache-2.0

"""What both drivers of clusters break, as the benchmark counts it."""

from oslotest import base

from benchmarks import cluster
from benchmarks import drivers


class TestDrivers(base.BaseTestCase):

    def test_both(self):
        rates, broken = drivers.measure(60, 2)
        self.assertEqual([drivers.NOBODY, drivers.OVS, drivers.OVN],
                         [row['driver'] for row in rates])
        for row in rates:
            self.assertGreater(min(row['requests_s'], row['connections_s']),
                               0, row)
        self.assertEqual(2 * len(drivers.EVENTS), len(broken))
        for row in broken:
            self.assertEqual((60, 0), (row['open'], row['not_its_own']), row)
            self.assertGreater(row['sent'], 0, row)
            if row['event'] != cluster.KILL:
                self.assertEqual(0, row['failed'], row)
            if row['event'] == cluster.KILL:
                self.assertGreater(row['broken'], 0, row)
