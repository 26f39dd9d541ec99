# SPDX-License-Identifier: Apache-2.0

"""Builds the members of a cluster, configures them, and deletes them.

What was built is known by the member's row before it is built, so that
whoever goes on where somebody died finds all of it.
"""

import concurrent.futures
import types

from oslo_log import log as logging
from oslo_utils import uuidutils
from taskflow import engines
from taskflow import task

from octavia_hmsync.amphora import removal
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster.members import member_port
from octavia_hmsync.cluster.members import update
from octavia_hmsync.cluster.rules import places
from octavia_hmsync.compat import cluster as compat_cluster
from octavia_hmsync.compat import cluster_build
from octavia_hmsync.db import api
from octavia_hmsync import exceptions
from octavia_hmsync import periodic
from octavia_hmsync import watched_flow

LOG = logging.getLogger(__name__)

PREFIX = 'octavia-hmsync-member'
# Members of one cluster that are built, or deleted, at once.
AT_ONCE = 16
# Compute zones in which a member is tried, of as many as there are.
_TRIES = 2


class CreateAmphora(task.Task):
    """Make the row of an amphora, which the member's row names before."""

    default_provides = compat_cluster.AMPHORA_ID

    def __init__(self, work, member_id, **kwargs):
        super().__init__(name=f'{PREFIX}-create-{member_id}', **kwargs)
        self._work = work
        self._member_id = member_id

    def execute(self):
        amphora_id = uuidutils.generate_uuid()
        if not member_repo.assign_amphora(self._work.engine, self._member_id,
                                          amphora_id):
            raise exceptions.Lost
        compat_cluster.create_amphora(amphora_id)
        return amphora_id


class JoinLoadBalancer(task.Task):
    """Have an amphora that has its port be one of the load balancer."""

    def __init__(self, work, member_id, **kwargs):
        super().__init__(name=f'{PREFIX}-join-{member_id}', **kwargs)
        self._work = work
        self._member_id = member_id

    def execute(self, amphora_id, loadbalancer_id, vip, base_port):
        member_repo.set_mac(self._work.engine, self._member_id,
                            compat_cluster.get_mac(base_port))
        compat_cluster.join_load_balancer(amphora_id, loadbalancer_id, vip,
                                          base_port)


def build(work, member_id):
    """Build the amphora of a member, and plug its VIP.

    Afterwards it serves nothing, and nobody sends anything to it.

    :param work: a Work.
    :param member_id: of a row without an amphora.
    :raises BuildFailed: with the reason.
    :raises Lost, Unwanted, Stopped: as Work.check(); what was built is there.
    """
    work.check()
    load_balancer = work.get_load_balancer()
    zones = cluster_build.get_availability_zone(load_balancer).get(places.KEY)
    if not zones:
        _build_in(None, work, member_id, load_balancer)
        return
    for left in reversed(range(_TRIES)):
        zone = member_repo.choose_zone(
            work.engine, work.cluster_id, member_id,
            lambda members: places.choose(zones, members,
                                          places.FAILURES.get()))
        if zone is None:
            raise exceptions.Lost
        try:
            _build_in(zone, work, member_id, load_balancer)
            places.FAILURES.forget(zone)
            return
        except exceptions.BuildFailed as e:
            places.FAILURES.note(zone)
            if not left or not _begin_anew(work, member_id):
                raise exceptions.BuildFailed(
                    f'In compute zone {zone}: {e}') from e
            LOG.warning('Load balancer %s: in compute zone %s: %s A member of '
                        'it is built in another zone.', load_balancer.id,
                        zone, e)
        work.check()
        load_balancer = work.get_load_balancer()


def _begin_anew(work, member_id):
    """Delete what was built of a member; False if something is left of it."""
    member = member_repo.get(work.engine, member_id)
    if member is None or member.amphora_id is None:
        return member is not None
    return not remove_amphora(work, member.amphora_id) and (
        member_repo.unassign_amphora(work.engine, member_id,
                                     member.amphora_id))


def _build_in(zone, work, member_id, load_balancer):
    engine = engines.load(
        cluster_build.make_boot_flow(
            f'{PREFIX}-{member_id}', CreateAmphora(work, member_id),
            JoinLoadBalancer(work, member_id)),
        store=cluster_build.make_boot_store(load_balancer, zone))
    # Where nobody wants it any more.
    watch = watched_flow.Watch(engine, lambda *_task: work.check())
    _run(engine, 'An amphora could not be built')
    try:
        watch.finish()
    except exceptions.Lost:
        _remove_late(work, engine.storage.fetch(cluster_build.AMPHORA_ID))
        raise


def _remove_late(work, amphora_id):
    """Delete what this process built after it hung.

    Whoever has taken the cluster up meanwhile, and deleted the member, found
    nothing of that.
    """
    if member_repo.get_by_amphora(work.engine, amphora_id) is None:
        LOG.info('Amphora %s, of a cluster that was taken up by somebody else '
                 'meanwhile, is deleted.', amphora_id)
        remove_amphora(work, amphora_id)


