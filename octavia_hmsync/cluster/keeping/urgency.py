# SPDX-License-Identifier: Apache-2.0

"""Carries out the urgent actions that a manager decides for a cluster.

They change rows, and distributors are told. They need no claim, so a worker
that holds one for minutes does not delay them. A change is skipped if the
version of the cluster is not the one for which it was decided; so several
processes may decide at once.
"""

from oslo_log import log as logging

from octavia_hmsync.cluster.api import readiness
from octavia_hmsync.cluster.db import cluster as cluster_repo
from octavia_hmsync.cluster.db import distributor_vip as vip_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster.distribution import distribution
from octavia_hmsync.cluster.managers import base
from octavia_hmsync.cluster.managers import installed as managers
from octavia_hmsync.cluster.managers import situation
from octavia_hmsync.cluster.rules import peers
from octavia_hmsync.cluster import work as work_
from octavia_hmsync import compat
from octavia_hmsync import exceptions

LOG = logging.getLogger(__name__)

Kind = base.Kind
# Looks at a cluster in one run, at most; after each something is done, or
# another process has changed it.
_MOST = 200
# States of members without a known health.
_UNKNOWN = (member_repo.BUILDING, member_repo.FAILED)
# Load balancers that are being created or deleted.
_COMING_AND_GOING = (None, compat.DELETED, compat.PENDING_CREATE,
                     compat.PENDING_DELETE)


class Urgency:
    """Carries out urgent actions for one cluster."""

    def __init__(self, context, cluster_id):
        self._context = context
        self._engine = context.engine
        self._cluster_id = cluster_id

    def run(self):
        """Carry them out, and record the health of cluster and members.

        :returns: whether something was done.
        :raises InvalidConfiguration: if the cluster's manager is not
                                      installed here.
        """
        is_changed = is_told = False
        # A failed action does not block the others.
        vain: set[tuple[int, base.Action]] = set()
        for _ in range(_MOST):
            found = situation.read(self._context, self._cluster_id)
            if found is None:
                break
            version = found.view.cluster.version
            action = next((action for action in found.decide()
                           if action.kind in base.URGENT and
                           (version, action) not in vain), None)
            self._record_health(found)
            if action is None:
                self._record_status(found)
                break
            if _DOERS[action.kind](self._engine, found, action):
                self._tell_manager(found, action)
                self._note_death(found, action)
                is_changed = True
                is_told |= action.kind is not Kind.RESIZE
            else:
                vain.add((version, action))
        if is_told:
            self._tell_distributors()
        return is_changed

    def _tell_manager(self, found, action):
        say = (LOG.warning if action.kind in (Kind.UNREGISTER, Kind.MOVE_VIP)
               else LOG.info)
        say('Cluster %s: %s %s: %s.', self._cluster_id, action.kind,
            action.other_id or action.member_id or '', action.reason)
        managers.tell(found.manager, base.EventKind.DONE, self._cluster_id,
                      action.member_id, str(action.kind), action.reason)

    def _note_death(self, found, action):
        """Have the next members wait if each one of them dies."""
        lost = action.other_id or action.member_id
        if (action.kind not in (Kind.UNREGISTER, Kind.PROMOTE) or
                found.get_health().get(lost) != base.DEAD):
            return
        hold = situation.choose_build_hold(found, lost)
        if hold is None:
            return
        cluster_repo.hold_builds(self._engine, self._cluster_id, hold)
        if hold:
            LOG.warning(
                'Cluster %s: member %s has died like the one before it. The '
                'next are built in %d s, or when the load balancer is '
                'changed: if this began with a change of listeners, pools, '
                'policies or certificates, undo that.',
                self._cluster_id, lost, hold)

    def _tell_distributors(self):
        work = work_.Work(self._context, self._cluster_id, None)
        try:
            distribution.run(work, 'register_amphorae')
        except exceptions.HMSyncException as e:
            LOG.warning('The distributors of the cluster %s are told later '
                        'which members it has: %s', self._cluster_id, e)

    def _record_health(self, found):
        healths = found.get_health()
        signs = {member.id: member.signs for member in found.members}
        for member in found.view.members:
            health = healths.get(member.id, base.HEALTHY)
            if (member.state in _UNKNOWN or
                    health == (member.health or base.HEALTHY)):
                continue
            reason = '; '.join(filter(None, (
                signs[member.id].silent, signs[member.id].down))) or None
            if not member_repo.set_health(self._engine, member.id, health,
                                          reason):
                # Another process was first.
                continue
            say = LOG.info if health == base.HEALTHY else LOG.warning
            say('Member %s of cluster %s is %s%s.', member.id,
                self._cluster_id, health, f': {reason}' if reason else '')
            managers.tell(found.manager, base.EventKind.HEALTH,
                          self._cluster_id, member.id, health, reason or '')

    def _record_status(self, found):
        cluster = found.view.cluster
        if (found.view.load_balancer_status in _COMING_AND_GOING or
                cluster.provisioning_status in _COMING_AND_GOING):
            return
        status = found.get_status()
        if (status == cluster.operating_status or
                not cluster_repo.set_operating_status(
                    self._engine, cluster.id, status)):
            return
        say = LOG.warning if status == base.ERROR else LOG.info
        say('Cluster %s is %s.', cluster.id, status)
        managers.tell(found.manager, base.EventKind.STATUS, cluster.id, None,
                      status)


