# SPDX-License-Identifier: Apache-2.0

"""What becomes of clusters that a manager looks after, on real rows."""

import threading

import fixtures
import hypothesis
from hypothesis import strategies as st
from oslo_config import fixture as config_fixture

from octavia_hmsync.cluster.db import claim as claim_repo
from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import distributor as distributor_repo
from octavia_hmsync.cluster.db import distributor_vip as vip_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster.db import member_probe as probe_repo
from octavia_hmsync.cluster.distribution import distribution
from octavia_hmsync.cluster.keeping import upkeep
from octavia_hmsync.cluster.keeping import urgency
from octavia_hmsync.cluster.managers import installed as managers
from octavia_hmsync.cluster.managers import situation
from octavia_hmsync import compat
from octavia_hmsync.distributor import probe_rules
from octavia_hmsync import exceptions
from octavia_hmsync.sync.db import health_manager as hm_repo
from tests.unit.cluster import cloud

UP = probe_repo.Result('UP')
DOWN = probe_repo.Result('DOWN', 'no answer')
SILENT = probe_repo.Result('DOWN', 'no heartbeat for 60 s')


class ManagedTestCase(cloud.CloudTestCase):
    """Clusters whose members health managers and distributors see."""

    def setUp(self):
        super().setUp()
        # Of what was seen, most counts for a minute.
        self.clock = self.stop_clock()
        self.watch()

    def let_time_pass(self):
        self.clock.advance(1)

    def watch(self):
        """Have there be distributors and a health manager."""
        hm_repo.register(self.engine, 'controller1', '192.0.2.1', 5555,
                         'instance', 20)
        self.one, self.two = distributor_repo.sync(
            self.engine, 'hmsync_ovs', {
                f'network{n}': f'https://network{n}:9444' for n in (1, 2)})
        for each in (self.one, self.two):
            distributor_repo.set_status(self.engine, each.id, 'ONLINE')

    def make(self, size=3, min_size=1, standby=0):
        lb = self.create(size, min_size)
        self.cluster_id = self.get_cluster(lb).id
        for each in (self.one, self.two):
            vip = vip_repo.add(self.engine, self.cluster_id, each.id)
            vip_repo.set_port(self.engine, vip.id, vip.id, 'fa:1', 1450)
        vip_repo.set_active(self.engine, self.cluster_id, self.one.id)
        if standby:
            cluster_repo.set_sizes(self.engine, self.cluster_id,
                                   standby=standby)
        self.keep()
        return lb

    def see(self, member_id, front=None, heartbeats=None):
        for who, result in ((self.one.id, front),
                            (probe_repo.HEARTBEATS, heartbeats)):
            if result is not None:
                probe_repo.record(self.engine, who, {member_id: result})

    def see_all(self, lb, probe=UP):
        for member in self.get_members(lb):
            self.see(member.id, probe, probe)

    def order_all(self, lb):
        for member in self.get_members(lb):
            member_repo.set_order(self.engine, member.id, 'REPLACE')

    def urge(self):
        return urgency.Urgency(self.context, self.cluster_id).run()

    def states(self, lb):
        return [(member.slot, member.state)
                for member in self.get_members(lb)]

    def status(self, lb):
        return self.get_cluster(lb).operating_status


