# SPDX-License-Identifier: Apache-2.0

"""Batches that run side by side, in a thread each."""

import collections
import concurrent.futures
import threading

from oslo_log import log as logging

LOG = logging.getLogger(__name__)


class Batches:
    """Begins batches, and collects what came of them.

    A batch lasts as long as its slowest amphora, and nobody waits for it: the
    next one begins as soon as all uploads of one have begun.

    The threads inherit from whoever calls begin() that signals are left to
    the main thread.

    :param run: runs one batch; called with a function that it calls when no
                amphora of the batch waits for its turn any more. It returns
                how many amphorae had each result, empty if none was due.
    :param limit: how many run at once, at most.
    :param wake: called when begin() should be called again soon.
    """

    def __init__(self, run, limit, wake):
        self._run = run
        self._limit = limit
        self._wake = wake
        self._lock = threading.Lock()
        self._running = set()
        # The batch that has amphorae which wait for their turn.
        self._feeder = None
        self._is_stopping = False
        # What the batches that ended last raised, None if they did not.
        self._error = None

    def begin(self):
        """Begin a batch, if there is room for one.

        :raises RuntimeError: if no thread is to be had.
        """
        with self._lock:
            if (self._is_stopping or self._feeder is not None or
                    len(self._running) >= self._limit):
                return
            future: concurrent.futures.Future[dict] = (
                concurrent.futures.Future())
            feeder = object()
            # Not an executor's: the interpreter waits for these at its end
            # before anybody can tell them to begin no more.
            threading.Thread(target=self._run_in_thread,
                             args=(future, feeder), daemon=True,
                             name='hmsync-batch').start()
            self._running.add(future)
            self._feeder = feeder
        future.add_done_callback(self._on_batch_done)

    def reap(self):
        """Collect the results of the batches that have ended.

        :returns: how many amphorae had each result, a Counter.
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

    def check(self):
        """Raise again what a batch raised, until one has ended well.

        Whoever begins batches does not know how they will end; that nothing
        was raised meanwhile does not tell that all is well.
        """
        if self._error:
            raise self._error.with_traceback(None)

    def forget_error(self):
        """Have check() raise nothing, if nothing is running that may fail.

        For when nothing is due any more: no batch would end well then.
        """
        with self._lock:
            if not self._running:
                self._error = None

    def wait(self):
        """Wait until none is running, nor begun by another meanwhile."""
        while running := self._get_running():
            concurrent.futures.wait(running)

    def stop(self):
        """Begin no more, and wait for those that are running."""
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
        """Begin the next batch, now that one has no more to feed."""
        self._end_feeding(feeder)
        try:
            self.begin()
        except RuntimeError:
            # begin() says so to whoever calls it next.
            self._wake()

    def _end_feeding(self, feeder):
        with self._lock:
            if self._feeder is feeder:
                self._feeder = None

    def _on_batch_done(self, future):
        if future.exception() or future.result():
            self._wake()
