# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""A short form of benchmarks.image: what it comes to, not how long it takes.
"""

from oslotest import base

from benchmarks import image

RATE = 25


class TestImage(base.BaseTestCase):

    def run_both(self, topology, stock):
        """Upgrade by Octavia's method and by ours; returns a row of each."""
        stock, ours = image.run((stock, 'replace'), [topology], rate=RATE)
        for row in (stock, ours):
            self.assertGreater(row['requests'], RATE)
        self.assertEqual(0, ours['nobody_s'])
        # That of the amphora which had the VIP.
        self.assertLessEqual(ours['broken'], 1)
        return stock, ours

    def test_single(self):
        _stock, ours = self.run_both('SINGLE', 'failover')
        self.assertEqual((0, 0), (ours['failed'], ours['dark_s']))

    def test_pair(self):
        # A failover of the load balancer may go well, by chance; one of the
        # amphora that has the VIP is always dark.
        stock, ours = self.run_both('ACTIVE_STANDBY', 'amphora-failover')
        self.assertGreater(stock['dark_s'], 0)
        self.assertLessEqual(ours['dark_s'], stock['dark_s'] / 3)
        # Until the old holder hears the advertisement of the new one.
        self.assertLess(ours['two_holders_s'], 0.5)
