# SPDX-License-Identifier: Apache-2.0

"""Which distributor of a cluster is active, and what follows an answer. Pure.

A row names the one active distributor. Distributors are told in an order in
which two of them do not answer ARP at once, where that is possible. If the
active one cannot be told, another one becomes active.
"""

from collections import abc
import dataclasses
import enum

from octavia_hmsync.cluster.db import distributor as distributor_repo
from octavia_hmsync.cluster.db import distributor_vip as vip_repo


class Answer(enum.Enum):
    """The result of telling a distributor a version."""

    # The version is in force.
    TOOK = 'TOOK'
    # It has a newer version, or this one with other content.
    NEWER = 'NEWER'
    # It rejected the content, and so would any other distributor.
    REJECTED = 'REJECTED'
    # It does not answer.
    LOST = 'LOST'
    # It was not told.
    SKIPPED = 'SKIPPED'


class Step(enum.Enum):
    """What comes next."""

    # The active one took it; housekeeping tells the others later.
    DONE = 'DONE'
    # Read the rows again; their version was not the newest.
    AGAIN = 'AGAIN'
    # Make another one active.
    MOVE = 'MOVE'
    # No distributor that could carry traffic has taken it.
    FAILED = 'FAILED'


@dataclasses.dataclass(frozen=True)
class Decision:
    """What comes next.

    :param version: AGAIN: in force at a distributor; the next version must
                    be higher.
    :param move_to: MOVE: the id of the distributor.
    """

    step: Step
    version: int = 0
    move_to: str | None = None


def choose_active(vips: abc.Sequence[vip_repo.VIP]) -> str | None:
    """Return the id of a distributor to make active first, or None."""
    usable = [vip for vip in vips if vip.port_id]
    active = [vip for vip in usable if vip.active]
    if active and active[0].status != distributor_repo.OFFLINE:
        return None
    # A distributor that was never asked is better than a silent one.
    others = sorted((vip for vip in usable if not vip.active),
                    key=lambda vip: (vip.status != distributor_repo.ONLINE,
                                     vip.distributor_id))
    if others and (not active or others[0].status == distributor_repo.ONLINE):
        return others[0].distributor_id
    return None


def order(vips: abc.Sequence[vip_repo.VIP],
          lost: abc.Collection[str] = ()) -> list[list[vip_repo.VIP]]:
    """Return the stages in which distributors are told.

    :param lost: ids of distributors that were LOST a moment ago.
    :returns: a list of stages; the VIPs of a stage are told at once.
    """
    usable = [vip for vip in vips if vip.port_id]
    # They may answer ARP, and must stop before the new one begins.
    leaving = [vip for vip in usable
               if vip.applied_active and not vip.active and
               vip.distributor_id not in lost]
    rest = [vip for vip in usable if vip not in leaving]
    # An OFFLINE standby is told when it is back.
    rest = [vip for vip in rest if vip.active or (
        vip.status != distributor_repo.OFFLINE and
        vip.distributor_id not in lost)]
    return [stage for stage in (leaving, rest) if stage]


def decide(version: int, vips: abc.Sequence[vip_repo.VIP],
           answers: abc.Mapping[str, Answer],
           newer: abc.Iterable[int] = (),
           lost: abc.Collection[str] = ()) -> Decision:
    """Return what follows the answers of distributors.

    :param vips: of the cluster, as they were told.
    :param answers: {id of the distributor: its Answer}; a missing one is
                    SKIPPED.
    :param newer: versions in force at distributors that answered NEWER.
    :param lost: ids of distributors that were LOST before, in the same call.
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
    # A distributor that took this version certainly lives.
    candidates.sort(key=lambda vip: (
        answers.get(vip.distributor_id) != Answer.TOOK,
        vip.status == distributor_repo.OFFLINE, vip.distributor_id))
    if candidates:
        return Decision(Step.MOVE, move_to=candidates[0].distributor_id)
    return Decision(Step.FAILED)
