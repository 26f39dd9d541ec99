# SPDX-License-Identifier: Apache-2.0

"""Octavia's jobboard: asking every octavia-worker to help with a sync.

Housekeeping never waits for a job, which is only a request to help. When it
runs, the octavia-worker reads from the database which amphorae are due for
which list. So a job that comes late or twice finds nothing to do, and a lost
job does no harm.
"""

import collections
import contextlib
import os
import time
import typing
import uuid

from oslo_log import log as logging
from oslo_utils import uuidutils
from taskflow import engines
from taskflow import exceptions as taskflow_exc
from taskflow.jobs import base as jobs_base
from taskflow.patterns import linear_flow
from taskflow.persistence import models
from taskflow import task

from octavia_hmsync.amphora import agent_client
from octavia_hmsync.amphora import uploader
from octavia_hmsync import compat
from octavia_hmsync.conf import opts as groups
from octavia_hmsync.conf import sync as hmsync_conf
from octavia_hmsync.db import api
from octavia_hmsync import exceptions
from octavia_hmsync.notifications import outbox
from octavia_hmsync.sync.db import claim as claim_repo
from octavia_hmsync.sync.worker import runner
from octavia_hmsync.sync.worker import scout

LOG = logging.getLogger(__name__)

PREFIX = 'octavia-hmsync-'

_PURGE_INTERVAL = 600
_TRASH_INTERVAL = 10
_ERRORS = (taskflow_exc.TaskFlowException, *api.ERRORS, OSError,
           ImportError)

RUN_BATCHES_FLOW = 'octavia-hmsync-run-batches-flow'

# Seconds after which a job begins no new batch: an octavia-worker runs one job
# at a time, and Octavia's own jobs wait.
_SHIFT = 2


def get_run_batches_flow():
    """Bring amphorae to their list, batch by batch, for a few seconds.

    1. Release the claims of an earlier run of this job, which was killed; then
       claim amphorae, upload to them and record each result, until none is
       due or the time is up.

    Requires ``job_id``; provides ``results``, {result: number of amphorae}. A
    conductor finds this function by its name; it takes no argument, because
    the octavia-worker uses its own configuration and database.
    """
    flow = linear_flow.Flow(RUN_BATCHES_FLOW)
    flow.add(RunBatches())
    return flow


class RunBatches(task.Task):
    """Run batches in this process.

    One task is enough: the results are in the database, for each amphora, and
    not in the logbook.
    """

    default_provides = 'results'

    def execute(self, job_id):
        """Run batches for a job's UUID; return {result: number}."""
        return _get_runner().run(job_id)


class JobRunner:
    """Runs batches while a job lasts; may raise DatabaseUnavailable."""

    def __init__(self, conf, clock=time.monotonic):
        self._conf = conf
        self._clock = clock
        self._engine = api.create_engine(conf)
        self._runner = runner.BatchRunner(
            conf, self._engine,
            uploader.Uploader(agent_client.concurrency(conf),
                              lambda: conf.hmsync.upload_rate),
            scout.Scout(conf, self._engine, scout.WORKER),
            outbox.Outbox(conf))
        self._problem = None

    def run(self, job_id):
        """Run batches until none is due or the time is up.

        It logs errors instead of raising them: a conductor would log each with
        two tracebacks, for every job.

        :returns: {result: number of amphorae}.
        """
        results: collections.Counter[str] = collections.Counter()
        problem = None
        try:
            self._run(job_id, results)
        except exceptions.HMSyncException as e:
            problem = str(e)
        except Exception as e:
            if api.is_database_error(e):
                problem = (f'The database cannot be used: '
                           f'{api.describe(e)}.')
            else:
                problem = f'{type(e).__name__}: {e}'
                LOG.exception('octavia-hmsync: a batch failed; its amphorae '
                              'are tried again:')
        if problem and problem != self._problem:
            LOG.warning('octavia-hmsync: %s', problem)
        self._problem = problem
        if results:
            LOG.info('Configured amphorae: %s.', ', '.join(
                f'{n} {result}' for result, n in sorted(results.items())))
        return dict(results)

    def _run(self, job_id, results):
        prefix = job_id.replace('-', '')[:23] + '-'
        # Each run is a new owner: so an earlier run that was taken for dead,
        # but lives, can do no harm.
        owner = prefix + uuid.uuid4().hex[:12]
        groups.check(self._conf, hmsync_conf)
        if claim_repo.release_all(self._engine, prefix):
            LOG.info('Going on with job %s, whose worker has ended.', job_id)
        deadline = self._clock() + _SHIFT
        # At most what can be in flight at once: then a batch without answers
        # ends after one upload_timeout.
        opts = self._conf.hmsync
        limit = min(hmsync_conf.batch_limit(opts), opts.upload_concurrency)
        while True:
            ended = self._runner.run(owner, limit)
            results.update(ended)
            if not ended or self._clock() >= deadline:
                return


class _Off:
    """In place of a JobRunner if the plugin is off; logs that once."""

    def __init__(self):
        LOG.warning('octavia-hmsync is off in this process, so it does none '
                    'of the jobs that it takes from the jobboard. Set '
                    '[DEFAULT] config_source and [hmsync] in the '
                    'octavia.conf of every octavia-worker, as for the other '
                    'services.')

    def run(self, job_id):
        return {}


# By process id: database connections must not pass a fork.
_runners: dict = {}


def _get_runner():
    pid = os.getpid()
    if pid not in _runners:
        _runners.clear()
        _runners[pid] = (JobRunner(compat.CONF) if 'hmsync' in compat.CONF
                         else _Off())
    return _runners[pid]


class Jobboard:
    """The board, opened at the first use after close()."""

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
        """Check that the board can be used, or raise JobboardUnavailable."""
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
        engines.save_factory_details(flow, get_run_batches_flow, (), {},
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
        unlisted = {book_id for book_id, name in books.items()
                    if name not in listed}
        for book_id in unlisted & self._unlisted:
            with contextlib.suppress(taskflow_exc.NotFound):
                connection.destroy_logbook(book_id)
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
