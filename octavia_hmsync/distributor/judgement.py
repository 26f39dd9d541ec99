# SPDX-License-Identifier: Apache-2.0

"""What a distributor does by itself, as no controller may reach it. Pure.

Controllers decide. Where none of them says anything new, a distributor sends
nothing new to a member that it sees DOWN, as long as it sees another one UP;
and it answers for a VIP no more that another distributor has announced.
"""

from collections import abc
import dataclasses

from octavia_hmsync.distributor import document as doc
from octavia_hmsync.distributor import look_rules

# Seconds for which a member has to be DOWN, and for which nothing is to be
# said after a controller has, which may know that it is.
DOWN_FOR, TOLD_FOR = 10, 60
# Seconds for which one has to be UP that comes back so.
UP_FOR = 30


@dataclasses.dataclass(frozen=True)
class Own:
    """What is done by itself, until a newer version comes.

    :ivar version: that of the document for which it holds.
    :ivar has_left: whether another distributor answers for the VIP.
    :ivar left_out: ids of members that get nothing new.
    """

    version: int
    has_left: bool = False
    left_out: frozenset[str] = frozenset()


def adapt(document: doc.Document, own: Own | None) -> doc.Document:
    """Return what is to be in force.

    :param document: what a controller has said.
    :param own: what is done by itself; of another version it is nothing.
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
    """Return who gets nothing new.

    :param members: those of the document.
    :param states: {id: (UP or DOWN, since when)}, of those that are seen.
    :param before: ids of who gets nothing new by now.
    :param told_at: when a controller has said something last.
    :param now: seconds of the same clock.
    """
    active = [member.id for member in members if member.state == doc.ACTIVE]
    chosen = set()
    for member_id in active:
        state, since = states.get(member_id, (None, now))
        if member_id in before:
            if not (state == look_rules.UP and now - since >= UP_FOR):
                chosen.add(member_id)
        elif (state == look_rules.DOWN and now - since >= DOWN_FOR and
              (told_at < since or now - told_at >= TOLD_FOR)):
            chosen.add(member_id)
    if all(states.get(member_id, (None, 0))[0] != look_rules.UP
           for member_id in active if member_id not in chosen):
        # It may be this distributor that reaches nobody.
        return frozenset(before).intersection(active)
    return frozenset(chosen)
