# SPDX-License-Identifier: Apache-2.0

"""The cluster of a load balancer, and its members."""

from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync import exceptions


def read(engine, load_balancer_id):
    """Return a load balancer's Cluster and Members; raise NotPossible."""
    cluster = cluster_repo.get_by_load_balancer(engine, load_balancer_id)
    if cluster is None:
        raise exceptions.NotPossible(
            f'Load balancer {load_balancer_id} has no row of a cluster, so '
            f'its members are not known: delete it, and create it again.')
    return cluster, member_repo.get_of_cluster(engine, cluster.id)


def find(members, amphora_id):
    """Return the Member of an amphora, or None."""
    return next((member for member in members
                 if member.amphora_id == amphora_id), None)
