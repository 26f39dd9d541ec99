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

"""When all connections of a client have to come to the same amphora: a rule.

An amphora remembers which client belongs to which member of a pool, and tells
its peer group alone. Where a pool needs that memory, a client has to come to
those who have it.
"""

from collections.abc import Iterable
from typing import Any

from octavia_hmsync.cluster import sizes

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
