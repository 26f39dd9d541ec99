# SPDX-License-Identifier: Apache-2.0

"""What Prometheus is told of rollouts and replacements."""

import prometheus_client

from octavia_hmsync.db import models
from octavia_hmsync.image.db import claim as claims_repo
from octavia_hmsync.image.db import replacement as replace_repo
from octavia_hmsync.image.db import rollout as rollout_repo
from octavia_hmsync.image import figures
from octavia_hmsync.image import phases
from octavia_hmsync.metrics import reading
from tests.db_cases import base
from tests.db_cases.image import calls as image_calls


class FiguresCases(base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.subject = figures.Figures(self.engine)

    def values(self):
        """{(name, label value or None): value}."""
        found = {}
        for family in self.subject.read():
            for sample in family.samples:
                label, = sample.labels.values() or (None,)
                name = sample.name.removeprefix(reading.PREFIX + 'image_')
                found[name, label] = sample.value
        return found

    def get(self, name):
        """Of a metric with a label, what is not 0; of another one, it."""
        found = {label: value for (n, label), value in self.values().items()
                 if n == name}
        if set(found) <= {None}:
            return found.get(None)
        return {label: value for label, value in found.items() if value}

    def begin(self, *numbers, rollout_id='rollout', owner='one'):
        rollout_repo.add(self.engine, rollout_id, image_calls.SETTINGS)
        rollout = rollout_repo.get(self.engine, rollout_id)
        claims_repo.begin(self.engine, rollout_id, rollout.version,
                          [image_calls.new(n) for n in numbers], owner, 60)

    def set_phase(self, number, phase, owner='one'):
        self.assertTrue(claims_repo.set_phase(
            self.engine, f'replacement{number}', owner, 60, phase))

    def finish(self, number, state, owner='one'):
        self.assertTrue(claims_repo.finish(
            self.engine, f'replacement{number}', owner, state))

    def lapse(self, number):
        self.make_older(models.ImageReplacement, 'claim_expires_at', 1,
                        id=f'replacement{number}')

    def test_empty(self):
        """What there is none of is 0, and not absent."""
        found = self.values()
        self.assertEqual({0}, set(found.values()))
        self.assertEqual(
            {'RUNNING', 'PAUSED', 'CANCELLED', 'HALTED', 'DONE'},
            {label for name, label in found if name == 'rollout_state'})
        self.assertEqual(
            {'NONE', *phases.Phase},
            {label for name, label in found
             if name == 'replacements_running'})
        for name in ('last_failure_age_seconds',
                     'rollout_state_age_seconds'):
            self.assertIsNone(self.get(name))

    def test_states_and_phases(self):
        self.begin(*range(1, 8))
        replace_repo.add(self.engine, image_calls.new(8))
        self.set_phase(2, 'BUILD')
        self.set_phase(3, 'BUILD')
        self.set_phase(4, 'DELETE_OLD')
        self.set_phase(5, 'UNLOCK')
        self.finish(5, 'DONE')
        self.set_phase(6, 'BACK')
        self.finish(6, 'FAILED')
        self.finish(7, 'SKIPPED')
        self.assertEqual(
            {'WAITING': 1, 'RUNNING': 4, 'DONE': 1, 'FAILED': 1,
             'SKIPPED': 1}, self.get('replacements'))
        self.assertEqual({'NONE': 1, 'BUILD': 2, 'DELETE_OLD': 1},
                         self.get('replacements_running'))
        self.assertEqual(
            {'RUNNING': 4, 'DONE': 1, 'FAILED': 1, 'SKIPPED': 1},
            self.get('rollout_replacements'))

    def test_ages(self):
        self.begin(1, 2, 3)
        replace_repo.add(self.engine, image_calls.new(4))
        for column, seconds, number in (
                ('started_at', 500, 1), ('created_at', 900, 1),
                ('created_at', 300, 4), ('started_at', 700, 3),
                ('started_at', 800, 2)):
            self.make_older(models.ImageReplacement, column, seconds,
                            id=f'replacement{number}')
        # How far each has come is another matter.
        self.set_phase(3, 'BUILD')
        self.finish(2, 'DONE')
        found = self.get('oldest_replacement_age_seconds')
        self.assertAlmostEqual(700, found['RUNNING'], delta=20)
        self.assertAlmostEqual(300, found['WAITING'], delta=20)

    def test_last_failure(self):
        self.begin(1, 2, 3)
        for number, phase, seconds in ((1, 'BACK', 400), (2, 'BUILD', 200)):
            self.set_phase(number, phase)
            self.finish(number, 'FAILED')
            self.make_older(models.ImageReplacement, 'finished_at', seconds,
                            id=f'replacement{number}')
        self.finish(3, 'SKIPPED')
        self.assertAlmostEqual(200, self.get('last_failure_age_seconds'),
                               delta=20)

    def test_retaken(self):
        self.begin(1, 2)
        self.assertEqual(0, self.get('retaken_replacements'))
        self.lapse(1)
        claims_repo.claim(self.engine, 'two', 10, 60)
        self.assertEqual(1, self.get('retaken_replacements'))
        self.finish(1, 'DONE', 'two')
        self.assertEqual(1, self.get('retaken_replacements'))

    def test_abandoned_locks(self):
        self.begin(1, 2, 3, 4)
        self.set_phase(2, 'LOCK')
        self.set_phase(3, 'BUILD')
        self.set_phase(4, 'A_LATER_RELEASE_S')
        self.assertEqual(0, self.get('abandoned_locks'))
        # What has not been locked yet is in nobody's way.
        self.lapse(1)
        self.lapse(2)
        self.assertEqual(0, self.get('abandoned_locks'))
        self.lapse(3)
        self.assertEqual(1, self.get('abandoned_locks'))
        claims_repo.release(self.engine, 'replacement4', 'one')
        self.assertEqual(2, self.get('abandoned_locks'))
        self.assertEqual(1, self.values()[
            'replacements_running', 'A_LATER_RELEASE_S'])
        claims_repo.claim(self.engine, 'two', 10, 60)
        self.assertEqual(0, self.get('abandoned_locks'))
        # One that has ended has none either.
        self.finish(3, 'FAILED', 'two')
        self.assertEqual(0, self.get('abandoned_locks'))

    def test_rollout(self):
        """The one that is active, else the last one."""
        self.begin(1)
        self.finish(1, 'FAILED')
        version = rollout_repo.get(self.engine, 'rollout').version
        rollout_repo.end(self.engine, 'rollout', version, 'HALTED', 'why')
        self.make_older(models.ImageRollout, 'updated_at', 500)
        self.assertEqual({'HALTED': 1}, self.get('rollout_state'))
        self.assertAlmostEqual(500, self.get('rollout_state_age_seconds'),
                               delta=20)
        self.make_older(models.ImageRollout, 'created_at', -1000)
        self.begin(2, rollout_id='next')
        self.assertEqual({'RUNNING': 1}, self.get('rollout_state'))
        self.assertAlmostEqual(0, self.get('rollout_state_age_seconds'),
                               delta=20)
        self.assertEqual({'RUNNING': 1}, self.get('rollout_replacements'))
        self.assertEqual({'RUNNING': 1, 'FAILED': 1},
                         self.get('replacements'))

    def test_statements(self):
        """As many for one as for many."""
        self.begin(*range(1, 20))
        for number in range(1, 10):
            self.set_phase(number, list(phases.Phase)[number % 8])
            self.finish(number, 'DONE')
        with self.count_statements() as statements:
            self.subject.read()
        self.assertEqual(5, len(statements))
        rollout_repo.change_state(self.engine, 'rollout', ('RUNNING',),
                                  'CANCELLED')
        with self.count_statements() as statements:
            self.subject.read()
        self.assertEqual(6, len(statements))

    def test_nobody_by_name(self):
        self.begin(1, 2)
        registry = prometheus_client.CollectorRegistry()
        subject = reading.DatabaseReading(self.subject.read, 10)
        registry.register(subject)
        subject.run_once()
        text = prometheus_client.generate_latest(registry).decode()
        self.assertIn('image_rollout_state{state="RUNNING"} 1.0', text)
        for word in ('lb1', 'replacement1', 'rollout"'):
            self.assertNotIn(word, text)
