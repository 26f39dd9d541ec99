# SPDX-License-Identifier: Apache-2.0

"""Restoring a load balancer with a cluster after an aborted change.

It is not known which configuration its members have: all of them get it anew.
"""

import sqlalchemy as sa

from octavia_hmsync.cluster.db import claim as claim_repo
from octavia_hmsync.cluster.db import lock as lock_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.db import api
from octavia_hmsync.db import models
from octavia_hmsync.db import types
from octavia_hmsync.image.db import restore as restore_repo

_CLUSTER = models.Cluster.__table__
_MEMBER = models.ClusterMember.__table__


@api.retry
def restore(engine, cluster_id, owner, expiry, snapshot, status, statuses):
    """Unlock a load balancer, if it is still as the caller saw it.

    :param snapshot: the image.db.restore.Snapshot that the caller saw.
    :param status: its new status, ACTIVE or ERROR.
    :param statuses: new statuses, {image_restore.Object: status}.
    :returns: False, without a change, if something has changed, or another
              owner has claimed the cluster.
    """
    with engine.connect() as connection, connection.begin() as transaction:
        if (_enter(connection, cluster_id, owner, expiry, status) and
                restore_repo.take_over(connection, snapshot, status) and
                restore_repo.change_objects(connection, statuses)):
            connection.execute(
                sa.update(_MEMBER)
                .where(_MEMBER.c.cluster_id == cluster_id,
                       _MEMBER.c.slot.is_not(None),
                       # A member that is ALONE is configured anew anyway.
                       _MEMBER.c.config_digest != member_repo.ALONE)
                .values(config_digest=None))
            return True
        transaction.rollback()
        return False


def _enter(connection, cluster_id, owner, expiry, status):
    return claim_repo.CLAIMS.hold(
        connection, cluster_id, owner, expiry) and connection.execute(
            sa.update(_CLUSTER)
            .where(_CLUSTER.c.id == cluster_id,
                   _CLUSTER.c.provisioning_status.not_in(lock_repo.PENDING))
            .values(provisioning_status=status,
                    updated_at=types.utcnow())).rowcount
