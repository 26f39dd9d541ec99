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

"""For how long a connection through a load balancer may be silent.

haproxy closes the connection of a client that says nothing for longer than
its listener allows, so a distributor needs to remember no connection for
longer: a change of the members is over that much sooner.
"""

from collections.abc import Iterable
import math
from typing import Any

from octavia_hmsync.db.repositories import cluster_idle as idle_repo

# Seconds; also for packets that are on their way, and clocks that differ.
LEAST = 60
# haproxy tries to connect to a member of a pool four times ("retries 3"), and
# a request may wait for one as long as one try takes.
_TRIES = 5


def choose(listeners: Iterable[Any], most: int) -> int:
    """Return the seconds for which no longer silent connection stays open.

    Pure.

    :param listeners: of one load balancer, Octavia's data models or rows,
                      with time-outs in milliseconds.
    :param most: seconds; where a listener has no bound, or a larger one.
    """
    silent = [LEAST * 1000.0]
    for listener in listeners:
        client, server, connect = (
            listener.timeout_client_data, listener.timeout_member_data,
            listener.timeout_member_connect)
        if not client or not server:
            # haproxy waits without end for 0; what no release before had is
            # not known.
            return most
        # A client says nothing either because it has nothing to say, or
        # because it waits for an answer.
        silent += [client, server + _TRIES * (connect or 0),
                   listener.timeout_tcp_inspect or 0]
    return min(most, math.ceil(max(silent) / 1000))


def allow(engine: Any, cluster_id: str, listeners: Iterable[Any],
          most: int) -> None:
    """Record what listeners allow for, before their cluster has them.

    What is recorded only grows here: connections of before are there still.

    :param engine: an SQLAlchemy engine.
    :param cluster_id: of their load balancer.
    :param listeners: as for choose().
    :param most: ``[hmsync_cluster] pin_timeout``.
    """
    idle_repo.grow(engine, cluster_id, choose(listeners, most))


def record(engine: Any, most: int) -> None:
    """Record what all clusters allow for.

    A smaller value counts once connections of before have had most seconds to
    end: a process of haproxy that was replaced keeps its time-outs.

    :param engine: an SQLAlchemy engine.
    :param most: ``[hmsync_cluster] pin_timeout``.
    """
    for cluster_id, (recorded, listeners) in idle_repo.get(engine).items():
        idle_repo.record(engine, cluster_id, recorded,
                         choose(listeners, most), most)
