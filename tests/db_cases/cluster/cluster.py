# SPDX-License-Identifier: Apache-2.0

"""Clusters, who works on them, and their members."""

import functools

import hypothesis
from hypothesis import strategies as st
from oslo_db import exception as db_exc
import sqlalchemy as sa

from octavia_hmsync.cluster.db import claim as claim_repo
from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import distributor as distributor_repo
from octavia_hmsync.cluster.db import distributor_vip as vip_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.db import models
from tests.db_cases import base
from tests.db_cases.cluster import calls as cluster_calls

new = cluster_calls.new
CLUSTER = 'cluster1'
SIZE = 4


class _Cases(base.DatabaseTestCase):

    def make(self, number=1, **values):
        return cluster_repo.add(self.engine, new(number, **values))

    def get(self, cluster_id=CLUSTER):
        return cluster_repo.get(self.engine, cluster_id)

    def version(self, cluster_id=CLUSTER):
        return self.get(cluster_id).version

    def add(self, *member_ids, size=SIZE, cluster_id=CLUSTER):
        return [member_repo.add(self.engine, cluster_id, member_id, size)
                for member_id in member_ids]

    def activate(self, *member_ids):
        for member_id in member_ids:
            self.assertTrue(member_repo.set_state(
                self.engine, member_id, ('BUILDING', 'STANDBY'), 'ACTIVE'))

    def members(self, cluster_id=CLUSTER):
        """Slot and state by id."""
        return {m.id: (m.slot, m.state) for m in
                member_repo.get_of_cluster(self.engine, cluster_id)}

    def assertVersion(self, step, before, cluster_id=CLUSTER):
        self.assertEqual(before + step, self.version(cluster_id))


class ClusterCases(_Cases):

    def test_none(self):
        self.assertIsNone(self.get())
        self.assertIsNone(cluster_repo.get_by_load_balancer(self.engine,
                                                            'lb1'))
        self.assertEqual([], cluster_repo.get_all(self.engine))
        self.assertFalse(cluster_repo.set_status(self.engine, CLUSTER,
                                                 'ACTIVE'))
        self.assertFalse(cluster_repo.set_affinity(self.engine, CLUSTER,
                                                   'FLOW'))
        self.assertFalse(cluster_repo.delete(self.engine, CLUSTER))

    def test_add(self):
        self.assertTrue(self.make(standby=1, cooldown=30))
        found = self.get()
        self.assertEqual(
            ('lb1', 'name1', 4, 2, 30, 1, 'FLOW', 2, 'reference',
             'hmsync_ovs',
             # No load balancer is there in these cases.
             'PENDING_CREATE', 'OFFLINE', False, 0, None),
            (found.load_balancer_id, found.cluster_name, found.desired_size,
             found.min_size, found.cooldown, found.standby, found.affinity,
             found.peer_group_size, found.cluster_type, found.distributor,
             found.provisioning_status, found.operating_status,
             found.enabled, found.version, found.claimed_by))
        # SQLite may ask its clock twice in a statement.
        self.assertLessEqual(found.created_at, found.updated_at)
        self.assertLessEqual(found.updated_at, found.now)
        self.assertEqual(CLUSTER, cluster_repo.get_by_load_balancer(
            self.engine, 'lb1').id)

    def test_one_for_each_load_balancer(self):
        added = self.run_at_once([
            functools.partial(self.make, id=f'cluster{n}')
            for n in range(4)])
        self.assertEqual([False, False, False, True], sorted(added))
        self.assertEqual(1, len(cluster_repo.get_all(self.engine)))

    def test_version(self):
        self.make()
        bumped = self.run_at_once([functools.partial(
            cluster_repo.raise_version, self.engine, CLUSTER, 0)] * 4)
        self.assertEqual([False, False, False, True], sorted(bumped))
        self.assertEqual(1, self.version())

    def test_version_that_somebody_else_has(self):
        """As when the database is brought back from a backup."""
        self.assertFalse(cluster_repo.raise_version(self.engine, CLUSTER, 5))
        self.make()
        for version, is_raised, expected in ((5, True, 6), (5, False, 6),
                                             (6, True, 7)):
            self.assertEqual(is_raised, cluster_repo.raise_version(
                self.engine, CLUSTER, version))
            self.assertEqual(expected, self.version())

    def test_status(self):
        self.make()
        self.assertTrue(cluster_repo.set_status(self.engine, CLUSTER,
                                                'ACTIVE'))
        self.assertTrue(cluster_repo.set_status(
            self.engine, CLUSTER, operating_status='DEGRADED'))
        found = self.get()
        self.assertEqual(('ACTIVE', 'DEGRADED', 0), (
            found.provisioning_status, found.operating_status,
            found.version))

    def test_affinity(self):
        self.make()
        self.assertFalse(cluster_repo.set_affinity(self.engine, CLUSTER,
                                                   'FLOW'))
        self.assertVersion(0, 0)
        self.assertTrue(cluster_repo.set_affinity(self.engine, CLUSTER,
                                                  'SOURCE_IP'))
        self.assertEqual('SOURCE_IP', self.get().affinity)
        self.assertVersion(1, 0)

    def test_delete(self):
        """With all that is its own, and nothing of another one."""
        one, two = distributor_repo.sync(
            self.engine, 'hmsync_ovs', cluster_calls.DISTRIBUTORS)
        for number in (1, 2):
            self.make(number)
            cluster_id = f'cluster{number}'
            self.add(f'member{number}', cluster_id=cluster_id)
            vip_repo.add(self.engine, cluster_id, one.id)
        self.activate('member1')
        self.assertTrue(cluster_repo.delete(self.engine, CLUSTER))
        self.assertEqual([None], self.add('late'))
        self.assertIsNone(vip_repo.add(self.engine, CLUSTER, two.id))
        self.assertEqual(['cluster2'], [
            c.id for c in cluster_repo.get_all(self.engine)])
        self.assertEqual(['member2'], [
            m.id for m in member_repo.get_all(self.engine)])
        # Until the distributor was told to forget it.
        self.assertEqual([CLUSTER], [
            v.cluster_id for v in vip_repo.get_left(self.engine)])


