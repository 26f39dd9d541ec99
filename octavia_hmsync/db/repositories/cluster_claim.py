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

"""Who works on which cluster: one at a time.

When a claim lapses another one takes the cluster up, as its rows are.
"""

import sqlalchemy as sa

from octavia_hmsync import compat
from octavia_hmsync.db import api
from octavia_hmsync.db import models
from octavia_hmsync.db import types

_TABLE = models.Cluster.__table__


def _is_free():
    return sa.or_(_TABLE.c.claimed_by.is_(None),
                  _TABLE.c.claim_expires_at <= types.utcnow())


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
    values = {} if status is None else {'provisioning_status': sa.case(
        (_TABLE.c.provisioning_status == compat.PENDING_DELETE,
         compat.PENDING_DELETE), else_=status)}
    with engine.begin() as connection:
        return connection.execute(
            sa.update(_TABLE)
            .where(_TABLE.c.id == cluster_id,
                   sa.or_(_is_free(), _TABLE.c.claimed_by == owner))
            .values(claimed_by=owner,
                    claim_expires_at=types.utcnow_plus(expiry), **values)
        ).rowcount == 1


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
    return connection.execute(
        sa.update(_TABLE)
        .where(_TABLE.c.id == cluster_id, _TABLE.c.claimed_by == owner)
        .values(claim_expires_at=types.utcnow_plus(expiry))).rowcount == 1


@api.retry
def release(engine, cluster_id, owner):
    """Give a claim back.

    :returns: False if somebody else has claimed it meanwhile.
    """
    with engine.begin() as connection:
        return connection.execute(
            sa.update(_TABLE)
            .where(_TABLE.c.id == cluster_id, _TABLE.c.claimed_by == owner)
            .values(claimed_by=None, claim_expires_at=None)).rowcount == 1
