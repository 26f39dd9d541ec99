# SPDX-License-Identifier: Apache-2.0

"""Builds the members of a cluster, configures them, and deletes them.

The row of a member names its amphora before that is built, so that the next
claim owner finds all that a dead worker left.

The port of a member is created before the amphora boots, and the load balancer
is not locked until it has booted. Octavia applies what a tenant changes
meanwhile only to the amphorae that are ready.
"""

import concurrent.futures
import types

from oslo_log import log as logging
from oslo_utils import uuidutils
from taskflow import engines
from taskflow import task

from octavia_hmsync.amphora import removal
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster.members import update
from octavia_hmsync.cluster.rules import places
from octavia_hmsync.compat import cluster as compat_cluster
from octavia_hmsync.compat import cluster_build
from octavia_hmsync.db import api
from octavia_hmsync import exceptions
from octavia_hmsync import periodic
from octavia_hmsync.sync.db import zone_drain as drain_repo
from octavia_hmsync import watched_flow

LOG = logging.getLogger(__name__)

PREFIX = 'octavia-hmsync-member'
# Members of one cluster that are built, or deleted, at once.
AT_ONCE = 16
# Compute zones to try for a member, if there are as many.
_TRIES = 2


def refresh_port(network, load_balancer, amphora):
    """Ensure the QoS policy and the security groups of a port.

    :param load_balancer: Octavia's data model of it; it must be locked.
    :raises BuildFailed: with the reason, if Neutron does not do it.
    """
    vip = load_balancer.vip
    try:
        port = network.get_port(amphora.vrrp_port_id)
        if (port.qos_policy_id or None) != (vip.qos_policy_id or None):
            network.apply_qos_on_port(vip.qos_policy_id, port.id)
        if not _has_groups(port.security_group_ids or (), vip.sg_ids):
            network.update_aap_port_sg(load_balancer, amphora, vip)
    except Exception as e:
        # Any network driver raises what it likes.
        reason = compat_cluster.describe_failure(e)
        raise exceptions.BuildFailed(
            f'The port of amphora {amphora.id} could not get the QoS policy '
            f'and the security groups of its load balancer: {reason}.') from e


def _has_groups(found, of_tenant):
    """Tell whether only the tenant's groups and Octavia's own are there."""
    return (set(of_tenant) <= set(found) and
            len(set(found) - set(of_tenant)) <= 1)


class CreateAmphora(task.Task):
    """Create the row of an amphora, after the member's row names it."""

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
    """Assign an amphora to its load balancer, once it has its port."""

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

    It serves nothing yet, and gets no traffic.

    :param member_id: of a row without an amphora.
    :raises BuildFailed: with the reason.
    :raises Lost, Unwanted, Stopped: as Work.check(); what was built stays.
    """
    work.check()
    load_balancer = work.get_load_balancer()
    profile = cluster_build.get_availability_zone(load_balancer)
    zones = profile.get(places.KEY)
    if not zones:
        _build_in(profile.get(places.COMPUTE_ZONE) or
                  drain_repo.get_build_zone(
                      work.engine, work.conf.nova.availability_zone),
                  work, member_id, load_balancer)
        return
    for left in reversed(range(_TRIES)):
        drained = drain_repo.get_all(work.engine)
        zone = member_repo.choose_zone(
            work.engine, work.cluster_id, member_id,
            lambda members: places.choose(zones, members,
                                          places.FAILURES.get(), drained))
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
    """Delete what was built of a member; return False if anything is left."""
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
    # Ends the flow when the claim is lost or the cluster is deleted.
    watch = watched_flow.Watch(engine, lambda *_task: work.check())
    _run(engine, 'An amphora could not be built')
    try:
        watch.finish()
    except exceptions.Lost:
        _remove_late(work, engine.storage.fetch(cluster_build.AMPHORA_ID))
        raise


def _remove_late(work, amphora_id):
    """Delete what this process built after it hung and lost the claim.

    The new claim owner deleted the member before this was there to find.
    """
    if member_repo.get_by_amphora(work.engine, amphora_id) is None:
        LOG.info('Amphora %s, of a cluster that another process has claimed '
                 'meanwhile, is deleted.', amphora_id)
        remove_amphora(work, amphora_id)


def configure(work, member_id, slot):
    """Configure a member with all that the load balancer has.

    The load balancer must be locked.

    :param member_id: of a row with an amphora.
    :param slot: the slot it is to have; None for a standby.
    :raises BuildFailed: with the reason, if it does not take it.
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
    refresh_port(work.network, load_balancer, amphora)
    if member.state == member_repo.ACTIVE and not member.is_configured:
        # A worker that died with a change did not open its ports.
        _open_ports(work, load_balancer)
    try:
        update.configure(work, load_balancer, amphora, slot)
    except (exceptions.Interrupted, exceptions.HMSyncException):
        raise
    except Exception as e:
        if api.is_database_error(e):
            raise
        # Octavia's drivers raise anything.
        LOG.exception('Amphora %s:', amphora.id)
        raise exceptions.BuildFailed(
            f'Amphora {amphora.id} could not be configured '
            f'({type(e).__name__}: {" ".join(str(e).split())}). See the log '
            f'of this service.') from e


def _open_ports(work, load_balancer):
    """Open the ports of all listeners in the security group of the VIP."""
    try:
        # Does nothing where the tenant has given security groups.
        work.network.update_vip(load_balancer, for_delete=True)
    except Exception as e:
        # Any network driver raises what it likes.
        raise exceptions.BuildFailed(
            f'The ports of the listeners could not be opened in the security '
            f'group of load balancer {load_balancer.id}: '
            f'{compat_cluster.describe_failure(e)}.') from e


def _run(engine, what):
    try:
        engine.run()
    except exceptions.Interrupted:
        raise
    except Exception as e:
        # The tasks call four services.
        reason = compat_cluster.describe_failure(e)
        raise exceptions.BuildFailed(f'{what}: {reason}.') from e


def remove(work, member):
    """Delete a member with all that belongs to its amphora, and its row.

    It may be repeated, or run at the same time by another process. If
    anything is left, the member becomes FAILED and loses its slot.

    :param member: gets no traffic from distributors.
    :returns: what could not be deleted, in words; empty if all is gone.
    :raises Lost, Unwanted, Stopped: as Work.check().
    """
    work.look()
    # Distributors forget it with the next version.
    member_repo.set_state(work.engine, member.id, (member_repo.ACTIVE,),
                          member_repo.DRAINING)
    left = []
    if member.amphora_id:
        left = remove_amphora(work, member.amphora_id)
    if left:
        # Housekeeping retries it; another member may have the slot.
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
    # First: workers that change the load balancer then do not ask for its
    # port.
    compat_cluster.leave_load_balancer(amphora_id)
    return removal.remove(work, found or types.SimpleNamespace(
        id=amphora_id, compute_id=None, vrrp_port_id=None))


def for_each(function, work, items):
    """Call a function for each item, in parallel.

    :param function: takes a Work and an item.
    :returns: {item: the HMSyncException that was raised, or None}.
    :raises Exception: anything else that was raised, once all have ended.
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
