# SPDX-License-Identifier: Apache-2.0

"""Brings every amphora to the newest generation, batch by batch."""

import collections
import concurrent.futures
import threading

from oslo_log import log as logging

from octavia_hmsync.amphora import agent_client
from octavia_hmsync.amphora import uploader
from octavia_hmsync.metrics import instruments
from octavia_hmsync.notifications import outbox
from octavia_hmsync import periodic
from octavia_hmsync.sync.db import amphora as amphora_repo
from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.db import pause as pause_repo
from octavia_hmsync.sync.house_keeping import examiner
from octavia_hmsync.sync import payloads
from octavia_hmsync.sync.rules import trial
from octavia_hmsync.sync.worker import runner
from octavia_hmsync.sync.worker import scout

LOG = logging.getLogger(__name__)

# Batches that have begun and not ended, at most: those that wait for
# unresponsive amphorae hold up no others. Each costs a thread.
PARALLEL_BATCHES = 64

# Amphorae of Octavia, and rows of ours, to look at in each pass. A full turn
# finds what no event shows: 10 000 amphorae take 200 s with the default
# poll_interval.
_PAGE = 100
_OWN_PAGE = 20


class Batches:
    """Begins batches, and collects their results.

    A batch lasts as long as its slowest amphora. The next one does not wait
    for that: it begins as soon as all uploads of the one before have begun.

    The threads inherit the signal mask of the thread that calls begin(), so
    that signals are left to the main thread.

    :param run: runs one batch; called with a function that it calls when no
                amphora of the batch waits for its turn any more. It returns
                how many amphorae had each result, empty if none was due.
    """

    def __init__(self, run, limit, wake):
        self._run = run
        self._limit = limit
        self._wake = wake
        self._lock = threading.Lock()
        self._running = set()
        # The batch that still has amphorae waiting for their turn.
        self._feeder = None
        self._is_stopping = False
        # What the last batch raised, None if it ended well.
        self._error = None

    def begin(self):
        """Begin a batch if there is room; RuntimeError without a thread."""
        with self._lock:
            if (self._is_stopping or self._feeder is not None or
                    len(self._running) >= self._limit):
                return
            future: concurrent.futures.Future[dict] = (
                concurrent.futures.Future())
            feeder = object()
            # No executor: the interpreter waits for an executor's threads
            # at its end, before stop() could be called.
            threading.Thread(target=self._run_in_thread,
                             args=(future, feeder), daemon=True,
                             name='hmsync-batch').start()
            self._running.add(future)
            self._feeder = feeder
        future.add_done_callback(self._on_batch_done)

    def reap(self):
        """Return a Counter of ended batches' results, or raise an error."""
        with self._lock:
            done = {future for future in self._running if future.done()}
            self._running -= done
        results: collections.Counter[str] = collections.Counter()
        error = None
        for future in done:
            error = error or future.exception()
            if not future.exception():
                results.update(future.result())
        if results:
            LOG.info('Configured amphorae: %s.', ', '.join(
                f'{n} {result}' for result, n in sorted(results.items())))
        if done:
            self._error = error
        if error:
            raise error
        return results

    def check(self):
        """Raise the last error of a batch, until a batch has ended well.

        Batches end after the call that began them, so that a call of reap()
        without an error does not prove that all is well.
        """
        if self._error:
            raise self._error.with_traceback(None)

    def forget_error(self):
        """Forget the error that check() raises, if nothing is running.

        For when nothing is due any more, so that no batch can end well.
        """
        with self._lock:
            if not self._running:
                self._error = None

    def wait(self):
        """Wait until no batch is running, later ones included."""
        while running := self._get_running():
            concurrent.futures.wait(running)

    def stop(self):
        """Begin no more batches, and wait for the running ones."""
        with self._lock:
            self._is_stopping = True
        self.wait()

    def _get_running(self):
        with self._lock:
            return {future for future in self._running if not future.done()}

    def _run_in_thread(self, future, feeder):
        try:
            try:
                result = self._run(lambda: self._on_all_begun(feeder))
            finally:
                self._end_feeding(feeder)
        except BaseException as e:
            future.set_exception(e)
        else:
            future.set_result(result)

    def _on_all_begun(self, feeder):
        """Begin the next batch, as all uploads of this one have begun."""
        self._end_feeding(feeder)
        try:
            self.begin()
        except RuntimeError:
            # The next call of begin() raises the same and reports it.
            self._wake()

    def _end_feeding(self, feeder):
        with self._lock:
            if self._feeder is feeder:
                self._feeder = None

    def _on_batch_done(self, future):
        if future.exception() or future.result():
            self._wake()


