# SPDX-License-Identifier: Apache-2.0

"""What follows when a compute zone is no longer drained."""

import uuid

from oslo_log import log as logging

from octavia_hmsync.conf import image as image_conf
from octavia_hmsync.image import causes
from octavia_hmsync.image.db import cancel as cancel_repo
from octavia_hmsync.image.db import rollout as rollout_repo
from octavia_hmsync.sync.db import zone_drain as drain_repo

LOG = logging.getLogger(__name__)


def follow(conf, engine):
    """End the rollout of a drain that has ended, then even out zones.

    Another rollout that runs comes to its end first. What is repeated after
    the death of a housekeeper finds nothing to do.
    """
    ended = drain_repo.get_ended(engine)
    if not ended:
        return
    active = rollout_repo.get_active(engine)
    if active is not None:
        zone = active.settings.cause_value
        if active.settings.cause == causes.Kind.ZONE and zone in ended:
            reason = f'zone {zone} is no longer drained'
            if cancel_repo.cancel_rollout(
                    engine, active.id, rollout_repo.ACTIVE_STATES,
                    reason) is not None:
                LOG.info('Rollout %s is cancelled: %s.', active.id, reason)
        return
    opts = conf[image_conf.GROUP]
    rollout_id = str(uuid.uuid4())
    zones = ', '.join(sorted(ended))
    if rollout_repo.add(
            engine, rollout_id, rollout_repo.from_options(
                opts, cause=str(causes.Kind.BALANCE)),
            f'no longer drained: {zones}'):
        drain_repo.forget(engine, ended)
        LOG.info('Compute zones no longer drained: %s. Rollout %s evens out '
                 'clusters and pairs over their zones.', zones, rollout_id)
