# SPDX-License-Identifier: Apache-2.0

"""With which server of a pool a member of a cluster begins.

haproxy's round robin begins with the first server of its configuration, and
with that again whenever it is loaded anew: all members of a cluster, which
are loaded anew at one moment, would send their first requests to the same
server, then to the next one, and so on in lockstep.
"""

import copy
import typing

from octavia_hmsync.cluster.rules import affinity
from octavia_hmsync import compat


def rotate(shown: typing.Any, slot: int | None) -> None:
    """Have the pools of a load balancer begin with another server.

    Pools stay as they are where the order tells which server gets a client:
    by a hash of its address, or by a stick table, in which haproxy may know
    servers by their number.

    :param shown: of peers.show(); its listeners are changed in place, and
                  their pools, which other members share, are copied.
    :param slot: of the member; None for one that stands by.
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
