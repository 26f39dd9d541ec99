# SPDX-License-Identifier: Apache-2.0

"""The plugin's own cluster manager: pure functions.

A member with one sign against it gets no new connections, and nothing is
built or deleted. Only a member that is silent and whose front end is down is
replaced. What connections depend on comes first, slow work after it.
"""

from collections.abc import Mapping, Sequence

from octavia_hmsync.cluster.managers import base
from octavia_hmsync.cluster.managers import urgent

Action = base.Action
Kind = base.Kind
Member = base.Member


class ReferenceManager(base.ClusterManager):
    """See the module."""

    def decide(self, cluster: base.Cluster, members: Sequence[Member],
               limits: base.Limits) -> tuple[Action, ...]:
        whole = _decide_whole(cluster, limits)
        if whole is Kind.UNLOCK:
            # Urgent actions do not wait for a worker that may still live.
            return (*urgent.find(cluster, members, limits), Action(whole))
        if whole is not None:
            return (Action(whole),)
        at_once = urgent.find(cluster, members, limits)
        if _has_failed(cluster):
            # A member that drains would stay so: nothing configures members
            # of a failed cluster.
            at_once = [action for action in at_once
                       if action.kind not in (Kind.DRAIN, Kind.RESIZE)]
        return (*at_once, *_find_slow(cluster, members, limits))

    def get_health(self, members: Sequence[Member],
                   limits: base.Limits) -> Mapping[str, str]:
        return {member.id: urgent.get_health(member, limits)
                for member in members}

    def get_status(self, cluster: base.Cluster, members: Sequence[Member],
                   limits: base.Limits) -> str:
        if not cluster.enabled:
            return base.OFFLINE
        healths = [urgent.get_health(member, limits)
                   for member in _get_active(members)]
        if len(healths) - healths.count(base.DEAD) < max(1, cluster.min_size):
            return base.ERROR
        return (base.ONLINE
                if healths.count(base.HEALTHY) >= cluster.size_now
                else base.DEGRADED)

    def settle(self, cluster: base.Cluster,
               members: Sequence[Member]) -> str:
        """See base.ClusterManager.

        A distributed cluster is ACTIVE even if too few members serve:
        housekeeping builds members only for ACTIVE load balancers.
        """
        serve_enough = len(_get_active(members)) >= max(1, cluster.min_size)
        return (base.ACTIVE if serve_enough or cluster.is_distributed
                else base.ERROR)


def _get_active(members: Sequence[Member]) -> list[Member]:
    return [member for member in members
            if member.slot is not None and member.state == base.ACTIVE]


def _decide_whole(cluster: base.Cluster, limits: base.Limits) -> Kind | None:
    match cluster.load_balancer_status:
        case None | base.DELETED:
            return Kind.FORGET
        case base.PENDING_DELETE:
            return Kind.DELETE
        case base.PENDING_CREATE:
            return (Kind.TAKE_BACK if cluster.age > limits.creation_timeout
                    else Kind.CREATE)
    if cluster.status in (base.PENDING_CREATE, base.PENDING_UPDATE,
                          base.PENDING_DELETE):
        # The worker that began it has died: there is no claim.
        return Kind.UNLOCK
    return None


def _has_failed(cluster: base.Cluster) -> bool:
    return (cluster.status == base.ERROR and
            cluster.load_balancer_status != base.ACTIVE)


def _find_slow(cluster: base.Cluster, members: Sequence[Member],
               limits: base.Limits) -> list[Action]:
    found = _find_left(cluster, members, limits)
    if _has_failed(cluster):
        # Its tenant has to fail it over or delete it.
        return found
    if base.find_failovers(cluster, members):
        return [Action(Kind.TAKE_ORDERS), *found]
    if cluster.load_balancer_status in (base.ACTIVE, base.ERROR):
        found += _find_orders(cluster, members)
    if cluster.load_balancer_status == base.ACTIVE:
        found += _find_unconfigured(cluster, members, limits)
        found += _find_missing(cluster, members)
        found += _find_standbys(cluster, members, limits)
    return found


# What is left over


def _find_left(cluster: base.Cluster, members: Sequence[Member],
               limits: base.Limits) -> list[Action]:
    unwanted = {member.id for member in (
        *urgent.find_surplus(cluster, members, limits),
        *_get_returning(members, limits)[_count_wanted(cluster, members):])}
    found = [Action(Kind.REMOVE, member.id) for member in members
             if member.state in (base.BUILDING, base.FAILED) or
             _is_given_up(member, limits) or
             (member.id in unwanted or _is_leaving(member)) and
             urgent.has_drained(member, limits)]
    there = {action.member_id for action in found}
    return found + [Action(Kind.REMOVE, member.id)
                    for member in _get_standbys(members)[cluster.standby:]
                    if member.id not in there]