class TestUpkeep(ManagedTestCase):

    def test_dead(self):
        """At once nobody sends anything to it; then another one is built."""
        lb = self.make()
        self.assertEqual('ONLINE', self.status(lb))
        dead, *others = self.get_members(lb)
        self.see_all(lb)
        self.see(dead.id, DOWN, SILENT)
        before = len(self.cloud.steps)
        self.assertTrue(self.urge())
        self.assertEqual(['distributors: register'],
                         self.cloud.steps[before:])
        self.assertEqual({each.slot: each.amphora_id for each in others},
                         self.cloud.documents[self.cluster_id])
        found = member_repo.get(self.engine, dead.id)
        self.assertEqual(('FAILED', None, 'DEAD'),
                         (found.state, found.slot, found.health))
        self.assertEqual('DEGRADED', self.status(lb))
        self.assertFalse(self.urge())
        self.keep()
        self.assertWhole(lb, 3)
        self.assertEqual('ONLINE', self.status(lb))

    def test_dead_with_standby(self):
        lb = self.make(standby=1)
        standby = self.get_members(lb)[-1]
        self.assertEqual((None, 'STANDBY'), (standby.slot, standby.state))
        self.assertNotIn(standby.amphora_id,
                         self.cloud.documents[self.cluster_id].values())
        dead = self.get_members(lb)[1]
        self.see_all(lb)
        self.see(dead.id, DOWN, SILENT)
        self.urge()
        self.assertEqual(standby.amphora_id,
                         self.cloud.documents[self.cluster_id][1])
        self.assertEqual('ONLINE', self.status(lb))
        self.keep()
        self.assertEqual([(0, 'ACTIVE'), (1, 'ACTIVE'), (2, 'ACTIVE'),
                          (None, 'STANDBY')], self.states(lb))
        self.assertEqual(4, len(self.cloud.instances))
        self.assertIsNone(member_repo.get(self.engine, dead.id))
        # It was told whose stick tables it shares, too.
        self.assertTrue(all(member.config_digest
                            for member in self.get_members(lb)))

    def promote(self, affinity='SOURCE_IP', others=(),
                driver='hmsync_ovs'):
        """Have the member in slot 1 die; returns what takes its slot.

        :param others: slots of those that are not well either.
        """
        self.useFixture(config_fixture.Config(compat.CONF)).config(
            group='controller_worker', distributor_driver=driver)
        self.lb = self.make(standby=1)
        standby = self.get_members(self.lb)[-1]
        cluster_repo.set_affinity(self.engine, self.cluster_id, affinity)
        self.see_all(self.lb)
        for member in self.get_members(self.lb):
            if member.slot in others:
                self.see(member.id, UP, SILENT)
            elif member.slot == 1:
                self.see(member.id, DOWN, SILENT)
        self.urge()
        found = member_repo.get(self.engine, standby.id)
        self.assertEqual((1, 'ACTIVE'), (found.slot, found.state))
        return found

    def test_clients_that_belong_to_others(self):
        """They are not sent to one that stood by before it knows them."""
        found = self.promote()
        self.assertEqual(member_repo.ALONE, found.config_digest)
        self.assertEqual('ONLINE', self.status(self.lb))
        version = self.get_cluster(self.lb).version
        self.keep()
        self.assertEqual([(0, 'ACTIVE'), (1, 'ACTIVE'), (2, 'ACTIVE'),
                          (None, 'STANDBY')], self.states(self.lb))
        found = member_repo.get(self.engine, found.id)
        self.assertTrue(found.is_configured)
        self.assertLess(version, self.get_cluster(self.lb).version)

    def test_clients_that_belong_to_nobody(self):
        self.assertIsNone(self.promote('FLOW').config_digest)

    def test_clients_that_come_by_port(self):
        self.assertIsNone(self.promote(driver='hmsync_ovn').config_digest)

    def test_clients_of_one_that_is_not_well(self):
        self.assertIsNone(self.promote(others=(0,)).config_digest)

    def test_half_of_them_die(self):
        """All that is missing is built at once."""
        self.useFixture(fixtures.MockPatchObject(
            cloud.members, 'AT_ONCE', 2))
        lb = self.make(4)
        members = self.get_members(lb)
        self.see_all(lb)
        for member in members[:2]:
            self.see(member.id, DOWN, SILENT)
        self.urge()
        self.assertEqual({2, 3}, set(self.cloud.documents[self.cluster_id]))
        barrier, met = threading.Barrier(2), []

        def wait(step):
            # SQLite has one writer: one of them may have to begin again.
            if step.startswith('build amphora') and not met:
                barrier.wait(60)
                met.append(step)

        self.cloud.rules.append(wait)
        self.keep()
        self.assertTrue(met)
        self.assertWhole(lb, 4)

    def test_all_die_and_one_looks(self):
        """As with OVN: nobody is there who could see one of them UP."""
        distributor_repo.set_status(self.engine, self.two.id, 'OFFLINE')
        lb = self.make(2, min_size=2)
        before = set(self.cloud.instances)
        for member in self.get_members(lb):
            self.see(member.id, DOWN)
        self.keep()
        self.assertEqual(before, set(self.cloud.instances))
        self.assertEqual('ONLINE', self.status(lb))
        for member in self.get_members(lb):
            self.see(member.id, heartbeats=SILENT)
        self.urge()
        self.assertEqual('ERROR', self.status(lb))
        self.assertEqual({}, self.cloud.documents[self.cluster_id])
        self.keep()
        self.assertWhole(lb, 2)
        self.assertFalse(before & set(self.cloud.instances))
        self.assertEqual('ONLINE', self.status(lb))

    def kill_all(self, lb):
        for member in self.get_members(lb):
            self.see(member.id, DOWN, SILENT)
        self.keep()

    def test_all_die_again_and_again(self):
        """What they have in common is what they die of."""
        lb = self.make(2)
        # Others come at once, for the first time.
        self.make_older(cloud.models.ClusterMember, 'created_at', 900)
        self.kill_all(lb)
        self.assertWhole(lb, 2)
        for hold in (60, 120):
            self.make_older(cloud.models.Cluster, 'member_died_at', 200)
            self.make_older(cloud.models.ClusterMember, 'created_at', 100)
            log = self.useFixture(fixtures.FakeLogger())
            self.kill_all(lb)
            self.assertEqual([], self.get_members(lb))
            self.assertEqual(1, log.output.count(
                f'The next are built in {hold} s'))
            self.keep()
            self.assertEqual(({}, 'ERROR'),
                             (self.cloud.instances, self.status(lb)))
            self.make_older(cloud.models.Cluster, 'member_died_at', hold)
            self.keep()
            self.assertWhole(lb, 2)

    def test_nobody_looks(self):
        """Silence is enough after a while, if others are heard."""
        lb = self.make(2, standby=1)
        first, second, spare = self.get_members(lb)
        self.see(first.id, heartbeats=SILENT)
        self.keep()
        self.assertEqual([(0, 'ACTIVE'), (1, 'ACTIVE'), (None, 'DRAINING')],
                         self.states(lb))
        self.make_older(cloud.models.MemberProbe, 'changed_at', 540)
        self.keep()
        self.assertIsNotNone(member_repo.get(self.engine, first.id))
        self.make_older(cloud.models.MemberProbe, 'changed_at', 601)
        # Unless it is the way of heartbeats that is gone.
        for member in (second, spare):
            self.see(member.id, heartbeats=SILENT)
        self.keep()
        self.assertIsNotNone(member_repo.get(self.engine, first.id))
        for member in (second, spare):
            self.see(member.id, heartbeats=UP)
        self.keep()
        self.assertIsNone(member_repo.get(self.engine, first.id))
        self.assertEqual([(0, 'ACTIVE'), (1, 'ACTIVE'), (None, 'STANDBY')],
                         self.states(lb))

    def test_somebody_looked(self):
        """Who is away now may look again."""
        lb = self.make(2)
        first, second = self.get_members(lb)
        self.see(second.id, UP)
        for each in (self.one, self.two):
            distributor_repo.set_status(self.engine, each.id, 'OFFLINE')
        self.see(first.id, heartbeats=SILENT)
        self.make_older(cloud.models.MemberProbe, 'changed_at', 9000)
        self.keep()
        self.assertEqual('SUSPECT', self.get_members(lb)[0].health)

    def test_what_was_seen_long_ago(self):
        """Nobody has asked the distributors for what they see."""
        lb = self.make()
        self.see_all(lb)
        member = self.get_members(lb)[0]
        self.see(member.id, DOWN, SILENT)
        self.make_older(cloud.models.Distributor, 'last_seen', 61)
        self.keep()
        self.assertEqual((member.id, 'SUSPECT'), (
            self.get_members(lb)[0].id, self.get_members(lb)[0].health))

    def test_all_die_and_who_builds_others(self):
        """Whoever goes on does not leave it to an operator."""
        lb = self.make(2, min_size=2)
        for vip in vip_repo.get_of_cluster(self.engine, self.cluster_id):
            vip_repo.record_applied(self.engine, vip.id, 1, vip.active)
        for member in self.get_members(lb):
            member_repo.unregister(self.engine, member.id, 'dead')
        self.records.change('load_balancer', lb,
                            provisioning_status='PENDING_UPDATE')
        cluster_repo.set_status(self.engine, self.cluster_id,
                                'PENDING_UPDATE')
        self.keep()
        self.assertWhole(lb, 2)
        self.assertEqual('ACTIVE', self.get_status(lb))

    def test_one_of_two_cannot_be_built(self):
        lb = self.make(4)
        self.see_all(lb)
        for member in self.get_members(lb)[:2]:
            self.see(member.id, DOWN, SILENT)
        self.cloud.refuse('build amphora')
        self.keep(1)
        self.assertEqual(3, len(self.cloud.instances))
        self.keep()
        self.assertWhole(lb, 4)

    def test_failover_replaces_those_that_stand_by(self):
        lb = self.make(2, standby=1)
        before = set(self.cloud.instances)
        self.records.change('load_balancer', lb,
                            provisioning_status='PENDING_UPDATE')
        cloud.worker.Worker(cloud.compat.CONF).failover(lb)
        self.keep(30)
        self.assertEqual([(0, 'ACTIVE'), (1, 'ACTIVE'), (None, 'STANDBY')],
                         self.states(lb))
        self.assertFalse(before & set(self.cloud.instances))

    def test_one_sign(self):
        """It drains, and serves again; nothing is built or deleted."""
        for front, heartbeats in ((DOWN, None), (None, SILENT)):
            with self.subTest(front):
                lb = self.make()
                before = set(self.cloud.instances)
                self.see_all(lb)
                member = self.get_members(lb)[0]
                self.see(member.id, front, heartbeats)
                self.keep()
                found = self.get_members(lb)[0]
                self.assertEqual((member.id, 0, 'DRAINING', 'SUSPECT'), (
                    found.id, found.slot, found.state, found.health))
                self.assertEqual('DEGRADED', self.status(lb))
                self.see(member.id, front and UP, heartbeats and UP)
                self.keep()
                # Not at once.
                self.assertEqual('SUSPECT', self.get_members(lb)[0].health)
                self.make_older(cloud.models.MemberProbe, 'changed_at', 31)
                self.keep()
                self.assertEqual('ACTIVE', self.get_members(lb)[0].state)
                self.assertEqual(before, set(self.cloud.instances))
                self.assertEqual('ONLINE', self.status(lb))
                self.delete(lb)

    def test_overload(self):
        """Those that miss looks one after the other go on."""
        lb = self.make(4)
        self.see_all(lb)
        first, second, third, _last = self.get_members(lb)
        silent = probe_repo.Result('DOWN', probe_rules.SILENT)
        self.see(first.id, silent)
        self.assertTrue(self.urge())
        self.make_older(cloud.models.ClusterMember, 'updated_at', 5)
        self.see(first.id, UP)
        self.see(second.id, silent)
        self.assertFalse(self.urge())
        # One that refuses has none.
        self.see(third.id, probe_repo.Result('DOWN', probe_rules.REFUSED))
        self.assertTrue(self.urge())
        self.assertEqual(['DRAINING', 'ACTIVE', 'DRAINING', 'ACTIVE'],
                         [state for _slot, state in self.states(lb)])

    def test_glitches_while_nobody_can_configure(self):
        """A worker died with a change: each comes back, one by one."""
        lb = self.make(4)
        self.see_all(lb)
        self.records.change('load_balancer', lb,
                            provisioning_status='PENDING_UPDATE')
        for member in self.get_members(lb):
            self.see(member.id, DOWN)
            self.assertTrue(self.urge())
            self.assertEqual('DRAINING', member_repo.get(
                self.engine, member.id).state)
            self.see(member.id, UP)
            self.assertFalse(self.urge())
            self.make_older(cloud.models.MemberProbe, 'changed_at', 31)
            self.assertFalse(self.urge())
            self.make_older(cloud.models.ClusterMember, 'updated_at', 31)
            self.assertTrue(self.urge())
            self.assertEqual([(slot, 'ACTIVE') for slot in range(4)],
                             self.states(lb))
        self.assertEqual(4, len(self.cloud.documents[self.cluster_id]))
        # One that has missed a change has to be told it.
        member = self.get_members(lb)[0]
        member_repo.drain(self.engine, member.id)
        member_repo.record(self.engine, member.id, config_digest='older')
        self.assertFalse(self.urge())

    def test_outage(self):
        """Nobody is there who could tell: nothing is done."""
        lb = self.make()
        self.see_all(lb, DOWN)
        for each in (self.one, self.two):
            distributor_repo.set_status(self.engine, each.id, 'OFFLINE')
        hm_repo.set_offline(self.engine, 'controller1', 'instance')
        before = len(self.cloud.steps)
        self.keep()
        self.assertWhole(lb, 3)
        self.assertEqual(before, len(self.cloud.steps))

    def test_misdirected(self):
        lb = self.make()
        for member in self.get_members(lb):
            self.see(member.id, DOWN)
            probe_repo.record(self.engine, self.two.id, {member.id: UP})
        self.assertTrue(self.urge())
        self.assertEqual([self.two.id], [
            vip.distributor_id for vip in vip_repo.get_of_cluster(
                self.engine, self.cluster_id) if vip.active])
        self.assertFalse(self.urge())
        self.assertWhole(lb, 3)

    def test_busy_distributors(self):
        """Whoever has the traffic sees nobody: it goes to and fro no more."""
        lb = self.make()

        def see(blind, other):
            for member in self.get_members(lb):
                probe_repo.record(self.engine, blind.id, {member.id: DOWN})
                probe_repo.record(self.engine, other.id, {member.id: UP})

        see(self.one, self.two)
        self.assertTrue(self.urge())
        see(self.two, self.one)
        self.assertFalse(self.urge())
        self.make_older(cloud.models.Cluster, 'vip_moved_at', 31)
        self.assertTrue(self.urge())
        see(self.one, self.two)
        self.make_older(cloud.models.Cluster, 'vip_moved_at', 31)
        self.assertFalse(self.urge())
        self.make_older(cloud.models.Cluster, 'vip_moved_at', 61)
        self.assertTrue(self.urge())
        self.assertEqual(120, cluster_repo.get(self.engine,
                                               self.cluster_id).vip_hold)

    def test_misdirected_of_one(self):
        """Another one sees a member more: its connections go on there."""
        lb = self.make(2)
        for member in self.get_members(lb):
            probe_repo.record(self.engine, self.two.id, {member.id: UP})
        self.see_all(lb)
        far = self.get_members(lb)[0]
        self.see(far.id, DOWN)
        self.assertTrue(self.urge())
        self.assertEqual('DRAINING', self.get_members(lb)[0].state)
        self.assertFalse(self.urge())
        self.make_older(cloud.models.MemberProbe, 'changed_at', 31)
        self.assertTrue(self.urge())
        self.assertEqual([self.two.id], [
            vip.distributor_id for vip in vip_repo.get_of_cluster(
                self.engine, self.cluster_id) if vip.active])
        self.keep()
        self.assertWhole(lb, 2)
        self.assertFalse(self.urge())

    def test_misdirected_and_nobody_else_can(self):
        """What cannot be done keeps nobody from what can."""
        lb = self.make(standby=1)
        for member in self.get_members(lb):
            self.see(member.id, DOWN)
            probe_repo.record(self.engine, self.two.id, {member.id: UP})
        vip, = [vip for vip in vip_repo.get_of_cluster(
            self.engine, self.cluster_id) if not vip.active]
        vip_repo.set_port(self.engine, vip.id, None, None)
        dead = self.get_members(lb)[0]
        self.see(dead.id, heartbeats=SILENT)
        probe_repo.record(self.engine, self.two.id, {dead.id: DOWN})
        reads = []
        read = situation.read
        self.useFixture(fixtures.MockPatchObject(
            situation, 'read', lambda *args: reads.append(1) or read(*args)))
        self.assertTrue(self.urge())
        self.assertEqual('FAILED', member_repo.get(self.engine,
                                                   dead.id).state)
        # It is not asked for again and again.
        self.assertLess(len(reads), 20)

    def test_sizes(self):
        lb = self.make(2)

        def resize(size, **values):
            self.assertTrue(cluster_repo.set_sizes(
                self.engine, self.cluster_id, size, cooldown=60, **values))
            self.keep()

        resize(4)
        self.assertWhole(lb, 4)
        resize(1)
        self.assertWhole(lb, 4)
        self.make_older(cloud.models.Cluster, 'resized_at', 61)
        self.keep(30)
        self.assertWhole(lb, 1)
        resize(1, standby=2)
        self.assertEqual([(0, 'ACTIVE'), (None, 'STANDBY'),
                          (None, 'STANDBY')], self.states(lb))
        resize(1, standby=0)
        self.assertWhole(lb, 1)

    def test_all_are_replaced(self):
        lb = self.make()
        before = set(self.cloud.instances)
        self.order_all(lb)
        serving = []
        step = self.cloud.step

        def watch(name):
            serving.append(len(self.cloud.documents[self.cluster_id]))
            step(name)

        self.useFixture(fixtures.MockPatchObject(self.cloud, 'step', watch))
        self.keep(30)
        self.assertEqual({3}, set(serving))
        self.assertWhole(lb, 3)
        self.assertFalse(before & set(self.cloud.instances))

    def test_drain_is_ordered(self):
        lb = self.make()
        member = self.get_members(lb)[0]
        member_repo.set_order(self.engine, member.id, 'DRAIN')
        self.keep()
        self.assertEqual((0, 'DRAINING'), self.states(lb)[0])
        member_repo.set_order(self.engine, member.id, None)
        self.keep()
        self.assertWhole(lb, 3)
        self.assertEqual(member.id, self.get_members(lb)[0].id)

    def test_stands_by_again(self):
        """One whose slot another one took is of use again once it is well."""
        lb = self.make(standby=1)
        self.see_all(lb)
        member = self.get_members(lb)[0]
        before = set(self.cloud.instances)
        self.see(member.id, DOWN)
        self.keep()
        self.assertEqual('ONLINE', self.status(lb))
        found = member_repo.get(self.engine, member.id)
        self.assertEqual((None, 'DRAINING'), (found.slot, found.state))
        self.see(member.id, UP)
        self.make_older(cloud.models.MemberProbe, 'changed_at', 31)
        self.keep()
        found = member_repo.get(self.engine, member.id)
        self.assertEqual((None, 'STANDBY'), (found.slot, found.state))
        self.assertEqual(before, set(self.cloud.instances))

    def test_cannot_stand_by(self):
        """One that drained, and does not take its configuration, is gone."""
        lb = self.make(standby=1)
        self.see_all(lb)
        member = self.get_members(lb)[0]
        self.see(member.id, DOWN)
        self.keep()
        self.see(member.id, UP)
        self.make_older(cloud.models.MemberProbe, 'changed_at', 31)
        self.cloud.refuse(f'configure {member.amphora_id}')
        self.keep()
        self.assertIsNone(member_repo.get(self.engine, member.id))
        self.assertEqual((None, 'STANDBY'), self.states(lb)[-1])
        self.assertEqual(4, len(self.cloud.instances))

    def test_claimed(self):
        """Whoever builds for minutes holds up nothing."""
        lb = self.make()
        self.see_all(lb)
        dead = self.get_members(lb)[0]
        self.see(dead.id, DOWN, SILENT)
        claim_repo.claim(self.engine, self.cluster_id, 'other', 60)
        before = len(self.cloud.instances)
        self.assertIs(True, upkeep.Upkeep(self.context,
                                          self.cluster_id).run())
        self.assertEqual(before, len(self.cloud.instances))
        self.assertNotIn(0, self.cloud.documents[self.cluster_id])
        claim_repo.release(self.engine, self.cluster_id, 'other')
        self.keep()
        self.assertWhole(lb, 3)

    def test_distributors_are_told_later(self):
        lb = self.make()
        self.see_all(lb)
        self.see(self.get_members(lb)[0].id, DOWN, SILENT)
        with fixtures.MockPatchObject(
                distribution, 'run',
                side_effect=exceptions.DistributorError('no answer')):
            self.assertTrue(self.urge())
        self.assertEqual(2, sum(state == 'ACTIVE'
                                for _slot, state in self.states(lb)))

    def test_two_managers(self):
        """What two decide at once is done once, and never too much."""
        lb = self.make(3, min_size=2)
        self.see_all(lb)
        members = self.get_members(lb)
        for member in members[:2]:
            self.see(member.id, heartbeats=SILENT)
        barrier = threading.Barrier(4)

        def urge():
            barrier.wait(30)
            return self.urge()

        self.run_at_once([urge] * 4)
        # Of the two only one may go.
        self.assertEqual(['ACTIVE', 'ACTIVE', 'DRAINING'],
                         sorted(state for _slot, state in self.states(lb)))

    def test_name_and_enabled(self):
        """Both are those of the load balancer, whenever its owner changes it.

        One that is disabled is OFFLINE, and its members are replaced as ever.
        """
        lb = self.make()
        name = self.get_cluster(lb).cluster_name
        self.see_all(lb)
        self.records.change('load_balancer', lb, name='other', enabled=False)
        self.keep()
        found = self.get_cluster(lb)
        self.assertEqual(('other', False, 'OFFLINE'), (
            found.cluster_name, found.enabled, found.operating_status))
        dead = self.get_members(lb)[0]
        self.see(dead.id, DOWN, SILENT)
        self.urge()
        self.keep()
        self.assertWhole(lb, 3)
        self.assertNotIn(dead.id, [each.id for each in self.get_members(lb)])
        self.assertEqual('OFFLINE', self.status(lb))
        self.records.change('load_balancer', lb, name='', enabled=True)
        self.see_all(lb)
        self.keep()
        found = self.get_cluster(lb)
        # One without a name is shown with that of its beginning.
        self.assertEqual((name, True, 'ONLINE'), (
            found.cluster_name, found.enabled, found.operating_status))

    def test_events(self):
        """A manager hears of each thing once."""
        lb = self.make()
        heard = []
        self.useFixture(fixtures.MockPatchObject(
            managers.get('reference'), 'handle', heard.append))
        self.see_all(lb)
        self.see(self.get_members(lb)[0].id, DOWN, SILENT)
        self.urge()
        self.urge()
        self.assertEqual(
            [('health', 'DEAD'), ('done', 'unregister'),
             ('status', 'DEGRADED')],
            [(str(event.kind), event.detail) for event in heard])
        heard.clear()
        self.cloud.refuse('build amphora')
        self.keep(1)
        self.assertIn(('failed', 'add'), [
            (str(event.kind), event.detail) for event in heard])
        heard.clear()
        self.keep()
        self.assertEqual(
            [('done', 'add'), ('status', 'ONLINE')],
            [(str(event.kind), event.detail) for event in heard])

    def test_manager_that_fails(self):
        """What is to be done is done."""
        lb = self.make()
        self.useFixture(fixtures.MockPatchObject(
            managers.get('reference'), 'handle', side_effect=KeyError))
        self.see_all(lb)
        self.see(self.get_members(lb)[0].id, DOWN, SILENT)
        self.keep()
        self.assertWhole(lb, 3)

    def test_unknown_manager(self):
        lb = self.make()
        with self.engine.begin() as connection:
            connection.execute(cloud.models.Cluster.__table__.update().values(
                cluster_type='nobody'))
        e = self.assertRaises(exceptions.InvalidConfiguration, self.urge)
        self.assertIn('"nobody"', str(e))
        self.assertWhole(lb, 3)


class TestDeaths(ManagedTestCase):
    """Whoever does it dies, and wherever: somebody else goes on."""

    @hypothesis.settings(max_examples=6)
    @hypothesis.given(
        st.sampled_from(['dead', 'standby', 'replace', 'larger', 'smaller']),
        st.lists(st.integers(0, 40), min_size=1, max_size=2))
    def test_deaths(self, what, steps):
        self.reborn()
        self.lapse()
        self.watch()
        lb = self.make(2, standby=1 if what == 'standby' else 0)
        self.see_all(lb)
        size = {'larger': 3, 'smaller': 1}.get(what, 2)
        if what in ('dead', 'standby'):
            self.see(self.get_members(lb)[0].id, DOWN, SILENT)
        elif what == 'replace':
            self.order_all(lb)
        else:
            cluster_repo.set_sizes(self.engine, self.cluster_id, size,
                                   cooldown=0)
        for step in steps:
            self.cloud.die_at(step)
            self.keep(2)
            self.reborn()
            self.lapse()
        self.keep(30)
        self.assertEqual([(slot, 'ACTIVE') for slot in range(size)] + (
            [(None, 'STANDBY')] if what == 'standby' else []),
            self.states(lb))
        self.delete(lb)
        self.assertGone(lb)
