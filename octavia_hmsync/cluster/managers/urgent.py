# SPDX-License-Identifier: Apache-2.0

"""Urgent actions for a cluster: rules of the reference manager.

None of them takes longer than telling distributors.
"""

from collections.abc import Sequence

from octavia_hmsync.cluster.managers import base

Action = base.Action
Kind = base.Kind
Member = base.Member

# Both in multiples of recovery: how long a drained member may take to be
# configured again; and after which time a well member that has all of its
# configuration serves again without that.
_CONFIGURING = 4
_UNCLAIMED = 2
# Members that die of one cause die within so many seconds.
_TOGETHER = 3


def get_health(member: Member, limits: base.Limits) -> str:
    """Return the health of a member.

    A member that drains is SUSPECT until it was well for recovery seconds.
    """
    signs = member.signs
    if signs.silent and signs.down:
        return base.DEAD
    if signs.silent or signs.down:
        return base.SUSPECT
    if member.state == base.DRAINING and signs.well_for < limits.recovery:
        return base.SUSPECT
    return base.HEALTHY


def has_drained(member: Member, limits: base.Limits) -> bool:
    """Tell whether a DRAINING member lost its connections, or its time."""
    return member.state == base.DRAINING and (
        member.age > limits.drain_timeout or member.connections == 0)


def find_surplus(cluster: base.Cluster, members: Sequence[Member],
                 limits: base.Limits) -> list[Member]:
    """Return the members with a slot that exceed the size of the cluster.

    The members that serve worst go first, then the highest slots.
    """
    there = [member for member in members if member.slot is not None]
    number = len(there) - cluster.size_now
    if number <= 0:
        return []
    return sorted(there, key=lambda member: (
        member.state == base.ACTIVE,
        get_health(member, limits) == base.HEALTHY, member.ordered is None,
        -(member.slot or 0)))[:number]


def find(cluster: base.Cluster, members: Sequence[Member],
         limits: base.Limits) -> list[Action]:
    """Return the urgent actions, in order.

    :param cluster: neither being created nor deleted.
    :returns: at most one Action for each member.
    """
    found = []
    if cluster.is_misdirected:
        found.append(Action(Kind.MOVE_VIP, reason='another distributor '
                            'sees members that the active one does not'))
    return found + _Planner(cluster, members, limits).plan()


