# SPDX-License-Identifier: Apache-2.0

"""Our rows of amphorae, in step with Octavia's."""

from octavia_hmsync.db import models
from octavia_hmsync.sync.db import claim as claim_repo
from octavia_hmsync.sync.db import outcome as outcome_repo
from octavia_hmsync.sync.house_keeping import census
from tests.db_cases import base
from tests.unit.db import sqlite

LIST = ('192.0.2.101:5555',)


class TestCensus(sqlite.SqliteMixin, base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.subject = census.Census(self.engine)

    def known(self):
        return {row.amphora_id for row in self.rows(models.Amphora)}

    def apply(self):
        """Have all that are due acknowledge generation 1."""
        claim_repo.claim_due(self.engine, 1, 'batch', 1000, 60)
        outcome_repo.record(self.engine, 1, 'batch', [
            outcome_repo.Outcome(row.amphora_id, 'APPLIED', LIST)
            for row in self.rows(models.Amphora)
            if row.claim_owner == 'batch'])

    def test_all_at_the_start(self):
        ids = self.add_amphorae(250)
        self.subject.run_once()
        self.assertEqual(set(ids), self.known())
        for amphora_id in ids[1:]:
            self.records.set_status(amphora_id, 'DELETED')
        census.Census(self.engine).run_once()
        self.assertEqual({ids[0]}, self.known())

    def test_while_it_is_built(self):
        self.subject.run_once()
        self.add_amphorae(250)
        late = self.records.add_amphora(None, status='PENDING_CREATE',
                                        amphora_id='zz')
        self.subject.run_once()
        self.assertIn(late, self.known())
        # It is not due before it has an agent, and at once then.
        self.apply()
        self.assertIsNone(next(row for row in self.rows(models.Amphora)
                               if row.amphora_id == late).applied_at)

    def test_the_others_in_turn(self):
        self.subject.run_once()
        ids = self.add_amphorae(250)
        for known in (100, 200, 250):
            self.subject.run_once()
            self.assertEqual(known, len(self.known()))
        for amphora_id in ids[1:]:
            self.records.set_status(amphora_id, 'DELETED')
        # Twenty at a time, from anywhere on.
        for _ in range(250 // 20 + 2):
            self.subject.run_once()
        self.assertEqual({ids[0]}, self.known())
        # And again from the beginning.
        first = self.records.add_amphora('192.0.2.9', amphora_id='00')
        for _ in range(4):
            self.subject.run_once()
        self.assertIn(first, self.known())

    def test_complete(self):
        self.add_amphorae(3)
        self.subject.run_once()
        self.assertFalse(self.subject.has_all(1))
        self.apply()
        self.assertTrue(self.subject.has_all(1))
        self.assertFalse(self.subject.has_all(2))

    def test_one_that_is_not_known_is_behind(self):
        self.add_amphorae(3)
        self.subject.run_once()
        self.apply()
        self.records.add_amphora('192.0.2.9')
        self.assertFalse(self.subject.has_all(1))
        self.apply()
        self.assertTrue(self.subject.has_all(1))

    def test_one_without_an_agent_is_not(self):
        gone, *_ = self.add_amphorae(3)
        self.records.add_amphora(None, status='BOOTING')
        for _ in range(2):
            self.subject.run_once()
        self.records.set_status(gone, 'DELETED')
        self.apply()
        self.assertTrue(self.subject.has_all(1))
