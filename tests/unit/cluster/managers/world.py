# SPDX-License-Identifier: Apache-2.0

"""A small world in which a manager of clusters has its way.

Members die, front ends fail, heartbeats get lost, those who look are away,
operators order things; what is decided is done, or fails. After each step it
is checked what must hold whatever happens.
"""

import dataclasses
import itertools
import math

from octavia_hmsync.cluster.managers import base
from octavia_hmsync.cluster.managers import signs

Kind = base.Kind
LIMITS = base.Limits(drain_timeout=300)
COOLDOWN = 60


@dataclasses.dataclass
class Amphora:
    """A member, and what is true of it."""

    id: str
    slot: int | None
    state: str
    since: float
    ordered: str | None = None
    is_configured: bool = True
    is_heard: bool = True
    answers: bool = True


class World:
    """One cluster.

    :param manager: a ClusterManager.
    :param desired, minimum, standby: its sizes.
    """

    def __init__(self, manager, desired, minimum, standby):
        self.manager = manager
        self.now = 0.0
        self.desired = self.size = desired
        self.minimum = minimum
        self.standby = standby
        self.resized_at = -math.inf
        self.lb_status = 'ACTIVE'
        self.active = 'd1'
        self.moved: tuple[float, float] | None = None
        self.away: set[str] = set()
        # {(id, observer): (state, since)}
        self.probes: dict[tuple[str, str | None], tuple[str, float]] = {}
        self._ids = (f'm{n:03}' for n in itertools.count())
        self.members = [self._make(slot, 'ACTIVE') for slot in range(desired)]
        self.actions: list[base.Action] = []
        self.look()

    def _make(self, slot, state):
        return Amphora(next(self._ids), slot, state, self.now)

    # What the manager is told

    def look(self):
        """Have those who look write down what they see."""
        for amphora in self.members:
            fronts = amphora.answers and amphora.state != 'BUILDING'
            for who, is_up in (('d1', fronts), ('d2', fronts),
                               (None, amphora.is_heard)):
                if who in self.away or str(who) in self.away:
                    continue
                if who and (amphora.slot is None and
                            amphora.state != 'DRAINING'):
                    # Distributors are not told of it.
                    self.probes.pop((amphora.id, who), None)
                    continue
                state = 'UP' if is_up else 'DOWN'
                before = self.probes.get((amphora.id, who))
                if before is None or before[0] != state:
                    self.probes[amphora.id, who] = state, self.now
        there = {amphora.id for amphora in self.members}
        self.probes = {key: value for key, value in self.probes.items()
                       if key[0] in there}

    def last_move(self):
        return self.moved and signs.Move(self.now - self.moved[0],
                                         self.moved[1])

    def describe(self):
        seen = [signs.Probe(
            member_id, who, state, self.now - since, who == self.active,
            str(who) not in self.away)
            for (member_id, who), (state, since) in self.probes.items()]
        found = signs.read(seen)
        cluster = base.Cluster(
            'ACTIVE', self.lb_status, self.desired, self.minimum,
            size=self.size, standby=self.standby,
            may_resize=self.now - self.resized_at >= COOLDOWN or
            self.size < self.minimum,
            is_misdirected=signs.find_better(
                seen, self.last_move()) is not None)
        return cluster, [base.Member(
            each.id, each.slot, each.state, self.now - each.since,
            ordered=each.ordered, is_configured=each.is_configured,
            signs=found.get(each.id, base.NO_SIGNS),
            is_current=each.is_configured)
            for each in self.members]

    def decide(self):
        return self.manager.decide(*self.describe(), LIMITS)

    def get_status(self):
        return self.manager.get_status(*self.describe(), LIMITS)

    # What becomes of what it decides

    def find(self, member_id):
        return next((each for each in self.members if each.id == member_id),
                    None)

    def count_active(self):
        return sum(each.slot is not None and each.state == 'ACTIVE'
                   for each in self.members)

    def act(self, is_done=True):
        """Do the first thing that is to be done.

        :param is_done: whether it can be done.
        :returns: the Action, or None.
        """
        actions = self.decide()
        if not actions:
            return None
        action = actions[0]
        before = self.count_active()
        dead = {each.id for each in self.describe()[1]
                if each.signs.silent and each.signs.down}
        self.actions.append(action)
        self._do(action, is_done)
        self._check(action, before, dead)
        self.look()
        return action

    def _set(self, member, **values):
        for name, value in values.items():
            setattr(member, name, value)
        member.since = self.now

    def _do(self, action, is_done):
        member, other = self.find(action.member_id), self.find(
            action.other_id)
        match action.kind:
            case Kind.MOVE_VIP:
                self.moved = self.now, signs.choose_hold(self.last_move())
                self.active = {'d1': 'd2', 'd2': 'd1'}[self.active]
            case Kind.UNREGISTER:
                self._set(member, state='FAILED', slot=None)
            case Kind.PROMOTE:
                slot = (self._free() if other is None else other.slot)
                assert member.state == 'STANDBY' and slot is not None
                if other is not None:
                    self._set(other, slot=None, state=(
                        'FAILED' if other.state == 'FAILED' or 'both' in
                        self._signs_of(other) else 'DRAINING'))
                self._set(member, slot=slot, state='ACTIVE',
                          is_configured=False)
            case Kind.DRAIN:
                assert member.state == 'ACTIVE'
                self._set(member, state='DRAINING')
            case Kind.RETURN:
                assert member.state == 'DRAINING' and member.is_configured
                assert member.slot is not None and not member.ordered
                self._set(member, state='ACTIVE')
            case Kind.RESIZE:
                self.size, self.resized_at = self.desired, self.now
            case Kind.REMOVE if is_done:
                assert member.state != 'ACTIVE'
                self.members.remove(member)
            case Kind.REMOVE:
                self._set(member, state='FAILED', slot=None)
            case Kind.REPLACE if is_done:
                new = self._make(member.slot, 'ACTIVE')
                self._set(member, slot=None, state='DRAINING',
                          ordered='REPLACE')
                self.members.append(new)
            case Kind.CONFIGURE if is_done:
                self._set(member, state='ACTIVE', is_configured=True)
            case Kind.ADD if is_done:
                self.members.append(self._make(self._free(), 'ACTIVE'))
            case Kind.STAND_BY:
                assert member.slot is None
                self._set(member, state='STANDBY' if is_done else 'FAILED')
            case Kind.BUILD_STANDBY if is_done:
                self.members.append(self._make(None, 'STANDBY'))

    def _signs_of(self, amphora):
        found = next(each.signs for each in self.describe()[1]
                     if each.id == amphora.id)
        return {'both'} if found.silent and found.down else set()

    def _free(self):
        taken = {each.slot for each in self.members}
        return next(slot for slot in range(self.size) if slot not in taken)

    def _check(self, action, before, dead):
        slots = [each.slot for each in self.members if each.slot is not None]
        assert len(slots) == len(set(slots)), slots
        now = self.count_active()
        lost = action.other_id or action.member_id
        if now < before and lost not in dead:
            assert now >= self.minimum, (action, now)
        if action.kind is Kind.UNREGISTER:
            was = self.find(action.member_id)
            assert lost in dead or was.state == 'FAILED', action

    # How it ends

    def settle(self):
        """Let it come to rest.

        :returns: how many things were done until then.
        """
        done = 0
        quiet = 0
        while quiet < 20:
            self.look()
            if self.act() is None:
                quiet += 1
                self.now += 60
            else:
                quiet = 0
                done += 1
                self.now += 1
                assert done < 200, self.actions[-12:]
        return done
