# SPDX-License-Identifier: Apache-2.0

"""Which distributor of a cluster is active, and what follows an answer. Pure.

There is one active distributor by plan, a row. It is told to others in the
order in which never two of them answer ARP where that can be had, and
another one becomes it when it cannot be told anything.
"""

from collections import abc
import dataclasses
import enum

from octavia_hmsync.cluster.db import distributor as distributor_repo
from octavia_hmsync.cluster.db import distributor_vip as vip_repo


class Answer(enum.Enum):
    """What came of telling a distributor something."""

    # It is in force.
    TOOK = 'TOOK'
    # It has a newer version, or this one with other content.
    NEWER = 'NEWER'
    # It takes it for wrong, and so would any other one.
    REJECTED = 'REJECTED'
    # Nobody can tell it anything now.
    LOST = 'LOST'
    # It was not asked.
    SKIPPED = 'SKIPPED'


class Step(enum.Enum):
    """What comes next."""

    # All is well; who did not take it is told later.
    DONE = 'DONE'
    # Rows are read anew; their version was not the newest.
    AGAIN = 'AGAIN'
    # Another one becomes the active one.
    MOVE = 'MOVE'
    # Nobody who could carry traffic has taken it.
    FAILED = 'FAILED'


@dataclasses.dataclass(frozen=True)
class Decision:
    """What comes next, and with what.

    :param step: a Step.
    :param version: for AGAIN: what a distributor has in force; the next one
                    has to be higher.
    :param move_to: for MOVE: id of the distributor.
    """

    step: Step
    version: int = 0
    move_to: str | None = None


def choose_active(vips: abc.Sequence[vip_repo.VIP]) -> str | None:
    """Return who is to be asked to be the active one, before anybody is.

    :param vips: those of the cluster.
    :returns: id of the distributor that becomes it; None if that which is it
              stays so.
    """
    usable = [vip for vip in vips if vip.port_id]
    active = [vip for vip in usable if vip.active]
    if active and active[0].status != distributor_repo.OFFLINE:
        return None
    # One that nobody has asked yet is better than one that did not answer.
    others = sorted((vip for vip in usable if not vip.active),
                    key=lambda vip: (vip.status != distributor_repo.ONLINE,
                                     vip.distributor_id))
    if others and (not active or others[0].status == distributor_repo.ONLINE):
        return others[0].distributor_id
    return None


def order(vips: abc.Sequence[vip_repo.VIP],
          lost: abc.Collection[str] = ()) -> list[list[vip_repo.VIP]]:
    """Return who is told when: all of a list at once, then the next one.

    :param vips: those of the cluster.
    :param lost: ids of distributors that could not be told a moment ago.
    """
    usable = [vip for vip in vips if vip.port_id]
    # They may answer ARP, and are to leave that to the new one.
    leaving = [vip for vip in usable
               if vip.applied_active and not vip.active and
               vip.distributor_id not in lost]
    rest = [vip for vip in usable if vip not in leaving]
    # One that is down is told when it is back, unless it is needed.
    rest = [vip for vip in rest if vip.active or (
        vip.status != distributor_repo.OFFLINE and
        vip.distributor_id not in lost)]
    return [stage for stage in (leaving, rest) if stage]


def decide(version: int, vips: abc.Sequence[vip_repo.VIP],
           answers: abc.Mapping[str, Answer],
           newer: abc.Iterable[int] = (),
           lost: abc.Collection[str] = ()) -> Decision:
    """Return what follows the answers of distributors.

    :param version: that of the cluster of which they were told.
    :param vips: those of the cluster, as they were told.
    :param answers: {id of the distributor: its Answer}; who is not in it was
                    SKIPPED.
    :param newer: what those have in force whose answer was NEWER.
    :param lost: ids of those that were LOST before, in the same call.
    """
    highest = max(newer, default=0)
    if highest:
        return Decision(Step.AGAIN, version=max(highest, version))
    active = next((vip for vip in vips if vip.active and vip.port_id), None)
    if active is not None:
        answer = answers.get(active.distributor_id, Answer.SKIPPED)
        if answer == Answer.TOOK:
            return Decision(Step.DONE)
        if answer == Answer.REJECTED:
            return Decision(Step.FAILED)
    candidates = [
        vip for vip in vips
        if vip.port_id and not vip.active and
        vip.distributor_id not in lost and
        answers.get(vip.distributor_id, Answer.SKIPPED) in (
            Answer.TOOK, Answer.SKIPPED)]
    # Whoever took this is sure to be there.
    candidates.sort(key=lambda vip: (
        answers.get(vip.distributor_id) != Answer.TOOK,
        vip.status == distributor_repo.OFFLINE, vip.distributor_id))
    if candidates:
        return Decision(Step.MOVE, move_to=candidates[0].distributor_id)
    return Decision(Step.FAILED)
