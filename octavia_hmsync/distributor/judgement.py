# SPDX-License-Identifier: Apache-2.0

"""What a distributor decides itself while no controller may reach it. Pure.

Controllers decide. While they are silent, a distributor sends no new
connections to a member that it sees DOWN, as long as it sees another one UP.
It also gives up a VIP that another distributor has announced.
"""

from collections import abc
import dataclasses

from octavia_hmsync.distributor import document as doc
from octavia_hmsync.distributor import probe_rules

# Seconds for which a member must be DOWN, and for which controllers must have
# been silent: a controller that has just spoken may know of the member.
DOWN_FOR, TOLD_FOR = 10, 60
# Seconds for which a recovered member must be UP.
UP_FOR = 30


@dataclasses.dataclass(frozen=True)
class Own:
    """The distributor's own decisions, until a newer version comes.

    :ivar version: of the document that they are for.
    :ivar has_left: whether another distributor answers for the VIP.
    :ivar left_out: ids of members that get no new connections.
    """

    version: int
    has_left: bool = False
    left_out: frozenset[str] = frozenset()


def adapt(document: doc.Document, own: Own | None) -> doc.Document:
    """Return the document to put in force.

    :param own: own decisions; they are ignored if for another version.
    """
    if own is None or own.version != document.version:
        return document
    return dataclasses.replace(
        document, active=document.active and not own.has_left,
        members=tuple(
            dataclasses.replace(member, state=doc.DRAINING)
            if member.id in own.left_out and member.state == doc.ACTIVE
            else member for member in document.members))


def choose_left_out(members: abc.Iterable[doc.Member],
                    states: abc.Mapping[str, tuple[str, float]],
                    before: abc.Collection[str], told_at: float,
                    now: float) -> frozenset[str]:
    """Return the ids of members that get no new connections.

    :param states: {id: (UP or DOWN, since when)}, of observed members.
    :param before: ids of the members that get none at present.
    :param told_at: when a controller last said something.
    :param now: seconds of the same clock.
    """
    active = [member.id for member in members if member.state == doc.ACTIVE]
    chosen = set()
    for member_id in active:
        state, since = states.get(member_id, (None, now))
        if member_id in before:
            if not (state == probe_rules.UP and now - since >= UP_FOR):
                chosen.add(member_id)
        elif (state == probe_rules.DOWN and now - since >= DOWN_FOR and
              (told_at < since or now - told_at >= TOLD_FOR)):
            chosen.add(member_id)
    if all(states.get(member_id, (None, 0))[0] != probe_rules.UP
           for member_id in active if member_id not in chosen):
        # It may be this distributor that is cut off from all members.
        return frozenset(before).intersection(active)
    return frozenset(chosen)
