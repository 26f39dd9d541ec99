# SPDX-License-Identifier: Apache-2.0

"""Rotates the servers of pools, differently for each member of a cluster.

haproxy's round robin begins with the first server of its configuration after
each reload. The members of a cluster are reloaded at the same moment, and
would all send their requests to the first server, then to the second one, and
so on in lockstep.
"""

import copy
import typing

from octavia_hmsync.cluster.rules import affinity
from octavia_hmsync import compat


def rotate(shown: typing.Any, slot: int | None) -> None:
    """Rotate the servers of the pools of a load balancer.

    Pools stay as they are if the order decides which server gets a client: by
    a hash of its address, or by a stick table, where haproxy may know servers
    by their number.

    :param shown: of peers.show(); its listeners are changed in place, their
                  pools, which members share, are copied.
    :param slot: of the member; None for a standby.
    """
    if not slot:
        return
    for listener in shown.listeners:
        listener.pools = [_rotate(pool, slot) for pool in listener.pools]


def _rotate(pool, slot):
    persistence = pool.session_persistence
    if (pool.lb_algorithm not in compat.ALGORITHMS_IN_TURN or
            persistence and persistence.type in affinity.KEPT_BY_AMPHORAE or
            len(pool.members) < 2):
        return pool
    rotated = copy.copy(pool)
    members = pool.members
    first = slot % len(members)
    rotated.members = members[first:] + members[:first]
    return rotated