def configure(work, member_id, slot):
    """Have a member that was built serve all that the load balancer has.

    Nobody else may change the load balancer meanwhile.

    :param work: a Work.
    :param member_id: of a row with an amphora.
    :param slot: which slot it is to have; None for one that stands by.
    :raises BuildFailed: with the reason, if it does not.
    :raises Lost, Unwanted, Stopped: as Work.check().
    """
    work.look()
    member = member_repo.get(work.engine, member_id)
    load_balancer = work.get_load_balancer()
    amphora = next((each for each in load_balancer.amphorae
                    if each.id == member.amphora_id), None)
    if amphora is None:
        raise exceptions.BuildFailed(
            f'Amphora {member.amphora_id} is no amphora of load balancer '
            f'{load_balancer.id} any more.')
    _run(engines.load(
        cluster_build.make_plug_flow(f'{PREFIX}-plug-{member_id}'),
        store=cluster_build.make_plug_store(load_balancer, amphora)),
        f'Amphora {amphora.id} could not be plugged into the networks of '
        f'its members')
    work.look()
    member_port.refresh(work.network, load_balancer, amphora)
    if member.state == member_repo.ACTIVE and not member.is_configured:
        # Whoever died with a change has not come to what follows it.
        _open_ports(work, load_balancer)
    try:
        update.configure(work, load_balancer, amphora, slot)
    except (exceptions.Interrupted, exceptions.HMSyncException):
        raise
    except Exception as e:
        if api.is_database_error(e):
            raise
        # Of drivers of Octavia's.
        LOG.exception('Amphora %s:', amphora.id)
        raise exceptions.BuildFailed(
            f'Amphora {amphora.id} could not be configured '
            f'({type(e).__name__}: {" ".join(str(e).split())}). The log of '
            f'this service says more.') from e


def _open_ports(work, load_balancer):
    """Have the VIP let in what the listeners of a load balancer take."""
    try:
        # Octavia has none in its name where a tenant has given his own.
        work.network.update_vip(load_balancer, for_delete=True)
    except Exception as e:
        # Of any network driver.
        raise exceptions.BuildFailed(
            f'The security group of load balancer {load_balancer.id} could '
            f'not be brought to its listeners: '
            f'{compat_cluster.describe_failure(e)}.') from e


def _run(engine, what):
    try:
        engine.run()
    except exceptions.Interrupted:
        raise
    except Exception as e:
        # The tasks ask four services.
        reason = compat_cluster.describe_failure(e)
        raise exceptions.BuildFailed(f'{what}: {reason}.') from e


def remove(work, member):
    """Delete a member with all that belongs to its amphora, and its row.

    Doing it again, or at once with somebody else, is harmless. One of which
    something is left is FAILED, and has no slot.

    :param work: a Work.
    :param member: a Member, which no distributor sends anything to.
    :returns: what could not be deleted, in words; empty if all is gone.
    :raises Lost, Unwanted, Stopped: as Work.check().
    """
    work.look()
    # Distributors forget it at the next version, whoever tells them.
    member_repo.set_state(work.engine, member.id, (member_repo.ACTIVE,),
                          member_repo.DRAINING)
    left = []
    if member.amphora_id:
        left = remove_amphora(work, member.amphora_id)
    if left:
        # Somebody tries it again; another one may have its slot.
        member_repo.set_state(
            work.engine, member.id, member_repo.STATES, member_repo.FAILED,
            error=f'Could not be deleted: {", ".join(left)}.')
        member_repo.release_slot(work.engine, member.id)
    else:
        member_repo.delete(work.engine, member.id)
    return left


def remove_amphora(work, amphora_id):
    """Delete an amphora; see remove()."""
    found = compat_cluster.get_amphora(amphora_id)
    # From now on nobody who changes the load balancer asks for its port.
    compat_cluster.leave_load_balancer(amphora_id)
    return removal.remove(work, found or types.SimpleNamespace(
        id=amphora_id, compute_id=None, vrrp_port_id=None))


def for_each(function, work, items):
    """Call a function for each of some members, all at once.

    :param function: takes a Work and one of the items.
    :param work: a Work.
    :param items: a list.
    :returns: {item: the HMSyncException that it raised, None without}.
    :raises Exception: anything else that one of them raised, once all ended.
    """
    if not items:
        return {}

    def call(item):
        try:
            function(work, item)
        except exceptions.HMSyncException as e:
            return e
        return None

    with concurrent.futures.ThreadPoolExecutor(
            min(len(items), AT_ONCE),
            thread_name_prefix='hmsync-cluster-member',
            initializer=periodic.leave_signals_to_main_thread) as pool:
        futures = {item: pool.submit(call, item) for item in items}
    return {item: future.result() for item, future in futures.items()}
