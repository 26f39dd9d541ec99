# SPDX-License-Identifier: Apache-2.0

"""Claims due amphorae, uploads to them, and records the results.

Housekeeping's batches and the jobs of octavia-workers both use this.
"""

import uuid

from taskflow import engines

from octavia_hmsync.conf import sync as hmsync_conf
from octavia_hmsync.notifications import outbox
from octavia_hmsync.sync.db import claim as claim_repo
from octavia_hmsync.sync.worker import batch
from octavia_hmsync.sync.worker import flows
from octavia_hmsync.sync.worker import permitted


class BatchRunner:
    """Runs the flow for amphorae that are due, if there are any.

    :param uploads_from: the scout.Scout of this process.
    """

    def __init__(self, conf, engine, uploader, uploads_from,
                 notifier=outbox.NOWHERE):
        self._scout = uploads_from
        self._conf = conf
        self._engine = engine
        self._uploader = uploader
        self._notifier = notifier

    def is_due(self):
        """Tell whether run() would find anything to do.

        :raises InvalidConfiguration: see permitted.get_targets().
        """
        is_due = any(claim_repo.is_due(
            self._engine, target.generation.number, target.admitted_to,
            target.not_admitted_to, self._scout.name) for target in
            permitted.get_targets(self._conf, self._engine))
        # Call this even if nothing is due: it writes the keepalive by which
        # others know this uploader.
        return self._scout.may_claim() and is_due

    def run(self, owner=None, limit=None, on_all_begun=lambda: None):
        """Run one batch, for the most urgent list.

        :param owner: claim owner, an id of this process alone, 36 characters
                      at most; None for a new id.
        :param limit: largest batch; None for that of the configuration.
        :param on_all_begun: called when all uploads of the batch have begun.
        :returns: {result: number of amphorae}, empty if none was due.
        :raises InvalidConfiguration: see permitted.get_targets().
        """
        limit = limit or hmsync_conf.batch_limit(self._conf.hmsync)
        for target in permitted.get_targets(self._conf, self._engine):
            with self._scout.allowance(limit) as allowed:
                results = allowed and self._run(
                    target, owner or str(uuid.uuid4()), allowed, on_all_begun)
            if results:
                return results
        return {}

    def _run(self, target, owner, limit, on_all_begun):
        with batch.Batch(self._conf, self._engine, target.generation.number,
                         target.generation.slots, owner, self._scout,
                         self._notifier,
                         target.generation.key_digest,
                         target.generation.zones) as work:
            if not work.claim(limit, target.admitted_to,
                              target.not_admitted_to):
                return {}
            engine = engines.load(flows.get_sync_amphorae_flow(
                work, self._uploader, on_all_begun))
            engine.run()
            return engine.storage.fetch('results')
