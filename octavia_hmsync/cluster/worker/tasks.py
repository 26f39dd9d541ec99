# SPDX-License-Identifier: Apache-2.0

"""Tasks for the flows of clusters, where Octavia has none.

Tasks for single members are in octavia_hmsync.cluster.worker.flows.

Each task reads what it needs from the database, so that any process can run a
flow again from its beginning. No task undoes anything once another process
has claimed the cluster.
"""

import contextlib
import time

from oslo_log import log as logging
from oslo_utils import uuidutils
from taskflow import engines
from taskflow import states
from taskflow import task
from taskflow.types import failure

from octavia_hmsync.cluster.db import claim as claim_repo
from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import lock as lock_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster.distribution import distribution
from octavia_hmsync.cluster.distribution import member_facts
from octavia_hmsync.cluster.members import members
from octavia_hmsync.cluster import work as work_
from octavia_hmsync.cluster.worker import orders
from octavia_hmsync import compat
from octavia_hmsync.compat import cluster as compat_cluster
from octavia_hmsync.conf import cluster as cluster_conf
from octavia_hmsync import exceptions
from octavia_hmsync import watched_flow

LOG = logging.getLogger(__name__)

CLUSTER_ID = 'cluster_id'
OWNER = 'owner'
MEMBER_ID = 'member_id'
OLD_MEMBER_ID = 'old_member_id'

# States of members that serve nothing.
UNFINISHED = (member_repo.BUILDING, member_repo.FAILED)

# Seconds to wait for the lock of a load balancer.
LOCK_PATIENCE = 300
# Seconds for which a deletion waits for the claim of a cluster: by then its
# owner has released it, or it has lapsed.
DELETION_PATIENCE = 300


def get_work(cluster_id, owner, is_deletion=False):
    """Return the work_.Work of a cluster, in the context of this process."""
    return work_.Work(work_.get_context(), cluster_id, owner, is_deletion)


def take_up(cluster_id, owner, is_deletion=False):
    """As get_work(), if the owner may go on; see Work.look()."""
    work = get_work(cluster_id, owner, is_deletion)
    work.look()
    return work


def is_ours(work):
    """Tell whether this process may undo what it began."""
    try:
        work.look()
    except exceptions.Lost:
        LOG.warning('Cluster %s was claimed by another process, which goes '
                    'on.', work.cluster_id)
        return False
    except (exceptions.Unwanted, exceptions.Stopped):
        # The next claim owner finds in the database what is there.
        work.release()
        return False
    return True


class ClaimCluster(task.Task):
    """Claim a cluster.

    :param is_deletion: whether the cluster is to be deleted.
    :param patience: seconds to wait for the claim of another process.
    :param status: the provisioning status to set, if Octavia has locked the
                   load balancer for this work: housekeeping unlocks the load
                   balancer of a cluster with this status and no claim.
    """

    default_provides = OWNER

    def __init__(self, is_deletion=False, patience=0, status=None):
        super().__init__()
        self._is_deletion = is_deletion
        self._patience = patience
        self._status = status

    def execute(self, cluster_id):
        """Claim it.

        :returns: the owner.
        :raises ClusterBusy: if another process keeps its claim.
        """
        context = work_.get_context()
        held = context.claims.wait(cluster_id, self._patience, self._status,
                                   is_deletion=self._is_deletion)
        if held is not None:
            return held.owner
        if self._status is not None:
            cluster_repo.set_status(context.engine, cluster_id, self._status)
        raise exceptions.ClusterBusy(
            f'Another process works on cluster {cluster_id}: see '
            f'"octavia-hmsync cluster show".')

    def revert(self, result, cluster_id, *args, **kwargs):
        if not isinstance(result, failure.Failure):
            work_.get_context().claims.find(cluster_id, result).release()


class HoldCluster(task.Task):
    """Fail unless this process still has the claim of a cluster.

    Put before tasks of Octavia's, which do not check the claim.

    :param before: the name of the next task.
    """

    def __init__(self, before, is_deletion=False):
        super().__init__(name=f'octavia-hmsync-hold-before-{before}')
        self._is_deletion = is_deletion

    def execute(self, cluster_id, owner):
        take_up(cluster_id, owner, self._is_deletion)


