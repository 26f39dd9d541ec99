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

import collections
import random

from oslo_log import log as logging
from oslo_utils import uuidutils
from taskflow import task
from taskflow.types import failure

from octavia_hmsync.amphora import agent_client
from octavia_hmsync.amphora import agent_config
from octavia_hmsync.db.repositories import amphora as amphora_repo
from octavia_hmsync.membership import subset

LOG = logging.getLogger(__name__)


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
        :param admitted_to: see amphora.claim_due().
        :param not_admitted_to: likewise.
        :returns: (owner of the claims, how many amphorae were claimed).
        """
        owner = uuidutils.generate_uuid()
        claimed = amphora_repo.claim_due(
            self._engine, generation, owner, self._conf.hmsync.batch_size,
            self._conf.hmsync.claim_expiry, admitted_to, not_admitted_to)
        return owner, claimed

    def revert(self, result, *args, **kwargs):
        if isinstance(result, failure.Failure):
            return
        owner, _count = result
        amphora_repo.release(self._engine, owner)


class ConfigureAmphorae(task.Task):
    """Upload the configuration to each claimed amphora, and record it.

    One task for both: an amphora whose agent hangs must not keep the others'
    results from being recorded.
    """

    default_provides = 'results'

    def __init__(self, conf, engine, **kwargs):
        super().__init__(**kwargs)
        self._conf = conf
        self._engine = engine

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
        batch = _Batch(self._conf, self._engine, generation,
                       slots, claim_owner)
        return batch.run()


class _Batch:
    """The work on one batch of claimed amphorae."""

    def __init__(self, conf, engine, generation, slots, owner):
        self._conf = conf
        self._engine = engine
        self._generation = generation
        self._slots = slots
        self._owner = owner
        self._length = subset.max_list_length(
            conf.health_manager.heartbeat_timeout,
            conf.health_manager.heartbeat_interval)
        self._counts = collections.Counter()

    def run(self):
        amphorae = {a.id: a for a in amphora_repo.get_claimed(
            self._engine, self._generation, self._owner)}
        renderer = agent_config.AgentConfigRenderer(self._conf)
        client = agent_client.create_client(self._conf)
        lists = {a.id: subset.subset(a.id, self._slots, self._length)
                 for a in amphorae.values()}
        uploads, unconcerned = [], []
        for amphora in amphorae.values():
            if (amphora.addresses == lists[amphora.id] and
                    amphora.result == amphora_repo.APPLIED):
                # This change does not concern it.
                unconcerned.append(amphora_repo.Outcome(
                    amphora.id, amphora_repo.APPLIED, lists[amphora.id],
                    uploaded=False))
                continue
            topology = agent_config.topology_for(
                amphora.topology, amphora.role, self._conf)
            uploads.append(agent_client.Upload(
                amphora.id, amphora.lb_network_ip, renderer.render(
                    amphora.id, topology, lists[amphora.id])))

        self._record(unconcerned)
        for answers in client.upload_all(uploads):
            self._record([self._outcome(amphorae[upload.amphora_id],
                                        lists[upload.amphora_id], answer)
                          for upload, answer in answers])
        return dict(self._counts)

    def _outcome(self, amphora, addresses, answer):
        retry_after = None
        if answer.error:
            retry_after = self._retry_after(amphora.attempts)
            if answer.result != amphora.result:
                LOG.warning('Amphora %s is %s: %s. It is tried again in '
                            '%d s.', amphora.id, answer.result, answer.error,
                            retry_after)
        return amphora_repo.Outcome(amphora.id, answer.result, addresses,
                                    answer.error, retry_after)

    def _record(self, outcomes):
        self._counts.update(outcome.result for outcome in outcomes)
        if outcomes:
            amphora_repo.record(self._engine, self._generation, self._owner,
                                outcomes)

    def _retry_after(self, attempts):
        opts = self._conf.hmsync
        delay = min(opts.retry_interval * 2 ** min(attempts, 16),
                    opts.retry_interval_max)
        # Amphorae that failed together must not come back together.
        return delay * random.uniform(1, 1.25)  # nosec B311
