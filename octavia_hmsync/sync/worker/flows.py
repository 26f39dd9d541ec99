# SPDX-License-Identifier: Apache-2.0

"""The TaskFlow flow that uploads, and its task.

Nothing secret goes through a flow's store, which TaskFlow logs and may
persist: an agent configuration exists only inside ConfigureAmphorae.
"""

from taskflow.patterns import linear_flow
from taskflow import task

SYNC_AMPHORAE_FLOW = 'octavia-hmsync-sync-amphorae-flow'


def get_sync_amphorae_flow(work, uploader, on_all_begun=lambda: None):
    """Bring the amphorae that a batch has claimed to their generation.

    It requires nothing, and provides ``results``, how many amphorae had each
    result. It marks no amphora and no load balancer: an upload that fails is
    no fault of either. A flow costs milliseconds, whatever it does, so that
    the claim comes before it: one is made for amphorae that are claimed, and
    none where nothing is due.

    :param work: a batch.Batch, which gives back what the flow leaves.
    :param uploader: an amphora.uploader.Uploader.
    :param on_all_begun: called when the last upload has begun.
    :returns: a flow.
    """
    flow = linear_flow.Flow(SYNC_AMPHORAE_FLOW)
    flow.add(ConfigureAmphorae(work, uploader, on_all_begun))
    return flow


class ConfigureAmphorae(task.Task):
    """Upload the configuration to each claimed amphora, and record it.

    One task for both: an amphora whose agent hangs must not keep the others'
    results from being recorded.
    """

    default_provides = 'results'

    def __init__(self, work, uploader, on_all_begun, **kwargs):
        super().__init__(**kwargs)
        self._work = work
        self._uploader = uploader
        self._on_all_begun = on_all_begun

    def execute(self):
        """Upload and record.

        :returns: how many amphorae had each result, a dict.
        """
        return self._work.run(self._uploader, self._on_all_begun)
