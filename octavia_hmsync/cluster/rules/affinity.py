# SPDX-License-Identifier: Apache-2.0

"""When all connections of a client have to come to the same amphora: a rule.

An amphora remembers which client belongs to which member of a pool, and tells
its peer group alone. Where a pool needs that memory, a client has to come to
those who have it.
"""

from collections.abc import Iterable
from typing import Any

from octavia_hmsync.cluster.rules import sizes

# Kinds of session persistence that are kept in an amphora. A HTTP_COOKIE is
# kept by the client, and names the member to any amphora.
KEPT_BY_AMPHORAE = frozenset(('SOURCE_IP', 'APP_COOKIE'))


def choose(affinity: str, pools: Iterable[Any]) -> str:
    """Return the affinity that a cluster has to have from now on.

    It never goes back by itself: when the last such pool is gone, nobody
    gains by connections of a client going elsewhere.

    :param affinity: what it has, or would have.
    :param pools: of its load balancer, as Octavia's data models.
    :returns: one of sizes.AFFINITIES.
    """
    if any(pool.session_persistence and
           pool.session_persistence.type in KEPT_BY_AMPHORAE
           for pool in pools):
        return sizes.SOURCE_IP
    return affinity
