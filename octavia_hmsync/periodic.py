# SPDX-License-Identifier: Apache-2.0

"""A thread that calls a function periodically, and survives its errors."""

from collections import abc
import signal
import threading
import time

from oslo_log import log as logging
import sqlalchemy as sa

from octavia_hmsync.db import api
from octavia_hmsync.db import schema
from octavia_hmsync import exceptions

LOG = logging.getLogger(__name__)

# The pause after a call, as a multiple of its processor time.
_PAUSE = 9

# They make a service end, read its configuration again, or report.
_SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGUSR2)


def leave_signals_to_main_thread() -> None:
    """Block signals in this thread, and in threads that it starts.

    Python's handlers run in the main thread, and octavia-housekeeping's main
    thread sleeps until a signal wakes it. If Linux gives the signal to
    another thread, which it may do while a thread starts, the main thread
    sleeps on and the service does not end.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)


class _Problems:
    """The present problems, each logged once for all threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_thread: dict[abc.Hashable, str] = {}
        self._noticed: set[str] = set()

    def change(self, thread: abc.Hashable, problem: str | None) -> None:
        """Note the present problem of a thread, and log any change."""
        with self._lock:
            before = self._by_thread.pop(thread, None)
            known = problem in self._by_thread.values()
            if problem:
                self._by_thread[thread] = problem
            solved = before and not self._by_thread
        if problem and problem != before and not known:
            LOG.warning('octavia-hmsync: %s', problem)
        elif solved:
            LOG.info('octavia-hmsync works again.')

    def notice(self, text: str) -> None:
        """Log once what does not stop the work."""
        with self._lock:
            known = text in self._noticed
            self._noticed.add(text)
        if not known:
            LOG.warning('%s It goes on working with them meanwhile.', text)

    def forget(self, thread: abc.Hashable) -> None:
        """Drop the problem of a thread that has ended."""
        with self._lock:
            self._by_thread.pop(thread, None)


def _is_of_the_end(error: Exception) -> bool:
    """Tell whether Python starts no more threads because it ends.

    This happens before stop() is called.
    """
    return isinstance(error, RuntimeError) and (
        'interpreter shutdown' in str(error))


_PROBLEMS = _Problems()


def note_problem(what: abc.Hashable, problem: str | None) -> None:
    """Note what keeps a part of a periodic look from being done.

    It is logged once, and once that all works again. Call it outside of
    except blocks: oslo.log would log the exception once more.

    :param problem: a line of text; None if there is none now.
    """
    _PROBLEMS.change(what, problem)


def describe(error: Exception) -> str:
    """Put what a function raised in one line."""
    if isinstance(error, exceptions.HMSyncException):
        return str(error)
    if api.is_database_error(error):
        return (f'The database cannot be used: {api.describe(error)}. It is '
                f'tried again; Octavia runs on.')
    return f'{type(error).__name__}: {error}'


class PeriodicThread:
    """Calls a function at an interval, whatever it raises.

    When the database goes down, one WARNING is logged, and one INFO when it is
    back. Other errors are logged with their traceback. The next interval is
    the retry; after a call that hung for longer than the interval, the next
    one is made at once. No call is made before the plugin's tables exist, and
    calls take no more than a tenth of a processor in the long run.

    .succeeded_at is the time of the last call that ended well, in seconds
    since the epoch by this controller's clock, 0.0 for never; .failures is
    the number of failed calls.

    :param interval: seconds between the end of a call and the next.
    """

    def __init__(self, name: str, function: abc.Callable[[], object],
                 interval: float, engine: sa.Engine,
                 clock: abc.Callable[[], float] = time.monotonic) -> None:
        self.name = name
        self._clock = clock
        self.succeeded_at = 0.0
        self.failures = 0
        self._function = function
        self._interval = interval
        self._engine = engine
        self._stopping = threading.Event()
        self._wake = threading.Event()
        self._schema_checked = False
        self._problem: str | None = None
        self._thread = threading.Thread(
            target=self._run, name=f'hmsync-{name}', daemon=True)

    @property
    def stopping(self) -> threading.Event:
        """The threading.Event that stop() sets."""
        return self._stopping

    def start(self) -> None:
        """Start the thread; its first call comes at once."""
        self._thread.start()

    def wake(self) -> None:
        """Make the next call now."""
        self._wake.set()

    def is_alive(self) -> bool:
        """Tell whether the thread has not ended; it may hang."""
        return self._thread.is_alive()

    def stop(self, timeout: float) -> None:
        """Make no more calls, and wait for the running one."""
        self._stopping.set()
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join(timeout)

    def _run(self) -> None:
        leave_signals_to_main_thread()
        is_again = False
        while not self._stopping.is_set():
            self._wake.clear()
            began, cpu = self._clock(), time.thread_time()
            is_good = self._call()
            cpu = time.thread_time() - cpu
            has_hung = self._clock() - began - cpu > self._interval
            # What it saw before it hung is old, and Octavia's health check
            # does not wait either. But a server that is slow, and does
            # answer, is not asked all the time.
            is_again = has_hung and not (is_good and is_again)
            # Calls that look at each amphora take long in a large fleet.
            self._wake.wait(max(0 if is_again else self._interval,
                                _PAUSE * cpu))
        _PROBLEMS.forget(self)

    def _call(self) -> bool:
        try:
            if not self._schema_checked:
                self._check_schema()
            self._function()
            self.succeeded_at = time.time()
            problem = None
        except Exception as e:
            self.failures += 1
            problem = self._describe(e)
        # Outside the except block, as oslo.log would log it twice inside.
        _PROBLEMS.change(self, problem)
        self._problem = problem
        return problem is None

    def _describe(self, error: Exception) -> str | None:
        """Put an error in a line, log it if new; None at the service's end."""
        problem = describe(error)
        if isinstance(error, exceptions.HMSyncException):
            return problem
        if api.is_database_error(error):
            # The tables may have changed when it comes back.
            self._schema_checked = False
            return problem
        if self._stopping.is_set() or _is_of_the_end(error):
            LOG.info('octavia-hmsync: %s did not end before the service: %s',
                     self.name, problem)
            return None
        if problem != self._problem:
            LOG.exception('octavia-hmsync: %s failed; it is tried again '
                          'every %s s.', self.name, self._interval)
        return problem

    def _check_schema(self) -> None:
        newer = None
        with self._engine.connect() as connection:
            try:
                schema.check(connection)
            except exceptions.SchemaNewer as e:
                newer = str(e)
        # Outside the except block, see _call().
        if newer:
            _PROBLEMS.notice(newer)
        self._schema_checked = True
