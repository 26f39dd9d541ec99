# SPDX-License-Identifier: Apache-2.0

"""Flows that build, change and delete load balancers on clusters.

Factories can be imported, and take JSON values: a jobboard's conductor finds
them by their names. Their stores have the ids of the cluster and the load
balancer, and the input of the subflows of a distributor driver, see
distribution.make_store(). A member is registered last, and unregistered
first. With ``is_claimed`` the store has an owner, which keeps its claim.

Tasks for single members are here, too; those for clusters are in tasks.
"""

from oslo_utils import uuidutils
from taskflow.patterns import linear_flow
from taskflow import task
from taskflow.types import failure

from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster.distribution import distribution
from octavia_hmsync.cluster.members import members
from octavia_hmsync.cluster.worker import tasks
from octavia_hmsync import compat
from octavia_hmsync.compat import cluster as compat_cluster
from octavia_hmsync import exceptions

PREFIX = 'octavia-hmsync-cluster'
# Seconds for which a failover waits for the claim of housekeeping.
PATIENCE = 600


class AddMember(task.Task):
    """Add the row of a member.

    :param has_slot: whether it gets the first free slot.
    """

    default_provides = tasks.MEMBER_ID

    def __init__(self, has_slot):
        super().__init__()
        self._has_slot = has_slot

    def execute(self, cluster_id, owner):
        work = tasks.take_up(cluster_id, owner)
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
        work = tasks.take_up(cluster_id, owner)
        if not member_repo.take_over_slot(work.engine, member_id,
                                          old_member_id,
                                          order=member_repo.REPLACE):
            raise exceptions.NotPossible(
                f'Member {old_member_id} of cluster {cluster_id} has no '
                f'slot any more that another one could take.')


class StandBy(task.Task):
    """Make a configured member a standby."""

    def execute(self, cluster_id, owner, member_id):
        work = tasks.take_up(cluster_id, owner)
        if not member_repo.set_state(
                work.engine, member_id,
                (member_repo.BUILDING, member_repo.DRAINING),
                member_repo.STANDBY):
            raise exceptions.NotPossible(
                f'Member {member_id} of cluster {cluster_id} cannot stand '
                f'by: it has failed, or is gone.')


def _get_subflow(name, is_deletion=False):
    """Return the tasks for a subflow of the distributor driver, if any."""
    subflow = getattr(distribution.load_driver(), f'get_{name}_subflow')()
    return [] if subflow is None else [
        tasks.HoldCluster(name, is_deletion), subflow]


def _claim(is_claimed, **how):
    return [] if is_claimed else [tasks.ClaimCluster(**how)]


def get_create_load_balancer_flow(is_claimed=False):
    """Build a load balancer on a cluster.

    1. Allocate its VIPs, its security group, its server group.
    2. Put its VIP on distributors.
    3. Build members, all at once; some may fail, down to min_size.
    4. Register them with the distributors. The load balancer is ACTIVE.

    If a task fails, all but the VIPs is deleted, and the load balancer is in
    ERROR. After a worker died, the flow is run again and goes on with what is
    there.
    """
    flow = linear_flow.Flow(f'{PREFIX}-create')
    flow.add(*_claim(is_claimed), tasks.TakeBackOnRevert(),
             *compat_cluster.make_allocation_tasks(),
             tasks.EnsureServerGroup(),
             *_get_subflow('create_distributor'), *_get_subflow('add_vip'),
             tasks.BuildMembers(), *_get_subflow('register_amphorae'),
             tasks.HoldCluster('activation'),
             *compat_cluster.make_activation_tasks(is_new=True),
             tasks.FinishCluster())
    return flow


def get_delete_load_balancer_flow(load_balancer, listeners, pools,
                                  is_claimed=False):
    """Delete a load balancer with its cluster and all that is in it.

    1. Remove it from its distributors.
    2. Delete its amphorae.
    3. Octavia's own flow deletes what any load balancer has.

    :param load_balancer: from compat_cluster.describe_load_balancer().
    :param listeners, pools: from compat_cluster.describe_children().
    """
    flow = linear_flow.Flow(f'{PREFIX}-delete')
    flow.add(*_claim(is_claimed, is_deletion=True,
                     patience=tasks.DELETION_PATIENCE),
             tasks.DeletionErrorOnRevert(),
             *_get_subflow('remove_vip', is_deletion=True),
             *_get_subflow('delete_distributor', is_deletion=True),
             tasks.RemoveMembers(),
             tasks.DeleteLoadBalancer(compat_cluster.make_deletion_flow(
                 load_balancer, listeners, pools)),
             tasks.ForgetCluster())
    return flow


