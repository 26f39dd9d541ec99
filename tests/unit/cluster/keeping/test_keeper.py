# SPDX-License-Identifier: Apache-2.0

"""Which clusters a housekeeper takes up, and when again."""

import logging
import threading
import types

import fixtures

from octavia_hmsync.cluster.db import due as due_repo
from octavia_hmsync.cluster.keeping import keeper as cluster_keeper
from octavia_hmsync.cluster.keeping import upkeep
from octavia_hmsync import exceptions
from octavia_hmsync import held
from tests.unit import base


class TestClusterKeeper(base.TestCase):

    def setUp(self):
        super().setUp()
        self.due = []
        self.claimed = set()
        self.news = {}
        self.ran = []
        self.urgent = []
        self.results = {}
        self.now = 0
        self.woken = threading.Semaphore(0)
        self.useFixture(fixtures.MockPatchObject(
            due_repo, 'get_due', lambda _engine, *_: [
                due_repo.Due(each, each not in self.claimed,
                             (self.news.get(each),)) for each in self.due]))
        self.useFixture(fixtures.MockPatchObject(
            due_repo, 'get_orphans', lambda _engine, _age: []))
        for name in ('get_page', 'get_candidates'):
            self.useFixture(fixtures.MockPatchObject(
                due_repo, name, lambda *_args: []))
        claims = held.Claims(None, None, 'me', 60)
        self.stopping = claims.stopping
        context = types.SimpleNamespace(conf=None, engine=None, claims=claims)
        self.keeper = cluster_keeper.ClusterKeeper(
            context, self.woken.release, lambda: self.now, self.make,
            self.make_urgent)

    def make(self, _context, cluster_id):
        def run():
            self.ran.append(cluster_id)
            result = self.results.get(cluster_id, True)
            if isinstance(result, Exception):
                raise result
            if callable(result):
                return result()
            return result

        return types.SimpleNamespace(run=run)

    def make_urgent(self, _context, cluster_id):
        return types.SimpleNamespace(
            run=lambda: self.urgent.append(cluster_id))

    def run_once(self):
        self.keeper.run_once()
        self.keeper._running.join(30)
        self.keeper._urgent.join(30)

    def test_done(self):
        self.due = ['a', 'b']
        self.run_once()
        self.assertEqual(['a', 'b'], sorted(self.ran))
        # It is looked at again at once: there may be more.
        self.assertTrue(self.woken.acquire(timeout=10))

    def test_paused(self):
        """What cannot be done is tried after ever longer pauses."""
        for failure in (False, exceptions.NotPossible('no'),
                        ValueError('fault')):
            with self.subTest(repr(failure)):
                self.due, self.ran[:] = ['a'], []
                self.results['a'] = failure
                times = []
                for self.now in range(self.now, self.now + 1000):
                    before = len(self.ran)
                    self.run_once()
                    if len(self.ran) > before:
                        times.append(self.now)
                pauses = [b - a for a, b in zip(times, times[1:])]
                self.assertEqual([5, 10, 20, 40, 80, 160, 300], pauses[:7])
                self.due = []
                self.run_once()

    def test_said_once(self):
        """As long as it is the same."""
        log = self.useFixture(fixtures.FakeLogger(level=logging.WARNING))
        self.due = ['a']
        for self.results['a'] in [exceptions.NotPossible('one')] * 3 + [
                ValueError('two'), ValueError('two'), None,
                exceptions.NotPossible('one')]:
            self.keeper._pauses.keep(lambda key: False)
            self.run_once()
        self.assertEqual(['Cluster a: one', 'Cluster a:', 'Cluster a: one'], [
            line for line in log.output.splitlines()
            if line.startswith('Cluster')])
        self.assertEqual(1, log.output.count('Traceback'))
        self.due = []
        self.run_once()
        self.assertEqual({}, self.keeper._said)

    def test_urgent_waits_for_nobody(self):
        """Neither for who has it, nor for what failed."""
        self.due, self.claimed = ['a', 'b'], {'a'}
        self.results['b'] = False
        self.run_once()
        self.assertEqual((['b'], ['a']), (self.ran, self.urgent))
        self.run_once()
        self.assertEqual((['b'], ['a', 'a', 'b']),
                         (self.ran, sorted(self.urgent)))

    def test_urgent_has_its_turn(self):
        """However many are never well: one with news first, then in turn."""
        most = cluster_keeper.URGENT_AT_ONCE
        self.due = [f'{number:02}' for number in range(most + 4)]
        self.claimed = set(self.due)
        self.run_once()
        # The others have not been looked at yet.
        self.assertTrue(self.woken.acquire(timeout=10))
        self.run_once()
        self.assertEqual(set(self.due), set(self.urgent))
        while self.woken.acquire(blocking=False):
            pass
        self.urgent.clear()
        self.news[self.due[-1]] = 'dies'
        self.run_once()
        self.assertIn(self.due[-1], self.urgent)
        self.run_once()
        self.assertEqual(set(self.due), set(self.urgent))
        # Nobody is looked at all the time for nothing.
        self.assertFalse(self.woken.acquire(blocking=False))

    def test_one_that_cannot_be_adopted(self):
        """It keeps nobody from the others."""
        self.due = ['a']
        orphans = [due_repo.Orphan(each, 'PENDING_CREATE') for each in 'xy']
        asked = []

        def adopt(_conf, orphan):
            asked.append(orphan.id)
            raise ValueError('a broken flavor')

        self.useFixture(fixtures.MockPatchObject(
            due_repo, 'get_orphans', lambda _engine, _age: orphans))
        self.useFixture(fixtures.MockPatchObject(upkeep, 'adopt', adopt))
        log = self.useFixture(fixtures.FakeLogger())
        self.run_once()
        self.assertEqual((['x', 'y'], ['a']), (asked, self.ran))
        self.run_once()
        self.assertEqual(4, len(asked))
        self.assertEqual(2, log.output.count('which no worker took up'))

    def test_news(self):
        """What was tried in vain is another thing when there is news."""
        self.due = ['a']
        self.results['a'] = False
        for self.news['a'] in (None, None, 'dies', 'dies', 'again'):
            self.run_once()
        self.assertEqual(['a'] * 3, self.ran)

    def test_waits(self):
        """One for which there is nothing to do yet is no failure."""
        self.due = ['a']
        self.results['a'] = None
        self.run_once()
        self.run_once()
        self.assertEqual(['a'] * 2, self.ran)
        self.assertFalse(self.woken.acquire(blocking=False))

    def test_well_meanwhile(self):
        """The next trouble is another one."""
        self.due = ['a']
        self.results['a'] = False
        self.run_once()
        self.due = []
        self.run_once()
        self.due = ['a']
        self.run_once()
        self.assertEqual(['a', 'a'], self.ran)

    def test_at_once(self):
        goes_on = threading.Event()
        self.addCleanup(goes_on.set)
        self.due = [str(number) for number in range(9)]
        self.results = dict.fromkeys(self.due, lambda: goes_on.wait(30))
        self.keeper.run_once()
        self.keeper.run_once()
        self.assertEqual(cluster_keeper.AT_ONCE,
                         len(self.keeper._running.keys()))
        goes_on.set()
        self.keeper._running.join(30)
        # One after the other where it is the same.
        self.assertEqual(len(set(self.ran)), len(self.ran))

    def test_stopped(self):
        self.due = ['a']
        self.results['a'] = lambda: self.stopping.wait(30)
        self.keeper.run_once()
        self.keeper.stop(timeout=30)
        self.assertEqual(set(), self.keeper._running.keys())
        self.keeper.run_once()
        self.assertEqual(['a'], self.ran)
