# SPDX-License-Identifier: Apache-2.0

"""Octavia's distributor drivers ``hmsync_ovs`` and ``hmsync_ovn``.

They differ in their backend alone.

``distributor_id`` of Octavia's abstract class is the id of the cluster: its
distributor is, here, two processes of which one is active, or OVN. Tasks
change rows and tell the distributors what rows say. Each may be repeated, and
housekeeping does later what a task could not do.
"""

from oslo_log import log as logging
from taskflow.patterns import linear_flow
from taskflow import task
from taskflow.types import failure

from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import distributor_vip as vip_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster.distribution import backends
from octavia_hmsync.cluster import work
from octavia_hmsync.compat import distributor as compat_distributor
from octavia_hmsync import exceptions

LOG = logging.getLogger(__name__)

DISTRIBUTOR_ID = 'distributor_id'
_PREFIX = 'octavia-hmsync-distributor'


class Driver:
    """What tasks work with, in this process.

    :param backend: a backend.Backend.
    """

    def __init__(self, engine, backend):
        self.engine = engine
        self.backend = backend

    def get_members(self, cluster_id, amphorae):
        """Return the members of some amphorae.

        :param amphorae: as Octavia's tasks have them, or as dicts.
        :raises NotPossible: if one is no member of the cluster.
        """
        by_amphora = {
            member.amphora_id: member for member in
            member_repo.get_of_cluster(self.engine, cluster_id)}
        found = []
        for amphora in amphorae:
            amphora_id = _id_of(amphora)
            if amphora_id not in by_amphora:
                raise exceptions.NotPossible(
                    f'The amphora {amphora_id} is no member of the cluster '
                    f'{cluster_id}.')
            found.append(by_amphora[amphora_id])
        return found


def _get_driver():
    return Driver(work.get_context().engine, backends.get())


def _may_undo(cluster_id, owner):
    """Tell whether a task may undo what it did for a cluster.

    If this process hung and lost its claim, the new owner needs it.

    :param owner: of the claim; None in flows that are not ours.
    """
    if owner is None:
        return True
    try:
        work.Work(work.get_context(), cluster_id, owner).look()
    except exceptions.Interrupted:
        return False
    return True


def _id_of(thing, *names):
    """Return the id of a dict or of an object of Octavia's."""
    if isinstance(thing, str):
        return thing
    for name in (*names, 'id'):
        value = (thing.get(name) if isinstance(thing, dict)
                 else getattr(thing, name, None))
        if value:
            return value
    raise TypeError(f'{type(thing)} has no id')


class FindCluster(task.Task):
    default_provides = DISTRIBUTOR_ID

    def execute(self, load_balancer):
        """Look it up.

        :returns: the id of the cluster.
        :raises UnknownCluster: if it has none.
        """
        driver = _get_driver()
        driver.backend.sync()
        load_balancer_id = _id_of(load_balancer, 'loadbalancer_id')
        cluster = cluster_repo.get_by_load_balancer(driver.engine,
                                                    load_balancer_id)
        if cluster is None:
            raise exceptions.UnknownCluster(
                f'The load balancer {load_balancer_id} has no cluster.')
        return cluster.id


class AddVIP(task.Task):
    """Put the VIP of a cluster on two distributors."""

    def execute(self, distributor_id, vip, vip_alg, vip_persistence,
                owner=None):
        """Create ports, and tell distributors.

        The addresses of the VIP come from the database.

        :returns: whether no distributor had it before.
        """
        driver = _get_driver()
        is_new = not vip_repo.get_of_cluster(driver.engine, distributor_id)
        if vip_persistence:
            cluster_repo.set_affinity(driver.engine, distributor_id,
                                      vip_persistence)
        try:
            driver.backend.add(distributor_id)
        except Exception:
            # TaskFlow does not pass the result of a failed task to revert().
            if is_new and _may_undo(distributor_id, owner):
                _take_back(driver, distributor_id)
            raise
        return is_new

    def revert(self, result, distributor_id, owner=None, *args, **kwargs):
        """Remove it, unless it was there before."""
        if result is True and _may_undo(distributor_id, owner):
            _take_back(_get_driver(), distributor_id)


