# SPDX-License-Identifier: Apache-2.0

"""What failing over means for a cluster, with Octavia's own code."""

import datetime
import threading

from octavia.controller.healthmanager import health_manager
from octavia.controller.worker.v2 import controller_worker
from oslo_utils import timeutils
import sqlalchemy as sa

from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster.db import member_health as health_repo
from octavia_hmsync.cluster.worker import worker
from octavia_hmsync import compat
from octavia_hmsync.compat import cluster as compat_cluster
from tests.unit.cluster import cloud

LONG = datetime.timedelta(hours=1)


class TestFailover(cloud.CloudTestCase):

    def setUp(self):
        super().setUp()
        self.lb = self.create(size=3)
        self.before = self.get_members(self.lb)

    def read_health(self):
        return {row['amphora_id']: bool(row['busy'])
                for row in self.records.rows('amphora_health')}

    def read_statuses(self):
        return {row['id']: row['status']
                for row in self.records.rows('amphora')}

    def change_health(self, amphora_id, **values):
        table = self.records.tables['amphora_health']
        with self.engine.begin() as connection:
            connection.execute(
                sa.update(table).where(table.c.amphora_id == amphora_id)
                .values(**values))

    def fall_silent(self, *amphora_ids, **values):
        for amphora_id in amphora_ids:
            self.change_health(
                amphora_id, last_update=timeutils.utcnow() - LONG, **values)

    def check_health(self):
        """One turn of Octavia's own health manager, and all it begins."""
        health_manager.HealthManager(threading.Event()).health_check()

    def assertNothingDone(self, steps):
        """No instance and no port was touched, nor anything asked for."""
        self.assertEqual(steps, len(self.cloud.steps),
                         self.cloud.steps[steps:])
        self.assertEqual(3, len(self.cloud.instances))

    def test_silent_members(self):
        """However long: Octavia's health manager leaves them alone."""
        steps = len(self.cloud.steps)
        self.fall_silent(*(member.amphora_id for member in self.before))
        for _ in range(3):
            self.check_health()
        self.assertNothingDone(steps)
        self.assertEqual('ACTIVE', self.get_status(self.lb))
        self.assertEqual({'ALLOCATED'}, set(self.read_statuses().values()))
        self.assertEqual({True}, set(self.read_health().values()))

    def test_members_that_are_built(self):
        """They are busy before they boot, and those that replace others."""
        seen = []

        def rule(text):
            if text.startswith('build amphora'):
                seen.append(self.read_health())

        self.cloud.rules.append(rule)
        member_repo.set_order(self.engine, self.before[0].id,
                              member_repo.REPLACE)
        self.records.set_status(self.before[0].amphora_id, 'ERROR')
        self.records.change('load_balancer', self.lb,
                            provisioning_status='ERROR')
        self.keep()
        self.assertEqual([4], [len(health) for health in seen])
        self.assertEqual({True}, set(seen[0].values()))

    def test_mark_that_was_lost(self):
        """The worst that can be: nobody runs who would put it right.

        Octavia begins a failover that ends at once. What is left is taken
        for an order, as if a tenant had asked for it.
        """
        steps = len(self.cloud.steps)
        silent = self.before[0]
        self.fall_silent(silent.amphora_id, busy=False)
        self.check_health()
        self.assertNothingDone(steps)
        self.assertEqual('ERROR', self.get_status(self.lb))
        self.assertReplaced(silent)

    def test_mark_put_back(self):
        silent = self.before[0]
        steps = len(self.cloud.steps)
        self.fall_silent(silent.amphora_id, busy=False)
        self.assertEqual([silent.amphora_id],
                         health_repo.keep_from_failover(
                             self.engine, self.read_health()))
        self.check_health()
        self.assertNothingDone(steps)
        self.assertEqual('ACTIVE', self.get_status(self.lb))

    def assertReplaced(self, *old):
        """The keeper replaces these, and no others."""
        self.keep()
        self.assertWhole(self.lb, 3)
        old_ids = {member.amphora_id for member in old}
        self.assertEqual(
            {member.amphora_id for member in self.before} - old_ids,
            {member.amphora_id for member in self.before} &
            {member.amphora_id for member in self.get_members(self.lb)})
        self.assertEqual('ACTIVE', self.get_status(self.lb))
        self.assertEqual(dict.fromkeys(
            (member.amphora_id for member in self.get_members(self.lb)),
            True), {amphora_id: busy for amphora_id, busy in
                    self.read_health().items()
                    if self.read_statuses()[amphora_id] == 'ALLOCATED'})

    def ask(self, member):
        """openstack loadbalancer amphora failover, with the plugin."""
        self.records.change('load_balancer', self.lb,
                            provisioning_status='PENDING_UPDATE')
        return worker.Worker(compat.CONF).failover_amphora(member.amphora_id)

    def watch_status(self):
        """Return the statuses that a client sees, at each step."""
        seen = []

        def rule(text):
            seen.append((self.get_status(self.lb), len(
                {member.amphora_id for member in self.before} &
                {member.amphora_id for member in self.get_members(self.lb)
                 if member.slot is not None})))

        self.cloud.rules.append(rule)
        return seen

    def test_asked(self):
        """PENDING_UPDATE from the request until another one has its slot."""
        seen = self.watch_status()
        self.assertTrue(self.ask(self.before[1]))
        self.assertEqual('PENDING_UPDATE', self.get_status(self.lb))
        self.assertReplaced(self.before[1])
        self.assertIn(('PENDING_UPDATE', 2), seen)
        self.assertEqual(
            {'PENDING_UPDATE'},
            {status for status, still_there in seen if still_there == 3})
        self.assertFalse(self.get_cluster(self.lb).is_failing_over)

    def test_asked_one_after_the_other(self):
        """None waits until the amphora before it has drained."""
        compat.CONF.set_override('drain_timeout', 600, 'hmsync_cluster')
        for member in self.before:
            self.ask(member)
            self.keep()
            self.assertEqual('ACTIVE', self.get_status(self.lb))
        self.assertEqual(
            {None}, {member.slot for member in self.get_members(self.lb)
                     if member.id in {each.id for each in self.before}})
        compat.CONF.set_override('drain_timeout', 0, 'hmsync_cluster')
        self.assertReplaced(*self.before)

    def test_asked_fails(self):
        """The client sees ERROR, and the order is tried again."""
        self.cloud.refuse('build amphora')
        self.ask(self.before[0])
        self.keep(1)
        self.assertEqual('ERROR', self.get_status(self.lb))
        self.assertEqual(3, len(self.cloud.instances))
        self.assertIn('could not be built',
                      self.get_members(self.lb)[0].error)
        self.assertReplaced(self.before[0])

    def test_asked_while_one_is_built(self):
        """The keeper that builds one does not wait for the lock."""
        def rule(text):
            if text.startswith('build amphora'):
                self.cloud.rules.remove(rule)
                self.ask(self.before[2])

        self.cloud.rules.append(rule)
        member_repo.set_order(self.engine, self.before[0].id,
                              member_repo.REPLACE)
        self.assertReplaced(self.before[0], self.before[2])

    def test_asked_and_the_keeper_dies(self):
        """Wherever it dies, the lock ends with the order."""
        before = len(self.cloud.steps)
        self.ask(self.before[0])
        self.assertReplaced(self.before[0])
        for step in range(len(self.cloud.steps) - before):
            with self.subTest(step=step):
                self.before = self.get_members(self.lb)
                self.ask(self.before[0])
                self.cloud.die_at(step)
                self.keep()
                self.reborn()
                self.lapse()
                self.assertReplaced(self.before[0])

    def test_asked_and_it_leaves(self):
        """Another one takes its slot before it is replaced."""
        cluster_repo.set_sizes(self.engine, self.before[0].cluster_id,
                               standby=1)
        self.keep()
        standby, = (member for member in self.get_members(self.lb)
                    if member.state == 'STANDBY')
        self.ask(self.before[0])
        self.assertTrue(member_repo.take_over_slot(
            self.engine, standby.id, self.before[0].id, config_digest=None))
        self.keep()
        self.assertEqual('ACTIVE', self.get_status(self.lb))
        self.assertFalse(self.get_cluster(self.lb).is_failing_over)

    def test_asked_for_a_standby(self):
        """No connection waits for it, so no client does."""
        cluster_repo.set_sizes(self.engine, self.before[0].cluster_id,
                               standby=1)
        self.keep()
        standby, = (member for member in self.get_members(self.lb)
                    if member.state == 'STANDBY')
        self.assertTrue(self.ask(standby))
        self.assertEqual('ACTIVE', self.get_status(self.lb))
        self.keep()
        self.assertNotIn(standby.amphora_id, {
            member.amphora_id for member in self.get_members(self.lb)})

    def test_worker_asks_first(self):
        """Octavia's own fails over what belongs to no cluster."""
        stock = controller_worker.ControllerWorker.failover_amphora
        self.addCleanup(setattr, controller_worker.ControllerWorker,
                        'failover_amphora', stock)
        asked = []
        for answer in (False, True):
            compat_cluster.take_amphora_failovers(
                lambda amphora_id: asked.append(amphora_id) or answer)
            steps = len(self.cloud.steps)
            controller_worker.ControllerWorker().failover_amphora(
                self.before[0].amphora_id)
            self.assertNothingDone(steps)
            self.assertEqual(
                'ACTIVE' if answer else 'ERROR', self.get_status(self.lb))
            self.records.change('load_balancer', self.lb,
                                provisioning_status='ACTIVE')
        self.assertEqual([self.before[0].amphora_id] * 2, asked)

    def test_asked_of_another(self):
        """An amphora of a SINGLE load balancer is Octavia's to fail over."""
        lb = self.records.add_load_balancer('SINGLE')
        amphora_id = self.records.add_amphora('192.0.2.9', lb)
        self.assertFalse(
            worker.Worker(compat.CONF).failover_amphora(amphora_id))
        self.assertFalse(worker.Worker(compat.CONF).failover_amphora('none'))

    def order(self, member):
        """openstack loadbalancer amphora failover, as octavia-api does it.

        And as a worker without the plugin does.
        """
        self.records.change('load_balancer', self.lb,
                            provisioning_status='PENDING_UPDATE')
        controller_worker.ControllerWorker().failover_amphora(
            member.amphora_id)

    def test_amphora_failover(self):
        steps = len(self.cloud.steps)
        member = self.before[1]
        self.order(member)
        self.assertNothingDone(steps)
        self.assertEqual({True}, set(self.read_health().values()))
        self.assertEqual('ERROR', self.get_status(self.lb))
        self.assertEqual('ERROR', self.read_statuses()[member.amphora_id])
        self.assertReplaced(member)

    def test_two_amphora_failovers(self):
        """Before anybody has seen to the first one."""
        self.order(self.before[0])
        self.order(self.before[2])
        self.assertReplaced(self.before[0], self.before[2])

    def test_all_at_once(self):
        """Each by its own command, before anybody has seen to one."""
        for member in self.before:
            self.order(member)
        self.assertReplaced(*self.before)

    def test_one_that_stands_by(self):
        cluster_id = self.before[0].cluster_id
        cluster_repo.set_sizes(self.engine, cluster_id, standby=1)
        self.keep()
        standby, = (member for member in self.get_members(self.lb)
                    if member.state == 'STANDBY')
        self.order(standby)
        self.keep()
        self.assertEqual('ACTIVE', self.get_status(self.lb))
        members = self.get_members(self.lb)
        self.assertEqual(['ACTIVE'] * 3 + ['STANDBY'],
                         sorted(member.state for member in members))
        self.assertNotIn(standby.amphora_id,
                         {member.amphora_id for member in members})

    def test_while_another_one_drains(self):
        """The load balancer is the tenant's again, whoever has to wait."""
        compat.CONF.set_override('drain_timeout', 600, 'hmsync_cluster')
        self.order(self.before[0])
        self.keep()
        draining = [member.amphora_id for member in self.get_members(self.lb)
                    if member.state == 'DRAINING']
        self.assertEqual([self.before[0].amphora_id], draining)
        for member in (self.before[0], self.before[2]):
            self.order(member)
            self.assertEqual('ERROR', self.get_status(self.lb))
            self.keep()
            self.assertEqual('ACTIVE', self.get_status(self.lb))
        self.assertEqual({'ALLOCATED'}, {
            self.read_statuses()[member.amphora_id] for member in
            self.get_members(self.lb)})
        compat.CONF.set_override('drain_timeout', 0, 'hmsync_cluster')
        self.assertReplaced(self.before[0], self.before[2])

    def test_while_one_is_built(self):
        """Whoever builds one waits for the lock, and ends the ERROR."""
        def rule(text):
            if text.startswith('build amphora'):
                self.cloud.rules.remove(rule)
                self.order(self.before[2])

        self.cloud.rules.append(rule)
        self.order(self.before[0])
        self.assertReplaced(self.before[0], self.before[2])

    def fail_over(self):
        """openstack loadbalancer failover, which is ours to do."""
        self.records.change('load_balancer', self.lb,
                            provisioning_status='PENDING_UPDATE')
        worker.Worker(compat.CONF).failover(self.lb)

    def test_load_balancer_failover(self):
        """One after the other, each built before the other one leaves."""
        left = []

        def rule(text):
            if text == 'distributors: register':
                left.append({m.amphora_id for m in self.get_members(self.lb)
                             if m.state == 'ACTIVE'})

        self.cloud.rules.append(rule)
        self.fail_over()
        self.assertEqual([3] * len(left), [len(ids) for ids in left])
        self.assertReplaced(*self.before)

    def test_load_balancer_failover_while_one_is_not_well(self):
        """One that stands by takes its slot meanwhile: all are replaced."""
        cluster_repo.set_sizes(self.engine, self.before[0].cluster_id,
                               standby=1)
        self.keep()
        before = self.get_members(self.lb)
        standby, = (member for member in before if member.state == 'STANDBY')
        victim = self.before[1]
        built = []

        def rule(text):
            if text.startswith('build amphora'):
                built.append(text)
                if len(built) == 2:
                    self.assertTrue(member_repo.take_over_slot(
                        self.engine, standby.id, victim.id,
                        config_digest=None))

        self.cloud.rules.append(rule)
        self.fail_over()
        self.assertEqual('ACTIVE', self.get_status(self.lb))
        self.keep()
        after = self.get_members(self.lb)
        self.assertEqual(['ACTIVE'] * 3 + ['STANDBY'],
                         sorted(member.state for member in after))
        self.assertFalse({member.amphora_id for member in before} &
                         {member.amphora_id for member in after})

    def test_stock_load_balancer_failover(self):
        """Octavia's own, which octavia-api asks nobody for.

        It touches nothing, and the next one that is asked for ends the ERROR.
        """
        steps = len(self.cloud.steps)
        self.records.change('load_balancer', self.lb,
                            provisioning_status='PENDING_UPDATE')
        controller_worker.ControllerWorker().failover_loadbalancer(self.lb)
        self.assertNothingDone(steps)
        self.assertEqual('ERROR', self.get_status(self.lb))
        self.fail_over()
        self.assertReplaced(*self.before)
