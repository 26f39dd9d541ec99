# SPDX-License-Identifier: Apache-2.0

"""The one way to claim due amphorae, upload to them, and record the results.

Housekeeping's batches and the jobs of octavia-workers go this way alike.
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
    """Runs the flow for amphorae that are due, and never for none.

    :param conf: a parsed oslo.config object.
    :param engine: an SQLAlchemy engine.
    :param uploader: an amphora.uploader.Uploader.
    :param uploads_from: a scout.Scout: whom this process can reach.
    :param notifier: a notifications.outbox.Outbox.
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

        :raises InvalidConfiguration: if an upload from here would harm.
        """
        is_due = any(claim_repo.is_due(
            self._engine, target.generation.number, target.admitted_to,
            target.not_admitted_to, self._scout.name) for target in
            permitted.get_targets(self._conf, self._engine))
        # Asked at rest as well: others know by that who is there.
        return self._scout.may_claim() and is_due

    def run(self, owner=None, limit=None, on_all_begun=lambda: None):
        """Run one batch, for whatever is most urgent by then.

        :param owner: who claims, an id that no other process has, 36
                      characters at most; a new one if None.
        :param limit: how many amphorae at most; None for as many as the
                      configuration says.
        :param on_all_begun: called when no amphora of the batch waits for
                             its turn any more.
        :returns: how many amphorae had each result, empty if none was due.
        :raises InvalidConfiguration: if an upload from here would harm.
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
