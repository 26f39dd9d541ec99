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

"""TaskFlow tasks: small steps that pass plain values.

Nothing secret goes through a flow's store, which TaskFlow logs and may
persist: an agent configuration exists only inside ConfigureAmphorae.
"""

from oslo_utils import uuidutils
from taskflow import task
from taskflow.types import failure

from octavia_hmsync import conf as hmsync_conf
from octavia_hmsync.db.repositories import claim as claim_repo
from octavia_hmsync.worker import batch


class ClaimAmphorae(task.Task):
    """Claim a batch of amphorae that are behind a generation.

    Provides ``claim_owner``; what was claimed stands in the database.
    """

    default_provides = ('claim_owner', 'claimed')

    def __init__(self, conf, engine, **kwargs):
        super().__init__(**kwargs)
        self._conf = conf
        self._engine = engine

    def execute(self, generation, admitted_to, not_admitted_to):
        """Claim.

        :param generation: number of the newest generation.
        :param admitted_to: see claim.claim_due().
        :param not_admitted_to: likewise.
        :returns: (owner of the claims, how many amphorae were claimed).
        :raises InvalidConfiguration: if an upload from here would harm.
        """
        batch.check_key(self._conf, self._engine)
        owner = uuidutils.generate_uuid()
        claimed = claim_repo.claim_due(
            self._engine, generation, owner,
            hmsync_conf.batch_limit(self._conf.hmsync),
            self._conf.hmsync.claim_expiry, admitted_to, not_admitted_to)
        return owner, claimed

    def revert(self, result, *args, **kwargs):
        if isinstance(result, failure.Failure):
            return
        owner, _count = result
        claim_repo.release(self._engine, owner)


class ConfigureAmphorae(task.Task):
    """Upload the configuration to each claimed amphora, and record it.

    One task for both: an amphora whose agent hangs must not keep the others'
    results from being recorded.

    :param on_all_begun: called when no amphora of the batch waits for its
                         turn any more.
    :param notifier: a notifications.outbox.Outbox.
    """

    default_provides = 'results'

    def __init__(self, conf, engine, uploader, on_all_begun, notifier,
                 **kwargs):
        super().__init__(**kwargs)
        self._conf = conf
        self._engine = engine
        self._uploader = uploader
        self._on_all_begun = on_all_begun
        # TaskFlow has a _notifier of its own.
        self._sender = notifier

    def execute(self, generation, slots, claim_owner, claimed):
        """Upload and record.

        :param generation: number of the newest generation.
        :param slots: slot by address of its list, see membership.subset.
        :param claim_owner: owner of the claims.
        :param claimed: how many amphorae were claimed.
        :returns: how many amphorae had each result, a dict.
        """
        if not claimed:
            return {}
        return batch.Batch(self._conf, self._engine, generation, slots,
                           claim_owner, self._sender).run(
                               self._uploader, self._on_all_begun)
