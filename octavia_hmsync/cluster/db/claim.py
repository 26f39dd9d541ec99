# SPDX-License-Identifier: Apache-2.0

"""The claims of clusters: one owner at a time.

When a claim lapses the next owner goes on with the cluster as its rows are.
"""

import typing

import sqlalchemy as sa

from octavia_hmsync import compat
from octavia_hmsync.db import claims
from octavia_hmsync.db import models

_TABLE = models.Cluster.__table__
CLAIMS = claims.Claims(_TABLE, _TABLE.c.id, _TABLE.c.claimed_by)
renew, release = CLAIMS.hold, CLAIMS.release


def claim(engine, cluster_id, owner, expiry, status=None):
    """Claim a cluster that has no owner.

    :param status: its new provisioning status, unless it is to be deleted;
                   None leaves it as it is.
    :returns: False if another owner works on it, or it is gone.
    """
    values: dict[str, typing.Any] = {}
    if status is not None:
        values['provisioning_status'] = sa.case(
            (_TABLE.c.provisioning_status == compat.PENDING_DELETE,
             compat.PENDING_DELETE), else_=status)
    return CLAIMS.take(engine, cluster_id, owner, expiry, **values)
