# SPDX-License-Identifier: Apache-2.0

"""Compute hosts of members, as the compute service has told them last."""

import dataclasses

import sqlalchemy as sa

from octavia_hmsync import compat
from octavia_hmsync.db import models
from octavia_hmsync.db import rows

_MEMBER = models.ClusterMember.__table__
_CLUSTER = models.Cluster.__table__


@dataclasses.dataclass(frozen=True)
class MemberHost:
    """A member with an instance, and the host that is recorded."""

    member_id: str
    compute_id: str
    host: str | None


def scan(engine, managers):
    """Return the MemberHosts of clusters that these managers decide for."""
    amphora = compat.AMPHORA
    return [rows.make(MemberHost, row) for row in rows.read(
        engine, sa.select(_MEMBER.c.id.label('member_id'),
                          amphora.c.compute_id, _MEMBER.c.host)
        .join(_CLUSTER, _CLUSTER.c.id == _MEMBER.c.cluster_id)
        .join(amphora, amphora.c.id == _MEMBER.c.amphora_id)
        .where(_CLUSTER.c.cluster_type.in_(sorted(managers)),
               amphora.c.compute_id.is_not(None))
        .order_by(_MEMBER.c.id))]
