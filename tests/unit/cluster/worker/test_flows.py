# SPDX-License-Identifier: Apache-2.0

"""What workers and keepers build, with Octavia's own tasks."""

from unittest import mock

import fixtures
import hypothesis
from hypothesis import strategies as st
from oslo_config import fixture as config_fixture

from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster.db import member_facts as facts_repo
from octavia_hmsync.cluster.distribution import member_facts
from octavia_hmsync.cluster import work
from octavia_hmsync.cluster.worker import tasks
from octavia_hmsync.cluster.worker import worker
from octavia_hmsync import compat
from tests.unit.cluster import cloud


class TestFlows(cloud.CloudTestCase):

    def test_created_and_deleted(self):
        lb = self.create(size=3)
        self.assertWhole(lb, 3)
        # A prefix has OVN not take it for a port that may have the VIP.
        self.assertEqual(
            [['198.51.100.1/32']] * 3,
            [port.pairs for port in self.cloud.ports.values()
             if port.name.startswith('octavia-lb-vrrp-')])
        # Registered last, and unregistered first.
        steps = self.cloud.steps
        self.assertEqual('distributors: register', steps[-1])
        self.delete(lb)
        self.assertGone(lb)
        first = next(each for each in steps if each.startswith('delete'))
        self.assertLess(steps.index('distributors: remove'),
                        steps.index(first))

    def test_listeners_from_the_beginning(self):
        """Distributors look at members as soon as they know them."""
        lb = self.add_load_balancer()
        for port in (443, 80):
            self.records.add_listener(lb, port)
        worker.Worker(compat.CONF).create(lb, {'cluster_desired_size': 2,
                                               'cluster_min_size': 1})
        self.assertWhole(lb, 2)
        cluster = self.get_cluster(lb)
        self.assertEqual('80,443', cluster.ports)
        self.assertEqual('distributors: register', self.cloud.steps[-1])
        # Nothing of that is left to be told.
        self.assertEqual({}, {
            key: found for key, (found, ports) in facts_repo.get_ports(
                self.engine).items()
            if member_facts.parse_ports(found) != ports})

    def test_again(self):
        """A message that comes twice changes nothing."""
        lb = self.create()
        self.useFixture(cloud.fixtures.MockPatchObject(worker, '_PATIENCE',
                                                       0))
        subject = worker.Worker(compat.CONF)
        subject.create(lb, {})
        subject.delete(lb)
        subject.failover(lb)
        self.assertWhole(lb, 2)
        self.delete(lb)
        subject.delete(lb)
        self.assertGone(lb)

    def test_options_changed_since(self):
        """No option is in the way of what is there."""
        lb = self.create()
        conf = self.useFixture(config_fixture.Config(compat.CONF))
        conf.config(group='hmsync_cluster', min_size=7, desired_size=1)
        self.delete(lb)
        self.assertGone(lb)

    def test_some_fail(self):
        """What fails is not there, and the keeper builds it later."""
        for part in ('build amphora', 'create port octavia-lb-vrrp',
                     'attach', 'plug', 'configure'):
            with self.subTest(part):
                self.reborn()
                self.cloud.refuse(part, times=2)
                lb = self.create(size=4, min_size=2)
                self.assertEqual('ACTIVE', self.get_status(lb))
                self.assertEqual(2, len(self.get_members(lb)))
                self.assertEqual(2, len(self.cloud.instances))
                self.assertEqual(3, len(self.cloud.ports))
                self.keep()
                self.assertWhole(lb, 4)
                self.delete(lb)
                self.assertGone(lb)

    def test_too_many_fail(self):
        self.cloud.refuse('build amphora', times=3)
        lb = self.create(size=4, min_size=2)
        self.assertTakenBack(lb)
        # Nobody builds it again by himself.
        self.keep()
        self.assertTakenBack(lb)
        self.delete(lb)
        self.assertGone(lb)

    def test_distributors_fail(self):
        for step in ('add', 'register'):
            with self.subTest(step):
                self.reborn()
                self.cloud.refuse(f'distributors: {step}')
                lb = self.create()
                self.assertTakenBack(lb)
                self.delete(lb)
                self.assertGone(lb)

    def test_failed_over(self):
        """An ERROR one is built anew, and each of others is replaced."""
        self.cloud.refuse('build amphora', times=2)
        lb = self.create(size=2)
        self.assertTakenBack(lb)
        self.failover(lb)
        self.assertWhole(lb, 2)
        before = {member.amphora_id for member in self.get_members(lb)}
        self.failover(lb)
        # Those that were replaced keep their connections for a while.
        self.assertEqual(4, len(self.cloud.instances))
        self.keep()
        self.assertWhole(lb, 2)
        self.assertFalse(before & {
            member.amphora_id for member in self.get_members(lb)})

    def failover(self, lb):
        self.records.change('load_balancer', lb,
                            provisioning_status='PENDING_UPDATE')
        worker.Worker(compat.CONF).failover(lb)

    def test_failover_fails(self):
        """What serves goes on serving, and the load balancer is in ERROR."""
        lb = self.create(size=2)
        self.cloud.refuse('build amphora', times=1)
        self.failover(lb)
        self.assertEqual('ERROR', self.get_status(lb))
        self.assertEqual(2, len(self.cloud.instances))
        self.failover(lb)
        self.keep()
        self.assertWhole(lb, 2)

    def test_ordered(self):
        """Octavia leaves an amphora in ERROR that it was to fail over."""
        lb = self.create(size=2)
        old = self.get_members(lb)[1]
        self.records.set_status(old.amphora_id, 'ERROR')
        self.records.change('load_balancer', lb, provisioning_status='ERROR')
        self.keep()
        self.assertWhole(lb, 2)
        new = self.get_members(lb)[1]
        self.assertNotEqual(old.amphora_id, new.amphora_id)

    def test_ordered_by_an_operator(self):
        """It serves until another one has its slot; why not is told."""
        lb = self.create(size=2)
        old = self.get_members(lb)[0]
        member_repo.set_order(self.engine, old.id, member_repo.REPLACE)
        self.cloud.refuse('build amphora', times=1)
        self.keep(1)
        found = self.get_members(lb)[0]
        self.assertEqual((old.id, 'ACTIVE', 2),
                         (found.id, found.state, len(self.cloud.instances)))
        self.assertIn('could not be built', found.error)
        self.keep()
        self.assertWhole(lb, 2)
        self.assertNotEqual(old.amphora_id,
                            self.get_members(lb)[0].amphora_id)

    def test_unconfigured(self):
        """One that missed a change is configured, and has its slot again."""
        lb = self.create(size=2)
        member = self.get_members(lb)[0]
        member_repo.set_state(self.engine, member.id, (member_repo.ACTIVE,),
                              member_repo.DRAINING)
        self.cloud.refuse('configure')
        self.keep(1)
        self.assertEqual(member_repo.DRAINING,
                         self.get_members(lb)[0].state)
        self.assertEqual('ACTIVE', self.get_status(lb))
        self.keep()
        self.assertWhole(lb, 2)
        self.assertEqual(member.id, self.get_members(lb)[0].id)

    def test_change_that_ended_half_way(self):
        """Its members are told anew, and what follows that is done, too."""
        lb = self.create(size=2)
        for member in self.get_members(lb):
            member_repo.record(self.engine, member.id, config_digest=None)
        before = len(self.cloud.steps)
        self.cloud.refuse('update VIP')
        self.keep(1)
        self.assertEqual([None, None], [
            member.config_digest for member in self.get_members(lb)])
        self.keep()
        self.assertWhole(lb, 2)
        self.assertEqual(3, self.cloud.steps[before:].count('update VIP'))
        self.assertTrue(all(member.config_digest
                            for member in self.get_members(lb)))

    def test_failover_that_has_just_begun(self):
        """Whoever looks meanwhile does not take it for one that died."""
        lb = self.create(size=2)
        self.records.change('load_balancer', lb,
                            provisioning_status='PENDING_UPDATE')
        seen = []
        carry_out = worker.Worker._carry_out

        def after_a_look(subject, *args, **kwargs):
            self.keep()
            seen.append(self.get_status(lb))
            carry_out(subject, *args, **kwargs)

        with mock.patch.object(worker.Worker, '_carry_out', autospec=True,
                               side_effect=after_a_look):
            worker.Worker(compat.CONF).failover(lb)
        self.assertEqual(['PENDING_UPDATE'], seen)
        self.keep()
        self.assertWhole(lb, 2)

    def test_locked(self):
        """While Octavia changes it, nothing is configured."""
        lb = self.create(size=2)
        member = self.get_members(lb)[0]
        member_repo.set_state(self.engine, member.id, (member_repo.ACTIVE,),
                              member_repo.DRAINING)
        self.records.change('load_balancer', lb,
                            provisioning_status='PENDING_UPDATE')
        before = len(self.cloud.steps)
        self.keep(1)
        self.assertEqual(before, len(self.cloud.steps))
        self.assertEqual('PENDING_UPDATE', self.get_status(lb))

    def test_lost_message(self):
        """A worker took it, and died before it knew what it is."""
        lb = self.add_load_balancer()
        orphans = cloud.due_repo.get_orphans(self.engine, 0)
        self.assertEqual([lb], [each.id for each in orphans])
        cloud.upkeep.adopt(compat.CONF, orphans[0])
        self.keep()
        self.assertWhole(lb, 2)

    def test_no_amphora_yet(self):
        """Whoever adds a member dies when it has a row, and nothing else."""
        lb = self.create(size=1)
        cluster_id = self.get_cluster(lb).id
        cluster_repo.set_sizes(self.engine, cluster_id, desired_size=2,
                               cooldown=0)
        cluster_repo.resize(self.engine, cluster_id, 2)
        member_repo.add(self.engine, cluster_id, 'begun', 2)
        self.keep()
        self.assertWhole(lb, 2)
        self.assertIsNone(member_repo.get(self.engine, 'begun'))

    def test_row_gone(self):
        lb = self.create(size=2)
        cluster = self.get_cluster(lb)
        self.records.change('load_balancer', lb,
                            provisioning_status='DELETED')
        self.keep()
        self.assertIsNone(cluster_repo.get(self.engine, cluster.id))
        self.assertEqual({}, self.cloud.instances)
        self.assertEqual({}, self.cloud.documents)


