# SPDX-License-Identifier: Apache-2.0

import fixtures

from octavia_hmsync.cluster.distribution.ovn import nat
from octavia_hmsync.cluster.distribution.ovs import floating_ips
from octavia_hmsync import compat
from octavia_hmsync import exceptions
from tests.unit.cluster import distributors


class TestLook(distributors.DistributorTestCase):
    """Housekeeping names floating IPs that lead nowhere."""

    def setUp(self):
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.cluster_id = self.add_cluster()
        with self.engine.begin() as connection:
            connection.execute(compat.VIP.update().values(port_id='vip1'))
        self.found = {}
        self.error = None
        self.subject = floating_ips.FloatingIPs(self.engine, self.find)

    def find(self):
        if self.error:
            raise self.error
        return self.found

    def count(self):
        return self.log.output.count('does not work with its floating IP')

    def test_once(self):
        self.found = {'other': '203.0.113.8'}
        self.subject.run_once()
        self.assertEqual(0, self.count())
        self.found['vip1'] = '203.0.113.9'
        for _ in range(3):
            self.subject.run_once()
        self.assertEqual(1, self.count())
        self.assertIn(self.cluster_id, self.log.output)
        self.assertIn('203.0.113.9', self.log.output)
        self.assertIn('distributor_driver = hmsync_ovn', self.log.output)
        # What is not known is no news.
        self.error = exceptions.DistributorUnreachable('OVN is away')
        self.subject.run_once()
        self.assertIn('OVN is away', self.log.output)
        self.error = None
        self.subject.run_once()
        self.assertEqual(1, self.count())
        # Another one is.
        self.found['vip1'] = '203.0.113.10'
        self.subject.run_once()
        self.assertEqual(2, self.count())

    def test_by_the_watch(self):
        self.found = {'vip1': '203.0.113.9'}
        self.watch._looks = (self.subject,)
        self.vips.add(self.cluster_id)
        self.watch.run_once()
        self.assertEqual(1, self.count())


class TestAreDistributed(distributors.DistributorTestCase):

    def setUp(self):
        super().setUp()
        self.asked = []
        self.useFixture(fixtures.MockPatchObject(nat, '_ask', self.ask))

    def ask(self, remote, deadline):
        self.asked.append(remote)
        if remote.endswith('dead'):
            raise ConnectionRefusedError('refused')
        return [{'rows': self.rows}]

    def set(self, *remotes):
        self.conf.set_override('ovn_nb_connection', list(remotes),
                               group='ovn')

    def test_nobody_says_where_it_is(self):
        self.assertFalse(floating_ips.are_distributed(self.conf))
        floating_ips.FloatingIPs(
            self.engine, lambda: floating_ips.find(self.conf)).run_once()
        self.assertEqual([], self.asked)

    def test_asked(self):
        self.set('tcp:dead', 'tcp:alive')
        self.rows = []
        self.assertFalse(floating_ips.are_distributed(self.conf))
        self.rows = [{'logical_port': 'vip1', 'external_ip': '203.0.113.9'},
                     {'logical_port': ['set', []], 'external_ip': '::1'}]
        self.assertTrue(floating_ips.are_distributed(self.conf))
        self.assertEqual({'vip1': '203.0.113.9'},
                         nat.find_distributed(self.conf))
        self.assertEqual(['tcp:dead', 'tcp:alive'] * 3, self.asked)

    def test_away(self):
        """It refuses no tenant, and is said."""
        log = self.useFixture(fixtures.FakeLogger())
        self.set('tcp:dead')
        self.assertFalse(floating_ips.are_distributed(self.conf))
        self.assertIn('Whether floating IPs are distributed is not known: '
                      'OVN_Northbound of OVN cannot be used at tcp:dead '
                      '(refused)', log.output)

    def test_what_it_answers(self):
        for answer in ([], [{'error': 'unknown table'}], [{}]):
            self.assertRaises(ValueError, nat._read, answer)
