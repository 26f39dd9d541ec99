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
        self.assertEqual(6, len(broken))
        for row in broken:
            self.assertEqual((60, 0), (row['open'], row['not_its_own']), row)
            if row['event'] == cluster.KILL:
                self.assertGreater(row['broken'], 0, row)
