# SPDX-License-Identifier: Apache-2.0

"""What the tests of both modes share: some who work on one after the other."""

import sqlalchemy as sa

from octavia_hmsync.db import models
from octavia_hmsync import held
from octavia_hmsync.image.db import claim as claims_repo
from octavia_hmsync.image.db import replacement as replace_repo
from octavia_hmsync.image import inventory
from octavia_hmsync.image.replace import work as work_
from tests.db_cases import base
from tests.unit.db import sqlite

EXPIRY = 60


class Death(BaseException):
    """Whoever works on it is killed."""


def make_work(conf, engine, replacement, owner):
    """Return a Work whose claim no thread renews."""
    claims = held.Claims(engine, claims_repo, 'test', EXPIRY)
    return work_.Work(conf, engine, replacement, held.Held(
        claims, replacement.id, owner, False, claims.clock()))


class AttemptTestCase(sqlite.SqliteMixin, base.DatabaseTestCase):

    # The class of the mode.
    mode: type

    def carry_out(self, new, owners=9):
        """Replace, with a successor for each who dies; returns the row.

        :param new: a New.
        :param owners: how many work on it at most.
        """
        replace_repo.add(self.engine, new)
        for number in range(owners):
            owner = f'owner{number}'
            claimed = claims_repo.claim(self.engine, owner, 1, EXPIRY)
            if not claimed:
                break
            self._work_on(claimed[0], owner)
        return replace_repo.get(self.engine, new.id)

    def _work_on(self, replacement, owner):
        work = make_work(self.conf, self.engine, replacement, owner)
        try:
            outcome = self.mode(work, inventory.Inventory(
                self.conf, self.engine)).run()
        except Death:
            table = models.ImageReplacement.__table__
            with self.engine.begin() as connection:
                connection.execute(sa.update(table).values(
                    claim_expires_at=sa.func.datetime('now', '-1 hours')))
            return
        claims_repo.finish(self.engine, replacement.id, owner, outcome.state,
                           outcome.reason, outcome.wait)
