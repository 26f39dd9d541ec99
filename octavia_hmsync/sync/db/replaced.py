# SPDX-License-Identifier: Apache-2.0

"""Amphorae that are being built or replaced, which get no uploads.

A new amphora of a SINGLE load balancer boots as one of a pair, so that it does
not take the VIP; an upload of the list would tell it its real topology too
early. The replacement itself gives it the list of its zone. It gets other
lists as soon as it is proven to serve, and not only at the end: the deletion
of the old amphora may have to wait for a service that is down.

A new amphora that an octavia-worker builds in mode failover gets lists as soon
as it has an agent, as in any failover of Octavia: it needs the list of its
zone to be heard, and the guard holds it meanwhile.

An old amphora gets no lists from the moment at which it loses the VIP; while
it gets the VIP back it counts again.

While a load balancer gets another topology no amphora of it gets lists: its
row still has the old topology. From DELETE_OLD on the new ones do.

A member of a cluster gets no lists until it is built.
"""

import functools

import sqlalchemy as sa

from octavia_hmsync import compat
from octavia_hmsync.db import models

_TABLE = models.ImageReplacement.__table__
_MEMBER = models.ClusterMember.__table__
_OCTAVIA = compat.AMPHORA
_BESIDE = _OCTAVIA.alias()

# See octavia_hmsync.image.phases, which is above this layer.
OLD_GOES_IN = ('SWITCH', 'PROVE_SWITCHED', 'DELETE_OLD', 'UNLOCK', 'FAILOVER')
# ORDER is a phase of clusters: their new amphorae get lists as members.
NEW_SERVES_IN = ('DELETE_OLD', 'UNLOCK', 'FAILOVER', 'ORDER')
# See image.causes.
TOPOLOGY = 'TOPOLOGY'
# See cluster.db.member.
BUILDING = 'BUILDING'


def _in_hand(column, condition):
    # active_key has an index, with few open rows.
    return sa.select(column.label('amphora_id')).where(
        _TABLE.c.active_key.is_not(None), column.is_not(None), condition)


# SQLAlchemy takes 1 ms to make it, longer than many statements with it take.
@functools.cache
def not_in_hand():
    """Return the condition for amphorae that are not built or replaced now."""
    # MariaDB makes one indexed table of a union, but may run another subquery
    # for each amphora.
    in_hand = sa.union_all(
        _in_hand(_TABLE.c.new_amphora_id,
                 sa.func.coalesce(_TABLE.c.phase, '').not_in(NEW_SERVES_IN)),
        _in_hand(_TABLE.c.old_amphora_id, _TABLE.c.phase.in_(OLD_GOES_IN)),
        # MariaDB may begin with all amphorae else.
        sa.select(_BESIDE.c.id).prefix_with(
            'STRAIGHT_JOIN', dialect='mysql').prefix_with(
            'STRAIGHT_JOIN', dialect='mariadb').select_from(_TABLE.join(
                _BESIDE, _BESIDE.c.load_balancer_id == _TABLE.c.active_key
            )).where(
            _TABLE.c.active_key.is_not(None), _TABLE.c.cause == TOPOLOGY,
            sa.func.coalesce(_TABLE.c.phase, 'LOCK') != 'LOCK',
            sa.or_(_TABLE.c.phase.not_in(NEW_SERVES_IN),
                   # It is of the old side.
                   (_TABLE.c.cause_value == compat.TOPOLOGY_SINGLE) !=
                   (_BESIDE.c.role == compat.SINGLE_ROLE))),
        sa.select(_MEMBER.c.amphora_id).where(
            _MEMBER.c.state == BUILDING, _MEMBER.c.amphora_id.is_not(None))
    ).subquery()
    return ~sa.select(in_hand.c.amphora_id).where(
        in_hand.c.amphora_id == _OCTAVIA.c.id).correlate(_OCTAVIA).exists()
