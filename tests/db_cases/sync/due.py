# SPDX-License-Identifier: Apache-2.0

"""For how long amphorae have been due."""

import datetime

import sqlalchemy as sa

from octavia_hmsync.db import models
from octavia_hmsync.sync.db import amphora as amphora_repo
from octavia_hmsync.sync.db import claim as claim_repo
from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.db import progress as progress_repo
from octavia_hmsync.sync.rules import trial
from tests.cloud import records
from tests.db_cases import base

LIST = ('192.0.2.1:5555',)


class DueCases(base.DatabaseTestCase):

    def publish(self, number, age, status=trial.OPEN):
        generation_repo.publish(self.engine, number, {LIST[0]: 0}, 'because',
                                'controller1', status)
        self.make_older(models.Generation, 'published_at', age, number=number)

    def add(self, age, number=1):
        ids = self.add_amphorae(number)
        table = self.records.tables['amphora']
        with self.engine.begin() as connection:
            connection.execute(
                sa.update(table).where(table.c.id.in_(ids)).values(
                    created_at=records.utcnow() -
                    datetime.timedelta(seconds=age)))
        return ids

    def apply(self, number, *ids):
        with self.engine.begin() as connection:
            connection.execute(
                sa.update(models.Amphora)
                .where(models.Amphora.amphora_id.in_(ids))
                .values(generation=number, applied_at=datetime.datetime(
                    2026, 1, 1), result='APPLIED'))

    def assertOldest(self, seconds):
        self.assertAlmostEqual(
            seconds, progress_repo.get_oldest_age(self.engine), delta=20)

    def test_nothing_published(self):
        self.add(5000)
        self.assertEqual(0, progress_repo.get_oldest_age(self.engine))

    def test_no_amphora(self):
        self.publish(1, 1000)
        self.assertEqual(0, progress_repo.get_oldest_age(self.engine))

    def test_never_had_one(self):
        """Due since the first list, or since it was made."""
        self.publish(1, 3000)
        self.publish(2, 1000)
        self.add(2000)
        self.assertOldest(2000)
        self.add(9000)
        self.assertOldest(3000)
        # A row of ours changes nothing.
        amphora_repo.add_missing(self.engine)
        self.assertOldest(3000)

    def test_behind(self):
        """Due since the first list that it has not got."""
        for number, age in ((1, 4000), (2, 3000), (3, 2000)):
            self.publish(number, age)
        first, second = self.add(9000, 2)
        amphora_repo.add_missing(self.engine)
        self.apply(1, first)
        self.apply(3, second)
        self.assertOldest(3000)
        self.apply(2, first)
        self.assertOldest(2000)
        self.apply(3, first)
        self.assertEqual(0, progress_repo.get_oldest_age(self.engine))

    def test_list_that_was_rolled_back_does_not_count(self):
        self.publish(1, 4000)
        self.publish(2, 3000, trial.CANARY)
        ids = self.add(9000)
        amphora_repo.add_missing(self.engine)
        self.apply(1, *ids)
        self.assertOldest(3000)
        generation_repo.roll_back(self.engine, 2, [], {LIST[0]: 0}, 'because',
                                  'controller1')
        self.make_older(models.Generation, 'published_at', 500, number=3)
        self.assertOldest(500)

    def test_without_an_agent(self):
        self.publish(1, 1000)
        for amphora_id in self.add(9000, 2):
            self.records.set_status(amphora_id, 'DELETED')
        self.assertEqual(0, progress_repo.get_oldest_age(self.engine))

    def test_to_be_uploaded_to_once_more(self):
        """Since when is not known: it has had every list before."""
        self.publish(1, 4000)
        ids = self.add(9000, 2)
        amphora_repo.add_missing(self.engine)
        self.apply(1, *ids)
        self.assertEqual([], progress_repo.get_again(self.engine))
        claim_repo.upload_again(self.engine, ids[:1])
        self.assertEqual(ids[:1], progress_repo.get_again(self.engine))
        self.assertEqual(0, progress_repo.get_oldest_age(self.engine))

    def test_ages(self):
        self.assertEqual(generation_repo.Ages(None, None),
                         generation_repo.get_ages(self.engine))
        self.publish(1, 4000)
        self.publish(2, 3000, trial.CANARY)
        self.assertIsNone(generation_repo.get_ages(self.engine).roll_back)
        generation_repo.roll_back(self.engine, 2, [], {LIST[0]: 0}, 'because',
                                  'controller1')
        self.make_older(models.Generation, 'rolled_back_at', 700, number=2)
        ages = generation_repo.get_ages(self.engine)
        self.assertAlmostEqual(0, ages.newest, delta=20)
        self.assertAlmostEqual(700, ages.roll_back, delta=20)
