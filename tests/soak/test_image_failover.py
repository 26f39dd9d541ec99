# SPDX-License-Identifier: Apache-2.0

"""Mode failover, by real octavia-workers of a whole Octavia."""

from tests.cloud.compute import bad_images
from tests.functional import failovers


class TestFailover(failovers.FailoverTestCase):
    options = {'hmsync_image': {'proof_timeout': 30}}

    def test_single(self):
        single = self.add_load_balancer()
        self.assertFailedOver(single, self.cloud.add_image('second'))

    def test_pair(self):
        pair = self.add_load_balancer('ACTIVE_STANDBY')
        self.assertFailedOver(pair, self.cloud.add_image('second'))


class TestBadImages(failovers.FailoverTestCase):
    options = {'hmsync_image': {'proof_timeout': 20}}

    def assertStops(self, kind, words):
        """The first of a pair tells; the other one is not touched."""
        pair = self.add_load_balancer('ACTIVE_STANDBY')
        before = self.look(pair)
        image = self.cloud.add_image(kind, like=getattr(bad_images, kind)())
        row = self.fail_over(pair, image)
        self.assertEqual('FAILED', row.state, row)
        self.assertIn(words, row.reason)
        left, = self.old(pair, before)
        self.assertEqual([left], before['holders'])
        # Octavia has loaded its keepalived anew just now.
        self.cloud.wait_for(lambda: self.holders(pair) == [left],
                            'VIP at the one that is left')
        self.client.get(pair.vip_address)
        # Nor is it by whoever asks once more.
        row = self.fail_over(pair, image)
        self.assertNotEqual('DONE', row.state, row)
        self.assertEqual([left], self.old(pair, before))
        self.client.get(pair.vip_address)

    def test_never_sends_heartbeats(self):
        self.assertStops('never_sends_heartbeats', 'no heartbeat of amphora')

    def test_refuses_listeners(self):
        self.assertStops('refuses_listeners', 'AMPHORA_ERROR')

    def test_never_boots(self):
        self.assertStops('never_boots',
                         'is in ERROR: the log of octavia-worker')


class TestDeaths(failovers.FailoverTestCase):
    options = {'hmsync_image': {'failover_timeout': 60,
                                'proof_timeout': 30}}
    house_keepers = 2

    def test_nobody_there(self):
        """Workers that are down fail it over when they are back."""
        single = self.add_load_balancer()
        before = self.look(single)
        second = self.cloud.add_image('second')
        # No message is lost: it waits for them.
        for worker in self.cloud.workers:
            worker.kill_tree()
        replacement_id = self.begin(single, second, mode='failover')
        self.cloud.wait_for(
            lambda: self.get(replacement_id).phase == 'FAILOVER',
            'worker that is asked')
        # Whoever takes it up asks nobody again.
        for keeper in self.cloud.house_keepers:
            keeper.kill_tree()
        self.lapse()
        for child in (*self.cloud.house_keepers, *self.cloud.workers):
            child.start()
        self.assertDone(self.wait_until_ended(replacement_id,
                                              failovers.TIMEOUT))
        self.assertUpgraded(single, second, before)

    def test_killed_before_and_after(self):
        single = self.add_load_balancer()
        before = self.look(single)
        second = self.cloud.add_image('second')
        # Nobody was asked for sure: it is begun again.
        self.cloud.steps.at('before enter FAILOVER', self.kill)
        row = self.begin(single, second, mode='failover')
        self.cloud.wait_for(lambda: any(
            not each.running for each in self.cloud.house_keepers), 'death')
        self.lapse()
        self.assertDone(self.wait_until_ended(row, failovers.TIMEOUT))
        self.assertUpgraded(single, second, before)
        # Nobody knows whether one was: it is not asked again.
        third = self.cloud.add_image('third')
        for keeper in self.cloud.house_keepers:
            if not keeper.running:
                keeper.start()
        before = self.look(single)
        self.cloud.steps.at('after enter FAILOVER', self.kill)
        row = self.begin(single, third, mode='failover')
        self.cloud.wait_for(lambda: any(
            not each.running for each in self.cloud.house_keepers), 'death')
        self.lapse()
        row = self.wait_until_ended(row, failovers.TIMEOUT)
        self.assertEqual('FAILED', row.state)
        self.assertIn('No octavia-worker has begun', row.reason)
        self.assertEqual('PENDING_UPDATE', self.status(single))
        self.assertEqual(list(before['amphorae']),
                         self.old(single, before))
        self.client.get(single.vip_address)

    def test_no_rabbitmq(self):
        single = self.add_load_balancer()
        before = self.look(single)
        second = self.cloud.add_image('second')
        self.cloud.rabbitmq.stop()
        row = self.fail_over(single, second)
        self.assertEqual('SKIPPED', row.state, row)
        self.assertIn('what takes the messages for them does not answer',
                      row.reason)
        self.assertEqual(before, self.look(single))