def _take_back(driver, cluster_id):
    try:
        driver.backend.remove(cluster_id)
    except exceptions.HMSyncException as e:
        LOG.warning('The VIP of the cluster %s was not taken from its '
                    'distributors: %s', cluster_id, e)


class RemoveVIP(task.Task):
    """Remove a cluster from its distributors."""

    def execute(self, distributor_id, vip):
        """Tell them, and delete ports.

        :raises CloudUnavailable, CloudRefused: if ports cannot be deleted.
        """
        _get_driver().backend.remove(distributor_id)


class SyncDistributors(task.Task):
    """Forget distributors that left the option and have no VIPs."""

    def execute(self, distributor_id):
        _get_driver().backend.sync()


class RegisterAmphorae(task.Task):
    """Make distributors send connections to amphorae."""

    def execute(self, distributor_id, amphorae, owner=None):
        """Tell them.

        :returns: {id of a member: its state before}, of changed members.
        :raises NoDistributor: if no distributor took it.
        """
        driver = _get_driver()
        before = {}
        for member in driver.get_members(distributor_id, amphorae):
            if member.slot is None:
                raise exceptions.NotPossible(
                    f'The member {member.id} of the cluster '
                    f'{distributor_id} has no slot.')
            if member_repo.set_state(
                    driver.engine, member.id,
                    [state for state in member_repo.STATES
                     if state != member_repo.ACTIVE], member_repo.ACTIVE):
                before[member.id] = member.state
        try:
            driver.backend.apply(distributor_id)
        except Exception:
            if _may_undo(distributor_id, owner):
                _put_back(driver, distributor_id, before)
            raise
        return before

    def revert(self, result, distributor_id, owner=None, *args, **kwargs):
        if (not isinstance(result, failure.Failure) and result and
                _may_undo(distributor_id, owner)):
            _put_back(_get_driver(), distributor_id, result)


def _put_back(driver, cluster_id, before):
    for member_id, state in before.items():
        member_repo.set_state(driver.engine, member_id,
                              [member_repo.ACTIVE], state)
    try:
        driver.backend.apply(cluster_id)
    except exceptions.HMSyncException as e:
        LOG.warning('The distributors of the cluster %s are told later which '
                    'members it has: %s', cluster_id, e)


class DrainAmphorae(task.Task):
    """Make distributors send no new connections to amphorae."""

    def execute(self, distributor_id, amphorae):
        """Tell them.

        :raises NoDistributor: if none took it; housekeeping goes on.
        """
        driver = _get_driver()
        for member in driver.get_members(distributor_id, amphorae):
            member_repo.set_state(driver.engine, member.id,
                                  [member_repo.ACTIVE], member_repo.DRAINING)
        driver.backend.apply(distributor_id)


class UnregisterAmphorae(task.Task):
    """Make distributors send nothing to amphorae."""

    def execute(self, distributor_id, amphorae):
        """Tell them.

        :raises NoDistributor: if none took it; housekeeping goes on.
        """
        driver = _get_driver()
        for member in driver.get_members(distributor_id, amphorae):
            member_repo.set_state(
                driver.engine, member.id,
                [member_repo.ACTIVE, member_repo.DRAINING],
                member_repo.FAILED)
            member_repo.release_slot(driver.engine, member.id)
        driver.backend.apply(distributor_id)


def _make_flow(name, *tasks):
    return linear_flow.Flow(f'{_PREFIX}-{name}').add(*tasks)


class Distribution(compat_distributor.DistributorDriver):
    """The subflows of Octavia's abstract class."""

    def get_create_distributor_subflow(self):
        return _make_flow('create', FindCluster())

    def get_delete_distributor_subflow(self):
        # Processes on network nodes outlive clusters.
        return _make_flow('delete', SyncDistributors())

    def get_add_vip_subflow(self):
        return _make_flow('add-vip', AddVIP())

    def get_remove_vip_subflow(self):
        return _make_flow('remove-vip', RemoveVIP())

    def get_register_amphorae_subflow(self):
        return _make_flow('register', RegisterAmphorae())

    def get_drain_amphorae_subflow(self):
        return _make_flow('drain', DrainAmphorae())

    def get_unregister_amphorae_subflow(self):
        return _make_flow('unregister', UnregisterAmphorae())
