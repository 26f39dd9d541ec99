# SPDX-License-Identifier: Apache-2.0

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

    def check(self, *methods, topologies=('SINGLE',)):
        """Nothing may fail, and the VIP be somewhere all the time."""
        rows = image.run(methods, topologies, rate=RATE)
        self.assertEqual({(0, 0, 0)}, {
            (row['failed'], row['dark_s'], row['nobody_s'])
            for row in rows}, rows)

    def test_flavors_and_certificates(self):
        self.check('resize', 'flavor', 'certificate')

    def test_places_and_age(self):
        self.check('host', 'zone', 'network', 'age')

    def test_topology(self):
        self.check('topology', topologies=image.TOPOLOGIES)

    def test_pair(self):
        # A failover of the load balancer may go well, by chance; one of the
        # amphora that has the VIP is always dark.
        stock, ours = self.run_both('ACTIVE_STANDBY', 'amphora-failover')
        self.assertGreater(stock['dark_s'], 0)
        self.assertLessEqual(ours['dark_s'], stock['dark_s'] / 3)
        # Until the old holder hears the advertisement of the new one.
        self.assertLess(ours['two_holders_s'], 0.5)
