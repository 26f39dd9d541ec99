# SPDX-License-Identifier: Apache-2.0

"""A load balancer that a failover left, and giving it back."""

from octavia_hmsync.db import models
from octavia_hmsync.image.db import claim as claims_repo
from octavia_hmsync.image.db import replacement as replace_repo
from octavia_hmsync.image.db import restore as restore_repo
from octavia_hmsync.image.db import rollout as rollout_repo
from tests.cloud import records
from tests.db_cases import base
from tests.db_cases.image import calls as image_calls


class RestoreCases(base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.make()

    def make(self):
        self.lb = self.records.add_load_balancer('ACTIVE_STANDBY')
        self.records.change('load_balancer', self.lb,
                            provisioning_status='ERROR')
        self.listener = self.records.add_listener(self.lb)
        self.old, self.new = self.add_amphorae(2, load_balancer_id=self.lb,
                                               status='ERROR')
        self.records.set_health(self.old, age=5, busy=True)

    def get(self):
        return restore_repo.get(self.engine, self.lb)

    def restore(self, snapshot, detached=()):
        return restore_repo.restore(
            self.engine, snapshot,
            {self.old: 'ALLOCATED', self.new: 'ERROR'}, detached,
            {each: 'ACTIVE' for each in snapshot.objects})

    def open_replacement(self):
        rollout_repo.add(self.engine, 'rollout', image_calls.SETTINGS)
        claims_repo.begin(
            self.engine, 'rollout', rollout_repo.get_active(
                self.engine).version,
            [replace_repo.New('replacement', self.lb, 'replace', 'image')],
            'owner', 60)

    def forget_heartbeats(self):
        with self.engine.begin() as connection:
            connection.execute(
                self.records.tables['amphora_health'].delete())

    def state(self):
        """What restore() may change."""
        (lb,) = [row for row in self.records.rows('load_balancer')
                 if row['id'] == self.lb]
        return (lb['provisioning_status'],
                {row['id']: row['status']
                 for row in self.records.rows('amphora')},
                {row['amphora_id']: bool(row['busy'])
                 for row in self.records.rows('amphora_health')},
                [row['provisioning_status']
                 for row in self.records.rows('listener')])

    def test_none(self):
        self.assertIsNone(restore_repo.get(self.engine, 'none'))

    def test_read(self):
        self.add_amphorae(1, load_balancer_id=self.lb, status='DELETED')
        self.add_amphorae(1)
        self.records.insert_all({'additional_vip': [{
            'load_balancer_id': self.lb, 'ip_address': '2001:db8::1',
            'port_id': records.new_id(), 'subnet_id': records.new_id()}]})
        found = self.get()
        self.assertEqual(
            ('amphora', 'ACTIVE_STANDBY', True, 'ERROR', None,
             ('198.51.100.1', '2001:db8::1'), ()),
            (found.provider, found.topology, found.enabled, found.status,
             found.replacement_phase, found.vips, found.objects))
        self.assertEqual(
            {self.old, self.new}, {each.id for each in found.amphorae})
        self.assertEqual([self.listener],
                         [each.id for each in found.listeners])
        ages = {each.id: each.heartbeat_age for each in found.amphorae}
        self.assertIsNone(ages[self.new])
        self.assertTrue(3 < ages[self.old] < 60, ages)
        self.assertTrue(-2 < found.unchanged_for < 60, found)

    def test_what_the_guard_wrote_is_no_heartbeat(self):
        with self.engine.begin() as connection:
            connection.execute(models.Amphora.__table__.insert().values(
                amphora_id=self.old, held_at=records.utcnow()))
        self.assertEqual([None, None], [
            each.heartbeat_age for each in self.get().amphorae])

    def test_unchanged_for(self):
        """The newest change of all counts."""
        long_ago = records.utcnow() - records.datetime.timedelta(hours=2)
        self.records.change('load_balancer', self.lb, updated_at=long_ago)
        for amphora_id in (self.old, self.new):
            self.records.change('amphora', amphora_id, updated_at=long_ago)
        self.assertGreater(self.get().unchanged_for, 7000)
        self.records.change('amphora', self.new, updated_at=records.utcnow())
        self.assertAge(0, self.get().unchanged_for)

    def test_objects(self):
        self.records.change('listener', self.listener,
                            provisioning_status='PENDING_UPDATE')
        found, = self.get().objects
        self.assertEqual(
            ('listener', self.listener, 'PENDING_UPDATE'),
            (found.kind, found.id, found.status))
        self.assertTrue(self.restore(self.get()))
        self.assertEqual(['ACTIVE'], self.state()[3])

    def test_restored(self):
        self.assertTrue(self.restore(self.get()))
        self.assertEqual(
            ('ACTIVE', {self.old: 'ALLOCATED', self.new: 'ERROR'},
             {self.old: False}, ['ACTIVE']), self.state())
        self.assertAge(0, self.get().unchanged_for)
        self.assertEqual('ACTIVE', self.get().status)

    def test_detached(self):
        self.assertTrue(self.restore(self.get(), {self.new}))
        self.assertEqual({self.old: self.lb, self.new: None}, {
            row['id']: row['load_balancer_id']
            for row in self.records.rows('amphora')})

    def test_nothing_is_done_after_a_change(self):
        changes = [
            lambda: self.records.change('load_balancer', self.lb,
                                        provisioning_status='PENDING_UPDATE'),
            lambda: self.records.change('load_balancer', self.lb,
                                        updated_at=records.utcnow()),
            lambda: self.records.set_status(self.old, 'PENDING_DELETE'),
            lambda: self.records.change('amphora', self.new, role='BACKUP'),
            lambda: self.add_amphorae(1, load_balancer_id=self.lb,
                                      status='PENDING_CREATE'),
            lambda: self.records.set_status(self.new, 'DELETED'),
            self.forget_heartbeats,
            lambda: self.open_replacement()]
        for number, change in enumerate(changes):
            self.empty()
            self.make()
            snapshot = self.get()
            change()
            before = self.state()
            self.assertFalse(self.restore(snapshot), number)
            self.assertEqual(before, self.state(), number)

    def test_an_open_replacement_is_read(self):
        self.open_replacement()
        self.assertEqual('RUNNING', self.get().replacement_phase)
