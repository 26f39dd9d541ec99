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
"""The cluster of a load balancer, and who is in it."""

from octavia_hmsync.db.repositories import cluster as cluster_repo
from octavia_hmsync.db.repositories import cluster_member as member_repo
from octavia_hmsync import exceptions


def read(engine, load_balancer_id):
    """Return the Cluster of a load balancer, and its Members.

    :raises NotPossible: if it has none.
    """
    cluster = cluster_repo.get_by_load_balancer(engine, load_balancer_id)
    if cluster is None:
        raise exceptions.NotPossible(
            f'Load balancer {load_balancer_id} has no row of a cluster, and '
            f'nobody knows its members: delete it, and create it anew.')
    return cluster, member_repo.get_of_cluster(engine, cluster.id)


def find(members, amphora_id):
    """Return the Member that an amphora is, or None if it is none."""
    return next((member for member in members
                 if member.amphora_id == amphora_id), None)