class Census:
    """Looks at some amphorae per call of run_once().

    Each pass adds rows for amphorae that Octavia is building and looks at a
    few others in turn, which costs the same for any size of the fleet. All
    amphorae are looked at when this housekeeper starts, and before a
    generation is called complete.
    """

    def __init__(self, engine):
        self._engine = engine
        self._has_looked_at_all = False
        self._after = self._own_after = ''

    def run_once(self):
        """Add the rows that are missing, delete rows without an amphora."""
        if not self._has_looked_at_all:
            amphora_repo.add_missing(self._engine)
            amphora_repo.delete_gone(self._engine)
            self._has_looked_at_all = True
            return
        amphora_repo.add_building(self._engine)
        page = amphora_repo.get_page(self._engine, self._after, _PAGE)
        if page:
            amphora_repo.add_missing(self._engine, page)
        self._after = _last(page, _PAGE)
        page = amphora_repo.get_own_page(self._engine, self._own_after,
                                         _OWN_PAGE)
        if page:
            amphora_repo.delete_gone(self._engine, page)
        self._own_after = _last(page, _OWN_PAGE)

    def has_all(self, number):
        """Tell whether each amphora is at a generation."""
        if amphora_repo.is_any_behind(self._engine, number):
            return False
        # All rows are; add the missing ones and look again.
        return not amphora_repo.add_missing(self._engine) and not (
            amphora_repo.is_any_behind(self._engine, number))


def _last(page, size):
    """Return where the next page begins."""
    return page[-1] if len(page) == size else ''


class Synchronizer:
    """Brings amphorae that are behind up to date, whatever the reason.

    :param batch_engine: a separate engine for the batches, so that they never
                         use up the connections of other threads.
    :param workers: a delegate.Delegate, or None without a jobboard.
    """

    def __init__(self, conf, engine, batch_engine, wake, workers=None,
                 notifier=outbox.NOWHERE, measure=None):
        # Why nothing is uploaded from here, a line of text, or None.
        self.problem: str | None = None
        self._engine = engine
        self._workers = workers
        self._notifier = notifier
        self._is_delegated = False
        measure = measure or instruments.HouseKeepingInstruments()
        self._uploader = uploader.Uploader(
            agent_client.concurrency(conf),
            lambda: conf.hmsync.upload_rate,
            measure.on_upload_ended)
        measure.uploads_in_flight.set_function(
            lambda: self._uploader.in_flight)
        self._scout = scout.Scout(conf, batch_engine, scout.HOUSEKEEPING)
        self._runner = runner.BatchRunner(
            conf, batch_engine, self._uploader, self._scout, notifier)
        self._batches = Batches(
            self._run_batch, PARALLEL_BATCHES, wake)
        self._pause = None
        self._census = Census(engine)
        self._examiner = examiner.Examiner(conf, engine, notifier=notifier)

    def work(self):
        """Call run_once() and check(); remember, and raise, what fails."""
        try:
            self.run_once()
            self.check()
        except Exception as e:
            self.problem = periodic.describe(e)
            raise
        self.problem = None if self._is_delegated else (
            self._scout.find_problem())

    def run_once(self):
        """Begin batches for the amphorae that are due now, without waiting.

        :returns: how many amphorae had each result since the last call, a
                  Counter.
        :raises InvalidConfiguration: if uploads from here would do harm.
        """
        results = self._batches.reap()
        newest = generation_repo.get_newest(self._engine)
        if newest is None:
            return results
        self._report_pause(pause_repo.get(self._engine))
        self._census.run_once()
        self._examiner.run_once(newest)
        self._report_completion(newest)
        self._begin_batch()
        return results

    def check(self):
        """Raise the last error of a batch, see Batches.check()."""
        self._batches.check()

    def stop(self):
        """Let running uploads end, and begin no more."""
        self._uploader.begin_no_more()
        self._batches.stop()
        self._uploader.close()

    def _begin_batch(self):
        """Begin a batch if any amphora is due, unless workers do it."""
        self._is_delegated = (self._workers is not None and
                              self._workers.are_at_work())
        if self._is_delegated or not self._runner.is_due():
            self._batches.forget_error()
        else:
            self._batches.begin()

    def _run_batch(self, on_all_begun):
        # Not when workers do the rest already.
        return {} if self._is_delegated else self._runner.run(
            on_all_begun=on_all_begun)

    def _report_pause(self, pause):
        if pause and pause != self._pause:
            LOG.warning('No amphora is uploaded to until %s UTC, or "octavia-'
                        'hmsync sync resume": %s.', pause.ends_at,
                        pause.reason or 'no reason given')
        elif self._pause and not pause:
            LOG.info('Amphorae are uploaded to again.')
        self._pause = pause

    def _report_completion(self, newest):
        if (newest.status == trial.OPEN and
                newest.completed_at is None and
                self._census.has_all(newest.number) and
                generation_repo.set_completed(self._engine, newest.number)):
            LOG.info('Generation %d is complete: every amphora has it.',
                     newest.number)
            self._notifier.send(payloads.GenerationCompleted(
                newest.number, newest.addresses, newest.published_at))
