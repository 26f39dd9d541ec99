# SPDX-License-Identifier: Apache-2.0

"""Batches that run side by side, in a thread each."""

import collections
import concurrent.futures
import threading

from oslo_log import log as logging

LOG = logging.getLogger(__name__)


class Batches:
    """Begins batches, and collects their results.

    A batch lasts as long as its slowest amphora. The next one does not wait
    for that: it begins as soon as all uploads of the one before have begun.

    The threads inherit the signal mask of the thread that calls begin(), so
    that signals are left to the main thread.

    :param run: runs one batch; called with a function that it calls when no
                amphora of the batch waits for its turn any more. It returns
                how many amphorae had each result, empty if none was due.
    :param limit: how many batches run at once, at most.
    :param wake: called when begin() should be called again soon.
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
        """Begin a batch, if there is room for one.

        :raises RuntimeError: if no thread can be started.
        """
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
