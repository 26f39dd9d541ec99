# SPDX-License-Identifier: Apache-2.0

"""Rollouts and replacements that ended long ago."""

from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from octavia_hmsync.db import models
from octavia_hmsync.image.db import cancel as cancel_repo
from octavia_hmsync.image.db import replacement as replace_repo
from octavia_hmsync.image.db import rollout as rollout_repo
from tests.db_cases import base
from tests.db_cases.image import calls as image_calls

DAY = 86400
RETENTION = 90 * DAY
ENDS = st.sampled_from([None, 1 * DAY, 89 * DAY, 91 * DAY, 400 * DAY])


class HistoryCases(base.DatabaseTestCase):

    def add_rollout(self, name, ended=None):
        """Add a rollout.

        :param ended: how many seconds ago it ended, None for one that runs.
        """
        self.assertTrue(rollout_repo.add(self.engine, name,
                                         image_calls.SETTINGS))
        if ended is not None:
            rollout_repo.change_state(self.engine, name, ('RUNNING',), 'DONE')
            self.make_older(models.ImageRollout, 'finished_at', ended,
                            id=name)

    def add_replacement(self, number, ended=None, rollout_id=None):
        new = image_calls.new(number)
        replace_repo.add(self.engine, new)
        if ended is not None:
            cancel_repo.cancel(self.engine, new.id, 'because')
            self.make_older(models.ImageReplacement, 'finished_at', ended,
                            id=new.id)
        with self.engine.begin() as connection:
            table = models.ImageReplacement.__table__
            connection.execute(table.update().where(table.c.id == new.id)
                               .values(rollout_id=rollout_id))

    def rollouts(self):
        return {r.id for r in rollout_repo.get_all(self.engine)}

    def replacements(self):
        with self.engine.connect() as connection:
            return {int(i.removeprefix('replacement')) for i in
                    connection.execute(models.ImageReplacement.__table__
                                       .select()).scalars()}

    def delete(self, retention=RETENTION):
        return rollout_repo.delete_ended(self.engine, retention)

    def test_none(self):
        self.assertEqual((0, 0), self.delete())

    def test_by_age(self):
        self.add_rollout('old', 91 * DAY)
        self.add_rollout('new', 89 * DAY)
        self.add_rollout('runs')
        for number, (ended, rollout_id) in enumerate([
                (91 * DAY, 'old'), (92 * DAY, 'old'), (91 * DAY, 'new'),
                (91 * DAY, 'runs'), (None, 'runs'), (91 * DAY, None),
                (89 * DAY, None), (None, None)]):
            self.add_replacement(number, ended, rollout_id)
        self.assertEqual((1, 3), self.delete())
        self.assertEqual({'new', 'runs'}, self.rollouts())
        self.assertEqual({2, 3, 4, 6, 7}, self.replacements())
        self.assertEqual((0, 0), self.delete())
        self.assertEqual((1, 2), self.delete(0))
        self.assertEqual({'runs'}, self.rollouts())
        self.assertEqual({3, 4, 7}, self.replacements())

    def test_one_that_outlasts_its_rollout(self):
        self.add_rollout('old', 91 * DAY)
        self.add_replacement(1, 91 * DAY, 'old')
        self.add_replacement(2, None, 'old')
        self.assertEqual((0, 0), self.delete())
        cancel_repo.cancel(self.engine, 'replacement2', 'because')
        self.assertEqual((0, 0), self.delete())
        self.make_older(models.ImageReplacement, 'finished_at', 91 * DAY,
                        id='replacement2')
        self.assertEqual((1, 2), self.delete())

    def test_some_at_a_time(self):
        self.patch(rollout_repo, '_AT_ONCE', 3)
        self.add_rollout('old', 91 * DAY)
        for number in range(4):
            self.add_replacement(number, 91 * DAY, 'old')
        self.assertEqual((0, 3), self.delete())
        self.assertEqual((1, 1), self.delete())
        self.assertEqual((0, 0), self.delete())

    @settings(max_examples=20)
    @given(st.lists(st.tuples(ENDS.filter(bool), st.lists(ENDS, max_size=3)),
                    max_size=3), st.lists(ENDS, max_size=2))
    def test_whole_rollouts_go_and_nothing_that_is_open(self, ended, alone):
        expected, number = {}, 0
        for row, (rollout_end, ends) in enumerate(ended):
            self.add_rollout(f'rollout{row}', rollout_end)
            expected[f'rollout{row}'] = set()
            for end in ends:
                self.add_replacement(number, end, f'rollout{row}')
                expected[f'rollout{row}'].add(number)
                number += 1
        kept = {f'rollout{row}' for row, (end, ends) in enumerate(ended)
                if end < RETENTION or
                any(e is None or e < RETENTION for e in ends)}
        kept_alone = set()
        for end in alone:
            self.add_replacement(number, end)
            if end is None or end < RETENTION:
                kept_alone.add(number)
            number += 1
        self.delete()
        self.assertEqual(kept, self.rollouts())
        self.assertEqual(kept_alone.union(*(expected[k] for k in kept)),
                         self.replacements())
        self.clear()

    def clear(self):
        with self.engine.begin() as connection:
            for model in (models.ImageRollout, models.ImageReplacement):
                connection.execute(model.__table__.delete())
