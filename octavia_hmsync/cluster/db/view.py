# SPDX-License-Identifier: Apache-2.0

"""All facts by which a manager decides about a cluster.

The manager acts only if the version is still the same: then no member has
changed since the View was read.
"""

import dataclasses

import sqlalchemy as sa

from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster.db import member_probe as probe_repo
from octavia_hmsync import compat
from octavia_hmsync.db import models
from octavia_hmsync.db import rows
from octavia_hmsync.db import types
from octavia_hmsync.sync.db import host_hold as host_hold_repo
from octavia_hmsync.sync.rules import member as mem

_CLUSTER = models.Cluster.__table__
_HM = models.HealthManager.__table__
_VIP = models.DistributorVIP.__table__
_AMPHORA = compat.AMPHORA


@dataclasses.dataclass(frozen=True)
class View:
    """The facts about a cluster.

    :param may_resize: whether its size may follow desired_size now.
    :param load_balancer_status: Octavia's; None if the row is gone.
    :param amphora_statuses: {id: Octavia's status} of the members' amphorae.
    :param held: ids of amphorae on a held host.
    :param is_heard: whether a health manager is up that hears amphorae.
    :param is_distributed: whether a distributor was told of the cluster.
    """

    cluster: cluster_repo.Cluster
    may_resize: bool
    load_balancer_status: str | None
    members: list[member_repo.Member]
    amphora_statuses: dict[str, str]
    held: frozenset[str]
    probes: list[probe_repo.Probe]
    is_heard: bool
    is_distributed: bool


def read(engine, cluster_id, offline_after):
    """Return the View of a cluster, or None if it is gone."""
    heard = sa.exists().where(
        _HM.c.status == mem.ONLINE,
        _HM.c.keepalive_at >= types.utcnow_plus(-offline_after))
    told = sa.exists().where(_VIP.c.cluster_id == cluster_id,
                             _VIP.c.applied_version.is_not(None))
    row = rows.read_one(
        engine, cluster_repo.select(_CLUSTER.c.id == cluster_id).add_columns(
            cluster_repo.may_resize().label('may_resize'),
            heard.label('is_heard'), told.label('is_distributed')))
    if row is None:
        return None
    # All of them are newer than the version: if they disagree, the version
    # has changed, and the manager does not act.
    members = member_repo.get_of_cluster(engine, cluster_id)
    amphorae = rows.read(
        engine, sa.select(
            _AMPHORA.c.id, _AMPHORA.c.status,
            host_hold_repo.is_held(_AMPHORA.c.id).label('is_held'))
        .where(_AMPHORA.c.id.in_([
            member.amphora_id for member in members if member.amphora_id])))
    return View(
        cluster_repo.from_row(row), bool(row.may_resize), row.lb_status,
        members, {row.id: row.status for row in amphorae},
        frozenset(row.id for row in amphorae if row.is_held),
        probe_repo.get_of_cluster(engine, cluster_id),
        bool(row.is_heard), bool(row.is_distributed))
