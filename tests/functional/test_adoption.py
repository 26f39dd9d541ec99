# SPDX-License-Identifier: Apache-2.0

"""Which amphorae use the list that they acknowledged, and how one knows."""

from octavia_hmsync.sync.db import doubt as doubt_repo
from octavia_hmsync.sync.db import health_manager as hm_repo
from octavia_hmsync.sync.db import heartbeat as heartbeat_repo
from octavia_hmsync.sync.rules import adoption
from octavia_hmsync.sync.rules import member
from octavia_hmsync.sync.rules import timing
from tests.cloud import database
from tests.functional import base

HEARTBEAT_TIMEOUT = 10
OFFLINE_AFTER = 4


class AdoptionTestCase(base.FunctionalTestCase):

    make_database = database.MariaDBDatabase

    def adoption(self, agent):
        """What is known of an amphora, None before its first upload."""
        settings = timing.Settings(
            heartbeat_interval=1, heartbeat_timeout=HEARTBEAT_TIMEOUT,
            offline_after=OFFLINE_AFTER, settle_time=1, removal_delay=4)
        return doubt_repo.judge_all(
            self.engine, hm_repo.get_all(self.engine), settings).get(
                agent.amphora_id)

    def row(self, agent):
        return self.results()[agent.amphora_id]

    def wait_until_adoption(self, agent, state, timeout=60):
        self.wait_for(lambda: self.adoption(agent) is state,
                      lambda: f'{state} of {agent.amphora_id}: '
                              f'{self.row(agent)} {self.doubts(agent)}',
                      timeout)

    def doubts(self, agent):
        return (doubt_repo.get_unproven(self.engine,
                                        amphora_id=agent.amphora_id),
                heartbeat_repo.get_heartbeats(self.engine, agent.amphora_id))


class TestAdoption(AdoptionTestCase):

    def test_only_a_heartbeat_at_the_new_address_proves(self):
        cloud = self.make_cloud(options={
            'health_manager': {'stats_update_threads': 2}})
        boot = [f'{cloud.address(1)}:5555']
        new = cloud.add_load_balancer(boot, listener=True)[0]
        old = cloud.add_load_balancer(boot, listener=True, old_image=True)[0]
        two = self.start(1, 2)[1]
        self.wait_until_published([*boot, two.address])
        self.wait_until_applied()
        self.wait_until_adoption(new, adoption.Adoption.ADOPTED)
        self.assertIn(self.row(new).adopted_via, [*boot, two.address])
        # It acknowledged like the other one.
        self.assertIsNot(adoption.Adoption.ADOPTED, self.adoption(old))
        self.assertIsNone(self.row(old).adopted_at)


class TestTwoUnderOneHost(AdoptionTestCase):

    def test_heartbeats_of_the_old_one(self):
        """A pod that moves: the old one hears what the new one does not."""
        cloud = self.make_cloud(options={
            'health_manager': {'stats_update_threads': 2}})
        old = self.start(1)[0]
        # It goes on with what it has, whatever it is told.
        agent = cloud.add_load_balancer([old.address], listener=True,
                                        old_image=True)[0]
        self.wait_until_published([old.address])
        self.wait_until_adoption(agent, adoption.Adoption.ADOPTED)
        new = cloud.add_health_manager(cloud.address(2), host=old.host)
        self.wait_until_published([new.address])
        self.wait_until_applied([agent.amphora_id])
        self.assertEqual([new.address],
                         [m.address for m in self.members().values()])
        # More than it takes to see what is heard as adoption.
        self.watch(HEARTBEAT_TIMEOUT)
        self.assertTrue(old.running)
        self.assertIs(False, self.members()[new.host].is_heard)
        self.assertIsNone(self.row(agent).adopted_at)
        self.assert_nothing_failed_over()


class TestWithoutListeners(AdoptionTestCase):

    def test_the_silence_tells(self):
        """No health manager can say that it heard it; the silence can."""
        cloud = self.make_cloud(amphorae=1, boot_numbers=(1,))
        agent = next(iter(cloud.amphorae.values()))
        old = self.start(1)[0]
        self.wait_until_synced([old.address])
        self.assertIsNone(self.row(agent).adopted_at)
        # Whoever is heard when all that it can have known is gone uses the
        # new list.
        old.kill_tree()
        # Before that, it would get a list with both, and would be heard at
        # the living one whichever of the two it used.
        self.wait_for(lambda: not member.is_listening(
            self.members()[old.host], OFFLINE_AFTER), 'end of the keepalive')
        new = self.start(2, housekeeping=False)[0]
        self.wait_until_published([new.address])
        self.wait_until_adoption(agent, adoption.Adoption.ADOPTED)
        self.assertIsNone(self.row(agent).adopted_via)
        self.assert_nothing_failed_over()
