# SPDX-License-Identifier: Apache-2.0

"""What an octavia-worker does with a job from the jobboard.

A job is only a request to help. When it runs, the octavia-worker reads from
the database which amphorae are due for which list. So a job that comes late or
twice finds nothing to do, and a lost job does no harm.
"""

import collections
import os
import time
import uuid

from oslo_log import log as logging
from taskflow.patterns import linear_flow
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
        """Run batches.

        :param job_id: a UUID, the same each time that this job runs.
        :returns: {result: number of amphorae}.
        """
        return _get_runner().run(job_id)


class JobRunner:
    """Runs batches for as long as a job lasts.

    :param clock: a monotonic clock, seconds.
    :raises DatabaseUnavailable: if the database URL cannot be used.
    """

    def __init__(self, conf, clock=time.monotonic):
        self._conf = conf
        self._clock = clock
        self._engine = api.create_engine(conf)
        self._runner = runner.BatchRunner(
            conf, self._engine,
            uploader.Uploader(agent_client.concurrency(conf),
                              conf.hmsync.upload_rate),
            scout.Scout(conf, self._engine, scout.WORKER),
            outbox.Outbox(conf))
        self._problem = None

    def run(self, job_id):
        """Run batches until none is due or the time is up.

        It logs errors instead of raising them: a conductor would log each with
        two tracebacks, for every job.

        :param job_id: a UUID.
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