class ReleaseCluster(task.Task):
    def execute(self, cluster_id, owner):
        get_work(cluster_id, owner).release()


class _OnRevert(task.Task):
    """Does something if a later task fails, and the cluster is ours."""

    is_deletion = False

    def execute(self, cluster_id, owner):
        pass

    def revert(self, cluster_id, owner, *args, **kwargs):
        work = get_work(cluster_id, owner, self.is_deletion)
        if is_ours(work):
            self.undo(work)


class TakeBackOnRevert(_OnRevert):
    """Delete what was built of a load balancer whose creation failed.

    It gets ERROR, and keeps its address.
    """

    def undo(self, work):
        take_back(work)


def take_back(work):
    """Delete all that was built for a load balancer, and set it to ERROR."""
    try:
        remove_from_distributors(work)
        _remove_all(work)
        load_balancer = work.get_load_balancer()
        if load_balancer.server_group_id:
            compat_cluster.delete_server_group(load_balancer.server_group_id)
            compat_cluster.update_load_balancer(load_balancer.id,
                                                server_group_id=None)
    except exceptions.Interrupted:
        # The next claim owner takes it back.
        raise
    except Exception:
        # Deleting the load balancer does it again.
        LOG.exception('Cluster %s could not be built, and not all of it '
                      'could be deleted:', work.cluster_id)
    work.unlock(compat.ERROR)


def remove_from_distributors(work):
    distribution.run(work, 'remove_vip')
    distribution.run(work, 'delete_distributor')


class ErrorOnRevert(_OnRevert):
    """Set a load balancer to ERROR whose change failed."""

    def undo(self, work):
        work.unlock(compat.ERROR)


class DeletionErrorOnRevert(_OnRevert):
    """Set a load balancer to ERROR whose deletion failed."""

    is_deletion = True

    def undo(self, work):
        lock_repo.fail_deletion(work.engine, work.cluster_id, work.owner,
                                work_.CLAIM_EXPIRY)


class EnsureServerGroup(task.Task):
    """Ensure the server group that keeps amphorae apart, if configured."""

    def execute(self, cluster_id, owner):
        work = take_up(cluster_id, owner)
        load_balancer = work.get_load_balancer()
        policy = cluster_conf.PLACEMENTS.get(
            work.options.host_placement,
            compat_cluster.find_server_group_policy())
        if policy and not load_balancer.server_group_id:
            compat_cluster.update_load_balancer(
                load_balancer.id,
                server_group_id=compat_cluster.create_server_group(
                    load_balancer.id, policy))


class BuildMembers(task.Task):
    """Build the members that a locked load balancer lacks, at once."""

    default_provides = compat_cluster.AMPHORAE

    def execute(self, cluster_id, owner):
        """Build them.

        :returns: a list of dicts, of the amphorae that were built.
        :raises BuildFailed: if there are fewer than min_size.
        """
        work = take_up(cluster_id, owner)
        cluster = work.read()
        # Left by a worker that died.
        there = [member for member in work.read_members()
                 if member.state in UNFINISHED]
        members.for_each(members.remove, work, there)
        added = []
        while (member := member_repo.add(
                work.engine, cluster_id, uuidutils.generate_uuid(),
                cluster.size)) is not None:
            added.append(member)
        failures = [error for error in members.for_each(
            _build_one, work, added).values() if error is not None]
        well = [member for member in work.read_members()
                if member.slot is not None]
        if len(well) < cluster.min_size:
            raise exceptions.BuildFailed(
                f'{len(well)} of {cluster.size} amphorae of load '
                f'balancer {cluster.load_balancer_id} could be built, and '
                f'it needs {cluster.min_size}: {failures[0]}'
                if failures else
                f'Load balancer {cluster.load_balancer_id} has '
                f'{len(well)} amphorae, and needs {cluster.min_size}.')
        # Distributors are told of the ports when the members are registered.
        cluster_repo.set_ports(
            work.engine, cluster_id,
            member_facts.choose_ports(work.get_load_balancer()))
        return distribution.describe(well)