def _move_vip(engine, found, _action):
    cluster = found.view.cluster
    return any(
        vip.port_id and not vip.active and
        vip.distributor_id == found.better_distributor
        for vip in vip_repo.get_of_cluster(engine, cluster.id)
    ) and vip_repo.set_active(
        engine, cluster.id, found.better_distributor, cluster.version,
        found.hold)


def _unregister(engine, found, action):
    return member_repo.unregister(engine, action.member_id, action.reason,
                                  found.view.cluster.version)


def _promote(engine, found, action):
    cluster = found.view.cluster
    if action.other_id is not None:
        is_dead = found.get_health().get(action.other_id) == base.DEAD
        slot = next((member.slot for member in found.view.members
                     if member.id == action.other_id), None)
        return member_repo.take_over_slot(
            engine, action.member_id, action.other_id,
            old_state=(member_repo.FAILED if is_dead
                       else member_repo.DRAINING),
            version=cluster.version,
            config_digest=_choose_digest(found, slot, action.other_id))
    taken = {member.slot for member in found.view.members}
    slot = next((slot for slot in range(cluster.size) if slot not in taken),
                None)
    return slot is not None and member_repo.take_slot(
        engine, action.member_id, slot, cluster.version,
        state=member_repo.ACTIVE, config_digest=_choose_digest(found, slot))


def _choose_digest(found, slot, other_id=None):
    """Return the config_digest of a member that takes a slot.

    None: it must be configured for the slot. ALONE: also, clients go to the
    healthy members of its group until then, because these know them.

    :param other_id: the member that had the slot.
    """
    cluster = found.view.cluster
    if (slot is None or cluster.affinity != cluster_repo.SOURCE_IP or
            # OVN distributes by port, and knows no groups.
            cluster.distributor != readiness.OVS_DRIVER):
        return None
    healths = found.get_health()
    group = peers.get_group(slot, cluster.peer_group_size)
    return member_repo.ALONE if any(
        member.slot is not None and member.id != other_id and
        member.peer_group == group and member.state == member_repo.ACTIVE and
        member.config_digest != member_repo.ALONE and
        healths.get(member.id) == base.HEALTHY
        for member in found.view.members) else None


def _drain(engine, found, action):
    return member_repo.drain(engine, action.member_id,
                             found.view.cluster.version)


def _return(engine, found, action):
    return member_repo.resume(engine, action.member_id,
                              found.view.cluster.version)


def _resize(engine, found, action):
    """Begin a change of the size, or record the size that a manager wants.

    A manager gets what is nearest to that within min_size and size_limit.
    """
    cluster = found.view.cluster
    if action.size is None:
        return cluster_repo.resize(engine, cluster.id, cluster.desired_size)
    size = max(cluster.min_size, min(found.limits.size_limit, action.size))
    return cluster_repo.ask_for_size(engine, cluster.id,
                                     cluster.desired_size, size)


_DOERS = {Kind.MOVE_VIP: _move_vip, Kind.UNREGISTER: _unregister,
          Kind.PROMOTE: _promote, Kind.DRAIN: _drain, Kind.RETURN: _return,
          Kind.RESIZE: _resize}
