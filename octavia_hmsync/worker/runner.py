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

"""The one way to claim due amphorae, upload to them, and record the results.

Housekeeping's batches and the jobs of octavia-workers go this way alike.
"""

import uuid

from taskflow import engines

from octavia_hmsync import conf as hmsync_conf
from octavia_hmsync.db.repositories import claim as claim_repo
from octavia_hmsync.notifications import outbox
from octavia_hmsync.worker import batch
from octavia_hmsync.worker import flows
from octavia_hmsync.worker import permitted


class BatchRunner:
    """Runs the flow for amphorae that are due, and never for none.

    :param conf: a parsed oslo.config object.
    :param engine: an SQLAlchemy engine.
    :param uploader: an amphora.uploader.Uploader.
    :param notifier: a notifications.outbox.Outbox.
    """

    def __init__(self, conf, engine, uploader, notifier=outbox.NOWHERE):
        self._conf = conf
        self._engine = engine
        self._uploader = uploader
        self._notifier = notifier

    def is_due(self):
        """Tell whether run() would find anything to do.

        :raises InvalidConfiguration: if an upload from here would harm.
        """
        for target in permitted.get_targets(self._conf, self._engine):
            if claim_repo.is_due(self._engine, target.generation.number,
                                 target.admitted_to, target.not_admitted_to):
                return True
        return False

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
            with batch.Batch(self._conf, self._engine,
                             target.generation.number,
                             target.generation.slots,
                             owner or str(uuid.uuid4()),
                             self._notifier,
                             target.generation.key_digest) as work:
                if work.claim(limit, target.admitted_to,
                              target.not_admitted_to):
                    engine = engines.load(flows.get_sync_amphorae_flow(
                        work, self._uploader, on_all_begun))
                    engine.run()
                    return engine.storage.fetch('results')
        return {}
