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
import time

from oslo_log import log as logging
from taskflow import engines

from octavia_hmsync.amphora import heartbeat_key
from octavia_hmsync.db.repositories import amphora as amphora_repo
from octavia_hmsync.db.repositories import generation as generation_repo
from octavia_hmsync.db.repositories import health_manager as hm_repo
from octavia_hmsync.house_keeping import rollout
from octavia_hmsync.membership import rollout as rules
from octavia_hmsync.worker import flows

LOG = logging.getLogger(__name__)

_PURGE_INTERVAL = 600


class Synchronizer:
    """Level-triggered: whatever is behind is due, for whatever reason.

    A batch with amphorae that do not answer lasts as long as the slowest of
    them, so several run at once, and run_once() waits for none.

    :param conf: a parsed oslo.config object.
    :param engine: an SQLAlchemy engine.
    :param wake: called when run_once() should be called again soon.
    """

    def __init__(self, conf, engine, wake):
        self._conf = conf
        self._engine = engine
        self._wake = wake
        self._slots = conf.hmsync.parallel_batches
        self._executor = concurrent.futures.ThreadPoolExecutor(
            self._slots, thread_name_prefix='hmsync-batch')
        self._running = set()
        self._purged_at = None
        self._rollout = rollout.Rollout(conf, engine)

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
        amphora_repo.add_missing(self._engine)
        heartbeat_key.check(
            self._conf.health_manager.heartbeat_key, hm_repo.get_key_digests(
                self._engine, self._conf.hmsync.offline_after))
        self._rollout.run_once(newest)
        # One batch tells whether more is due; then all slots help.
        wanted = self._slots if results else 1
        for _ in range(min(wanted, self._slots - len(self._running))):
            self._begin_batch()
        if (newest.status == rules.OPEN and
                newest.completed_at is None and not amphora_repo.count(
                self._engine, newest.number).due and
                generation_repo.set_completed(self._engine, newest.number)):
            LOG.info('Generation %d is complete: every amphora has it.',
                     newest.number)
        return results

    def stop(self):
        """Wait for the batches under way, and begin no more."""
        self._executor.shutdown(wait=True, cancel_futures=True)

    def _begin_batch(self):
        try:
            future = self._executor.submit(self._run_batch)
        except RuntimeError:
            # The interpreter is going down.
            return
        self._running.add(future)
        future.add_done_callback(self._on_batch_done)

    def _on_batch_done(self, future):
        if not future.cancelled() and (future.exception() or
                                       future.result()):
            self._wake()

    def _reap(self):
        """Collect the results of batches that have ended.

        :raises Exception: what a batch raised.
        """
        done = {future for future in self._running if future.done()}
        self._running -= done
        results, error = collections.Counter(), None
        for future in done:
            error = error or future.exception()
            if not future.exception():
                results.update(future.result())
        if results:
            LOG.info('Configured amphorae: %s.', ', '.join(
                f'{n} {result}' for result, n in sorted(results.items())))
        if error:
            raise error
        return results

    def _run_batch(self):
        """Run one flow, for whatever generation is newest by then.

        :returns: how many amphorae had each result, empty if none was due.
        """
        newest = generation_repo.get_newest(self._engine)
        if newest.status == rules.OPEN:
            return self._run_flow(newest)
        results = {}
        if newest.is_on_trial:
            results = self._run_flow(newest, admitted_to=newest.number)
        good = generation_repo.get_last_good(self._engine)
        if not results and good is not None:
            # The others must not wait for the end of the trial with a list
            # that is older still.
            results = self._run_flow(good, not_admitted_to=newest.number)
        return results

    def _run_flow(self, generation, admitted_to=None, not_admitted_to=None):
        engine = engines.load(
            flows.get_sync_amphorae_flow(self._conf, self._engine),
            store={'generation': generation.number,
                   'slots': generation.slots, 'admitted_to': admitted_to,
                   'not_admitted_to': not_admitted_to})
        engine.run()
        return engine.storage.fetch('results')

    def _purge(self):
        now = time.monotonic()
        if (self._purged_at is not None and
                now - self._purged_at < _PURGE_INTERVAL):
            return
        self._purged_at = now
        amphora_repo.delete_gone(self._engine)
