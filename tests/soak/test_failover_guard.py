# SPDX-License-Identifier: Apache-2.0

"""What the failover guard holds, in stories that take longer."""

from tests.cloud import ailing
from tests.cloud import waiting
from tests.functional import test_failover_guard

HEARTBEAT_TIMEOUT = test_failover_guard.HEARTBEAT_TIMEOUT


class TestFailoverGuard(test_failover_guard.GuardTestCase):

    def test_held_until_they_are_heard(self):
        """And not for longer: one that dies then is failed over."""
        new = self.replace_health_manager(hold_max=300)
        # It begins failovers one heartbeat_timeout after its start.
        self.watch(2.5 * HEARTBEAT_TIMEOUT)
        self.assertIn('Holding back the failover of', new.log())
        self.housekeeping.start()
        self.wait_until_synced([new.address])
        self.watch(2 * HEARTBEAT_TIMEOUT)
        self.wait_for(lambda: not [
            row for row in self.results().values() if row.held_since],
            'end of the holds')

        # Its list was live all along: it is dead, and not held.
        dead = sorted(self.cloud.amphora_ids)[0]
        self.cloud.amphorae[dead].kill_tree()
        self.wait_until_failed_over({dead})


class TestRestartDuringSync(test_failover_guard.GuardTestCase):

    def test_restart_during_sync(self):
        """A health manager moves while amphorae are being uploaded to."""
        cloud = self.make_cloud(amphorae=3, boot_numbers=(1, 2), options={
            'hmsync': {'upload_timeout': 20, 'upload_concurrency': 2,
                       'batch_size': 8}})
        slow = [cloud.add_ailing_amphora(ailing.SLOW, delay=4)
                for _ in range(3)]
        one, two = self.start(1, 2)
        self.wait_for(lambda: sum(amphora.connections for amphora in slow),
                      'upload that is under way')
        self.assertTrue(self.due())
        one.stop()
        one.move(cloud.address(3))
        one.start()
        self.wait_until_synced([two.address, one.address])
        self.wait_until_applied({amphora.amphora_id for amphora in slow})
        self.watch(HEARTBEAT_TIMEOUT)
        self.assert_nothing_failed_over()


class TestWithoutGuard(test_failover_guard.GuardTestCase):

    def test_all_failed_over(self):
        """The same without it: what it is good for."""
        self.replace_health_manager(hold_max=0)
        self.wait_until_failed_over(self.cloud.amphora_ids)


class TestFailoverThreshold(test_failover_guard.GuardTestCase):

    def test_keeps_its_meaning(self):
        """Many that fall silent at once are stopped, not failed over.

        Those that the guard holds back do not count among them.
        """
        cloud = self.make_cloud(amphorae=4, boot_numbers=(1,), options={
            'health_manager': {'failover_threshold': 2}})
        old = self.start(1)[0]
        self.wait_until_synced([old.address])
        old.kill_tree()
        new = self.start(2, housekeeping=False)[0]
        self.wait_until_synced([new.address])
        # The time within which Octavia would have looked.
        self.watch(1.5 * HEARTBEAT_TIMEOUT)

        dead = sorted(cloud.amphora_ids)[:3]
        for amphora_id in dead:
            cloud.amphorae[amphora_id].kill_tree()
        # What they sent before may not have been read yet.
        self.wait_for(lambda: min(
            cloud.records.health_ages()[amphora_id]
            for amphora_id in dead) > 3, 'silence')
        # In the same second: Octavia fails over one that is stale alone.
        cloud.records.set_health(*dead)
        self.wait_for(
            lambda: {row['id'] for row in cloud.records.rows('amphora')
                     if row['status'] == 'FAILOVER_STOPPED'} == set(dead),
            'FAILOVER_STOPPED of those that died')
        # And nothing was built in their place.
        self.assertEqual(4, len(cloud.records.rows('amphora')))


class TestControlPlaneOff(test_failover_guard.GuardTestCase):

    def test_off_for_an_hour(self):
        """Nobody listened for an hour; then others do, at new addresses.

        One amphora died meanwhile. It alone is failed over, once two uploads
        to it have failed.
        """
        cloud = self.make_cloud(amphorae=4, boot_numbers=(1, 2), options={
            'hmsync': {'retry_interval': 2}})
        managers = self.start(1, 2)
        self.wait_until_synced([m.address for m in managers])
        for controller in [*managers, self.housekeeping]:
            controller.stop()
        dead, *others = sorted(cloud.amphora_ids)
        cloud.amphorae[dead].kill_tree()
        cloud.records.set_health(*cloud.amphora_ids, age=3600)

        new = [cloud.add_health_manager(cloud.address(n)) for n in (3, 4)]
        self.housekeeping.start()
        cloud.wait_until_ready()
        self.wait_until_published([m.address for m in new])
        self.wait_until_applied(others)
        self.wait_until_failed_over(
            {dead}, HEARTBEAT_TIMEOUT * 3 + waiting.LIMIT)
        # Past the time for which those that acknowledged are held.
        self.watch(1.5 * HEARTBEAT_TIMEOUT, expected={dead})
