# SPDX-License-Identifier: Apache-2.0

"""Brings every amphora to the newest generation, batch by batch."""

from oslo_log import log as logging

from octavia_hmsync.amphora import agent_client
from octavia_hmsync.amphora import uploader
from octavia_hmsync.metrics import instruments
from octavia_hmsync.notifications import outbox
from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.db import pause as pause_repo
from octavia_hmsync.sync.house_keeping import batches
from octavia_hmsync.sync.house_keeping import census
from octavia_hmsync.sync.house_keeping import examiner
from octavia_hmsync.sync import payloads
from octavia_hmsync.sync.rules import trial
from octavia_hmsync.sync.worker import runner
from octavia_hmsync.sync.worker import scout

LOG = logging.getLogger(__name__)


class Synchronizer:
    """Brings amphorae that are behind up to date, whatever the reason.

    :param batch_engine: a separate engine for the batches, so that they never
                         use up the connections of other threads.
    :param wake: called when run_once() should be called again soon.
    :param workers: a delegate.Delegate, or None without a jobboard.
    """

    def __init__(self, conf, engine, batch_engine, wake, workers=None,
                 notifier=outbox.NOWHERE, measure=None):
        self._engine = engine
        self._workers = workers
        self._notifier = notifier
        self._is_delegated = False
        measure = measure or instruments.HouseKeepingInstruments()
        self._uploader = uploader.Uploader(
            agent_client.concurrency(conf), conf.hmsync.upload_rate,
            measure.on_upload_ended)
        measure.uploads_in_flight.set_function(
            lambda: self._uploader.in_flight)
        self._runner = runner.BatchRunner(
            conf, batch_engine, self._uploader,
            scout.Scout(conf, batch_engine, scout.HOUSEKEEPING), notifier)
        self._batches = batches.Batches(
            self._run_batch, conf.hmsync.parallel_batches, wake)
        self._pause = None
        self._census = census.Census(engine)
        self._examiner = examiner.Examiner(conf, engine, notifier=notifier)

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
