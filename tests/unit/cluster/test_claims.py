# SPDX-License-Identifier: Apache-2.0

from octavia_hmsync.cluster import claims
from octavia_hmsync.cluster.db import claim as claim_repo
from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync import exceptions
from tests.db_cases import base
from tests.db_cases.cluster import calls as cluster_calls
from tests.unit.db import sqlite

CLUSTER = 'cluster1'
EXPIRY = 60


class TestClaims(sqlite.SqliteMixin, base.DatabaseTestCase):
    """One whose thread that renews has not run for long."""

    def setUp(self):
        super().setUp()
        cluster_repo.add(self.engine, cluster_calls.new())
        self.now = 0.0
        self.claims = claims.Claims(self.engine, 'me', EXPIRY,
                                    clock=lambda: self.now)
        self.addCleanup(self.claims.end)
        self.owner = self.claims.claim(CLUSTER)

    def take(self):
        """Have somebody else take the cluster up."""
        claim_repo.release(self.engine, CLUSTER, self.owner)
        self.assertTrue(claim_repo.claim(self.engine, CLUSTER, 'other',
                                         EXPIRY))

    def test_hung_and_lost(self):
        self.take()
        # Nobody takes one before it lapses: no need to look.
        self.now = EXPIRY - 1
        self.claims.check(CLUSTER, self.owner)
        self.now = EXPIRY
        self.assertRaises(exceptions.Lost, self.claims.check, CLUSTER,
                          self.owner)
        self.assertRaises(exceptions.Lost, self.claims.check, CLUSTER,
                          self.owner)

    def test_hung_and_nobody_came(self):
        self.now = 2 * EXPIRY
        self.claims.check(CLUSTER, self.owner)
        # It is renewed with that.
        self.take()
        self.now = 3 * EXPIRY - 1
        self.claims.check(CLUSTER, self.owner)
        self.now = 3 * EXPIRY
        self.assertRaises(exceptions.Lost, self.claims.check, CLUSTER,
                          self.owner)
