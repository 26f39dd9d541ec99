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

"""TaskFlow flows."""

from taskflow.patterns import linear_flow

from octavia_hmsync.notifications import outbox
from octavia_hmsync.worker import tasks

SYNC_AMPHORAE_FLOW = 'octavia-hmsync-sync-amphorae-flow'


def get_sync_amphorae_flow(conf, engine, uploader,
                           on_all_begun=lambda: None,
                           notifier=outbox.NOWHERE):
    """Bring one batch of amphorae to a generation.

    1. Claim amphorae that are behind it.
    2. Upload the configuration to each, and record each one's result.

    Requires ``generation``, its number, ``slots``, its addresses with the
    slot of each, and ``admitted_to`` and ``not_admitted_to``, which of the
    amphorae may have it while there is a trial; provides ``results``, how
    many amphorae had each result. It marks no amphora and no
    load balancer: an upload that fails is no fault of either.

    :param conf: a parsed oslo.config object.
    :param engine: an SQLAlchemy engine.
    :param uploader: an amphora.uploader.Uploader.
    :param on_all_begun: called when the last upload has begun.
    :param notifier: a notifications.outbox.Outbox.
    :returns: a flow.
    """
    flow = linear_flow.Flow(SYNC_AMPHORAE_FLOW)
    flow.add(tasks.ClaimAmphorae(conf, engine),
             tasks.ConfigureAmphorae(conf, engine, uploader, on_all_begun,
                                     notifier))
    return flow