class TestDeaths(cloud.CloudTestCase):
    """Whoever dies, and wherever: somebody else goes on."""

    def settle(self):
        self.reborn()
        self.lapse()

    @hypothesis.settings(max_examples=5)
    @hypothesis.given(st.lists(st.integers(0, 60), min_size=1, max_size=3))
    def test_create(self, deaths):
        self.settle()
        self.cloud.die_at(deaths[0])
        lb = self.create(size=2)
        for step in deaths[1:]:
            self.settle()
            self.cloud.die_at(step)
            self.keep(2)
        self.settle()
        self.keep()
        self.assertWhole(lb, 2)
        self.delete(lb)
        self.assertGone(lb)

    @hypothesis.settings(max_examples=5)
    @hypothesis.given(st.lists(st.integers(0, 30), min_size=1, max_size=3))
    def test_delete(self, deaths):
        self.settle()
        lb = self.create(size=2)
        self.cloud.die_at(deaths[0])
        self.delete(lb)
        for step in deaths[1:]:
            self.settle()
            self.cloud.die_at(step)
            self.keep(2)
        self.settle()
        self.keep()
        self.assertGone(lb)

    @hypothesis.settings(max_examples=5)
    @hypothesis.given(st.lists(st.integers(0, 40), min_size=1, max_size=3))
    def test_replace(self, deaths):
        """What serves is never fewer than it was."""
        self.settle()
        lb = self.create(size=2)
        old = self.get_members(lb)[0]
        self.records.set_status(old.amphora_id, 'ERROR')
        self.records.change('load_balancer', lb, provisioning_status='ERROR')
        for step in deaths:
            self.settle()
            self.cloud.die_at(step)
            self.keep(2)
            self.settle()
            serving = self.cloud.documents[self.get_cluster(lb).id]
            self.assertEqual([0, 1], sorted(serving))
            self.assertLessEqual(
                {f'amphora-{each}' for each in serving.values()},
                set(self.cloud.instances.values()))
        self.keep()
        self.assertWhole(lb, 2)
        self.assertNotIn(old.amphora_id, {
            member.amphora_id for member in self.get_members(lb)})
        self.delete(lb)
        self.assertGone(lb)

    @hypothesis.settings(max_examples=5)
    @hypothesis.given(st.sampled_from((1, 2, 3)), st.integers(0, 200))
    def test_statement(self, size, number):
        """Of two members one is removed, replaced, or joined by another."""
        self.settle()
        lb = self.create(size=2)
        cluster_id = self.get_cluster(lb).id
        if size == 2:
            member_repo.set_order(self.engine, self.get_members(lb)[0].id,
                                  member_repo.REPLACE)
        cluster_repo.set_sizes(self.engine, cluster_id, desired_size=size,
                               cooldown=0)
        self.cloud.statements = number
        self.keep(3)
        self.settle()
        self.keep()
        # Who dies when all is done leaves a claim that has lapsed.
        self.lapse()
        self.context.claims.claim(cluster_id).release()
        self.assertWhole(lb, size)
        self.delete(lb)
        self.assertGone(lb)

    @hypothesis.settings(max_examples=5)
    @hypothesis.given(st.integers(0, 60))
    def test_deleted_half_built(self, step):
        self.settle()
        self.cloud.die_at(step)
        lb = self.create(size=2)
        self.settle()
        self.delete(lb)
        self.keep()
        self.assertGone(lb)


