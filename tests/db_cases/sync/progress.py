# SPDX-License-Identifier: Apache-2.0

"""How far amphorae are on their way to a generation."""

from octavia_hmsync.sync.db import admission as admission_repo
from octavia_hmsync.sync.db import amphora as amphora_repo
from octavia_hmsync.sync.db import claim as claim_repo
from octavia_hmsync.sync.db import doubt as doubt_repo
from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.db import outcome as outcome_repo
from octavia_hmsync.sync.db import progress as progress_repo
from tests.db_cases import base

LIST = ('192.0.2.101:5555',)


class ProgressCases(base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.ids = sorted(self.add_amphorae(4))
        amphora_repo.add_missing(self.engine)

    def get(self, number=1, **admitted):
        progress = progress_repo.get_progress(self.engine, number, **admitted)
        return (progress.amphorae, progress.done, progress.adopted,
                progress.claimed, progress.failed)

    def record(self, number, results):
        claim_repo.claim_due(self.engine, number, 'batch', 10, 60)
        outcome_repo.record(self.engine, number, 'batch', [
            outcome_repo.Outcome(
                amphora_id, result, LIST,
                None if result == 'APPLIED' else 'refused', 10)
            for amphora_id, result in zip(self.ids, results) if result])

    def test_nobody_yet(self):
        # One of them has no row of ours yet.
        self.records.add_amphora('192.0.2.99')
        self.assertEqual((5, 0, 0, 0, 0), self.get())
        self.assertEqual([], progress_repo.get_failed(self.engine, 1, 10))

    def test_each_kind(self):
        self.record(1, ('APPLIED', 'APPLIED', 'UNREACHABLE'))
        doubt_repo.set_adopted(self.engine, [
            row for row in doubt_repo.get_unproven(self.engine)
            if row.amphora_id == self.ids[0]])
        self.assertEqual((4, 2, 1, 1, 1), self.get())
        # All are behind the next one, and one of them has failed.
        self.assertEqual((4, 0, 0, 1, 1), self.get(2))

    def test_claims_lapse(self):
        claim_repo.claim_due(self.engine, 1, 'batch', 10, 60)
        self.assertEqual((4, 0, 0, 4, 0), self.get())
        self.make_older(progress_repo.models.Amphora, 'claim_expires_at', 1)
        self.assertEqual((4, 0, 0, 0, 0), self.get())

    def test_admitted(self):
        admission_repo.admit(self.engine, 2, self.ids[:1])
        self.record(2, ('APPLIED',))
        self.assertEqual((1, 1), self.get(2, admitted_to=2)[:2])
        self.assertEqual((3, 0), self.get(2, not_admitted_to=2)[:2])

    def test_failed(self):
        self.record(1, ('APPLIED', 'UNREACHABLE', 'REJECTED'))
        generation_repo.publish(self.engine, 2, dict.fromkeys(LIST, 0), '',
                                'here')
        self.record(2, (None, None, 'UNSUPPORTED'))
        rows = progress_repo.get_failed(self.engine, 2, 10)
        self.assertEqual(
            {(self.ids[1], 'UNREACHABLE', 1), (self.ids[2], 'UNSUPPORTED', 1)},
            {(row.id, row.result, row.attempts) for row in rows})
        self.assertEqual({'refused'}, {row.error for row in rows})
        self.assertEqual(1, len(progress_repo.get_failed(self.engine, 2, 1)))
