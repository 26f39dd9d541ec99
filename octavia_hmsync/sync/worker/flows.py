# SPDX-License-Identifier: Apache-2.0

"""The TaskFlow flow that uploads, and its task.

TaskFlow logs a flow's store and may persist it, so no secret goes through it:
an agent configuration exists only inside ConfigureAmphorae.
"""

from taskflow.patterns import linear_flow
from taskflow import task

SYNC_AMPHORAE_FLOW = 'octavia-hmsync-sync-amphorae-flow'


def get_sync_amphorae_flow(work, uploader, on_all_begun=lambda: None):
    """Upload to the amphorae that a batch has claimed.

    It requires nothing, and provides ``results``, {result: number of
    amphorae}. It sets no amphora and no load balancer to ERROR, because a
    failed upload is not their fault. The claim comes before the flow, because
    even an empty flow costs milliseconds.

    :param work: a batch.Batch, which releases what the flow leaves.
    :param on_all_begun: called when the last upload has begun.
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
