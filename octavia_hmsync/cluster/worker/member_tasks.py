# SPDX-License-Identifier: Apache-2.0

"""Tasks for single members, for the flows of clusters.

They follow the rules in octavia_hmsync.cluster.worker.tasks.
"""

from oslo_utils import uuidutils
from taskflow import task
from taskflow.types import failure

from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster.distribution import distribution
from octavia_hmsync.cluster.members import members
from octavia_hmsync.cluster.worker import tasks
from octavia_hmsync.compat import cluster as compat_cluster
from octavia_hmsync import exceptions


class AddMember(task.Task):
    """Add the row of a member.

    :param has_slot: whether it gets the first free slot.
    """

    default_provides = tasks.MEMBER_ID

    def __init__(self, has_slot):
        super().__init__()
        self._has_slot = has_slot

    def execute(self, cluster_id, owner):
        work = tasks.get_work(cluster_id, owner)
        work.look()
        size = work.read().size if self._has_slot else 0
        member = member_repo.add(work.engine, cluster_id,
                                 uuidutils.generate_uuid(), size)
        if member is None:
            raise exceptions.NotPossible(
                f'Cluster {cluster_id} has no free slot for one more '
                f'member: see "octavia-hmsync cluster member list".')
        return member.id

    def revert(self, result, cluster_id, owner, *args, **kwargs):
        """Delete the member with all that was built, unless it serves."""
        work = tasks.get_work(cluster_id, owner)
        if isinstance(result, failure.Failure) or not tasks.is_ours(work):
            return
        member = member_repo.get(work.engine, result)
        if member is not None and member.state in tasks.UNFINISHED:
            members.remove(work, member)


class BuildMember(task.Task):
    """Build the amphora of a member, without any lock."""

    def execute(self, cluster_id, owner, member_id):
        members.build(tasks.get_work(cluster_id, owner), member_id)


class ConfigureMember(task.Task):
    """Configure a member with all that the load balancer has, or fail."""

    default_provides = compat_cluster.AMPHORAE

    def execute(self, cluster_id, owner, member_id, old_member_id=None):
        """Configure it for the slot that it has, or is to take over.

        :returns: a list with a dict of its amphora.
        """
        work = tasks.get_work(cluster_id, owner)
        member = member_repo.get(work.engine, member_id)
        old = old_member_id and member_repo.get(work.engine, old_member_id)
        members.configure(work, member_id, (old or member).slot)
        return distribution.describe([member_repo.get(work.engine,
                                                      member_id)])


class TakeOverSlot(task.Task):
    """Give a member the slot of the member that it replaces.

    The old member keeps its connections until housekeeping deletes it.
    """

    def execute(self, cluster_id, owner, member_id, old_member_id):
        work = tasks.get_work(cluster_id, owner)
        work.look()
        if not member_repo.take_over_slot(work.engine, member_id,
                                          old_member_id,
                                          order=member_repo.REPLACE):
            raise exceptions.NotPossible(
                f'Member {old_member_id} of cluster {cluster_id} has no '
                f'slot any more that another one could take.')


class StandBy(task.Task):
    """Make a configured member a standby."""

    def execute(self, cluster_id, owner, member_id):
        work = tasks.get_work(cluster_id, owner)
        work.look()
        if not member_repo.set_state(
                work.engine, member_id,
                (member_repo.BUILDING, member_repo.DRAINING),
                member_repo.STANDBY):
            raise exceptions.NotPossible(
                f'Member {member_id} of cluster {cluster_id} cannot stand '
                f'by: it has failed, or is gone.')
