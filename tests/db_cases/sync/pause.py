# SPDX-License-Identifier: Apache-2.0

"""Whether amphorae are to be left alone."""

from octavia_hmsync.db import models
from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.db import pause as pause_repo
from octavia_hmsync.sync.worker import targets
from tests.db_cases import base


class PauseCases(base.DatabaseTestCase):

    def begin(self, seconds=60, reason='maintenance'):
        return pause_repo.begin(self.engine, seconds, reason)

    def get(self):
        return pause_repo.get(self.engine)

    def test_none(self):
        self.assertIsNone(self.get())
        self.assertFalse(pause_repo.end(self.engine))

    def test_begin(self):
        pause = self.begin()
        self.assertEqual(pause, self.get())
        self.assertEqual('maintenance', pause.reason)
        self.assertEqual(
            60, round((pause.ends_at - pause.begun_at).total_seconds()))

    def test_end(self):
        self.begin()
        self.assertTrue(pause_repo.end(self.engine))
        self.assertIsNone(self.get())
        self.assertFalse(pause_repo.end(self.engine))

    def test_another_one_takes_its_place(self):
        self.begin()
        pause = self.begin(600, 'more maintenance')
        self.assertEqual(pause, self.get())
        self.assertEqual('more maintenance', pause.reason)

    def test_it_ends_by_itself(self):
        self.begin()
        self.make_older(models.Pause, 'ends_at', 61)
        self.assertIsNone(self.get())
        self.assertFalse(pause_repo.end(self.engine))
        self.assertEqual(self.begin(), self.get())

    def test_several_at_once(self):
        pauses = self.run_at_once([
            lambda n=n: self.begin(60 + n, f'reason {n}') for n in range(4)])
        self.assertIn(self.get(), pauses)
        self.assertEqual(1, len(self.rows(models.Pause)))

    def test_nothing_is_due_meanwhile(self):
        generation_repo.publish(self.engine, 1, {'192.0.2.1:5555': 0},
                                'because', 'controller1')
        self.assertEqual(1, len(targets.get_targets(self.engine)))
        self.assertTrue(targets.is_wanted(self.engine, 1))
        self.begin()
        self.assertEqual([], targets.get_targets(self.engine))
        self.assertFalse(targets.is_wanted(self.engine, 1))
        pause_repo.end(self.engine)
        self.assertTrue(targets.is_wanted(self.engine, 1))