class _Planner:
    """Goes through members, and counts how many stay ACTIVE."""

    def __init__(self, cluster: base.Cluster, members: Sequence[Member],
                 limits: base.Limits) -> None:
        self._cluster = cluster
        self._members = members
        self._limits = limits
        self._found: list[Action] = []
        self._surplus = {member.id for member in find_surplus(
            cluster, members, limits)}
        self._standbys = sorted(
            (member for member in members if member.state == base.STANDBY and
             member.slot is None and member.ordered is None and
             get_health(member, limits) == base.HEALTHY),
            key=lambda member: (-member.age, member.id))
        self._active = sum(
            member.slot is not None and member.state == base.ACTIVE and
            get_health(member, limits) != base.DEAD for member in members)
        # Members that drain for what may be overload: id, seconds.
        self._away = [
            (member.id, member.age) for member in members
            if member.slot is not None and member.state == base.DRAINING and
            member.ordered is None and member.id not in self._surplus and
            member.is_current and not member.signs.silent]
        # Whether a member could take over the connections of others.
        self._are_any_well = any(
            member.slot is not None and member.state == base.ACTIVE and
            member.ordered != base.DRAIN and member.id not in self._surplus
            and get_health(member, limits) == base.HEALTHY
            for member in members)

    def plan(self) -> list[Action]:
        for member in self._members:
            if (get_health(member, self._limits) == base.DEAD and
                    member.state in (base.ACTIVE, base.DRAINING,
                                     base.STANDBY)):
                self._unregister(member, f'{member.signs.silent}; '
                                         f'{member.signs.down}')
            elif member.state == base.FAILED and member.slot is not None:
                self._unregister(member, 'it has failed')
        for member in self._members:
            if member.slot is not None and member.state in (
                    base.ACTIVE, base.DRAINING):
                self._look(member)
        if (self._cluster.may_resize and
                self._cluster.size_now != self._cluster.desired_size):
            self._found.append(Action(
                Kind.RESIZE,
                reason=f'{self._cluster.size_now} to '
                       f'{self._cluster.desired_size} members'))
        self._fill()
        return self._found

    def _add(self, kind: Kind, member: Member, reason: str,
             other: Member | None = None) -> None:
        self._found.append(Action(
            kind, member.id, None if other is None else other.id, reason))

    def _unregister(self, member: Member, reason: str) -> None:
        if (member.slot is not None and self._standbys and
                member.id not in self._surplus):
            self._add(Kind.PROMOTE, self._standbys.pop(0), reason, member)
            self._active += 1
        else:
            self._add(Kind.UNREGISTER, member, reason)

    def _look(self, member: Member) -> None:
        """Drain or replace a member that should get no new connections."""
        reason = self._find_reason(member)
        if reason is None:
            if self._may_return(member):
                self._add(Kind.RETURN, member, 'it is well again, and has '
                          'missed nothing')
            return
        if member.id not in self._surplus and self._standbys:
            self._add(Kind.PROMOTE, self._standbys.pop(0), reason, member)
            self._active += member.state != base.ACTIVE
        elif (member.state == base.ACTIVE and
              self._active > self._cluster.min_size and
              # If all members have a sign, because of too much traffic or
              # because heartbeats are blocked, fewer serve no better.
              (self._are_any_well or
               get_health(member, self._limits) != base.SUSPECT) and
              not self._is_overload(member)):
            self._add(Kind.DRAIN, member, reason)
            self._active -= 1
            if member.signs.may_be_load:
                self._away.append((member.id, 0.0))

    def _is_overload(self, member: Member) -> bool:
        """Tell whether a member may just have the load of drained ones.

        Draining it would pass the load on, and so one member after the other
        would drain. A dead member stays silent for longer than steady.
        Members that die of one cause do so together, and are at most half of
        the cluster.
        """
        signs = member.signs
        if not signs.may_be_load or signs.since > self._limits.steady:
            return False
        others = [age for member_id, age in self._away
                  if member_id != member.id]
        slots = sum(each.slot is not None for each in self._members)
        return bool(others) and (
            2 * (len(others) + 1) > slots or
            max(others) - signs.since > _TOGETHER)

    def _may_return(self, member: Member) -> bool:
        """Tell whether a drained member serves again without a CONFIGURE.

        A worker may hold the load balancer for long: it changes it, has died
        with that, or builds other members.
        """
        if member.state != base.DRAINING or not member.is_current or (
                get_health(member, self._limits) != base.HEALTHY):
            return False
        # A worker that drains it for another reason has that time to go on.
        rest = min(member.signs.well_for, member.age) / self._limits.recovery
        return rest > (1 if self._cluster.load_balancer_status != base.ACTIVE
                       or self._cluster.status != base.ACTIVE
                       else _UNCLAIMED)

    def _find_reason(self, member: Member) -> str | None:
        health = get_health(member, self._limits)
        if health == base.SUSPECT:
            return member.signs.silent or member.signs.down or (
                'it was not well a moment ago')
        if health == base.DEAD:
            # plan() has unregistered it.
            return None
        if member.ordered == base.DRAIN:
            return 'an operator has ordered it'
        if member.id in self._surplus:
            return 'the cluster is to have fewer members'
        if (member.state == base.DRAINING and member.ordered is None and
                not member.is_current and
                member.age > _CONFIGURING * self._limits.recovery):
            return 'it does not take its configuration'
        return None

    def _fill(self) -> None:
        """Promote standbys into free slots."""
        there = sum(member.slot is not None for member in self._members)
        # A slot that is unregistered in this plan is free with the next one.
        for standby in self._standbys[:max(
                0, self._cluster.size_now - there)]:
            self._add(Kind.PROMOTE, standby, 'a slot is free')
