# SPDX-License-Identifier: Apache-2.0

"""Claims that a process holds, on the rows of clusters."""

import fixtures
from oslo_db import exception as db_exc

from octavia_hmsync.cluster.db import claim as claim_repo
from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync import exceptions
from octavia_hmsync import held
from tests.cloud import waiting
from tests.db_cases import base
from tests.db_cases.cluster import calls as cluster_calls
from tests.unit.db import sqlite

CLUSTER = 'cluster1'
EXPIRY = 60


class HeldTestCase(sqlite.SqliteMixin, base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        cluster_repo.add(self.engine, cluster_calls.new())
        self.now = 0.0
        self.unwanted = set()
        self.claims = self.make()
        self.held = self.claims.claim(CLUSTER)

    def make(self, expiry=EXPIRY, **options):
        claims = held.Claims(
            self.engine, claim_repo, 'me', expiry, clock=lambda: self.now,
            is_unwanted=self.unwanted.__contains__, **options)
        self.addCleanup(claims.end)
        return claims

    def take(self):
        """Another owner takes the cluster up."""
        claim_repo.release(self.engine, CLUSTER, self.held.owner)
        self.assertTrue(claim_repo.claim(self.engine, CLUSTER, 'other',
                                         EXPIRY))


class TestCheck(HeldTestCase):
    """The thread that renews has not run for long."""

    def test_hung_and_lost(self):
        self.take()
        # No owner takes one before it lapses: no need to look.
        self.now = EXPIRY - 1
        self.held.check()
        self.now = EXPIRY
        self.assertRaises(exceptions.Lost, self.held.check)
        self.assertRaises(exceptions.Lost, self.held.check)

    def test_hung_and_not_taken(self):
        self.now = 2 * EXPIRY
        self.held.check()
        # It is renewed with that.
        self.take()
        self.now = 3 * EXPIRY - 1
        self.held.check()
        self.now = 3 * EXPIRY
        self.assertRaises(exceptions.Lost, self.held.check)

    def test_look(self):
        self.held.look()
        self.take()
        self.assertRaises(exceptions.Lost, self.held.look)

    def test_statement_that_needs_it(self):
        self.held.require(True)
        self.assertRaises(exceptions.Lost, self.held.require, False)
        self.assertRaises(exceptions.Lost, self.held.check)

    def test_begun_by_another_process(self):
        other = self.make()
        found = other.find(CLUSTER, self.held.owner)
        self.assertIs(found, other.find(CLUSTER, self.held.owner))
        found.check()
        self.take()
        self.assertRaises(exceptions.Lost,
                          self.make().find(CLUSTER, self.held.owner).check)

    def test_unwanted(self):
        self.unwanted.add(CLUSTER)
        self.held.check()
        self.assertRaises(exceptions.Unwanted, self.held.look)
        self.held.release()
        self.claims.claim(CLUSTER, is_deletion=True).look()

    def test_stopped(self):
        self.held.pause(0)
        self.claims.stopping.set()
        self.assertRaises(exceptions.Stopped, self.held.pause, 3600)

    def test_error_of_its_own(self):
        claims = self.make(lost=exceptions.PortBusy)
        with (self.assertRaisesRegex(exceptions.PortBusy, CLUSTER),
              claims.held(CLUSTER)):
            self.fail('It has an owner.')


class TestTaking(HeldTestCase):

    def test_one_owner(self):
        self.assertIsNone(self.make().claim(CLUSTER))
        self.held.release()
        self.held.release()
        self.assertIsNotNone(self.make().claim(CLUSTER))

    def test_waits(self):
        claims = self.make()
        self.assertIsNone(claims.wait(CLUSTER, 0))
        claims.stopping.wait = lambda seconds: self.held.release()
        with claims.held(CLUSTER, 1):
            self.assertIsNone(self.make().claim(CLUSTER))
        self.assertIsNotNone(self.make().claim(CLUSTER))

    def test_process_that_ends_does_not_wait(self):
        claims = self.make()
        claims.stopping.set()
        self.assertIsNone(claims.wait(CLUSTER, 1))

    def test_released_without_a_database(self):
        with fixtures.MockPatchObject(claim_repo, 'release',
                                      side_effect=db_exc.DBError()):
            self.held.release()
        self.assertEqual({}, self.claims._held)


class TestThread(HeldTestCase):

    def test_renews_until_release(self):
        renewed = []
        renew = claim_repo.renew

        def count(*args):
            renewed.append(args)
            if len(renewed) == 1:
                raise db_exc.DBConnectionError()
            return renew(*args)

        self.useFixture(fixtures.MockPatchObject(claim_repo, 'renew', count))
        self.held.release()
        claims = self.make(expiry=0.1)
        one = claims.claim(CLUSTER)
        thread = claims._thread
        waiting.wait_for(lambda: len(renewed) > 2, 'it is renewed')
        one.release()
        waiting.wait_for(lambda: not thread.is_alive(), 'its thread ends')
        self.assertIsNone(claims._thread)

    def test_process_that_hangs_at_its_end(self):
        thread = self.claims._thread
        self.claims.end()
        waiting.wait_for(lambda: not thread.is_alive(), 'its thread ends')
        self.claims.find(CLUSTER, self.held.owner).look()
        self.assertIsNone(self.claims._thread)
