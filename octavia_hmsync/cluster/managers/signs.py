# SPDX-License-Identifier: Apache-2.0

"""What speaks against members, out of what somebody sees: rules. No I/O.

A front end is down if the distributor that the traffic passes sees it so, and
is not to blame itself: it sees another member, or another distributor sees
the same, or there is no other one and the member is silent, too. A distributor
that does not answer says nothing, nor do health managers of which none is
there. Where no distributor sees any member, and some member is heard, looks
are rather not admitted, as by a security group: then who is silent is that
alone.
"""

from collections.abc import Iterable
import dataclasses
import math

from octavia_hmsync.cluster.managers import base

UP = 'UP'
DOWN = 'DOWN'

_UNSEEN = 'no distributor can look at it'
# Seconds for which two distributors see a member differently before traffic
# moves that most members get: no more often can one have it move that answers
# each of them in turn.
_LONG_ENOUGH = 30.0
# Seconds for which members that have died are heard, at most: heartbeats are
# waited for.
_STILL_HEARD = 120.0
# Seconds for which a VIP stays where it has gone, at most; and after which a
# move is not taken for one more of the same trouble.
_LONGEST_HOLD = 960.0
_QUIET = 600.0


@dataclasses.dataclass(frozen=True)
class Sight:
    """What somebody sees of a member.

    :param member_id: of which.
    :param observer: who: the id of a distributor; None for health managers.
    :param state: UP or DOWN.
    :param age: seconds since when.
    :param is_active: whether that is the cluster's active distributor.
    :param is_online: whether the observer is there.
    :param error: what is wrong, or None.
    :param is_mute: whether that is merely that nothing is heard.
    """

    member_id: str
    observer: str | None
    state: str
    age: float
    is_active: bool = False
    is_online: bool = True
    error: str | None = None
    is_mute: bool = True


@dataclasses.dataclass(frozen=True)
class Move:
    """The last time that another distributor became the active one.

    Who carries the traffic may be who does not see members, because it
    carries the traffic: then so is the other one a moment later.

    :param age: seconds since then.
    :param hold: seconds for which no sight moves it again.
    """

    age: float
    hold: float

    @property
    def holds(self) -> bool:
        """Tell whether the VIP stays where it is, whatever is seen."""
        return self.age < self.hold


def choose_hold(last: Move | None) -> float:
    """Return the seconds for which a VIP that moves now is to stay there.

    :param last: the move before, if there was one.
    """
    if last is None or last.age > last.hold + _QUIET:
        return _LONG_ENOUGH
    return min(max(2 * last.hold, _LONG_ENOUGH), _LONGEST_HOLD)


def read(sights: Iterable[Sight],
         patience: float = math.inf) -> dict[str, base.Signs]:
    """Tell what speaks against members.

    :param sights: of members of one cluster.
    :param patience: seconds after which silence is both signs; where
                     distributors look at members, it never is.
    :returns: {id of a member: Signs}, of those that somebody sees.
    """
    counted = [sight for sight in sights if sight.is_online]
    return {member_id: _read_one(member_id, counted, patience)
            for member_id in {sight.member_id for sight in counted}}


def _read_one(member_id: str, sights: list[Sight],
              patience: float) -> base.Signs:
    own = [sight for sight in sights if sight.member_id == member_id]
    silent = [sight for sight in own
              if sight.observer is None and sight.state == DOWN]
    down = [sight for sight in own
            if sight.observer is not None and sight.is_active and
            sight.state == DOWN and _is_credible(sight, sights)]
    well = [sight.age for sight in own if sight.state == UP and
            (sight.is_active or sight.observer is None)]
    unseen = any(sight.age > patience for sight in silent)
    return base.Signs(
        silent=_describe(silent, 'no heartbeat arrives'),
        down=(_describe(down, 'its front end does not answer') or
              (_UNSEEN if unseen else None)),
        well_for=min(well, default=math.inf),
        since=max((sight.age for sight in (*silent, *down)), default=0.0),
        may_be_load=bool(down) and not silent and all(
            sight.is_mute for sight in down))


def _is_credible(sight: Sight, sights: list[Sight]) -> bool:
    fronts = [other for other in sights if other.observer is not None]
    if any(other.observer == sight.observer and other.state == UP
           for other in fronts):
        return True
    if are_blind(sights) and (sight.age > _STILL_HEARD or any(
            other.member_id == sight.member_id and other.observer is None and
            other.state == DOWN for other in sights)):
        return False
    # Where nobody else looks: heartbeats, which take another way.
    witnesses = [other for other in fronts
                 if other.observer != sight.observer] or [
                     other for other in sights if other.observer is None]
    return any(other.member_id == sight.member_id and other.state == DOWN
               for other in witnesses)


def are_blind(sights: Iterable[Sight]) -> bool:
    """Tell whether nobody sees any member, some of which are heard.

    :param sights: of members of one cluster.
    """
    counted = [sight for sight in sights if sight.is_online]
    seen = {sight.member_id: sight for sight in counted
            if sight.observer is not None}
    return bool(seen) and not any(
        sight.state == UP for sight in counted
        if sight.observer is not None) and any(
            sight.member_id in seen and sight.state == UP
            for sight in counted if sight.observer is None)


def _describe(found: list[Sight], default: str) -> str | None:
    # Several reasons become one line.
    return (found[0].error or default).rstrip('.') if found else None


def find_better(sights: Iterable[Sight],
                last: Move | None = None) -> str | None:
    """Tell by which distributor the traffic of a cluster should go instead.

    Connections of a member that the active one does not reach go on by one
    that does.

    :param sights: of members of it.
    :param last: when the VIP moved last, if it ever did.
    :returns: an observer, or None: one that sees some UP of those that the
              active one sees DOWN, if that sees none UP; or if all that it
              sees UP are UP there, too, and that has been so for long enough.
    """
    if last is not None and last.holds:
        return None
    fronts = [sight for sight in sights
              if sight.is_online and sight.observer is not None]
    here = [sight for sight in fronts if sight.is_active]
    down = {sight.member_id: sight.age for sight in here
            if sight.state == DOWN}
    needed = {sight.member_id for sight in here if sight.state == UP}
    for observer in sorted({str(sight.observer) for sight in fronts
                            if not sight.is_active}):
        up = {sight.member_id: sight.age for sight in fronts
              if sight.observer == observer and sight.state == UP}
        gained = [min(down[member_id], up[member_id])
                  for member_id in down.keys() & up.keys()]
        if gained and (not needed or needed <= up.keys() and
                       max(gained) > _LONG_ENOUGH):
            return observer
    return None
