# SPDX-License-Identifier: Apache-2.0

from octavia_hmsync.db import models
from octavia_hmsync import exceptions
from octavia_hmsync.sync.db import amphora as amphora_repo
from octavia_hmsync.sync.db import claim as claim_repo
from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.db import outcome as outcome_repo
from octavia_hmsync.sync.db import uploader as uploader_repo
from octavia_hmsync.sync.house_keeping import delegate
from tests.db_cases import base as db_base
from tests.unit import base
from tests.unit.db import sqlite


class TestProgress(base.TestCase):

    def setUp(self):
        super().setUp()
        self.subject = delegate.Progress(patience=5)

    def note(self, *looks):
        """Note how many were due at each second, return the last answer."""
        return [self.subject.note(now, due) for now, due in looks][-1]

    def test_nothing_due(self):
        self.assertTrue(self.note((0, 0), (100, 0)))

    def test_patience(self):
        self.assertTrue(self.note((0, 9), (4, 9)))
        self.assertFalse(self.note((5, 9)))

    def test_patience_begins_when_something_is_due(self):
        self.assertTrue(self.note((0, 0), (100, 9), (104, 9)))

    def test_progress(self):
        self.assertTrue(self.note((0, 9), (4, 8), (8, 7), (12, 6)))
        self.assertTrue(self.subject.was_seen)

    def test_more_is_no_progress(self):
        self.assertFalse(self.note((0, 9), (2, 10), (4, 11), (6, 12)))

    def test_the_next_list_is_progressed_with_as_well(self):
        self.assertTrue(self.note((0, 5), (2, 1), (4, 90), (8, 80)))

    def test_once_stalled_it_stays_so_until_nothing_is_due(self):
        self.assertFalse(self.note((0, 9), (5, 9), (6, 8), (7, 7)))
        self.assertFalse(self.subject.was_seen)
        self.assertTrue(self.note((8, 0)))
        self.assertTrue(self.note((9, 9), (13, 9)))


class Board:
    """A jobboard on which nobody looks."""

    def __init__(self):
        self.error = None
        self.offers = 0
        self.is_open = False
        self.on_offer = lambda: None

    def check(self):
        self.is_open = True
        if self.error:
            raise self.error

    def offer(self):
        self.check()
        self.offers += 1
        self.on_offer()

    def close(self):
        self.is_open = False


class DelegateTestCase(sqlite.SqliteMixin, db_base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.now = 0
        self.subject = delegate.Delegate(self.conf, self.engine,
                                         lambda: self.now)
        self.board = self.subject._board = Board()
        self.board.on_offer = self.subject.stop

    def make_due(self):
        self.add_amphorae(2)
        amphora_repo.add_missing(self.engine)
        generation_repo.publish(self.engine, 1, {'192.0.2.1:5555': 0}, 'test',
                                'test')


class TestDelegate(DelegateTestCase):

    def test_nothing_due(self):
        self.subject.run_once()
        self.assertEqual(0, self.board.offers)

    def test_offers_and_closes(self):
        self.make_due()
        self.subject.run_once()
        self.assertEqual(1, self.board.offers)
        self.assertFalse(self.board.is_open)

    def test_ends_when_nothing_is_due_any_more(self):
        self.make_due()
        self.board.on_offer = lambda: claim_repo.claim_due(
            self.engine, 1, 'somebody', 10, 60)
        self.subject.run_once()
        self.assertEqual(1, self.board.offers)

    def test_board_is_down(self):
        self.make_due()
        self.assertTrue(self.subject.are_at_work())
        self.board.error = exceptions.JobboardUnavailable('down')
        self.assertRaises(exceptions.JobboardUnavailable,
                          self.subject.run_once)
        self.assertFalse(self.subject.are_at_work())
        self.assertFalse(self.board.is_open)
        # It is not said to work again only because nothing is due.
        claim_repo.claim_due(self.engine, 1, 'somebody', 10, 60)
        self.assertRaises(exceptions.JobboardUnavailable,
                          self.subject.run_once)
        self.board.error = None
        self.subject.run_once()
        self.assertTrue(self.subject.are_at_work())

    def test_nobody_does_it(self):
        self.make_due()
        self.assertTrue(self.subject.are_at_work())
        self.now = delegate.PATIENCE
        self.assertFalse(self.subject.are_at_work())

    def test_workers_that_do_nothing_are_asked_now_and_then(self):
        self.make_due()
        self.subject.are_at_work()
        self.subject.run_once()
        self.now = delegate.PATIENCE
        self.subject.are_at_work()
        self.subject._stopping.clear()
        self.patch(self.subject._stopping, 'wait', self._pass)
        self.board.on_offer = lambda: None
        self.subject.run_once()
        # Each look is a second here.
        self.assertEqual(1 + 30 // delegate.PROBE_INTERVAL, self.board.offers)

    def _pass(self, seconds):
        self.now += 1
        if self.now > 30:
            self.subject.stop()


class TestWhoReachesWhom(DelegateTestCase):
    """Jobs are offered while a worker has something to do."""

    WORKERS = ('octavia-worker on w1', 'octavia-worker on w2')

    def setUp(self):
        super().setUp()
        self.make_due()
        for name in self.WORKERS:
            uploader_repo.touch(self.engine, name, 20)

    def try_(self, name, result='UNREACHABLE'):
        claimed = claim_repo.claim_due(self.engine, 1, name, 10, 60,
                                       uploader=name)
        outcome_repo.record(self.engine, 1, name, [outcome_repo.Outcome(
            a.id, result, ('192.0.2.1:5555',), 'refused', 60,
            is_unanswered=result != 'APPLIED') for a in claimed],
            uploader=name, max_age=20)

    def offers(self):
        before = self.board.offers
        self.subject._stopping.clear()
        self.subject.run_once()
        return self.board.offers - before

    def forget(self, *names):
        for name in names:
            self.make_older(models.Uploader, 'keepalive_at', 21, name=name)

    def test_until_each_worker_waits(self):
        self.assertEqual(1, self.offers())
        self.try_(self.WORKERS[0])
        self.assertEqual(1, self.offers())
        self.try_(self.WORKERS[1])
        self.assertEqual(0, self.offers())
        # They look for work only while there are jobs.
        self.forget(*self.WORKERS)
        self.assertEqual(0, self.offers())
        self.make_older(models.Attempt, 'next_attempt_at', 1)
        self.make_older(models.Amphora, 'next_attempt_at', 1)
        self.assertEqual(1, self.offers())

    def test_a_blind_one_is_not_waited_for(self):
        uploader_repo.set_overtaken(self.engine, self.WORKERS[0], 3)
        self.try_(self.WORKERS[1])
        self.assertEqual(0, self.offers())

    def test_what_a_worker_tried_is_not_left_lying(self):
        self.try_(self.WORKERS[0])
        self.assertTrue(self.subject.are_at_work())
        self.now += delegate.PATIENCE + 1
        self.assertTrue(self.subject.are_at_work())

    def test_what_only_a_suspect_tried_is(self):
        """Nobody else would find out that it reaches nobody."""
        self.add_amphorae(2)
        amphora_repo.add_missing(self.engine)
        self.try_(self.WORKERS[0])
        self.assertTrue(self.subject.are_at_work())
        self.now += delegate.PATIENCE + 1
        self.assertFalse(self.subject.are_at_work())
