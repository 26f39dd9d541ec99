#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""Brings every amphora to the newest generation, batch by batch."""

import collections
import concurrent.futures
import threading
import time

from oslo_log import log as logging
from taskflow import engines

from octavia_hmsync.amphora import agent_client
from octavia_hmsync.amphora import uploader
from octavia_hmsync.db.repositories import amphora as amphora_repo
from octavia_hmsync.db.repositories import generation as generation_repo
from octavia_hmsync.db.repositories import pause as pause_repo
from octavia_hmsync.house_keeping import examiner
from octavia_hmsync.membership import trial
from octavia_hmsync.metrics import instruments
from octavia_hmsync.notifications import outbox
from octavia_hmsync.notifications import payloads
from octavia_hmsync.worker import flows
from octavia_hmsync.worker import targets

LOG = logging.getLogger(__name__)

_PURGE_INTERVAL = 600


class Synchronizer:
    """Level-triggered: whatever is behind is due, for whatever reason.

    A batch lasts as long as its slowest amphora, and run_once() waits for
    none: the next batch begins as soon as all uploads of one have begun.

    :param conf: a parsed oslo.config object.
    :param engine: an SQLAlchemy engine.
    :param batch_engine: another one, for the batches: however many there
                         are, they leave the others' connections alone.
    :param wake: called when run_once() should be called again soon.
    :param workers: a delegate.Delegate, or None without a jobboard.
    :param notifier: a notifications.outbox.Outbox.
    :param measure: HouseKeepingInstruments.
    """

    def __init__(self, conf, engine, batch_engine, wake, workers=None,
                 notifier=outbox.NOWHERE, measure=None):
        self._conf = conf
        self._engine = engine
        self._wake = wake
        self._workers = workers
        self._notifier = notifier
        self._is_delegated = False
        opts = conf.hmsync
        self._batch_engine = batch_engine
        measure = measure or instruments.HouseKeepingInstruments()
        self._uploader = uploader.Uploader(
            agent_client.concurrency(conf), opts.upload_rate,
            measure.on_upload_ended)
        measure.uploads_in_flight.set_function(
            lambda: self._uploader.in_flight)
        self._lock = threading.Lock()
        self._running = set()
        self._is_stopping = False
        # What the batches that ended last raised, None if they did not.
        self._error = None
        # The batch that has amphorae which wait for their turn.
        self._feeder = None
        self._purged_at = None
        self._pause = None
        self._examiner = examiner.Examiner(conf, engine, notifier=notifier)

    def run_once(self):
        """Begin batches for the amphorae that are due now.

        :returns: how many amphorae had each result since the last call, a
                  Counter.
        :raises InvalidConfiguration: if an upload from here would harm.
        """
        results = self._reap()
        newest = generation_repo.get_newest(self._engine)
        if newest is None:
            return results
        self._purge()
        self._report_pause(pause_repo.get(self._engine))
        amphora_repo.add_missing(self._engine)
        self._examiner.run_once(newest)
        self._is_delegated = (self._workers is not None and
                              self._workers.are_at_work())
        self._begin_batch()
        if (newest.status == trial.OPEN and
                newest.completed_at is None and not amphora_repo.count(
                self._engine, newest.number).due and
                generation_repo.set_completed(self._engine, newest.number)):
            LOG.info('Generation %d is complete: every amphora has it.',
                     newest.number)
            self._notifier.send(payloads.GenerationCompleted(
                newest.number, newest.addresses, newest.published_at))
        return results

    def _report_pause(self, pause):
        if pause and pause != self._pause:
            LOG.warning('No amphora is uploaded to until %s UTC, or "octavia-'
                        'hmsync sync resume": %s.', pause.ends_at,
                        pause.reason or 'no reason given')
        elif self._pause and not pause:
            LOG.info('Amphorae are uploaded to again.')
        self._pause = pause

    def check(self):
        """Raise again what a batch raised, until one has ended well.

        run_once() begins batches and does not know how they will end; that
        it raised nothing does not tell that all is well.
        """
        if self._error:
            raise self._error.with_traceback(None)

    def stop(self):
        """Let the uploads under way end, and begin no more."""
        self._uploader.begin_no_more()
        with self._lock:
            self._is_stopping = True
            running = set(self._running)
        concurrent.futures.wait(running)
        self._uploader.close()

    def _begin_batch(self):
        """Begin a batch, if there is room for one."""
        if self._is_delegated:
            return
        with self._lock:
            if (self._is_stopping or self._feeder is not None or
                    len(self._running) >= self._conf.hmsync.parallel_batches):
                return
            future: concurrent.futures.Future[dict] = (
                concurrent.futures.Future())
            feeder = object()
            # Not an executor's: the interpreter waits for these at its end
            # before anybody can tell them to begin no more.
            threading.Thread(target=self._run, args=(future, feeder),
                             daemon=True, name='hmsync-batch').start()
            self._running.add(future)
            self._feeder = feeder
        future.add_done_callback(self._on_batch_done)

    def _run(self, future, feeder):
        try:
            future.set_result(self._run_batch(feeder))
        except BaseException as e:
            future.set_exception(e)

    def _on_all_begun(self, feeder):
        """Begin the next batch, now that one has no more to feed."""
        self._end_feeding(feeder)
        try:
            self._begin_batch()
        except RuntimeError:
            # No thread is to be had; run_once() says so.
            self._wake()

    def _end_feeding(self, feeder):
        with self._lock:
            if self._feeder is feeder:
                self._feeder = None

    def _on_batch_done(self, future):
        if future.exception() or future.result():
            self._wake()

    def _reap(self):
        """Collect the results of batches that have ended.

        :raises Exception: what a batch raised.
        """
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

    def _run_batch(self, feeder):
        """Run one flow, for whatever generation is newest by then.

        :returns: how many amphorae had each result, empty if none was due.
        """
        try:
            return self._run_newest(lambda: self._on_all_begun(feeder))
        finally:
            self._end_feeding(feeder)

    def _run_newest(self, on_all_begun):
        for target in targets.get_targets(self._batch_engine):
            results = self._run_flow(target, on_all_begun)
            if results:
                return results
        return {}

    def _run_flow(self, target, on_all_begun):
        engine = engines.load(
            flows.get_sync_amphorae_flow(self._conf, self._batch_engine,
                                         self._uploader, on_all_begun,
                                         self._notifier),
            store={'generation': target.generation.number,
                   'slots': target.generation.slots,
                   'admitted_to': target.admitted_to,
                   'not_admitted_to': target.not_admitted_to})
        engine.run()
        return engine.storage.fetch('results')

    def _purge(self):
        now = time.monotonic()
        if (self._purged_at is not None and
                now - self._purged_at < _PURGE_INTERVAL):
            return
        self._purged_at = now
        amphora_repo.delete_gone(self._engine)
