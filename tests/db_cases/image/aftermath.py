# SPDX-License-Identifier: Apache-2.0

"""What became of load balancers whose replacement was done."""

from octavia_hmsync.db import models
from octavia_hmsync.image.db import aftermath as aftermath_repo
from octavia_hmsync.image.db import claim as claims_repo
from octavia_hmsync.image.db import replacement as replace_repo
from octavia_hmsync.image.db import rollout as rollout_repo
from tests.db_cases import base
from tests.db_cases.image import calls as image_calls

WATCH_TIME = 300


class AftermathCases(base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        rollout_repo.add(self.engine, 'rollout', image_calls.SETTINGS)

    def begin(self, lb_id, name, image_id='image', **values):
        version = rollout_repo.get_active(self.engine).version
        claims_repo.begin(self.engine, 'rollout', version, [
            replace_repo.New(name, lb_id, 'replace', image_id, **values)],
            'me', 60)

    def finish(self, name, state='DONE'):
        self.assertTrue(claims_repo.finish(self.engine, name, 'me', state))

    def add(self, name='one', state='DONE'):
        """Have a load balancer with one amphora, replaced; returns its id."""
        lb_id = self.records.add_load_balancer()
        self.records.change('load_balancer', lb_id, operating_status='ERROR')
        self.begin(lb_id, name, operating_status='ONLINE')
        amphora_id = self.records.add_amphora('192.0.2.1', lb_id)
        self.records.set_health(amphora_id, age=20)
        claims_repo.set_phase(self.engine, name, 'me', 60, 'BUILD',
                              new_amphora_id=amphora_id)
        self.finish(name, state)
        return lb_id

    def get(self):
        return aftermath_repo.get_watched(self.engine, 'rollout', WATCH_TIME)

    def get_ids(self):
        return [each.load_balancer_id for each in self.get()[0]]

    def test_none(self):
        self.assertEqual(([], None), self.get())
        self.begin(self.records.add_load_balancer(), 'one')
        self.assertEqual(([], None), self.get())

    def test_watched(self):
        lb_id = self.add()
        other, = self.add_amphorae(1)
        self.records.set_health(other, age=5)
        self.add('other', 'FAILED')
        (found,), heard_ago = self.get()
        self.assertEqual(
            ('one', lb_id, 'amphora', 'ONLINE', 'ERROR'),
            (found.replacement_id, found.load_balancer_id, found.provider,
             found.old_status, found.operating_status))
        amphora, = found.amphorae
        self.assertEqual(
            (found.new_amphora_id, 'ALLOCATED', False),
            (amphora.id, amphora.status, amphora.is_busy))
        self.assertLess(19, amphora.silent_for)
        self.assertLess(heard_ago, amphora.silent_for)
        self.assertLessEqual(amphora.created_at, found.finished_at)

    def test_for_how_long(self):
        lb_id = self.add()
        self.assertEqual([lb_id], self.get_ids())
        self.make_older(models.ImageReplacement, 'finished_at', WATCH_TIME)
        self.assertEqual([], self.get_ids())

    def test_deleted(self):
        for status in ('PENDING_DELETE', 'DELETED'):
            lb_id = self.add(status)
            self.records.change('load_balancer', lb_id,
                                provisioning_status=status)
        self.assertEqual([], self.get_ids())

    def test_replaced_again(self):
        """An operator was at it: what has come of that is his."""
        lb_id = self.add()
        self.make_older(models.ImageReplacement, 'finished_at', 5)
        replace_repo.add(self.engine, replace_repo.New(
            'two', lb_id, 'replace', 'image'))
        self.assertEqual([], self.get_ids())

    def test_number_of_statements(self):
        counted = []
        for number in range(3):
            self.add(f'r{number}')
            with self.count_statements() as statements:
                self.get()
            counted.append(len(statements))
        self.assertEqual([3, 3, 3], counted)

    def test_failed(self):
        """It is one that failed from then on, and no older decision holds."""
        self.add()
        version = rollout_repo.get_active(self.engine).version
        arguments = self.engine, 'one', 'It fell silent.'
        self.assertTrue(aftermath_repo.set_failed(*arguments))
        self.assertFalse(aftermath_repo.set_failed(*arguments))
        row = replace_repo.get(self.engine, 'one')
        self.assertEqual(('FAILED', 'It fell silent.'),
                         (row.state, row.reason))
        self.assertLess(version,
                        rollout_repo.get_active(self.engine).version)
        self.assertEqual([], self.get_ids())

    def test_count_skipped(self):
        for number in range(3):
            self.begin('lb', f'r{number}')
            self.finish(f'r{number}', 'SKIPPED')
        self.begin('lb', 'newer', 'newer')
        self.assertEqual([2, 0], [
            aftermath_repo.count_skipped(
                self.engine, replace_repo.get(self.engine, name))
            for name in ('r1', 'newer')])

    def test_brought(self):
        for number, (lb_id, image_id, state) in enumerate((
                ('a', 'image', 'DONE'), ('a', 'newer', 'DONE'),
                ('b', 'image', 'FAILED'), ('c', 'image', 'SKIPPED'),
                ('d', 'image', 'REFUSED'))):
            self.begin(lb_id, f'r{number}', image_id)
            self.finish(f'r{number}', state)
        self.assertEqual(
            {'a': {'image', 'newer'}, 'b': {'image'}},
            aftermath_repo.get_brought(self.engine, 'rollout'))

    def test_left_zones(self):
        """What its first attempt found counts, of its last rollout."""
        def get():
            return aftermath_repo.get_left_zones(self.engine, 'ZONE')

        def move(name, state='DONE', cause='ZONE', lb_id='lb1', **values):
            self.begin(lb_id, name, cause=cause, cause_value='az1', **values)
            self.finish(name, state)

        move('spread', was_spread=True)
        self.assertEqual({'lb1': 'az1'}, get())
        move('not', lb_id='lb2')
        move('host', cause='HOST', lb_id='lb3', was_spread=True)
        move('failed', 'FAILED', lb_id='lb4', was_spread=True)
        # Both were in the zone; then one was, as the other one had moved.
        move('first', 'SKIPPED', lb_id='lb5')
        move('second', lb_id='lb5', was_spread=True)
        self.assertEqual({'lb1': 'az1'}, get())
