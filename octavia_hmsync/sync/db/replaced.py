# SPDX-License-Identifier: Apache-2.0

"""Amphorae that somebody has in hand, whom the list leaves alone.

A new amphora of a SINGLE load balancer boots as one of a pair, so that it
leaves the VIP alone; an upload of the list would tell it what it is before its
time. The replacement gives it the list of its zone; it gets others once it is
proven to serve, and not only at the end: the deletion of the old one may have
to wait for a service that is down. One that an octavia-worker builds in mode
failover is as any other that Octavia fails over, from when it has an agent: it
has to get the list of its zone to be heard, and the guard holds it meanwhile.
The old one goes from the moment at which the VIP is taken from it; while it is
given the VIP back it is an amphora as any other. A member of a cluster is in
the hands of whoever builds it until it is built.
"""

import sqlalchemy as sa

from octavia_hmsync import compat
from octavia_hmsync.db import models

_TABLE = models.ImageReplacement.__table__
_MEMBER = models.ClusterMember.__table__
_OCTAVIA = compat.AMPHORA

# See octavia_hmsync.image.phases, which is above this layer.
OLD_GOES_IN = ('SWITCH', 'PROVE_SWITCHED', 'DELETE_OLD', 'UNLOCK', 'FAILOVER')
# Those of clusters are as any other member.
NEW_SERVES_IN = ('DELETE_OLD', 'UNLOCK', 'FAILOVER', 'ORDER')
# See cluster_member.
BUILDING = 'BUILDING'


def _in_hand(column, condition):
    # The first of these has an index, with few rows that are open.
    return sa.select(column.label('amphora_id')).where(
        _TABLE.c.active_key.is_not(None), column.is_not(None), condition)


def not_in_hand():
    """Amphorae, of Octavia's table, that nobody has in hand."""
    # MariaDB makes a table of a union once, with an index; other subqueries
    # it may run for each amphora.
    in_hand = sa.union_all(
        _in_hand(_TABLE.c.new_amphora_id,
                 sa.func.coalesce(_TABLE.c.phase, '').not_in(NEW_SERVES_IN)),
        _in_hand(_TABLE.c.old_amphora_id, _TABLE.c.phase.in_(OLD_GOES_IN)),
        sa.select(_MEMBER.c.amphora_id).where(
            _MEMBER.c.state == BUILDING, _MEMBER.c.amphora_id.is_not(None))
    ).subquery()
    return ~sa.select(in_hand.c.amphora_id).where(
        in_hand.c.amphora_id == _OCTAVIA.c.id).correlate(_OCTAVIA).exists()
