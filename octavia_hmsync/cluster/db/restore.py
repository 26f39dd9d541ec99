# SPDX-License-Identifier: Apache-2.0

"""Giving back a load balancer whose change ended half-way, with its cluster.

What its members have by now nobody knows: all of them are to be told anew.
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
    """Have nobody work on a load balancer, if nothing changes meanwhile.

    :param engine: an SQLAlchemy engine.
    :param cluster_id: its cluster.
    :param owner: who has claimed that.
    :param expiry: seconds after which the claim lapses.
    :param snapshot: of the load balancer, an image_restore.Snapshot.
    :param status: what it is from now on, ACTIVE or ERROR.
    :param statuses: what becomes of what belongs to it, {image_restore's
                     Object: status}.
    :returns: False, and nothing is changed, if something has changed, or
              somebody else has claimed the cluster.
    """
    with engine.connect() as connection, connection.begin() as transaction:
        if (_enter(connection, cluster_id, owner, expiry, status) and
                restore_repo.take_over(connection, snapshot, status) and
                restore_repo.change_objects(connection, statuses)):
            connection.execute(
                sa.update(_MEMBER)
                .where(_MEMBER.c.cluster_id == cluster_id,
                       _MEMBER.c.slot.is_not(None),
                       # That one is configured anew, too.
                       _MEMBER.c.config_digest != member_repo.ALONE)
                .values(config_digest=None))
            return True
        transaction.rollback()
        return False


def _enter(connection, cluster_id, owner, expiry, status):
    return claim_repo.hold(
        connection, cluster_id, owner, expiry) and connection.execute(
            sa.update(_CLUSTER)
            .where(_CLUSTER.c.id == cluster_id,
                   _CLUSTER.c.provisioning_status.not_in(lock_repo.PENDING))
            .values(provisioning_status=status,
                    updated_at=types.utcnow())).rowcount
