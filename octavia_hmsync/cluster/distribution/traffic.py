# SPDX-License-Identifier: Apache-2.0

"""Packets and bytes that distributors have sent to members.

Only Open vSwitch counts them; OVN does not.
"""

import collections
from concurrent import futures

from oslo_log import log as logging

from octavia_hmsync.cluster.db import distributor as distributor_repo
from octavia_hmsync.cluster.db import distributor_vip as vip_repo
from octavia_hmsync.cluster.distribution import backends
from octavia_hmsync.cluster.distribution import distributors
from octavia_hmsync import exceptions

LOG = logging.getLogger(__name__)

_AT_ONCE = 16


def ask(conf, engine, cluster_ids, make_client=distributors.make_client):
    """Ask all distributors of clusters, active or not.

    :param make_client: takes conf and a URL.
    :returns: {(id of a cluster, id of an amphora): (packets, bytes)}, since
              distributors were told of the member; without members that no
              distributor counts.
    :raises InvalidConfiguration: if a certificate cannot be used.
    """
    if backends.is_ovn(conf):
        return {}
    urls = {row.id: row.url for row in distributor_repo.get_all(engine)}
    asked = [(cluster_id, vip.distributor_id) for cluster_id
             in sorted(set(cluster_ids))
             for vip in vip_repo.get_of_cluster(engine, cluster_id)
             if vip.distributor_id in urls]
    clients = {one: make_client(conf, urls[one])
               for one in {one for _cluster_id, one in asked}}

    def count(one):
        cluster_id, distributor_id = one
        try:
            found = clients[distributor_id].get_statistics(cluster_id) or {}
            return [((cluster_id, str(member['id'])),
                     int(member['packets']), int(member['bytes']))
                    for member in found.get('members', ())]
        except exceptions.DistributorError as e:
            LOG.info('Cluster %s: not all of its traffic is shown: %s',
                     cluster_id, e)
        except (KeyError, TypeError, ValueError) as e:
            LOG.info('Cluster %s: what the distributor %s counts cannot be '
                     'read (%s)', cluster_id, urls[distributor_id],
                     type(e).__name__)
        return []

    sums: dict[tuple[str, str], tuple[int, int]] = (
        collections.defaultdict(lambda: (0, 0)))
    with futures.ThreadPoolExecutor(_AT_ONCE) as executor:
        for counted in executor.map(count, asked):
            for key, packets, size in counted:
                before = sums[key]
                sums[key] = before[0] + packets, before[1] + size
    return dict(sums)
