# SPDX-License-Identifier: Apache-2.0

"""Octavia's jobboard: asking every octavia-worker to help with a sync.

Housekeeping never waits for a job. The claims in the database are the truth: a
lost job does no harm, and a needless job ends at once.
"""

import contextlib
import time
import typing

from oslo_log import log as logging
from oslo_utils import uuidutils
from taskflow import engines
from taskflow import exceptions as taskflow_exc
from taskflow.jobs import base as jobs_base
from taskflow.persistence import models

from octavia_hmsync import compat
from octavia_hmsync.db import api
from octavia_hmsync import exceptions
from octavia_hmsync.sync.worker import jobs

LOG = logging.getLogger(__name__)

PREFIX = 'octavia-hmsync-'

_PURGE_INTERVAL = 600
_TRASH_INTERVAL = 10
_ERRORS = (taskflow_exc.TaskFlowException, *api.ERRORS, OSError,
           ImportError)


class Jobboard:
    """The board, opened at the first use after close().

    :param clock: a monotonic clock, seconds.
    """

    def __init__(self, conf, clock=time.monotonic):
        self._conf = conf
        self._open = None
        # TaskFlow has no type hints.
        self._board: typing.Any = None
        self._persistence: typing.Any = None
        self._purge_is_due = _every(_PURGE_INTERVAL, clock)
        self._trash_is_due = _every(_TRASH_INTERVAL, clock)
        self._unlisted = set()

    def check(self):
        """Check that the board can be used.

        :raises JobboardUnavailable: if it cannot.
        """
        with self._translated():
            self._connect()
            list(self._board.iterjobs())

    def offer(self):
        """Post a job, unless a job of the plugin waits on the board already.

        A conductor first works through all jobs that it saw at its last look,
        so several jobs could delay more urgent ones of Octavia.

        :returns: True if a job was posted.
        :raises JobboardUnavailable: if the board cannot be used.
        """
        with self._translated():
            self._connect()
            self._tidy()
            if any(job.name.startswith(PREFIX) for job in
                   self._board.iterjobs(only_unclaimed=True)):
                return False
            self._post()
            return True

    def close(self):
        """Close the connections; offer() makes new ones."""
        if self._open is None:
            return
        opened, self._open = self._open, None
        try:
            opened.close()
        except _ERRORS as e:
            LOG.debug('Closing the jobboard failed: %s', e)

    @contextlib.contextmanager
    def _translated(self):
        try:
            yield
        except _ERRORS as e:
            self.close()
            raise exceptions.JobboardUnavailable(
                f'The jobboard cannot be used: {_describe(e)}. Until it can, '
                f'housekeeping configures the amphorae itself. Check the '
                f'server at [task_flow] jobboard_backend_hosts, and '
                f'persistence_connection.') from None

    def _connect(self):
        if self._open is not None:
            return
        with contextlib.ExitStack() as stack:
            driver = compat.load_jobboard_driver()
            stack.callback(driver.shutdown)
            self._persistence = stack.enter_context(
                driver.persistence_driver.get_persistence())
            self._board = stack.enter_context(
                driver.job_board(self._persistence))
            self._open = stack.pop_all()

    def _post(self):
        job_id = uuidutils.generate_uuid()
        name = PREFIX + job_id
        book = models.LogBook(name)
        flow = models.FlowDetail(name, job_id)
        book.add(flow)
        self._persistence.get_connection().save_logbook(book)
        engines.save_factory_details(flow, jobs.get_run_batches_flow, (), {},
                                     backend=self._persistence)
        # Octavia's own jobs go first.
        self._board.post(name, book=book,
                         details={'store': {'job_id': job_id}},
                         priority=jobs_base.JobPriority.LOW)

    def _tidy(self):
        if self._trash_is_due():
            self._delete_trash()
        if (self._purge_is_due() and
                not self._conf.task_flow.jobboard_save_logbook):
            self._delete_logbooks()

    def _delete_logbooks(self):
        """Delete logbooks whose jobs were lost.

        Conductors delete the logbooks of jobs that ended. A logbook without a
        job may be of a job that is just being posted, so this deletes it only
        when it finds it for the second time.
        """
        connection = self._persistence.get_connection()
        books = {book.uuid: book.name
                 for book in connection.get_logbooks(lazy=True)
                 if book.name.startswith(PREFIX)}
        listed = {job.name for job in self._board.iterjobs()}
        unlisted = {uuid for uuid, name in books.items()
                    if name not in listed}
        for uuid in unlisted & self._unlisted:
            with contextlib.suppress(taskflow_exc.NotFound):
                connection.destroy_logbook(uuid)
        self._unlisted = unlisted

    def _delete_trash(self):
        """Delete jobs that conductors without this package threw away.

        TaskFlow keeps them in Redis for ever, and has no call to delete them.
        """
        if not hasattr(self._board, 'trash_key'):
            return
        client, count = self._board._client, 0
        for key, job in client.hscan_iter(self._board.trash_key):
            if PREFIX.encode() in job:
                count += client.hdel(self._board.trash_key, key)
                client.delete(self._board.join(
                    key + self._board.LAST_MODIFIED_POSTFIX))
        if count:
            LOG.warning('An octavia-worker threw away %d jobs: it cannot '
                        'import octavia-hmsync. Install the package for '
                        'every octavia-worker.', count)


def _every(interval, clock):
    """Return a function that returns True once in each interval."""
    last = None

    def is_due():
        nonlocal last
        now = clock()
        if last is not None and now - last < interval:
            return False
        last = now
        return True
    return is_due


def _describe(error):
    """Describe an exception in one line, without texts with a password."""
    if isinstance(error, taskflow_exc.TaskFlowException):
        return ' '.join(str(error).split())
    return type(error).__name__
