# SPDX-License-Identifier: Apache-2.0

"""The tasks of flows for clusters that Octavia has none for.

Those for single members are in octavia_hmsync.cluster.worker.member_tasks.

Each finds what it needs in the database, so that a flow may be run again from
its beginning, by another process too. None undoes anything once somebody else
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
from octavia_hmsync.cluster.distribution import looks
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

# Of members that serve nothing.
UNFINISHED = (member_repo.BUILDING, member_repo.FAILED)

# Seconds that somebody waits for the lock of a load balancer.
LOCK_PATIENCE = 300
# Seconds for which a deletion waits for whoever works on the cluster: by then
# a claim has lapsed, or was given back.
DELETION_PATIENCE = 300


def get_work(cluster_id, owner, is_deletion=False):
    """Return the work_.Work of a cluster, as the context has it."""
    return work_.Work(work_.get_context(), cluster_id, owner, is_deletion)


def is_ours(work):
    """Tell whether what was begun may be undone by us."""
    try:
        work.look()
    except exceptions.Lost:
        LOG.warning('Cluster %s was taken up by somebody else.',
                    work.cluster_id)
        return False
    except (exceptions.Unwanted, exceptions.Stopped):
        # Whoever deletes it, or goes on, finds what there is.
        work.release()
        return False
    return True


class ClaimCluster(task.Task):
    """Be the only one who works on a cluster.

    :param is_deletion: whether it is to be deleted.
    :param patience: seconds to wait for whoever has it.
    :param status: its provisioning status from then on, where Octavia has
                   locked the load balancer for this: whoever finds it without
                   a claim gives the load balancer back.
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
        :raises ClusterBusy: if somebody else works on it.
        """
        context = work_.get_context()
        deadline = time.monotonic() + self._patience
        while True:
            owner = context.claims.claim(cluster_id, self._is_deletion,
                                         self._status)
            if owner:
                return owner
            if time.monotonic() >= deadline:
                if self._status is not None:
                    cluster_repo.set_status(context.engine, cluster_id,
                                            self._status)
                raise exceptions.ClusterBusy(
                    f'Somebody else works on cluster {cluster_id}.')
            context.claims.stopping.wait(work_.INTERVAL)

    def revert(self, result, cluster_id, *args, **kwargs):
        """Give it back."""
        if not isinstance(result, failure.Failure):
            work_.get_context().claims.release(cluster_id, result)


class HoldCluster(task.Task):
    """Go on only as long as nobody else works on a cluster.

    For what comes next, which does not ask.

    :param before: the name of that.
    :param is_deletion: whether the cluster is to be deleted.
    """

    def __init__(self, before, is_deletion=False):
        super().__init__(name=f'octavia-hmsync-hold-before-{before}')
        self._is_deletion = is_deletion

    def execute(self, cluster_id, owner):
        get_work(cluster_id, owner, self._is_deletion).look()


class ReleaseCluster(task.Task):
    """Let somebody else work on a cluster."""

    def execute(self, cluster_id, owner):
        get_work(cluster_id, owner).release()


class TakeBackOnRevert(task.Task):
    """Have nothing be there of a load balancer that could not be built.

    It is in ERROR then, and keeps its address.
    """

    def execute(self, cluster_id, owner):
        pass

    def revert(self, cluster_id, owner, *args, **kwargs):
        work = get_work(cluster_id, owner)
        if is_ours(work):
            take_back(work)


def take_back(work):
    """Delete all that was built for a load balancer, which is in ERROR then.

    :param work: a Work.
    """
    try:
        remove_from_distributors(work)
        _remove_all(work)
        load_balancer = work.get_load_balancer()
        if load_balancer.server_group_id:
            compat_cluster.delete_server_group(load_balancer.server_group_id)
            compat_cluster.update_load_balancer(load_balancer.id,
                                                server_group_id=None)
    except exceptions.Interrupted:
        # Who goes on there takes it back, too.
        raise
    except Exception:
        # Deleting the load balancer does it again.
        LOG.exception('Cluster %s was not taken back in full:',
                      work.cluster_id)
    lock_repo.unlock(work.engine, work.cluster_id, work.owner,
                     work_.CLAIM_EXPIRY, compat.ERROR)


def remove_from_distributors(work):
    """Have no distributor know a cluster any more."""
    distribution.run(work, 'remove_vip')
    distribution.run(work, 'delete_distributor')


class ErrorOnRevert(task.Task):
    """Have a load balancer that could not be changed be one in ERROR."""

    def execute(self, cluster_id, owner):
        pass

    def revert(self, cluster_id, owner, *args, **kwargs):
        work = get_work(cluster_id, owner)
        if is_ours(work):
            lock_repo.unlock(work.engine, cluster_id, owner,
                             work_.CLAIM_EXPIRY, compat.ERROR)


class DeletionErrorOnRevert(task.Task):
    """Have a load balancer that could not be deleted be one in ERROR."""

    def execute(self, cluster_id, owner):
        pass

    def revert(self, cluster_id, owner, *args, **kwargs):
        work = get_work(cluster_id, owner, is_deletion=True)
        if is_ours(work):
            lock_repo.fail_deletion(work.engine, cluster_id, owner,
                                    work_.CLAIM_EXPIRY)


class EnsureServerGroup(task.Task):
    """Have the amphorae of a load balancer be kept apart, if wanted."""

    def execute(self, cluster_id, owner):
        work = get_work(cluster_id, owner)
        work.look()
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
    """Build the members that a cluster lacks, each for itself.

    Nobody else changes the load balancer meanwhile.
    """

    default_provides = compat_cluster.AMPHORAE

    def execute(self, cluster_id, owner):
        """Build them.

        :returns: a list of dicts, of the amphorae that are well.
        :raises BuildFailed: if they are fewer than the cluster needs.
        """
        work = get_work(cluster_id, owner)
        work.look()
        cluster = work.read()
        # What somebody died with.
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
        # With those that are registered next distributors are told of them.
        cluster_repo.set_ports(work.engine, cluster_id, looks.choose_ports(
            work.get_load_balancer()))
        return distribution.describe(well)


def _build_one(work, member):
    """Build and configure a member; one that fails is not there any more."""
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
        work = get_work(cluster_id, owner, is_deletion=True)
        work.look()
        left = _remove_all(work)
        if left:
            raise exceptions.CloudUnavailable(
                f'Of cluster {cluster_id} could not be deleted: '
                f'{", ".join(left)}. Delete the load balancer again once '
                f'the compute and the network service can be used.')


def _remove_all(work):
    """Delete all members, and amphorae that are none.

    :returns: what is left, in words.
    """
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
    """Have Octavia's flow delete what any load balancer has.

    Where somebody else does meanwhile, as this process hung, nothing of it is
    undone: Octavia's tasks would put in ERROR what is deleted.

    :param flow: of compat_cluster.make_deletion_flow().
    """

    def __init__(self, flow):
        super().__init__(requires=(*flow.requires, CLUSTER_ID, OWNER))
        self._flow = flow

    def execute(self, cluster_id, owner, **store):
        work = get_work(cluster_id, owner, is_deletion=True)
        work.look()
        engine = engines.load(self._flow, store=store)
        watch = watched_flow.Watch(engine, lambda *_task: work.check(), (
            states.SUCCESS, states.FAILURE))
        engine.run()
        watch.finish()


class ForgetCluster(task.Task):
    """Delete the rows of a cluster whose load balancer is deleted.

    Whoever has it meanwhile does, if this process hung: to fail would have
    Octavia's tasks put the load balancer in ERROR.
    """

    def execute(self, cluster_id, owner):
        work = get_work(cluster_id, owner, is_deletion=True)
        if claim_repo.renew(work.engine, cluster_id, owner,
                            work_.CLAIM_EXPIRY):
            cluster_repo.delete(work.engine, cluster_id)
        work.release()


class FinishCluster(task.Task):
    """Record that a cluster is as it should be, and give it back.

    Whoever has it meanwhile does, if this process hung: to fail would have
    Octavia's tasks put listeners and pools in ERROR.
    """

    def execute(self, cluster_id, owner):
        work = get_work(cluster_id, owner)
        with contextlib.suppress(exceptions.Lost):
            lock_repo.unlock(work.engine, cluster_id, owner,
                             work_.CLAIM_EXPIRY)
        work.release()


class LockLoadBalancer(task.Task):
    """Have nobody else change the load balancer; wait for who does."""

    def execute(self, cluster_id, owner):
        work = get_work(cluster_id, owner)
        deadline = time.monotonic() + LOCK_PATIENCE
        work.look()
        while not lock_repo.lock(work.engine, cluster_id, owner,
                                 work_.CLAIM_EXPIRY):
            if orders.take(work):
                continue
            if time.monotonic() >= deadline:
                raise exceptions.ClusterBusy(
                    f'The load balancer of cluster {cluster_id} was not '
                    f'ACTIVE for {LOCK_PATIENCE} s.')
            work.pause()

    def revert(self, result, cluster_id, owner, *args, **kwargs):
        """Give it back as it was."""
        work = get_work(cluster_id, owner)
        if not isinstance(result, failure.Failure) and is_ours(work):
            lock_repo.unlock(work.engine, cluster_id, owner,
                             work_.CLAIM_EXPIRY)


class UnlockLoadBalancer(task.Task):
    """Let others change the load balancer."""

    def execute(self, cluster_id, owner):
        lock_repo.unlock(work_.get_context().engine, cluster_id, owner,
                         work_.CLAIM_EXPIRY)


class TellDistributors(task.Task):
    """Have distributors do what rows say."""

    def execute(self, cluster_id, owner):
        work = get_work(cluster_id, owner)
        work.look()
        distribution.run(work, 'register_amphorae')
