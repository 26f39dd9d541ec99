# SPDX-License-Identifier: Apache-2.0

"""What is told of amphorae that do not use their list."""

import time

from octavia_hmsync.sync.db import claim as claim_repo
from tests.cloud import ailing
from tests.functional import test_notifications


class TestNotifications(test_notifications.NotificationsCase):

    def test_amphorae_that_do_not_follow(self):
        cloud = self.cloud
        refusing = cloud.add_ailing_amphora(ailing.SERVER_ERROR)
        old, follower = (
            cloud.add_load_balancer([m.address for m in self.managers],
                                    listener=True, old_image=is_old)[0]
            for is_old in (True, False))
        told = self.wait_for_event('amphora.rejected',
                                   amphora_id=refusing.amphora_id)
        self.assertIn('answered 500', told['error'])
        self.assertEqual(
            self.results()[refusing.amphora_id].load_balancer_id,
            told['load_balancer_id'])
        refusing.ailment = ailing.HEALTHY
        # They may have been tried before they listened.
        old.wait_until_ready()
        follower.wait_until_ready()
        claim_repo.retry_now(self.engine)
        self.wait_for_event('amphora.recovered',
                            amphora_id=refusing.amphora_id)
        self.wait_for(lambda: self.results()[old.amphora_id].adopted_at,
                      'proof that it uses what it booted with')
        # The other one shows that heartbeats do arrive there.
        three = cloud.add_health_manager(cloud.address(3))
        self.wait_for_list(*self.managers, three)
        self.wait_for_event('amphora.not_adopted',
                            amphora_ids=[old.amphora_id])
        # The other housekeeper sees it, too.
        time.sleep(3)
        self.assert_each_once()
        prefix = test_notifications.PREFIX + 'failover_guard'
        self.assertEqual([], [event for event, _publisher, _payload in
                              self.consumer.received
                              if event.startswith(prefix)])
