# SPDX-License-Identifier: Apache-2.0

"""What a health manager is to the membership, and whether it is alive."""

from collections import abc
import dataclasses
import enum
import math

ONLINE = 'ONLINE'
DRAINING = 'DRAINING'
OFFLINE = 'OFFLINE'


# Seconds by which the clocks of database nodes may differ.
CLOCKS_APART = 2


class State(enum.Enum):
    """How a member counts; see state_of()."""

    ALIVE = 'ALIVE'
    # Silent, but the database was out of reach, or its clock jumped.
    UNKNOWN = 'UNKNOWN'
    DRAINING = 'DRAINING'
    DEAD = 'DEAD'


@dataclasses.dataclass(frozen=True)
class Member:
    """A registered health manager, all ages taken by the database's clock.

    :param address: where it listens for heartbeats, as in
                    controller_ip_port_list.
    :param status: what it said last: ONLINE, DRAINING or OFFLINE.
    :param online_for: seconds since it became ONLINE at this address.
    :param is_heard: whether any heartbeat has arrived there since, at any
                     of its addresses, None if it does not report that.
    :param zone: only amphorae of this zone reach it, None for all; see
                 sync.rules.zones.
    :param is_further: whether this is not its own address, but a further
                       address in the network ``zone``, for the amphorae
                       there. Each such address is a Member.
    :param starting_age: seconds since its new process, which does not listen
                         yet, wrote a keepalive; None if there is none.
    :param restart_took: seconds from its last goodbye until it listened
                         again, or None.
    :param is_zone_drained: whether it is DRAINING because its zone is drained.
    :param late_age: seconds since Octavia last ignored heartbeats there, as
                     they had waited for too long; None if it never did.
    """

    host: str
    address: str
    status: str
    keepalive_age: float
    online_for: float
    is_heard: bool | None = None
    announced: str | None = None
    key_digest: str | None = None
    zone: str | None = None
    starting_age: float | None = None
    restart_took: float | None = None
    late_age: float | None = None
    is_zone_drained: bool = False
    is_further: bool = False


def is_silent(keepalive_age: float, offline_after: float) -> bool:
    """Tell whether a keepalive is too old; this is the only definition."""
    return keepalive_age > offline_after


def state_of(member: Member, offline_after: float, reader_steady_for: float,
             clock_steady_for: float = math.inf) -> State:
    """Tell how a member counts.

    :param reader_steady_for: seconds for which the caller has read the
                              database without a gap. After a gap all
                              keepalives look old, because no service could
                              write one.
    :param clock_steady_for: seconds for which the database's clock has not
                             jumped. The age of an earlier keepalive is not
                             known.
    """
    if member.status == OFFLINE:
        return State.DEAD
    is_steady = reader_steady_for > offline_after
    if is_silent(member.keepalive_age, offline_after):
        return State.DEAD if is_steady else State.UNKNOWN
    # Without a jump, a keepalive from the future is of a database node whose
    # clock is ahead.
    if clock_steady_for <= offline_after and not (
            -CLOCKS_APART <= member.keepalive_age <= clock_steady_for):
        return State.UNKNOWN
    return State.DRAINING if member.status == DRAINING else State.ALIVE


def effective_status(status: str, keepalive_age: float,
                     offline_after: float) -> str:
    """Return the status to show: OFFLINE if silent, else what it said."""
    return OFFLINE if is_silent(keepalive_age, offline_after) else status


def is_overloaded(member: Member, within: float) -> bool:
    """Tell whether Octavia ignored heartbeats there within some seconds."""
    return member.late_age is not None and member.late_age < within


def is_listening(member: Member, offline_after: float) -> bool:
    """Tell whether heartbeats to a member arrive, as far as is known."""
    return state_of(member, offline_after, float('inf')) in (
        State.ALIVE, State.DRAINING)


def keep_some(members: abc.Sequence[Member],
              state_of_member: abc.Callable[[Member], State]) -> list[Member]:
    """Let the health managers of drained zones stay while no other is alive.

    :returns: the Members, of which those are ONLINE that have to stay.
    """
    if any(state_of_member(m) in (State.ALIVE, State.UNKNOWN)
           for m in members):
        return list(members)
    return [dataclasses.replace(m, status=ONLINE, is_zone_drained=False)
            if m.is_zone_drained else m for m in members]