class ClusterClaimCases(_Cases):

    def claim(self, owner, expiry=60):
        return claim_repo.claim(self.engine, CLUSTER, owner, expiry)

    def renew(self, owner):
        return claim_repo.renew(self.engine, CLUSTER, owner, 60)

    def test_one_at_a_time(self):
        self.assertFalse(self.claim('one'))
        self.make()
        claimed = self.run_at_once([
            functools.partial(self.claim, f'owner{n}') for n in range(4)])
        self.assertEqual([False, False, False, True], sorted(claimed))
        owner = self.get().claimed_by
        self.assertTrue(self.claim(owner))
        self.assertFalse(claim_repo.release(self.engine, CLUSTER, 'nobody'))
        self.assertTrue(claim_repo.release(self.engine, CLUSTER, owner))
        self.assertIsNone(self.get().claimed_by)
        self.assertFalse(self.renew(owner))
        self.assertTrue(self.claim('another'))
        self.assertVersion(0, 0)

    def test_status_of_a_claim(self):
        """With the claim, in one step; but for one that is to be deleted."""
        self.make()
        for before, after in (('ACTIVE', 'PENDING_UPDATE'),
                              ('PENDING_DELETE', 'PENDING_DELETE')):
            cluster_repo.set_status(self.engine, CLUSTER, before)
            self.claim('one')
            self.assertFalse(claim_repo.claim(
                self.engine, CLUSTER, 'two', 60, 'PENDING_UPDATE'))
            self.assertEqual(before, self.get().provisioning_status)
            claim_repo.release(self.engine, CLUSTER, 'one')
            self.assertTrue(claim_repo.claim(
                self.engine, CLUSTER, 'two', 60, 'PENDING_UPDATE'))
            self.assertEqual(after, self.get().provisioning_status)
            claim_repo.release(self.engine, CLUSTER, 'two')

    def test_one_dies(self):
        self.make()
        self.claim('one')
        self.make_older(models.Cluster, 'claim_expires_at', 1)
        # While nobody else wants it, it is still its own.
        self.assertTrue(self.renew('one'))
        self.assertFalse(self.claim('two'))
        self.make_older(models.Cluster, 'claim_expires_at', 1)
        self.assertTrue(self.claim('two'))
        self.assertFalse(self.renew('one'))
        self.assertFalse(claim_repo.release(self.engine, CLUSTER, 'one'))
        with self.engine.begin() as connection:
            self.assertTrue(claim_repo.CLAIMS.hold(
                connection, CLUSTER, 'two', 60))
            self.assertFalse(claim_repo.CLAIMS.hold(
                connection, CLUSTER, 'one', 60))


