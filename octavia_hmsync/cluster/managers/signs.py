# SPDX-License-Identifier: Apache-2.0

"""Signs against members, from what observers see: rules. No I/O.

Distributors probe the front ends of members; health managers hear
heartbeats. A front end is down if the active distributor sees it down and is
not to blame itself: it sees another member up, or another distributor sees
the same member down, or there is no other distributor and the member is
silent, too. Probes of a distributor that does not answer do not count, nor
silence while no health manager runs. If no distributor sees any member but
heartbeats arrive, something such as a security group blocks the probes: then
a silent member is silent, but its front end is not taken to be down.
"""

from collections.abc import Collection, Iterable
import dataclasses
import math

from octavia_hmsync.cluster.managers import base

UP = 'UP'
DOWN = 'DOWN'

_UNPROBED = 'no distributor can probe it'
# Seconds for which two distributors see a member differently before the VIP
# moves while the active one still reaches members. It limits how often a
# member that answers each distributor in turn can move the VIP.
_LONG_ENOUGH = 30.0
# Seconds after its death for which a member counts as heard, at most: health
# managers wait for heartbeats so long.
_STILL_HEARD = 120.0
# Seconds for which a VIP stays after a move, at most; and seconds of quiet
# after which the next move counts as new trouble.
_LONGEST_HOLD = 960.0
_QUIET = 600.0


@dataclasses.dataclass(frozen=True)
class Probe:
    """What an observer sees of a member.

    :param observer: the id of a distributor; None for health managers.
    :param state: UP or DOWN.
    :param age: seconds since it changed.
    :param is_active: whether the observer is the active distributor.
    :param is_online: whether the observer answers or runs.
    :param error: what is wrong, or None.
    :param is_mute: whether all that is wrong is that no answer came.
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
    """The last time that another distributor became active.

    A distributor may see no members because it carries too much traffic. The
    next one would be as blind a moment later, so the VIP is held after a
    move.

    :param age: seconds since then.
    :param hold: seconds for which no probe moves the VIP again.
    """

    age: float
    hold: float

    @property
    def holds(self) -> bool:
        """Tell whether the VIP stays, whatever distributors see."""
        return self.age < self.hold


def choose_hold(last: Move | None) -> float:
    """Return for how many seconds a VIP that moves now stays there.

    :param last: the move before, or None.
    """
    if last is None or last.age > last.hold + _QUIET:
        return _LONG_ENOUGH
    return min(max(2 * last.hold, _LONG_ENOUGH), _LONGEST_HOLD)


def read(probes: Iterable[Probe],
         patience: float = math.inf) -> dict[str, base.Signs]:
    """Return the signs against members.

    :param probes: of members of one cluster.
    :param patience: seconds after which silence counts as both signs;
                     infinite where distributors probe members.
    :returns: {id of a member: Signs}, of the members with a probe.
    """
    counted = [probe for probe in probes if probe.is_online]
    return {member_id: _read_one(member_id, counted, patience)
            for member_id in {probe.member_id for probe in counted}}


def _read_one(member_id: str, probes: list[Probe],
              patience: float) -> base.Signs:
    own = [probe for probe in probes if probe.member_id == member_id]
    silent = [probe for probe in own
              if probe.observer is None and probe.state == DOWN]
    down = [probe for probe in own
            if probe.observer is not None and probe.is_active and
            probe.state == DOWN and _is_credible(probe, probes)]
    well = [probe.age for probe in own if probe.state == UP and
            (probe.is_active or probe.observer is None)]
    unprobed = any(probe.age > patience for probe in silent)
    return base.Signs(
        silent=_describe(silent, 'no heartbeat arrives'),
        down=(_describe(down, 'its front end does not answer') or
              (_UNPROBED if unprobed else None)),
        well_for=min(well, default=math.inf),
        since=max((probe.age for probe in (*silent, *down)), default=0.0),
        may_be_load=bool(down) and not silent and all(
            probe.is_mute for probe in down))


def _is_credible(probe: Probe, probes: list[Probe]) -> bool:
    fronts = [other for other in probes if other.observer is not None]
    if any(other.observer == probe.observer and other.state == UP
           for other in fronts):
        return True
    if are_blind(probes) and (probe.age > _STILL_HEARD or any(
            other.member_id == probe.member_id and other.observer is None and
            other.state == DOWN for other in probes)):
        return False
    # Without another distributor heartbeats bear witness: they take another
    # way.
    witnesses = [other for other in fronts
                 if other.observer != probe.observer] or [
                     other for other in probes if other.observer is None]
    return any(other.member_id == probe.member_id and other.state == DOWN
               for other in witnesses)


def are_blind(probes: Iterable[Probe]) -> bool:
    """Tell whether no distributor sees a member, but heartbeats arrive."""
    counted = [probe for probe in probes if probe.is_online]
    probed = {probe.member_id: probe for probe in counted
              if probe.observer is not None}
    return bool(probed) and not any(
        probe.state == UP for probe in counted
        if probe.observer is not None) and any(
            probe.member_id in probed and probe.state == UP
            for probe in counted if probe.observer is None)


def spare(members: Iterable[base.Member], held: Collection[str],
          min_size: int) -> list[base.Member]:
    """Have silence alone speak against members on held hosts.

    So they get no connections, and are not replaced. That is only while
    min_size others serve.

    :param held: ids of members on a held host.
    """
    known = list(members)
    serving = sum(member.slot is not None and member.state == base.ACTIVE and
                  not (member.signs.silent or member.signs.down)
                  for member in known)
    if serving < max(1, min_size):
        return known
    return [dataclasses.replace(member, signs=dataclasses.replace(
        member.signs, silent=f'{member.signs.silent}, and its host is held',
        down=None, since=0.0))
        if member.id in held and member.signs.silent else member
        for member in known]


def _describe(found: list[Probe], default: str) -> str | None:
    # Several reasons become one line.
    return (found[0].error or default).rstrip('.') if found else None


def find_better(probes: Iterable[Probe],
                last: Move | None = None) -> str | None:
    """Return the distributor that should be active instead, or None.

    Connections of a member that the active distributor does not reach go on
    through the other one.

    :returns: the observer that sees UP a member that the active one sees
              DOWN. If the active one sees other members UP, the observer has
              to see them UP, too, and to differ from it for 30 s.
    """
    if last is not None and last.holds:
        return None
    fronts = [probe for probe in probes
              if probe.is_online and probe.observer is not None]
    here = [probe for probe in fronts if probe.is_active]
    down = {probe.member_id: probe.age for probe in here
            if probe.state == DOWN}
    needed = {probe.member_id for probe in here if probe.state == UP}
    for observer in sorted({str(probe.observer) for probe in fronts
                            if not probe.is_active}):
        up = {probe.member_id: probe.age for probe in fronts
              if probe.observer == observer and probe.state == UP}
        gained = [min(down[member_id], up[member_id])
                  for member_id in down.keys() & up.keys()]
        if gained and (not needed or needed <= up.keys() and
                       max(gained) > _LONG_ENOUGH):
            return observer
    return None
