# SPDX-License-Identifier: Apache-2.0

"""Claims due amphorae, uploads to them, and records the results.

Housekeeping's batches and the jobs of octavia-workers both use this. TaskFlow
logs a flow's store and may persist it, so no secret goes through it: an agent
configuration exists only inside ConfigureAmphorae.
"""

import uuid

from taskflow import engines
from taskflow.patterns import linear_flow
from taskflow import task

from octavia_hmsync.conf import sync as hmsync_conf
from octavia_hmsync import exceptions
from octavia_hmsync.notifications import outbox
from octavia_hmsync.sync.db import claim as claim_repo
from octavia_hmsync.sync.db import listening as listening_repo
from octavia_hmsync.sync import heartbeat_key
from octavia_hmsync.sync.rules import timing
from octavia_hmsync.sync.worker import batch
from octavia_hmsync.sync.worker import targets

SYNC_AMPHORAE_FLOW = 'octavia-hmsync-sync-amphorae-flow'


def get_targets(conf, engine):
    """Return the targets for its key, or raise InvalidConfiguration."""
    wanted = targets.get_targets(engine)
    if not wanted:
        return []
    keys = listening_repo.get_keys(engine, timing.Settings.from_conf(conf))
    permitted, problem = [], None
    for target in wanted:
        try:
            heartbeat_key.check(conf.health_manager.heartbeat_key, keys,
                                target.generation.key_digest)
            permitted.append(target)
        except exceptions.InvalidConfiguration as e:
            problem = problem or e
    if problem and not permitted:
        raise problem
    return permitted


def get_sync_amphorae_flow(work, uploader, on_all_begun=lambda: None):
    """Upload to the amphorae that a batch has claimed.

    It requires nothing, and provides ``results``, {result: number of
    amphorae}. It sets no amphora and no load balancer to ERROR, because a
    failed upload is not their fault. The claim comes before the flow, because
    even an empty flow costs milliseconds.

    :param work: a batch.Batch, which releases what the flow leaves.
    """
    flow = linear_flow.Flow(SYNC_AMPHORAE_FLOW)
    flow.add(ConfigureAmphorae(work, uploader, on_all_begun))
    return flow


class ConfigureAmphorae(task.Task):
    """Upload the configuration to each claimed amphora, and record it.

    One task for both, so that results are recorded while the agent of another
    amphora hangs.
    """

    default_provides = 'results'

    def __init__(self, work, uploader, on_all_begun, **kwargs):
        super().__init__(**kwargs)
        self._work = work
        self._uploader = uploader
        self._on_all_begun = on_all_begun

    def execute(self):
        """Return {result: number of amphorae}."""
        return self._work.run(self._uploader, self._on_all_begun)


class BatchRunner:
    """Runs the flow for amphorae that are due, if there are any."""

    def __init__(self, conf, engine, uploader, uploads_from,
                 notifier=outbox.NOWHERE):
        self._scout = uploads_from
        self._conf = conf
        self._engine = engine
        self._uploader = uploader
        self._notifier = notifier

    def is_due(self):
        """Tell whether run() would find anything; raises as get_targets()."""
        is_due = any(claim_repo.is_due(
            self._engine, target.generation.number, target.admitted_to,
            target.not_admitted_to, self._scout.name) for target in
            get_targets(self._conf, self._engine))
        # Call this even if nothing is due: it writes the keepalive by which
        # others know this uploader.
        return self._scout.may_claim() and is_due

    def run(self, owner=None, limit=None, on_all_begun=lambda: None):
        """Run one batch, for the most urgent list.

        :param owner: claim owner, an id of this process alone, 36 characters
                      at most; None for a new id.
        :returns: {result: number of amphorae}, empty if none was due.
        :raises InvalidConfiguration: see get_targets().
        """
        limit = limit or hmsync_conf.batch_limit(self._conf.hmsync)
        for target in get_targets(self._conf, self._engine):
            with self._scout.allowance(limit) as allowed:
                results = allowed and self._run(
                    target, owner or str(uuid.uuid4()), allowed, on_all_begun)
            if results:
                return results
        return {}

    def _run(self, target, owner, limit, on_all_begun):
        with batch.Batch(self._conf, self._engine, target.generation, owner,
                         self._scout, self._notifier) as work:
            if not work.claim(limit, target.admitted_to,
                              target.not_admitted_to):
                return {}
            engine = engines.load(get_sync_amphorae_flow(
                work, self._uploader, on_all_begun))
            engine.run()
            return engine.storage.fetch('results')
