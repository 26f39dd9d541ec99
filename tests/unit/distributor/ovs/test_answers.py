# SPDX-License-Identifier: Apache-2.0

from oslotest import base

from octavia_hmsync.distributor.ovs import answers
from octavia_hmsync.distributor.ovs import claims
from octavia_hmsync.distributor.ovs import counters

MAC = 'fa:16:3e:00:00:99'


class TestAnswers(base.BaseTestCase):

    def test_solicited(self):
        self.assertEqual('33:33:ff:12:34:56', answers.get_solicited_mac(
            'fd00::ab12:3456'))

    def test_passive(self):
        """It says nothing, and hears the claims of others all the same."""
        for address in ('10.0.0.5', 'fd00::5'):
            flows = answers.make_flows(address, MAC, 1, 0, 80, False)
            self.assertEqual(
                [(answers.CLAIM_PRIORITY, claims.ACTIONS),
                 (answers.CLAIM_PRIORITY, ())],
                [(flow.priority, flow.actions) for flow in flows])


class TestCounters(base.BaseTestCase):

    def test_program(self):
        """What a flow gives to what it learns is not its own cookie."""
        self.assertEqual(
            ({0x6d1: 2, 0x6d2: 1}, {'fa:16:3e:00:01:00'}),
            counters.read_program([
                'cookie=0x6d1, duration=1s, table=60, n_packets=0, '
                'n_bytes=0, priority=30,tcp actions=learn(table=20,'
                'cookie=0x2fa163e000102,limit=9),resubmit(,70)',
                'cookie=0x6d1, duration=1s, table=60, n_packets=0, '
                'n_bytes=0, priority=0 actions=group:1',
                'cookie=0x6d2, duration=1s, table=70, n_packets=0, '
                'n_bytes=0, priority=10,reg4=1 actions='
                'set_field:fa:16:3e:00:01:00->eth_dst,IN_PORT']))

    def test_claims(self):
        self.assertEqual(3, counters.sum_claims([
            'cookie=0x6d1, table=0, n_packets=3, n_bytes=126, '
            'priority=800,arp,in_port=1,arp_spa=10.0.0.5 '
            'actions=resubmit(,90)',
            'cookie=0x6d1, table=0, n_packets=9, n_bytes=126, '
            'priority=900,vlan_tci=0x1000/0x1000 actions=drop']))
