# SPDX-License-Identifier: Apache-2.0

"""A cluster manager that has clusters follow their open connections.

An example of one that runs in Octavia's own processes. "pip install" of this
folder on all controllers makes it known; a flavor chooses it with
"cluster_manager": "by_connections", or an operator with

    octavia-hmsync cluster set --manager by_connections <cluster>

All else it leaves to the plugin's own manager. The size stays within min_size
of the cluster and [hmsync_cluster] size_limit, and changes once in each
cooldown.
"""

import math

from octavia_hmsync.cluster.managers import base
from octavia_hmsync.cluster.managers import reference

# Open connections that one member can have.
PER_MEMBER = 20000
# A member less is wanted only if the rest were no fuller than that.
CALM = 0.7
# Seconds for which the last heartbeat of a member tells its load.
FRESH = 60


def choose(connections, current, least, most):
    """Return the number of members for so many connections.

    :param current: how many are wanted now.
    :param least: the smallest number.
    :param most: the largest number.
    """
    needed = math.ceil(connections / PER_MEMBER)
    if needed < current:
        calm = math.ceil(connections / (PER_MEMBER * CALM))
        needed = min(current, max(needed, calm))
    return max(least, min(most, needed))


def count(members):
    """Return the open connections of members that get new ones.

    :returns: None if the load of one of them is not known: it has just been
              built, or its heartbeats do not arrive.
    """
    loads = [member.load for member in members
             if member.slot is not None and member.state == base.ACTIVE]
    if not loads or any(load is None or load.age > FRESH for load in loads):
        return None
    return sum(load.connections for load in loads)


class ByConnections(reference.ReferenceManager):
    """See the module."""

    FOLLOWS_LOAD = True

    def decide(self, cluster, members, limits):
        actions = super().decide(cluster, members, limits)
        connections = count(members)
        if connections is None or base.ACTIVE != cluster.load_balancer_status:
            return actions
        wanted = choose(connections, cluster.desired_size, cluster.min_size,
                        limits.size_limit)
        if wanted == cluster.desired_size:
            return actions
        return (*actions, base.Action(
            base.Kind.RESIZE, size=wanted,
            reason=f'{connections} open connections need {wanted} members, '
                   f'not {cluster.desired_size}'))