def get_failover_load_balancer_flow(is_claimed=False):
    """Replace each member of a cluster, one after the other.

    Missing members are built. Octavia has locked the load balancer.
    """
    flow = linear_flow.Flow(f'{PREFIX}-failover')
    flow.add(*_claim(is_claimed, patience=PATIENCE,
                     status=compat.PENDING_UPDATE),
             tasks.ErrorOnRevert(),
             *compat_cluster.make_allocation_tasks(),
             tasks.EnsureServerGroup(),
             *_get_subflow('create_distributor'), *_get_subflow('add_vip'),
             ReplaceMembers(), tasks.BuildMembers(),
             *_get_subflow('register_amphorae'),
             tasks.HoldCluster('activation'),
             *compat_cluster.make_activation_tasks(is_new=False),
             tasks.FinishCluster())
    return flow


class ReplaceMembers(task.Task):
    """Replace all existing members, one after the other."""

    def execute(self, cluster_id, owner):
        work = tasks.get_work(cluster_id, owner)
        for known in work.read_members():
            member = member_repo.get(work.engine, known.id)
            if member is None or member.state == member_repo.BUILDING:
                continue
            if member.slot is None or not self._replace(work, member):
                # It is a standby, or another member has taken its slot: the
                # manager of the cluster deletes it.
                member_repo.set_order(work.engine, member.id,
                                      member_repo.REPLACE)

    def _replace(self, work, member):
        """Replace a member; return False if it has no slot any more."""
        store = distribution.make_store(work.read(),
                                        work.get_load_balancer())
        try:
            compat_cluster.run(
                get_replace_member_flow(is_claimed=True, is_locked=True),
                {**store, tasks.CLUSTER_ID: work.cluster_id,
                 tasks.OWNER: work.owner, tasks.OLD_MEMBER_ID: member.id})
        except exceptions.NotPossible:
            now = member_repo.get(work.engine, member.id)
            if now is not None and now.slot is not None:
                raise
            return False
        return True


def get_add_member_flow(is_claimed=False):
    """Add a member to a cluster, in the first free slot.

    Building it needs no lock, configuring and registering it does.
    """
    return _make('add-member', is_claimed, AddMember(has_slot=True),
                 BuildMember(), *_get_serving())


def get_replace_member_flow(is_claimed=False, is_locked=False):
    """Replace a member by a new one, which takes its slot.

    Requires tasks.OLD_MEMBER_ID. The old member keeps its connections;
    housekeeping deletes it after ``[hmsync_cluster] drain_timeout``.

    :param is_locked: whether the load balancer is locked, and stays so.
    """
    return _make(
        'replace-member', is_claimed, AddMember(has_slot=False),
        BuildMember(), *([] if is_locked else [tasks.LockLoadBalancer()]),
        ConfigureMember(requires=(tasks.OLD_MEMBER_ID,)), TakeOverSlot(),
        *_get_subflow('register_amphorae'),
        *([] if is_locked else [tasks.UnlockLoadBalancer()]))


def get_configure_member_flow(is_claimed=False):
    """Configure a member that missed a change, and send connections to it.

    Requires tasks.MEMBER_ID.
    """
    return _make('configure-member', is_claimed, *_get_serving())


def _get_serving():
    return [tasks.LockLoadBalancer(), ConfigureMember(),
            *_get_subflow('register_amphorae'), tasks.UnlockLoadBalancer()]


def get_build_standby_flow(is_claimed=False):
    """Build a standby."""
    return _make('build-standby', is_claimed, AddMember(has_slot=False),
                 BuildMember(), *_get_waiting())


def get_stand_by_flow(is_claimed=False):
    """Make a drained member without a slot a standby.

    Requires tasks.MEMBER_ID.
    """
    return _make('stand-by', is_claimed, *_get_waiting())


def _get_waiting():
    # Distributors are told because they still know a drained member.
    return [tasks.LockLoadBalancer(), ConfigureMember(),
            StandBy(), tasks.TellDistributors(),
            tasks.UnlockLoadBalancer()]


def _make(name, is_claimed, *tasks_):
    """Return a flow that has the claim of the cluster while it runs."""
    if not is_claimed:
        tasks_ = tasks.ClaimCluster(), *tasks_, tasks.ReleaseCluster()
    return linear_flow.Flow(f'{PREFIX}-{name}').add(*tasks_)