class ClusterMemberCases(_Cases):

    def setUp(self):
        super().setUp()
        self.make()
        self.make(2)

    def test_slots(self):
        self.assertEqual([0, 1, 2, 3], [
            m.slot for m in self.add('a', 'b', 'c', 'd')])
        self.assertEqual([None], self.add('e'))
        self.assertVersion(4, 0)
        self.assertEqual([0, 0, 1, 1], [
            m.peer_group for m in member_repo.get_of_cluster(self.engine,
                                                             CLUSTER)])
        # Others have their own.
        self.assertEqual(0, self.add('f', cluster_id='cluster2')[0].slot)
        self.assertTrue(member_repo.release_slot(self.engine, 'b'))
        self.assertFalse(member_repo.release_slot(self.engine, 'b'))
        self.assertEqual(1, self.add('g')[0].slot)
        self.assertEqual((None, 'BUILDING'), self.members()['b'])
        self.assertEqual(['a', 'g', 'c', 'd', 'b'], list(self.members()))

    def test_added_twice(self):
        """As where the answer to a commit was lost."""
        first, = self.add('a')
        version = self.version()
        self.assertEqual(first.slot, self.add('a')[0].slot)
        self.assertVersion(0, version)
        self.assertEqual({'a': (0, 'BUILDING')}, self.members())

    def test_added_at_once(self):
        added = self.run_at_once([functools.partial(
            member_repo.add, self.engine, CLUSTER, f'member{n}', 3)
            for n in range(5)])
        self.assertEqual(2, added.count(None))
        self.assertEqual([0, 1, 2], sorted(m.slot for m in added if m))
        self.assertVersion(3, 0)

    def test_states(self):
        self.add('a')
        version = self.version()

        def set_state(old, to, **details):
            return member_repo.set_state(self.engine, 'a', old, to, **details)

        self.assertFalse(set_state(('ACTIVE',), 'DRAINING'))
        self.assertVersion(0, version)
        self.assertTrue(set_state(('BUILDING', 'STANDBY'), 'ACTIVE',
                                  config_digest='digest'))
        self.assertTrue(set_state(('ACTIVE',), 'DRAINING', error='slow'))
        found = member_repo.get(self.engine, 'a')
        self.assertEqual(('DRAINING', 0, 'digest', 'slow'), (
            found.state, found.slot, found.config_digest, found.error))
        self.assertVersion(2, version)
        self.assertFalse(member_repo.set_state(
            self.engine, 'nobody', ('ACTIVE',), 'FAILED'))
        self.assertRaises(TypeError, set_state, ('DRAINING',), 'FAILED',
                          slot=3)

    def test_two_set_a_state(self):
        self.add('a')
        changed = self.run_at_once([functools.partial(
            member_repo.set_state, self.engine, 'a', ('BUILDING',), state)
            for state in ('ACTIVE', 'FAILED', 'STANDBY')])
        self.assertEqual([False, False, True], sorted(changed))
        self.assertVersion(2, 0)

    def test_what_one_was_told_as_one_of_all(self):
        def record(digest, **details):
            return member_repo.record_config(self.engine, before, digest,
                                             **details)

        def digest():
            return member_repo.get(self.engine, 'spare').config_digest

        member_repo.add(self.engine, CLUSTER, 'spare', 0)
        before = member_repo.get(self.engine, 'spare')
        version = self.version()
        self.assertTrue(record('1', error='e'))
        self.assertTrue(record(None, error=None))
        self.assertTrue(record('2'))
        self.assertEqual('2', digest())
        self.assertVersion(0, version)
        # It took a slot meanwhile, and was told nothing of that.
        member_repo.take_slot(self.engine, 'spare', 0, config_digest=None)
        self.assertFalse(record('2'))
        self.assertIsNone(digest())
        before = member_repo.get(self.engine, 'spare')
        self.assertTrue(record('3'))
        self.assertFalse(member_repo.join_group(self.engine, 'spare', '4'))
        member_repo.record(self.engine, 'spare',
                           config_digest=member_repo.ALONE)
        self.assertFalse(record('5'))
        self.assertFalse(record(None))
        version = self.version()
        self.assertTrue(member_repo.join_group(self.engine, 'spare', '6'))
        self.assertVersion(1, version)
        self.assertEqual('6', digest())
        self.assertTrue(record('7'))
        self.assertRaises(TypeError, record, '8', state='ACTIVE')
        self.assertFalse(member_repo.join_group(self.engine, 'nobody', '9'))

    def test_details_are_no_version(self):
        self.add('a')
        version = self.version()
        self.assertTrue(member_repo.record(
            self.engine, 'a', health='ONLINE', config_digest='1', error='e'))
        self.assertTrue(member_repo.record(self.engine, 'a', error=None))
        found = member_repo.get(self.engine, 'a')
        self.assertEqual(('ONLINE', '1', None),
                         (found.health, found.config_digest, found.error))
        self.assertFalse(member_repo.record(self.engine, 'nobody', error='e'))
        self.assertRaises(TypeError, member_repo.record, self.engine, 'a',
                          state='ACTIVE')
        self.assertVersion(0, version)

    def test_amphora(self):
        """One amphora is one member, and a member one amphora."""
        self.add('a', 'b')

        def assign(member_id, amphora_id):
            return member_repo.assign_amphora(self.engine, member_id,
                                              amphora_id)

        self.assertTrue(assign('a', 'amp1'))
        self.assertTrue(assign('a', 'amp1'))
        self.assertFalse(assign('a', 'amp2'))
        self.assertFalse(assign('b', 'amp1'))
        self.assertFalse(assign('nobody', 'amp3'))
        self.assertEqual('a', member_repo.get_by_amphora(self.engine,
                                                         'amp1').id)
        self.assertIsNone(member_repo.get_by_amphora(self.engine, 'amp2'))
        self.assertIsNone(member_repo.get(self.engine, 'b').amphora_id)

    def test_mac(self):
        self.add('a')
        version = self.version()
        for mac, step in (('fa:1', 1), ('fa:1', 1), ('fa:2', 2)):
            member_repo.set_mac(self.engine, 'a', mac)
            self.assertVersion(step, version)
            self.assertEqual(mac, member_repo.get(self.engine, 'a').mac)
        self.assertFalse(member_repo.set_mac(self.engine, 'nobody', 'fa:1'))

    def test_take_slot(self):
        self.add('a')
        self.add('spare', size=0)
        self.assertIsNone(member_repo.get(self.engine, 'spare').slot)

        def take(slot):
            return member_repo.take_slot(self.engine, 'spare', slot)

        version = self.version()
        self.assertFalse(take(0))
        self.assertVersion(0, version)
        self.assertTrue(take(3))
        self.assertVersion(1, version)
        self.assertEqual(1, member_repo.get(self.engine, 'spare').peer_group)
        # It has one.
        self.assertFalse(take(2))

    def test_none_is_active_without_a_slot(self):
        """Whoever registers it may have looked before it was unregistered."""
        self.add('a')
        self.activate('a')
        member_repo.unregister(self.engine, 'a')
        self.assertFalse(member_repo.set_state(
            self.engine, 'a', member_repo.STATES, 'ACTIVE'))
        self.assertEqual((None, 'FAILED'), self.members()['a'])

    def test_well_again(self):
        """What spoke against it does no more; whatever else was is kept."""
        self.add('a')

        def error():
            return member_repo.get(self.engine, 'a').error

        member_repo.set_health(self.engine, 'a', 'SUSPECT', 'silent')
        member_repo.set_health(self.engine, 'a', 'DEAD')
        self.assertEqual('silent', error())
        member_repo.set_health(self.engine, 'a', 'HEALTHY')
        self.assertIsNone(error())
        member_repo.record(self.engine, 'a', error='No host.')
        member_repo.set_health(self.engine, 'a', 'HEALTHY')
        self.assertEqual('No host.', error())

    def test_two_take_a_slot(self):
        self.add('a', 'b', 'c', size=0)
        taken = self.run_at_once([
            functools.partial(member_repo.take_slot, self.engine, member, 1)
            for member in 'abc'])
        self.assertEqual([False, False, True], sorted(taken))

    def test_take_over(self):
        self.add('a', 'b')
        self.activate('a', 'b')
        self.add('new', size=0)
        version = self.version()

        def take(member_id='new', old='b'):
            return member_repo.take_over_slot(self.engine, member_id, old)

        self.assertTrue(take())
        self.assertVersion(1, version)
        self.assertEqual({'a': (0, 'ACTIVE'), 'new': (1, 'ACTIVE'),
                          'b': (None, 'DRAINING')}, self.members())
        # Again, from whom has none, for whom has one, in another cluster.
        self.add('late', size=0)
        self.add('other', cluster_id='cluster2', size=0)
        version = self.version()
        for values in ((), ('late', 'b'), ('new', 'a'), ('a', 'new'),
                       ('other', 'a'), ('nobody', 'a'), ('late', 'nobody')):
            self.assertFalse(take(*values))
        self.assertVersion(0, version)
        self.assertEqual((0, 'ACTIVE'), self.members()['a'])

    def test_take_over_of_a_dead_one(self):
        self.add('a')
        member_repo.set_state(self.engine, 'a', ('BUILDING',), 'FAILED')
        self.add('new', size=0)
        self.assertTrue(member_repo.take_over_slot(self.engine, 'new', 'a'))
        self.assertEqual({'new': (0, 'ACTIVE'), 'a': (None, 'FAILED')},
                         self.members())

    def test_delete(self):
        """Unregistered first."""
        self.add('a', 'b')
        self.activate('a')
        version = self.version()
        self.assertFalse(member_repo.delete(self.engine, 'a'))
        self.assertVersion(0, version)
        member_repo.set_state(self.engine, 'a', ('ACTIVE',), 'DRAINING')
        self.assertTrue(member_repo.delete(self.engine, 'a'))
        self.assertVersion(2, version)
        self.assertFalse(member_repo.delete(self.engine, 'a'))
        self.assertEqual({'b': (1, 'BUILDING')}, self.members())
        self.assertEqual(0, self.add('c')[0].slot)

    def test_get_all(self):
        self.add('b', 'a')
        self.add('c', cluster_id='cluster2')
        self.assertEqual([(CLUSTER, 'b'), (CLUSTER, 'a'), ('cluster2', 'c')],
                         [(m.cluster_id, m.id) for m in
                          member_repo.get_all(self.engine)])