class TestHung(cloud.CloudTestCase):
    """Someone hangs, somebody else goes on, and then it comes back."""

    def hang_at(self, part, is_refused=False):
        """Have it hang at the next step whose text has a part.

        :param is_refused: whether that fails once it comes back.
        """
        mine = self.context

        def rule(text):
            if part not in text:
                return
            self.reborn()
            self.lapse()
            self.keep()
            self.context = mine
            # Seconds as a float may be a bit fewer than what was added.
            later = mine.claims.clock() + work.CLAIM_EXPIRY + 1
            self.useFixture(fixtures.MockPatchObject(
                mine.claims, 'clock', lambda: later))
            if is_refused:
                raise cloud.Refused(text)

        self.cloud.rules.append(rule)

    def check(self, part):
        lb = self.create(size=1)
        cluster_id = self.get_cluster(lb).id
        cluster_repo.set_sizes(self.engine, cluster_id, desired_size=2,
                               cooldown=0)
        self.hang_at(part)
        self.keep(1)
        self.assertWhole(lb, 2)

    def test_before_a_port(self):
        self.check('create port octavia-lb-vrrp')

    def test_before_an_instance(self):
        self.check('build amphora')

    def test_after_an_instance(self):
        self.check('look at')

    def check_new(self, part):
        """Have a worker hang that creates one with a listener."""
        lb = self.add_load_balancer()
        self.records.add_listener(lb, 80)
        self.hang_at(part)
        worker.Worker(compat.CONF).create(lb, {'cluster_desired_size': 2,
                                               'cluster_min_size': 1})
        self.assertWhole(lb, 2)
        listener, = self.records.rows('listener')
        self.assertEqual('ACTIVE', listener['provisioning_status'])

    def test_before_members_of_a_new_one(self):
        self.check_new('create port octavia-lb-vrrp')

    def test_before_a_new_one_is_active(self):
        self.check_new('distributors: register')

    def test_before_a_new_one_is_finished(self):
        execute = tasks.FinishCluster.execute

        def finish(subject, cluster_id, owner):
            self.cloud.step('finish')
            execute(subject, cluster_id, owner)

        self.useFixture(fixtures.MockPatchObject(
            tasks.FinishCluster, 'execute', finish))
        self.check_new('finish')

    def test_amid_a_deletion(self):
        for part, is_refused in (
                ('delete instance', False), ('deallocate VIP', False),
                ('deallocate VIP', True)):
            lb = self.create(size=1)
            self.hang_at(part, is_refused)
            self.delete(lb)
            self.assertGone(lb)
