# SPDX-License-Identifier: Apache-2.0

"""When all connections of a client must go to the same amphora: a rule.

An amphora remembers which client belongs to which member of a pool, and
shares that with its peer group only. If a pool needs that memory, a client
must reach the amphorae that have it.
"""

from collections.abc import Iterable
from typing import Any

from octavia_hmsync.cluster.rules import sizes

# Types of session persistence that an amphora keeps. The client keeps an
# HTTP_COOKIE, which names the member to any amphora.
KEPT_BY_AMPHORAE = frozenset(('SOURCE_IP', 'APP_COOKIE'))


def choose(affinity: str, pools: Iterable[Any]) -> str:
    """Return the affinity that a cluster needs.

    SOURCE_IP stays when the last such pool is gone: a change would only break
    connections.

    :param affinity: its present one, or that of its flavor.
    :param pools: of its load balancer, as Octavia's data models.
    :returns: one of sizes.AFFINITIES.
    """
    if any(pool.session_persistence and
           pool.session_persistence.type in KEPT_BY_AMPHORAE
           for pool in pools):
        return sizes.SOURCE_IP
    return affinity
