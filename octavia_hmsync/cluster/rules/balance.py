# SPDX-License-Identifier: Apache-2.0

"""Pure: which of its distributors answers for a cluster, so that all do."""

import collections
from collections import abc

from octavia_hmsync.cluster.db import distributor as distributor_repo
from octavia_hmsync.cluster.db import distributor_vip as vip_repo

# A distributor that has so many active VIPs more than another one of the same
# cluster hands that cluster over. With one more the two would change places.
_UNEVEN = 2


def choose_first(vips: abc.Iterable[vip_repo.VIP],
                 active: abc.Mapping[str, int]) -> str:
    """Return the distributor that answers for a cluster first.

    :param vips: those of the cluster, of which none is active.
    :param active: {id of a distributor: how many VIPs are active there}.
    :returns: its id.
    """
    return min(vips, key=lambda vip: (
        vip.status == distributor_repo.OFFLINE,
        active.get(vip.distributor_id, 0),
        vip.distributor_name)).distributor_id


def find_move(vips: abc.Iterable[vip_repo.VIP],
              versions: abc.Mapping[str, int],
              eligible: abc.Collection[str],
              recent: abc.Collection[str]) -> tuple[str, str] | None:
    """Tell which cluster another one of its distributors is to answer for.

    One at a time: a distributor that takes a VIP over follows each connection
    from its next packet on, which costs it something.

    :param vips: all of them.
    :param versions: {id of a cluster: its version}.
    :param eligible: ids of distributors that answer, and that no operator has
                     drained.
    :param recent: ids of clusters that changed lately: they stay as they are.
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
