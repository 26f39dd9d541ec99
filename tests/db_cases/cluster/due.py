# SPDX-License-Identifier: Apache-2.0

"""Which clusters a manager looks at, and what it is told of them."""

import datetime

from octavia_hmsync.cluster.db import claim as claim_repo
from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import distributor as distributor_repo
from octavia_hmsync.cluster.db import distributor_vip as vip_repo
from octavia_hmsync.cluster.db import due as due_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster.db import member_probe as probe_repo
from octavia_hmsync.cluster.db import view as view_repo
from octavia_hmsync.db import models
from octavia_hmsync.sync.db import health_manager as hm_repo
from tests.cloud import records
from tests.db_cases import base
from tests.db_cases.cluster import calls as cluster_calls

CLUSTER = 'cluster1'
DOWN = probe_repo.Result('DOWN', 'no answer')


class ClusterDueCases(base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.lb = self.records.add_load_balancer('ACTIVE_ACTIVE')
        self.records.change('load_balancer', self.lb,
                            provisioning_status='ACTIVE')
        cluster_repo.add(self.engine, cluster_calls.new(
            load_balancer_id=self.lb, desired_size=2, min_size=1,
            cooldown=60))
        self.amphorae = self.add_amphorae(2)
        for member_id, amphora_id in zip('ab', self.amphorae):
            member_repo.add(self.engine, CLUSTER, member_id, 2)
            member_repo.assign_amphora(self.engine, member_id, amphora_id)
            self.set_state(member_id, 'ACTIVE', config_digest='1')
        cluster_repo.set_status(self.engine, CLUSTER, 'ACTIVE', 'ONLINE')

    def set_state(self, member_id, state, **details):
        member_repo.set_state(self.engine, member_id, member_repo.STATES,
                              state, **details)

    def due(self):
        found = due_repo.get_due(self.engine)
        # The same for whoever looks at some of them.
        ids = {each.id for each in found}
        self.assertEqual(found, due_repo.get_due(self.engine, ids))
        self.assertEqual([], due_repo.get_due(
            self.engine, {CLUSTER, 'other'} - ids))
        return [(each.id, each.is_free) for each in found]

    def news(self):
        return [each.news for each in due_repo.get_due(self.engine)]

    def assertDue(self, is_due=True, is_free=True):
        self.assertEqual([(CLUSTER, is_free)] if is_due else [], self.due())

    def change(self, **values):
        self.records.change('load_balancer', self.lb, **values)

    def test_rest(self):
        self.assertDue(False)
        probe_repo.record(self.engine, probe_repo.HEARTBEATS,
                          {'a': probe_repo.Result('UP')})
        member_repo.set_health(self.engine, 'b', 'HEALTHY')
        self.assertDue(False)
        # One statement, whatever there is.
        with self.count_statements() as statements:
            due_repo.get_due(self.engine)
        self.assertEqual(1, len(statements))

    def test_load_balancer(self):
        for status, is_due in (
                ('PENDING_DELETE', True), ('DELETED', True),
                ('PENDING_CREATE', True), ('PENDING_UPDATE', False),
                ('ERROR', False), ('ACTIVE', False)):
            self.change(provisioning_status=status, updated_at=(
                records.utcnow() - datetime.timedelta(seconds=20)))
            self.assertDue(is_due)
        cluster_repo.set_status(self.engine, CLUSTER, 'PENDING_UPDATE')
        self.assertDue()
        claim_repo.claim(self.engine, CLUSTER, 'me', 60)
        self.assertDue(is_free=False)

    def test_what_was_just_asked_for(self):
        """That is for whoever was asked."""
        now = records.utcnow()
        long_ago = now - datetime.timedelta(seconds=20)
        # It stays so for a minute.
        just_now = now + datetime.timedelta(seconds=60)
        for status in ('PENDING_CREATE', 'PENDING_DELETE'):
            self.change(provisioning_status=status, created_at=long_ago,
                        updated_at=just_now)
            self.assertDue(is_free=False)
            self.change(created_at=just_now, updated_at=None)
            self.assertDue(is_free=False)
            self.change(created_at=long_ago)
            self.assertDue()

    def test_gone(self):
        cluster_repo.add(self.engine, cluster_calls.new(2))
        self.assertEqual([('cluster2', True)], self.due())

    def test_members(self):
        for state in ('BUILDING', 'DRAINING', 'FAILED'):
            self.set_state('a', state)
            self.assertDue()
        self.set_state('a', 'ACTIVE')
        self.assertDue(False)
        member_repo.release_slot(self.engine, 'a')
        self.assertDue()

    def test_broken(self):
        self.records.set_status(self.amphorae[0], 'ERROR')
        self.assertDue()

    def test_seen(self):
        probe_repo.record(self.engine, probe_repo.HEARTBEATS, {'a': DOWN})
        self.assertDue()
        first, = self.news()
        self.make_older(models.MemberProbe, 'changed_at', 9)
        probe_repo.record(self.engine, 'network1', {'b': DOWN})
        self.assertNotEqual([first], self.news())
        claim_repo.claim(self.engine, CLUSTER, 'me', 60)
        self.assertDue(is_free=False)
        for who, member_id in ((probe_repo.HEARTBEATS, 'a'),
                               ('network1', 'b')):
            probe_repo.record(self.engine, who,
                              {member_id: probe_repo.Result('UP')})
        self.assertDue(False)
        member_repo.set_health(self.engine, 'a', 'SUSPECT')
        self.assertDue(is_free=False)

    def test_ordered(self):
        for order in ('DRAIN', 'REPLACE', None):
            member_repo.set_order(self.engine, 'b', order)
            self.assertDue(order is not None)

    def test_not_configured(self):
        for digest in (None, member_repo.ALONE):
            member_repo.record(self.engine, 'b', config_digest=digest)
            self.assertDue()

    def test_sizes(self):
        def set_sizes(**values):
            cluster_repo.set_sizes(self.engine, CLUSTER, **values)

        set_sizes(desired_size=3)
        self.assertDue()
        cluster_repo.resize(self.engine, CLUSTER, 3)
        self.assertDue()
        set_sizes(desired_size=2)
        member_repo.add(self.engine, CLUSTER, 'c', 3)
        self.set_state('c', 'ACTIVE', config_digest='1')
        # It waits for the cooldown.
        self.assertDue(False)
        self.make_older(models.Cluster, 'resized_at', 61)
        self.assertDue()

    def test_below_its_minimum(self):
        """That waits for no cooldown."""
        cluster_repo.set_sizes(self.engine, CLUSTER, desired_size=3)
        cluster_repo.resize(self.engine, CLUSTER, 3)
        member_repo.add(self.engine, CLUSTER, 'c', 3)
        self.set_state('c', 'ACTIVE', config_digest='1')
        cluster_repo.set_sizes(self.engine, CLUSTER, desired_size=5)
        self.assertDue(False)
        cluster_repo.set_sizes(self.engine, CLUSTER, min_size=4)
        self.assertDue()
        self.assertTrue(cluster_repo.resize(self.engine, CLUSTER, 5))

    def test_standbys(self):
        cluster_repo.set_sizes(self.engine, CLUSTER, standby=1)
        self.assertDue()
        member_repo.add(self.engine, CLUSTER, 'c', 0)
        self.set_state('c', 'STANDBY', config_digest='1')
        self.assertDue(False)

    def test_status(self):
        for status, enabled, is_due in (
                ('DEGRADED', True, True), ('ONLINE', True, False),
                ('ONLINE', False, True), ('OFFLINE', False, False),
                ('OFFLINE', True, True)):
            cluster_repo.set_operating_status(self.engine, CLUSTER, status)
            self.change(enabled=enabled)
            self.assertDue(is_due)

    def test_failed(self):
        """What died leaves it; nothing is built."""
        cluster_repo.set_status(self.engine, CLUSTER, 'ERROR')
        self.change(provisioning_status='ERROR')
        cluster_repo.set_sizes(self.engine, CLUSTER, desired_size=4)
        self.assertDue(False)
        probe_repo.record(self.engine, probe_repo.HEARTBEATS, {'a': DOWN})
        self.assertDue()
        probe_repo.forget(self.engine, probe_repo.HEARTBEATS)
        self.assertDue(False)
        self.set_state('a', 'FAILED')
        self.assertDue()

    # Where nobody looks at all of them

    def candidates(self):
        return due_repo.get_candidates(self.engine, 60)

    def test_candidates(self):
        """What was changed, and what has been wrong for long."""
        def grow_old():
            self.make_older(models.Cluster, 'updated_at', 61)

        self.assertEqual({CLUSTER}, self.candidates())
        grow_old()
        self.assertEqual(set(), self.candidates())
        for change, take_back in (
                (lambda: self.set_state('a', 'DRAINING'),
                 lambda: self.set_state('a', 'ACTIVE')),
                (lambda: probe_repo.record(self.engine, 'network1',
                                           {'b': DOWN}),
                 lambda: probe_repo.forget(self.engine, 'network1')),
                (lambda: self.records.set_status(self.amphorae[0], 'ERROR'),
                 lambda: self.records.set_status(self.amphorae[0],
                                                 'ALLOCATED')),
                (lambda: self.change(provisioning_status='PENDING_DELETE'),
                 lambda: self.change(provisioning_status='ACTIVE'))):
            change()
            grow_old()
            self.assertEqual({CLUSTER}, self.candidates())
            take_back()
            grow_old()
            self.assertEqual(set(), self.candidates())

    def test_candidates_by_order(self):
        for order in (
                lambda: member_repo.set_order(self.engine, 'a', 'REPLACE'),
                lambda: cluster_repo.set_sizes(self.engine, CLUSTER,
                                               desired_size=4),
                lambda: cluster_repo.set_ports(self.engine, CLUSTER, {80}),
                lambda: cluster_repo.mark(self.engine, CLUSTER)):
            self.make_older(models.Cluster, 'updated_at', 61)
            self.assertEqual(set(), self.candidates())
            order()
            self.assertEqual({CLUSTER}, self.candidates())

    def test_followers(self):
        """Managers that follow the load decide without any news."""
        self.make_older(models.Cluster, 'updated_at', 61)
        self.assertEqual([], due_repo.get_due(self.engine, {CLUSTER}))
        for followers, expected in (((), set()), (('other',), set()),
                                    (('other', 'reference'), {CLUSTER})):
            self.assertEqual(expected, due_repo.get_candidates(
                self.engine, 60, followers))
            self.assertEqual(expected, {each.id for each in due_repo.get_due(
                self.engine, None, followers)})
        self.change(provisioning_status='PENDING_UPDATE')
        self.assertEqual([CLUSTER], [each.id for each in due_repo.get_due(
            self.engine, {CLUSTER}, ('reference',))])

    def test_pages(self):
        for number in range(2, 6):
            cluster_repo.add(self.engine, cluster_calls.new(number))
        for after, found in (('', ['cluster1', 'cluster2']),
                             ('cluster2', ['cluster3', 'cluster4']),
                             ('cluster4', ['cluster5']), ('cluster5', [])):
            self.assertEqual(found, due_repo.get_page(self.engine, after, 2))

    # What a manager is told

    def view(self):
        return view_repo.read(self.engine, CLUSTER, 20)

    def test_view(self):
        self.assertIsNone(view_repo.read(self.engine, 'nobody', 20))
        found = self.view()
        self.assertEqual(
            (CLUSTER, False, 'ACTIVE', True, ['a', 'b'], [], False),
            (found.cluster.id, found.may_resize, found.load_balancer_status,
             found.cluster.enabled, [member.id for member in found.members],
             found.probes, found.is_heard))
        self.assertEqual(set(self.amphorae), set(found.amphora_statuses))
        cluster_repo.set_sizes(self.engine, CLUSTER, desired_size=3)
        self.change(enabled=False, provisioning_status='ERROR')
        probe_repo.record(self.engine, probe_repo.HEARTBEATS, {'a': DOWN})
        found = self.view()
        self.assertEqual(
            (True, 'ERROR', False, ['a']),
            (found.may_resize, found.load_balancer_status,
             found.cluster.enabled,
             [probe.member_id for probe in found.probes]))

    def test_owner_changes_load_balancer(self):
        """What is shown of it is of now, not of when the cluster was made."""
        self.change(name='other', enabled=False)
        for found in (self.view().cluster,
                      cluster_repo.get(self.engine, CLUSTER),
                      cluster_repo.get_by_load_balancer(self.engine, self.lb),
                      *cluster_repo.get_all(self.engine)):
            self.assertEqual(('other', False),
                             (found.cluster_name, found.enabled))
        self.change(name='')
        self.assertEqual('name1', self.view().cluster.cluster_name)

    def test_view_of_one_without_load_balancer(self):
        cluster_repo.add(self.engine, cluster_calls.new(2))
        found = view_repo.read(self.engine, 'cluster2', 20)
        self.assertIsNone(found.load_balancer_status)

    def test_who_hears(self):
        hm_repo.register(self.engine, 'controller1', '192.0.2.1', 5555,
                         'instance', 20)
        self.assertTrue(self.view().is_heard)
        self.make_older(models.HealthManager, 'keepalive_at', 21)
        self.assertFalse(self.view().is_heard)

    def test_who_distributes(self):
        row, = distributor_repo.sync(self.engine, 'hmsync_ovs',
                                     {'network1': 'https://network1:9444'})
        vip = vip_repo.add(self.engine, CLUSTER, row.id)
        self.assertFalse(self.view().is_distributed)
        vip_repo.record_applied(self.engine, vip.id, 1, True)
        self.assertTrue(self.view().is_distributed)

    def test_decided_before(self):
        """What was decided for another version is not done."""
        version = self.view().cluster.version
        cluster_repo.raise_version(self.engine, CLUSTER, version)
        member_repo.add(self.engine, CLUSTER, 'c', 0)
        for function, *arguments in (
                (member_repo.drain, 'a'),
                (member_repo.unregister, 'a', 'dead'),
                (member_repo.take_slot, 'c', 2),
                (member_repo.take_over_slot, 'c', 'a')):
            self.assertFalse(function(self.engine, *arguments,
                                      version=version))
            self.assertTrue(function(
                self.engine, *arguments,
                version=self.view().cluster.version), function)
            if function is member_repo.unregister:
                # The next ones need its slot.
                member_repo.take_slot(self.engine, 'a', 0, state='ACTIVE')
            elif function is member_repo.take_slot:
                member_repo.release_slot(self.engine, 'c')
        self.assertEqual([('c', 'ACTIVE', 0), ('b', 'ACTIVE', 1),
                          ('a', 'DRAINING', None)],
                         [(each.id, each.state, each.slot)
                          for each in self.view().members])

    def test_drained(self):
        member_repo.record(self.engine, 'a', connections=0)
        self.assertTrue(member_repo.drain(self.engine, 'a'))
        self.assertFalse(member_repo.drain(self.engine, 'a'))
        found = member_repo.get(self.engine, 'a')
        self.assertEqual(('DRAINING', 0, None), (
            found.state, found.slot, found.connections))

    def test_unregistered(self):
        self.assertTrue(member_repo.unregister(self.engine, 'a', 'dead'))
        self.assertFalse(member_repo.unregister(self.engine, 'a', 'again'))
        self.assertFalse(member_repo.unregister(self.engine, 'nobody'))
        found = member_repo.get(self.engine, 'a')
        self.assertEqual(('FAILED', None, 'dead'), (
            found.state, found.slot, found.error))

    def test_moved_with_a_version(self):
        one, two = distributor_repo.sync(
            self.engine, cluster_calls.DRIVER, cluster_calls.DISTRIBUTORS)
        for each in (one, two):
            vip_repo.add(self.engine, CLUSTER, each.id)
        version = self.view().cluster.version
        self.assertTrue(vip_repo.set_active(self.engine, CLUSTER, one.id,
                                            version))
        self.assertFalse(vip_repo.set_active(self.engine, CLUSTER, two.id,
                                             version))
