# SPDX-License-Identifier: Apache-2.0

"""What services of schema 0005 write to and read from tables of now.

Controllers are upgraded one at a time, after the tables.
"""

import sqlalchemy as sa

from octavia_hmsync import addresses as addr
from octavia_hmsync.db import models
from octavia_hmsync.db import types
from octavia_hmsync.sync.db import amphora as amphora_repo
from octavia_hmsync.sync.db import doubt as doubt_repo
from octavia_hmsync.sync.db import previous_list as previous_repo
from octavia_hmsync.sync.rules import adoption
from tests.db_cases.sync import doubt

A, B, C, D = doubt.A, doubt.B, doubt.C, ('192.0.2.104:5555',)
UNKNOWN = adoption.Unknown
_TABLE = models.Amphora.__table__


def values_when_acknowledged(number, new):
    """As that release has it, word for word."""
    old = _TABLE.c.controller_ip_port_list
    previous, unknown = _TABLE.c.previous_ip_port_lists, f'?{number}'
    is_known = sa.func.coalesce(_TABLE.c.result, '') == 'APPLIED'
    is_same = sa.and_(old == new, is_known)
    return [
        (previous, sa.case(
            (is_same, previous),
            (sa.or_(old.is_(None),
                    sa.func.length(previous) > 8000), unknown),
            (sa.and_(is_known, _TABLE.c.adopted_at.is_not(None)), old),
            (_TABLE.c.adopted_at.is_not(None), old + f'\n{unknown}'),
            (is_known, sa.func.coalesce(previous, unknown) + '\n' + old),
            else_=sa.func.coalesce(previous + '\n', '') + old +
            f'\n{unknown}')),
        (_TABLE.c.adopted_via, sa.case((is_same, _TABLE.c.adopted_via),
                                       else_=None)),
        (_TABLE.c.adopted_at, sa.case((is_same, _TABLE.c.adopted_at),
                                      else_=None)),
        (_TABLE.c.not_adopted_at, sa.case((is_same, _TABLE.c.not_adopted_at),
                                          else_=None)),
        (old, new)]


class PreviousListCases(doubt.AdoptionCases):

    def execute(self, statement):
        with self.engine.begin() as connection:
            self.assertEqual(1, connection.execute(statement).rowcount)

    def old_upload(self, *lists):
        """Upload lists with the release before."""
        for addresses in lists:
            self.begin()
            self.execute(
                sa.update(_TABLE).where(_TABLE.c.claim_owner == self.owner)
                .ordered_values(
                    (_TABLE.c.generation, self.number),
                    *values_when_acknowledged(self.number, sa.literal(
                        addr.join_list(addresses), models._LIST)),
                    (_TABLE.c.applied_at, types.utcnow()),
                    (_TABLE.c.result, 'APPLIED'),
                    (_TABLE.c.claim_owner, None),
                    (_TABLE.c.claim_expires_at, None)))

    def old_adopt(self):
        self.execute(sa.update(_TABLE).values(
            adopted_at=types.utcnow(), previous_ip_port_lists=None,
            not_adopted_at=None))

    def old_set_previous(self, text):
        self.execute(sa.update(_TABLE).values(previous_ip_port_lists=text))

    def assertOldReads(self, text):
        """Check what the release before reads; None is any list."""
        self.assertEqual(text,
                         self.row(self.amphora_id).previous_ip_port_lists)

    def test_its_rows(self):
        self.old_upload(A)
        self.assertPrevious(UNKNOWN(1))
        self.old_adopt()
        self.old_upload(B, C, B)
        self.assertPrevious(A, B, C)
        rows = amphora_repo.get_rows(self.engine)
        self.assertEqual({self.amphora_id: (A, B, C)},
                         previous_repo.get_known(self.engine, rows))

    def test_its_rows_after_an_upload_of_ours(self):
        self.old_upload(A)
        self.old_adopt()
        self.old_upload(B)
        self.upload(C)
        self.assertPrevious(A, B)
        self.assertOldReads(None)
        self.upload(D)
        self.assertPrevious(A, B, C)

    def test_its_rows_after_the_same_list_of_ours(self):
        self.old_upload(A)
        self.old_adopt()
        self.old_upload(B)
        self.upload(B)
        self.assertPrevious(A)

    def test_its_rows_after_an_upload_of_ours_that_failed(self):
        self.old_upload(A, B)
        self.upload(C, result='UNREACHABLE')
        self.assertPrevious(UNKNOWN(), UNKNOWN(1), A)
        self.upload(C)
        self.assertPrevious(UNKNOWN(4), A, B)

    def test_its_upload_after_ours(self):
        """It does not know what ours is not, and says so."""
        self.upload(A)
        self.adopt()
        self.upload(B)
        self.assertPrevious(A)
        self.old_upload(C)
        # A is of a generation before.
        self.assertPrevious(UNKNOWN(3), B)
        self.assertOldReads(f'?3\n{addr.join_list(B)}')
        # What we know from before is void.
        self.old_set_previous(addr.join_list(D))
        self.assertPrevious(D)
        self.upload(A)
        self.assertPrevious(C, D)

    def test_its_upload_of_the_same_list_after_ours(self):
        self.upload(A)
        self.adopt()
        self.upload(B)
        self.old_upload(B)
        self.assertPrevious(A)

    def test_its_upload_after_one_of_ours_that_was_adopted(self):
        self.upload(A, B)
        self.adopt()
        self.old_upload(C)
        self.assertPrevious(B)

    def test_it_sees_that_ours_is_adopted(self):
        """Then it leaves rows, which mean nothing any more."""
        self.upload(A, B)
        self.old_adopt()
        self.assertIsNone(self.unproven())
        self.assertEqual({}, previous_repo.get_all(
            self.engine, amphora_repo.get_rows(self.engine)))
        self.upload(B)
        self.assertIsNone(self.unproven())
        self.upload(C)
        self.assertPrevious(B)
        self.assertEqual(1, len(self.rows(models.PreviousList)))

    def test_it_sees_that_ours_is_adopted_and_uploads(self):
        self.upload(A, B)
        self.old_adopt()
        self.old_upload(C)
        self.assertPrevious(B)
        self.old_adopt()
        self.old_upload(D)
        self.assertPrevious(C)
        self.upload(A)
        self.assertPrevious(C, D)

    def test_we_see_that_its_is_adopted(self):
        self.old_upload(A, B)
        self.assertEqual(1, self.adopt())
        self.assertOldReads(None)
        self.old_upload(C)
        self.assertPrevious(B)

    def test_we_rule_some_of_its_lists_out(self):
        self.old_upload(A)
        self.old_adopt()
        self.old_upload(B, C)
        doubt_repo.set_previous(self.engine, self.unproven(), (B,))
        self.assertPrevious(B)
        self.assertOldReads(None)
