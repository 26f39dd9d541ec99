# SPDX-License-Identifier: Apache-2.0

"""The traffic of members of clusters.

Octavia adds it up from heartbeats, for each listener. A listener's numbers are
deleted with it.
"""

import dataclasses

import sqlalchemy as sa

from octavia_hmsync import compat
from octavia_hmsync.db import models
from octavia_hmsync.db import rows

_CLUSTER = models.Cluster.__table__
_MEMBER = models.ClusterMember.__table__
_STATISTICS = compat.LISTENER_STATISTICS


@dataclasses.dataclass(frozen=True)
class Traffic:
    """The traffic of one member, at all of its listeners.

    :param bytes_in: from clients.
    :param bytes_out: to clients.
    :param active_connections: open now.
    :param total_connections: opened so far.
    """

    load_balancer_id: str
    amphora_id: str
    bytes_in: int
    bytes_out: int
    active_connections: int
    total_connections: int


_NAMES = ('bytes_in', 'bytes_out', 'active_connections', 'total_connections')


def get_all(engine):
    """Return {id of a member: its Traffic}, of members with any numbers."""
    sums = [sa.func.sum(_STATISTICS.c[name]).label(name) for name in _NAMES]
    return {row.id: Traffic(row.load_balancer_id, row.amphora_id, *(
        int(getattr(row, name)) for name in _NAMES)) for row in rows.read(
            engine, sa.select(_MEMBER.c.id, _CLUSTER.c.load_balancer_id,
                              _MEMBER.c.amphora_id, *sums)
            .join(_CLUSTER, _CLUSTER.c.id == _MEMBER.c.cluster_id)
            .join(_STATISTICS,
                  _STATISTICS.c.amphora_id == _MEMBER.c.amphora_id)
            .group_by(_MEMBER.c.id, _CLUSTER.c.load_balancer_id,
                      _MEMBER.c.amphora_id)
            .order_by(_MEMBER.c.id))}
