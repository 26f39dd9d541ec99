# SPDX-License-Identifier: Apache-2.0

"""Spreads active VIPs evenly over distributors. Pure."""

import collections
from collections import abc

from octavia_hmsync.cluster.db import distributor as distributor_repo
from octavia_hmsync.cluster.db import distributor_vip as vip_repo

# A distributor hands a cluster over if it has so many more active VIPs than
# the other one. With a difference of 1 they would change places for ever.
_UNEVEN = 2


def choose_first(vips: abc.Iterable[vip_repo.VIP],
                 active: abc.Mapping[str, int]) -> str:
    """Return the id of the distributor that becomes active first.

    :param vips: of the cluster, none of which is active.
    :param active: {id of a distributor: number of VIPs active there}.
    """
    return min(vips, key=lambda vip: (
        vip.status == distributor_repo.OFFLINE,
        active.get(vip.distributor_id, 0),
        vip.distributor_name)).distributor_id


def find_move(vips: abc.Iterable[vip_repo.VIP],
              versions: abc.Mapping[str, int],
              eligible: abc.Collection[str],
              recent: abc.Collection[str]) -> tuple[str, str] | None:
    """Return the cluster to move to another of its distributors.

    One at a time: taking a VIP over costs a distributor something for each
    connection.

    :param versions: {id of a cluster: its version}.
    :param eligible: ids of distributors that answer and are not drained.
    :param recent: ids of clusters that changed lately: they stay.
    :returns: the ids of the cluster and the distributor, or None.
    """
    by_cluster = collections.defaultdict(list)
    active: collections.Counter[str] = collections.Counter()
    for vip in vips:
        by_cluster[vip.cluster_id].append(vip)
        active[vip.distributor_id] += vip.active
    found = []
    for cluster_id, own in by_cluster.items():
        if cluster_id in recent or not all(
                _has_newest(vip, versions.get(cluster_id), eligible)
                for vip in own):
            continue
        before = next((vip for vip in own if vip.active), None)
        for vip in own:
            if before is not None and not vip.active:
                found.append((active[before.distributor_id] -
                              active[vip.distributor_id], cluster_id,
                              vip.distributor_id))
    difference, cluster_id, distributor_id = max(found, default=(0, '', ''))
    return (cluster_id, distributor_id) if difference >= _UNEVEN else None


def _has_newest(vip, version, eligible):
    return (vip.distributor_id in eligible and vip.port_id is not None and
            vip.applied_version == version)
