# SPDX-License-Identifier: Apache-2.0

"""Who works on which cluster: one at a time.

When a claim lapses another one takes the cluster up, as its rows are.
"""

import typing

import sqlalchemy as sa

from octavia_hmsync import compat
from octavia_hmsync.db import api
from octavia_hmsync.db import claims
from octavia_hmsync.db import models

_TABLE = models.Cluster.__table__
_CLAIMS = claims.Claims(_TABLE, _TABLE.c.id, _TABLE.c.claimed_by)


@api.retry
def claim(engine, cluster_id, owner, expiry, status=None):
    """Claim a cluster that nobody works on.

    :param engine: an SQLAlchemy engine.
    :param cluster_id: which.
    :param owner: a new id, of this call alone.
    :param expiry: seconds after which the claim lapses.
    :param status: what its provisioning status is from then on, unless it is
                   to be deleted; None leaves what it is.
    :returns: False if somebody else works on it, or it is gone.
    """
    values: dict[str, typing.Any] = {}
    if status is not None:
        values['provisioning_status'] = sa.case(
            (_TABLE.c.provisioning_status == compat.PENDING_DELETE,
             compat.PENDING_DELETE), else_=status)
    with engine.begin() as connection:
        return _CLAIMS.take(connection, cluster_id, owner, expiry, **values)


@api.retry
def renew(engine, cluster_id, owner, expiry):
    """Go on holding a claim, also one that lapsed and that nobody took.

    :returns: False if somebody else has claimed it meanwhile: nothing must
              be done any more then.
    """
    with engine.begin() as connection:
        return hold(connection, cluster_id, owner, expiry)


def hold(connection, cluster_id, owner, expiry):
    """Go on holding a claim, as part of a transaction.

    Has to come first in it.

    :returns: False if somebody else has claimed it meanwhile.
    """
    return _CLAIMS.hold(connection, cluster_id, owner, expiry)


@api.retry
def release(engine, cluster_id, owner):
    """Give a claim back.

    :returns: False if somebody else has claimed it meanwhile.
    """
    with engine.begin() as connection:
        return _CLAIMS.release(connection, cluster_id, owner)
