# SPDX-License-Identifier: Apache-2.0

"""Offers a sync to octavia-workers, and watches whether they do it.

Only progress in the database counts, because many things can keep workers
from it: a jobboard that is down or hangs, workers without the plugin, or
workers that are all busy.
"""

import threading
import time

from oslo_log import log as logging

from octavia_hmsync.sync.db import attempt as attempt_repo
from octavia_hmsync.sync.db import uploader as uploader_repo
from octavia_hmsync.sync.rules import reach
from octavia_hmsync.sync.worker import jobboard
from octavia_hmsync.sync.worker import scout
from octavia_hmsync.sync.worker import targets

LOG = logging.getLogger(__name__)

# An idle conductor looks at the board twice a second.
LOOK_INTERVAL = 0.5
# Seconds without progress after which housekeeping does the work itself.
PATIENCE = 5
# Seconds between two offers from then on.
PROBE_INTERVAL = 10


class Progress:
    """Whether the number of amphorae that are due goes down.

    .was_seen tells whether it did since it last stalled.

    :param patience: seconds without progress before it counts as stalled.
    """

    def __init__(self, patience):
        self._patience = patience
        self._due = 0
        self._since = None
        self._stalled = False
        self.was_seen = False

    def note(self, now, due):
        """Record how many amphorae are due.

        :returns: True while there is progress. After a stall it stays False
                  until nothing is due any more, because the housekeeper that
                  steps in makes progress, too.
        """
        if not due:
            self._since, self._stalled = None, False
        elif self._since is None:
            self._since = now
        elif due < self._due:
            self._since = now
            self.was_seen = not self._stalled
        elif now - self._since >= self._patience:
            self._stalled = True
        self._due = due
        return not self._stalled


class Delegate:
    """Offers jobs to workers for as long as amphorae are due.

    Call run_once() in a thread of its own, since a jobboard that hangs
    blocks it; the synchronizer's thread calls are_at_work().
    """

    def __init__(self, conf, engine, clock=time.monotonic):
        self._max_age = conf.hmsync.offline_after
        self._engine = engine
        self._clock = clock
        self._board = jobboard.Jobboard(conf)
        self._progress = Progress(PATIENCE)
        self._stopping = threading.Event()
        # Written by one thread, read by the other.
        self._board_works = True
        self._trusted = True
        self._warned = False
        self._offered_at = None

    def run_once(self):
        """Offer jobs until none is due, or raise JobboardUnavailable."""
        try:
            while not self._stopping.is_set():
                if self._is_wanted():
                    self._offer()
                elif self._board_works:
                    return
                else:
                    # Without this check it would be reported to work again.
                    self._use(self._board.check)
                self._stopping.wait(LOOK_INTERVAL)
        finally:
            self._board.close()

    def stop(self):
        """Offer no more."""
        self._stopping.set()

    def are_at_work(self):
        """Tell, regularly asked, whether workers do what is due now."""
        due = self._count_untried()
        progress = self._progress.note(self._clock(), due)
        if self._progress.was_seen:
            self._warned = False
        if not progress and self._board_works and not self._warned:
            LOG.warning('No octavia-worker configures the amphorae that are '
                        'due, so housekeeping does. They may all be busy; '
                        'otherwise check that they run with [task_flow] '
                        'jobboard_enabled and with octavia-hmsync.')
            self._warned = True
        self._trusted = progress
        return progress and self._board_works

    def _is_wanted(self):
        """Tell whether any worker has something to do."""
        uploaders = uploader_repo.get_all(self._engine)
        workers = [u.name for u in reach.get_active(uploaders, self._max_age)
                   if scout.is_worker(u)]
        if workers:
            return targets.count_due(
                self._engine,
                lambda number: attempt_repo.somebody_may_try(number, workers))
        # A worker has an uploader row for as long as it has work.
        known = [u.name for u in uploaders if not reach.is_suspect(u)]
        return targets.count_due(
            self._engine,
            lambda number: attempt_repo.nobody_waits(number, known))

    def _count_untried(self):
        """Count amphorae that no trusted uploader has tried of late."""
        trusted = [u.name for u in uploader_repo.get_all(self._engine)
                   if reach.is_trusted(u)]
        return targets.count_due(
            self._engine,
            lambda number: attempt_repo.nobody_waits(number, trusted))

    def _offer(self):
        now = self._clock()
        if (self._trusted or self._offered_at is None or
                now - self._offered_at >= PROBE_INTERVAL):
            self._offered_at = now
            self._use(self._board.offer)

    def _use(self, function):
        try:
            function()
        except Exception:
            self._board_works = False
            raise
        self._board_works = True