def _build_one(work, member):
    """Build and configure a member; remove it if that fails."""
    try:
        members.build(work, member.id)
        members.configure(work, member.id, member.slot)
    except exceptions.HMSyncException as e:
        LOG.warning('Load balancer of cluster %s: %s', work.cluster_id, e)
        members.remove(work, member_repo.get(work.engine, member.id))
        raise


class RemoveMembers(task.Task):
    """Delete all amphorae of a load balancer that is deleted."""

    def execute(self, cluster_id, owner):
        work = take_up(cluster_id, owner, is_deletion=True)
        left = _remove_all(work)
        if left:
            raise exceptions.CloudUnavailable(
                f'Parts of cluster {cluster_id} could not be deleted: '
                f'{", ".join(left)}. Delete the load balancer again once '
                f'the compute and the network service can be used.')


def _remove_all(work):
    """Delete members and stray amphorae; return what is left, in words."""
    left = []

    def remove(work, member):
        left.extend(members.remove(work, member))

    there = work.read_members()
    members.for_each(remove, work, there)
    known = {member.amphora_id for member in there}
    members.for_each(
        lambda work, amphora: left.extend(
            members.remove_amphora(work, amphora.id)), work,
        [amphora for amphora in work.get_load_balancer().amphorae
         if amphora.id not in known and amphora.status != compat.DELETED])
    return left


class DeleteLoadBalancer(task.Task):
    """Run Octavia's flow that deletes what any load balancer has.

    If this process hung and lost its claim, the flow ends without a revert:
    Octavia's tasks would set to ERROR what the new owner deletes.

    :param flow: of compat_cluster.make_deletion_flow().
    """

    def __init__(self, flow):
        super().__init__(requires=(*flow.requires, CLUSTER_ID, OWNER))
        self._flow = flow

    def execute(self, cluster_id, owner, **store):
        work = take_up(cluster_id, owner, is_deletion=True)
        engine = engines.load(self._flow, store=store)
        watch = watched_flow.Watch(engine, lambda *_task: work.check(), (
            states.SUCCESS, states.FAILURE))
        engine.run()
        watch.finish()


class ForgetCluster(task.Task):
    """Delete the rows of a cluster whose load balancer is deleted."""

    def execute(self, cluster_id, owner):
        work = get_work(cluster_id, owner, is_deletion=True)
        # If this process hung and lost its claim, the new owner does it. Do
        # not fail: Octavia's revert would set the load balancer to ERROR.
        if claim_repo.renew(work.engine, cluster_id, owner,
                            work_.CLAIM_EXPIRY):
            cluster_repo.delete(work.engine, cluster_id)
        work.release()


class FinishCluster(task.Task):
    """Unlock the load balancer of a cluster, and release the claim."""

    def execute(self, cluster_id, owner):
        work = get_work(cluster_id, owner)
        # If this process hung and lost its claim, the new owner unlocks it.
        # Do not fail: Octavia's revert would set listeners and pools to
        # ERROR.
        with contextlib.suppress(exceptions.Lost):
            work.unlock()
        work.release()


class LockLoadBalancer(task.Task):
    """Lock the load balancer; wait until it is ACTIVE."""

    def execute(self, cluster_id, owner):
        work = take_up(cluster_id, owner)
        deadline = time.monotonic() + LOCK_PATIENCE
        while not work.lock():
            if orders.take(work):
                continue
            if time.monotonic() >= deadline:
                raise exceptions.ClusterBusy(
                    f'The load balancer of cluster {cluster_id} was not '
                    f'ACTIVE for {LOCK_PATIENCE} s.')
            work.pause()

    def revert(self, result, cluster_id, owner, *args, **kwargs):
        work = get_work(cluster_id, owner)
        if not isinstance(result, failure.Failure) and is_ours(work):
            work.unlock()


class UnlockLoadBalancer(task.Task):
    def execute(self, cluster_id, owner):
        get_work(cluster_id, owner).unlock()


class TellDistributors(task.Task):
    """Tell distributors the members that rows have."""

    def execute(self, cluster_id, owner):
        work = take_up(cluster_id, owner)
        distribution.run(work, 'register_amphorae')