def _is_leaving(member: Member) -> bool:
    """Tell whether a member lost its slot because it was replaced."""
    return (member.slot is None and member.state == base.DRAINING and
            (member.ordered == base.REPLACE or
             member.amphora_status == base.ERROR))


def _is_given_up(member: Member, limits: base.Limits) -> bool:
    return (member.state == base.STANDBY and
            urgent.get_health(member, limits) != base.HEALTHY and
            member.signs.since > limits.patience)


def _is_to_come_back(member: Member) -> bool:
    """Tell whether a member that lost its slot may stand by later."""
    return (member.slot is None and member.state == base.DRAINING and
            not _is_leaving(member))


def _get_standbys(members: Sequence[Member]) -> list[Member]:
    """Return the members that stand by, the best first."""
    return sorted((member for member in members
                   if member.state == base.STANDBY),
                  key=lambda member: (
                      member.ordered == base.REPLACE,
                      bool(member.signs.silent or member.signs.down),
                      -member.age, member.id))


def _count_wanted(cluster: base.Cluster, members: Sequence[Member]) -> int:
    """Return how many standbys are missing."""
    good = [member for member in _get_standbys(members)
            if member.ordered != base.REPLACE]
    return max(0, cluster.standby - len(good))


def _get_returning(members: Sequence[Member],
                   limits: base.Limits) -> list[Member]:
    """Return drained members without a slot: they stand by or are deleted."""
    return [member for member in members
            if _is_to_come_back(member) and member.ordered is None and
            urgent.get_health(member, limits) == base.HEALTHY and
            urgent.has_drained(member, limits)]


# What is wrong, and what is missing


def _get_serving(members: Sequence[Member]) -> list[Member]:
    return [member for member in members if member.slot is not None and
            member.state not in (base.BUILDING, base.FAILED)]


def _are_all_wrong(serving: Sequence[Member]) -> bool:
    """Tell whether all are in ERROR: Octavia reverts a flow so."""
    return len(serving) > 1 and all(
        member.amphora_status == base.ERROR and
        member.ordered != base.REPLACE for member in serving)


def _find_orders(cluster: base.Cluster,
                 members: Sequence[Member]) -> list[Action]:
    """Find the member to replace next; one at a time.

    A failover does not wait until others have drained: its load balancer is
    locked meanwhile.
    """
    if not cluster.is_failing_over and any(
            _is_leaving(member) for member in members):
        return []
    serving = _get_serving(members)
    are_all_wrong = _are_all_wrong(serving)
    return [Action(Kind.REPLACE, member.id) for member in serving
            if member.ordered == base.REPLACE or
            (member.amphora_status == base.ERROR and not are_all_wrong)][:1]


def _find_unconfigured(cluster: base.Cluster, members: Sequence[Member],
                       limits: base.Limits) -> list[Action]:
    """Find members that could serve with the newest configuration."""
    serving = _get_serving(members)
    are_all_wrong = _are_all_wrong(serving)
    surplus = {member.id for member in urgent.find_surplus(cluster, members,
                                                           limits)}
    return [Action(Kind.CONFIGURE, member.id) for member in serving
            if are_all_wrong or
            (member.state == base.ACTIVE and not member.is_configured) or
            (member.state == base.DRAINING and member.id not in surplus and
             member.ordered is None and
             urgent.get_health(member, limits) == base.HEALTHY)]


def _find_missing(cluster: base.Cluster,
                  members: Sequence[Member]) -> list[Action]:
    if not cluster.may_build:
        return []
    there = [member for member in members if member.slot is not None]
    return [Action(Kind.ADD)] * (cluster.size_now - len(there))


def _find_standbys(cluster: base.Cluster, members: Sequence[Member],
                   limits: base.Limits) -> list[Action]:
    """Find members that can stand by, and how many more to build."""
    wanted = _count_wanted(cluster, members)
    back = [member for member in members if _is_to_come_back(member)]
    found = [Action(Kind.STAND_BY, member.id)
             for member in _get_returning(members, limits)[:wanted]]
    # A member that may come back needs no substitute.
    return found + [Action(Kind.BUILD_STANDBY)] * (
        wanted - len(back) if cluster.may_build else 0)