class _Death(Exception):
    """Whoever does something dies in the middle."""


_member = st.sampled_from([f'member{n}' for n in range(6)])
_cluster = st.sampled_from(['cluster1', 'cluster2', 'nobody'])
_state = st.sampled_from(member_repo.STATES)
_operation = st.one_of(
    st.tuples(st.just(member_repo.add), _cluster, _member,
              st.integers(0, SIZE)),
    st.tuples(st.just(member_repo.set_state), _member,
              st.sets(_state, min_size=1), _state),
    st.tuples(st.just(member_repo.assign_amphora), _member,
              st.sampled_from(['amp1', 'amp2', 'amp3'])),
    st.tuples(st.just(member_repo.set_mac), _member,
              st.sampled_from(['fa:1', 'fa:2'])),
    st.tuples(st.just(member_repo.take_slot), _member,
              st.integers(0, SIZE - 1)),
    st.tuples(st.just(member_repo.take_over_slot), _member, _member),
    st.tuples(st.just(member_repo.release_slot), _member),
    st.tuples(st.just(member_repo.delete), _member),
    st.tuples(st.just(vip_repo.set_active), _cluster,
              st.sampled_from(['network1', 'network2', 'nobody'])))


class ClusterSequenceCases(_Cases):
    """What holds after any sequence of changes, and of deaths in them."""

    examples = 30

    def setUp(self):
        super().setUp()
        self._dies_at = None
        sa.event.listen(self.engine, 'before_cursor_execute',
                        self._before_statement)

    def _before_statement(self, *args):
        if self._dies_at is not None:
            self._dies_at -= 1
            if self._dies_at == 0:
                raise _Death('here')

    def fill(self):
        self.empty()
        for number in (1, 2):
            self.make(number, peer_group_size=number + 1)
        found = distributor_repo.sync(self.engine, 'hmsync_ovs',
                                      cluster_calls.DISTRIBUTORS)
        for distributor in found:
            vip_repo.add(self.engine, CLUSTER, distributor.id)
        self.ids = {d.name: d.id for d in found}

    def look(self):
        """Return (version, what distributors are told) by cluster."""
        vips = vip_repo.get_all(self.engine)
        members = member_repo.get_all(self.engine)
        amphorae = [m.amphora_id for m in members if m.amphora_id]
        self.assertEqual(len(amphorae), len(set(amphorae)))
        found = {}
        for cluster in cluster_repo.get_all(self.engine):
            own = [m for m in members if m.cluster_id == cluster.id]
            slots = [m.slot for m in own if m.slot is not None]
            self.assertEqual(len(slots), len(set(slots)))
            active = [v.distributor_id for v in vips
                      if v.active and v.cluster_id == cluster.id]
            self.assertLessEqual(len(active), 1)
            for member in own:
                self.assertEqual(
                    None if member.slot is None
                    else member.slot // cluster.peer_group_size,
                    member.peer_group)
            found[cluster.id] = (cluster.version, active, sorted(
                (m.slot, m.id, m.state, m.mac) for m in own
                if m.slot is not None))
        return found

    def run_one(self, operation, dies_at):
        function, *arguments = operation
        if function is vip_repo.set_active:
            arguments[1] = self.ids.get(arguments[1], 'nobody')
        before = self.look()
        self._dies_at = dies_at
        try:
            result = function(self.engine, *arguments)
        except (_Death, db_exc.DBError) as e:
            # Where a statement follows a failure, nothing wraps it.
            self.assertIsInstance(getattr(e, 'inner_exception', e), _Death)
            result = None
        finally:
            self._dies_at = None
        after = self.look()
        for cluster_id, (version, *told) in after.items():
            was, *was_told = before[cluster_id]
            self.assertGreaterEqual(version, was)
            if told != was_told:
                # Nobody is told something else with the same version.
                self.assertGreater(version, was)
        if result is False:
            self.assertEqual(before, after)

    def repair(self, cluster_id):
        """Do what any keeper does that knows nothing of who died."""
        for member in member_repo.get_of_cluster(self.engine, cluster_id):
            if member.state == 'ACTIVE' and member.slot is not None:
                continue
            member_repo.set_state(self.engine, member.id, ('ACTIVE',),
                                  'FAILED')
            member_repo.release_slot(self.engine, member.id)
            self.assertTrue(member_repo.delete(self.engine, member.id))
        for number in range(SIZE):
            member_id = f'{cluster_id} new{number}'
            if member_repo.add(self.engine, cluster_id, member_id, SIZE):
                self.activate(member_id)
        self.assertEqual(
            [(slot, 'ACTIVE') for slot in range(SIZE)],
            list(self.members(cluster_id).values()))

    def test_sequences(self):
        @hypothesis.settings(max_examples=self.examples)
        @hypothesis.given(st.lists(
            st.tuples(_operation, st.none() | st.integers(1, 6)),
            min_size=3, max_size=20))
        def check(operations):
            self.fill()
            for operation, dies_at in operations:
                self.run_one(operation, dies_at)
            for cluster_id in ('cluster1', 'cluster2'):
                self.repair(cluster_id)
            self.look()

        check()
