# SPDX-License-Identifier: Apache-2.0

"""Makes the input of a cluster manager from rows."""

import dataclasses
import math

from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster.db import member_load as load_repo
from octavia_hmsync.cluster.db import member_probe as probe_repo
from octavia_hmsync.cluster.db import view as view_repo
from octavia_hmsync.cluster.managers import base
from octavia_hmsync.cluster.managers import deaths
from octavia_hmsync.cluster.managers import installed as managers
from octavia_hmsync.cluster.managers import signs
from octavia_hmsync import compat
from octavia_hmsync.distributor import claims
from octavia_hmsync.distributor import probe_rules

# Errors of a distributor's probe of a member that answers. A haproxy that
# hangs is not among them: it may be overloaded.
_SAID = (probe_rules.REFUSED, claims.CLAIMS)
# States of members that send heartbeats.
_HEARD = (member_repo.STANDBY, member_repo.ACTIVE, member_repo.DRAINING)


@dataclasses.dataclass(frozen=True)
class Situation:
    """A cluster at one moment, and its manager.

    :param view: the rows.
    :param cluster: the same, as a manager takes it.
    :param better_distributor: id of the distributor that should be active if
                               the cluster is misdirected, else None.
    :param hold: seconds for which the VIP would stay there.
    """

    view: view_repo.View
    cluster: base.Cluster
    members: list[base.Member]
    limits: base.Limits
    manager: base.ClusterManager
    better_distributor: str | None
    hold: float

    def decide(self):
        """Return what is to be done, in order."""
        return self.manager.decide(self.cluster, self.members, self.limits)

    def get_health(self):
        """Return {id of a member: its health}."""
        return self.manager.get_health(self.members, self.limits)

    def get_status(self):
        """Return the operating status of the cluster."""
        return self.manager.get_status(self.cluster, self.members,
                                       self.limits)

    def settle(self):
        """Return the status for its load balancer, whose worker died."""
        return self.manager.settle(self.cluster, self.members)


def read(context, cluster_id):
    """Return the Situation of a cluster, or None if it is gone.

    :raises InvalidConfiguration: if its manager is not installed here.
    """
    view = view_repo.read(context.engine, cluster_id,
                          context.conf.hmsync.offline_after)
    if view is None:
        return None
    manager = managers.get(view.cluster.cluster_type)
    return describe(view, base.Limits(
        context.options.drain_timeout,
        size_limit=context.options.size_limit), manager,
        load_repo.get_of_cluster(context.engine, cluster_id)
        if manager.FOLLOWS_LOAD else {})


def get_last_move(cluster):
    """Return the last move of the VIP of a cluster, or None."""
    if cluster.vip_moved_at is None or cluster.vip_hold is None:
        return None
    return signs.Move(_age(cluster.now, cluster.vip_moved_at),
                      cluster.vip_hold)


def get_last_death(cluster):
    """Return the last Death of a member of a cluster, or None."""
    if cluster.member_died_at is None:
        return None
    return deaths.Death(_age(cluster.now, cluster.member_died_at),
                        cluster.build_hold or 0)


def choose_build_hold(found, member_id):
    """Return for how many seconds no member is built as one dies.

    :param found: a Situation, in which the member is dead.
    :returns: None if that stays as it is.
    """
    cluster = found.view.cluster
    ages = {member.id: _age(member.now, member.created_at)
            for member in found.view.members}
    healths = found.get_health()
    return deaths.choose_hold(
        get_last_death(cluster), ages[member_id],
        [ages[member.id] for member in found.members
         if member.state == base.ACTIVE and member.slot is not None and
         healths.get(member.id) != base.DEAD])


def describe(view, limits, manager, loads):
    """Return the Situation of rows.

    :param loads: {id of a member: its MemberLoad}.
    """
    cluster = view.cluster
    probes = [_describe_probe(probe, view) for probe in view.probes]
    found = signs.read(probes, limits.patience if _is_silence_enough(
        view.members, probes) else math.inf)
    last = get_last_move(cluster)
    death = get_last_death(cluster)
    better = signs.find_better(probes, last)
    status, of_load_balancer = _describe_statuses(view)
    members = [_describe_member(member, view, found,
                                _get_digest(view.members),
                                loads.get(member.id))
               for member in view.members]
    return Situation(
        view, base.Cluster(
            status, of_load_balancer, cluster.desired_size, cluster.min_size,
            _age(cluster.now, cluster.created_at), cluster.size,
            cluster.standby, cluster.enabled, view.may_resize,
            better is not None, view.is_distributed,
            cluster.is_failing_over, death is None or not death.holds),
        signs.spare(members, {member.id for member in view.members
                              if member.amphora_id in view.held},
                    cluster.min_size),
        limits, manager, better, signs.choose_hold(last))


def _describe_statuses(view):
    """Return the statuses of a cluster and its load balancer.

    While it is failing over the lock of the load balancer does not keep the
    claim owner from work. A member that left before it was replaced has left
    the lock behind.
    """
    status, of_load_balancer = (view.cluster.provisioning_status,
                                view.load_balancer_status)
    if view.cluster.is_failing_over and (
            status, of_load_balancer) == (compat.ACTIVE,
                                          compat.PENDING_UPDATE):
        if any(member.slot is not None and
               member.ordered == member_repo.REPLACE
               for member in view.members):
            return status, compat.ACTIVE
        return compat.PENDING_UPDATE, of_load_balancer
    return status, of_load_balancer


def _is_silence_enough(members, probes):
    """Tell whether silence must be enough to call a member dead.

    So it is if no distributor can probe members, because there is no port
    for it or because probes are blocked. If no member at all is heard, rather
    the way of heartbeats is broken.
    """
    # A member that could not be heard has an error.
    silent = {probe.member_id for probe in probes if probe.observer is None and
              (probe.state == signs.DOWN or probe.error)}
    return (all(probe.observer is None for probe in probes) or
            signs.are_blind(probes)) and any(
        member.state in _HEARD and member.id not in silent
        for member in members)


def _age(now, then):
    return max(0.0, (now - then).total_seconds())


def _describe_probe(probe, view):
    if probe.distributor_id == probe_repo.HEARTBEATS:
        return signs.Probe(
            probe.member_id, None, probe.state,
            _age(probe.now, probe.changed_at), is_online=view.is_heard,
            error=probe.error)
    return signs.Probe(
        probe.member_id, probe.distributor_id, probe.state,
        _age(probe.now, probe.changed_at), probe.is_active,
        probe.is_online, probe.error, probe.error not in _SAID)


def _get_digest(members):
    """Return the config_digest that all ACTIVE members share, or None."""
    digests = {member.config_digest for member in members
               if member.state == member_repo.ACTIVE and
               member.is_configured}
    return digests.pop() if len(digests) == 1 else None


def _describe_member(member, view, found, digest, load):
    return base.Member(
        member.id, member.slot, member.state,
        _age(member.now, member.updated_at),
        view.amphora_statuses.get(member.amphora_id), member.ordered,
        member.connections,
        member.is_configured or
        member.state == member_repo.BUILDING,
        found.get(member.id, base.NO_SIGNS),
        member.is_configured and member.config_digest == digest,
        load and base.Load(load.connections, load.connection_rate,
                           load.byte_rate, _age(load.now, load.heard_at)),
        member.zone, member.host)
