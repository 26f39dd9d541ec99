# SPDX-License-Identifier: Apache-2.0

"""The lock of a load balancer, and what its tables tell of it."""

import datetime
import time

from octavia_hmsync.db import octavia_amphora as octavia_repo
from octavia_hmsync import exceptions
from octavia_hmsync.image.db import claim as claims_repo
from octavia_hmsync.image.db import evidence as evidence_repo
from octavia_hmsync.image.db import lock as lock_repo
from octavia_hmsync.image.db import replacement as replace_repo
from octavia_hmsync.image.db import restore as restore_repo
from octavia_hmsync.image.recovery import restorable
from tests.cloud import records
from tests.db_cases import base

EXPIRY = 60


class _Cases(base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.lb_id = self.records.add_load_balancer('ACTIVE_STANDBY')
        self.ids = sorted(
            self.records.add_amphora(f'192.0.2.{number}', self.lb_id, role)
            for number, role in enumerate(('MASTER', 'BACKUP')))

    def statuses(self):
        return {row['id']: row['status']
                for row in self.records.rows('amphora')}


class ImageLockCases(_Cases):

    def setUp(self):
        super().setUp()
        replace_repo.add(self.engine, replace_repo.New(
            'one', self.lb_id, 'replace', 'image'))
        self.claimed, = claims_repo.claim(self.engine, 'me', 1, EXPIRY)

    def lock(self, owner='me'):
        return lock_repo.lock(self.engine, self.claimed, owner, EXPIRY,
                              'BUILD', self.ids[0])

    def unlock(self, owner='me'):
        lock_repo.unlock(self.engine, self.claimed, owner, EXPIRY, 'LOCK')

    def status(self):
        row, = self.records.rows('load_balancer')
        return row['provisioning_status']

    def phase(self):
        row = replace_repo.get(self.engine, 'one')
        return row.phase, row.old_amphora_id, row.new_amphora_id

    def test_lock(self):
        """The lock and the phase come together, and go together."""
        claims_repo.set_phase(self.engine, 'one', 'me', EXPIRY, 'LOCK',
                              new_amphora_id='of the one before')
        self.assertTrue(self.lock())
        self.assertEqual('PENDING_UPDATE', self.status())
        self.assertEqual(('BUILD', self.ids[0], None), self.phase())
        self.unlock()
        self.assertEqual('ACTIVE', self.status())
        self.assertEqual('LOCK', self.phase()[0])

    def test_change_of_topology(self):
        """The phase comes with it; a SINGLE one keeps no VRRP group."""
        other = self.records.add_load_balancer('ACTIVE_STANDBY')
        self.lock()
        lock_repo.change_topology(self.engine, self.claimed, 'me', EXPIRY,
                                  'DELETE_OLD', 'SINGLE')
        self.assertEqual('DELETE_OLD', self.phase()[0])
        self.assertEqual(
            {self.lb_id: 'SINGLE', other: 'ACTIVE_STANDBY'},
            {row['id']: row['topology']
             for row in self.records.rows('load_balancer')})
        self.assertEqual({self.lb_id, other}, self.groups())
        self.unlock()
        self.assertEqual({other}, self.groups())
        self.assertRaises(
            exceptions.Lost, lock_repo.change_topology, self.engine,
            self.claimed, 'another', EXPIRY, 'DELETE_OLD', 'ACTIVE_STANDBY')

    def groups(self):
        return {row['load_balancer_id']
                for row in self.records.rows('vrrp_group')}

    def test_group_of_a_pair_stays(self):
        self.lock()
        self.unlock()
        self.assertEqual({self.lb_id}, self.groups())

    def test_locked_by_others(self):
        """Nothing says then that the lock is ours."""
        for status in ('PENDING_UPDATE', 'PENDING_DELETE', 'ERROR',
                       'DELETED'):
            self.records.change('load_balancer', self.lb_id,
                                provisioning_status=status)
            self.assertFalse(self.lock())
            self.assertEqual(status, self.status())
            self.assertEqual((None, None, None), self.phase())

    def test_lost(self):
        """Whoever has lost the claim neither locks nor unlocks."""
        self.assertRaises(exceptions.Lost, self.lock, 'another')
        self.assertEqual('ACTIVE', self.status())
        self.lock()
        self.assertRaises(exceptions.Lost, self.unlock, 'another')
        self.assertEqual('PENDING_UPDATE', self.status())

    def test_changes_are_dated(self):
        """Octavia, its API and "image restore" go by when a row changed."""
        old, other = self.ids
        long_ago = records.utcnow() - datetime.timedelta(days=30)
        for change, table, row_id in (
                (self.lock, 'load_balancer', self.lb_id),
                (self.unlock, 'load_balancer', self.lb_id),
                (lambda: octavia_repo.set_right(self.engine, [other]),
                 'amphora', other),
                (lambda: octavia_repo.set_going(self.engine, old), 'amphora',
                 old),
                # Octavia forgets a week later what is DELETED.
                (lambda: octavia_repo.set_gone(self.engine, old), 'amphora',
                 old)):
            self.records.set_status(other, 'ERROR')
            self.records.change(table, row_id, created_at=long_ago,
                                updated_at=long_ago)
            change()
            row, = [row for row in self.records.rows(table)
                    if row['id'] == row_id]
            self.assertGreater(
                row['updated_at'],
                records.utcnow() - datetime.timedelta(days=1), row)

    def test_failover_that_no_worker_began(self):
        """The message may be in the queue still."""
        long_ago = records.utcnow() - datetime.timedelta(days=30)
        for table, row_id in (('load_balancer', self.lb_id), *(
                ('amphora', each) for each in self.ids)):
            self.records.change(table, row_id, created_at=long_ago,
                                updated_at=long_ago)
        self.assertTrue(self.lock())
        claims_repo.set_phase(self.engine, 'one', 'me', EXPIRY, 'FAILOVER')
        claims_repo.finish(self.engine, 'one', 'me', 'FAILED', 'no worker')
        found = restorable.check_lock(
            restore_repo.get(self.engine, self.lb_id), 3600, False)
        self.assertEqual('Failure', found.name)
        self.assertIn('it is PENDING_UPDATE, and was changed', found.details)

    def test_not_given_back_twice(self):
        """What became of it in somebody else's hands is theirs."""
        self.lock()
        self.records.change('load_balancer', self.lb_id,
                            provisioning_status='ERROR')
        self.unlock()
        self.assertEqual('ERROR', self.status())

    def test_amphorae(self):
        old, other = self.ids
        self.records.set_health(old)
        octavia_repo.set_going(self.engine, old)
        self.assertEqual({old: 'PENDING_DELETE', other: 'ALLOCATED'},
                         self.statuses())
        row, = self.records.rows('amphora_health')
        self.assertTrue(row['busy'])
        octavia_repo.set_gone(self.engine, old)
        self.assertEqual({old: 'DELETED', other: 'ALLOCATED'},
                         self.statuses())
        self.assertEqual([], self.records.rows('amphora_health'))
        # Octavia would ask Neutron for its port.
        self.assertEqual({old: None, other: self.lb_id}, {
            row['id']: row['load_balancer_id']
            for row in self.records.rows('amphora')})
        # One that is gone stays gone.
        octavia_repo.set_going(self.engine, old)
        self.assertEqual('DELETED', self.statuses()[old])

    def test_set_right(self):
        """Of those that are named, and only from ERROR."""
        old, other = self.ids
        third = self.records.add_amphora('192.0.2.3', self.lb_id,
                                         status='ERROR')
        self.records.set_health(old, other, third, busy=True)
        self.records.set_status(old, 'ERROR')
        self.records.set_status(other, 'PENDING_DELETE')
        octavia_repo.set_right(self.engine, [old, other])
        self.assertEqual({old: 'ALLOCATED', other: 'PENDING_DELETE',
                          third: 'ERROR'}, self.statuses())
        self.assertEqual({old: False, other: False, third: True}, {
            row['amphora_id']: bool(row['busy'])
            for row in self.records.rows('amphora_health')})
        octavia_repo.set_right(self.engine, [])

    def test_interface(self):
        octavia_repo.set_interface(self.engine, self.ids[0], 'eth7')
        self.assertEqual({self.ids[0]: 'eth7', self.ids[1]: 'eth1'}, {
            row['id']: row['vrrp_interface']
            for row in self.records.rows('amphora')})

    def test_unfinished(self):
        """Without an instance: with one it is somebody's who builds it."""
        begun = self.records.add_amphora(None, self.lb_id,
                                         status='PENDING_CREATE')
        booting = self.records.add_amphora(None, self.lb_id,
                                           status='BOOTING')
        self.records.change('amphora', begun, compute_id=None)
        self.records.change('amphora', booting, compute_id='instance')
        self.records.change('amphora', self.ids[0], compute_id=None)
        self.assertEqual([begun], octavia_repo.get_unfinished(
            self.engine, self.lb_id))


class ImageEvidenceCases(_Cases):

    def read(self):
        return evidence_repo.read(self.engine, self.lb_id)

    def test_amphorae(self):
        old, other = self.ids
        gone = self.records.add_amphora('192.0.2.3', self.lb_id,
                                        status='DELETED')
        self.records.add_amphora('192.0.2.4',
                                 self.records.add_load_balancer())
        listener_id = self.records.add_listener(self.lb_id)
        began = time.monotonic()
        self.records.set_health(old, age=7, busy=True)
        self.records.insert_all({'listener_statistics': [
            {'listener_id': listener_id, 'amphora_id': amphora_id,
             'bytes_in': 0, 'bytes_out': 0, 'active_connections': 0,
             'total_connections': 0, 'request_errors': 0}
            for amphora_id in (old, gone)]})
        evidence = self.read()
        self.assertEqual(set(self.ids), set(evidence.amphorae))
        one, two = (evidence.amphorae[each] for each in (old, other))
        self.assertEqual((True, frozenset({listener_id}), 'ALLOCATED'),
                         (one.is_busy, one.listeners, one.status))
        self.assertAge(7, (evidence.now - one.heard_at).total_seconds(), began)
        self.assertEqual((False, frozenset(), None),
                         (two.is_busy, two.listeners, two.heard_at))
        self.assertEqual({listener_id: (True, 'ACTIVE', 'ONLINE')},
                         evidence.listeners)

    def test_members(self):
        """The slowest monitor counts, and none that is switched off."""
        self.assertEqual(({}, 0),
                         (self.read().members, self.read().down_after))
        ids = {}
        for status, *monitor in (('ONLINE', 5, 4, 3), ('ERROR', 10, 9, 2),
                                 ('OFFLINE', 99, 9, 9, False),
                                 ('NO_MONITOR',)):
            pool_id = self.records.add_pool(self.lb_id)
            ids[self.records.add_member(pool_id, status)] = status
            if monitor:
                self.records.add_health_monitor(pool_id, *monitor)
        evidence = self.read()
        self.assertEqual(ids, evidence.members)
        self.assertEqual(29, evidence.down_after)

    def test_disabled(self):
        listener_id = self.records.add_listener(self.lb_id)
        self.assertTrue(self.read().is_enabled)
        self.records.change('load_balancer', self.lb_id, enabled=False)
        self.assertFalse(self.read().is_enabled)
        self.assertEqual({listener_id: (True, 'ACTIVE', 'ONLINE')},
                         self.read().listeners)

    def test_without_haproxy(self):
        ids = {}
        for port, protocol in enumerate(('HTTP', 'UDP', 'TCP', 'SCTP')):
            ids[protocol] = self.records.add_listener(self.lb_id, port)
            self.records.change('listener', ids[protocol], protocol=protocol)
        self.assertEqual({ids['UDP'], ids['SCTP']},
                         self.read().without_haproxy)

    def test_nobody(self):
        evidence = evidence_repo.read(self.engine, 'nobody')
        self.assertEqual(({}, {}, {}), (
            evidence.amphorae, evidence.listeners, evidence.members))
