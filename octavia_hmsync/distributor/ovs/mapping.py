# SPDX-License-Identifier: Apache-2.0

"""Which member has which slot. Pure.

The hash of a connection chooses a slot, by rendezvous hashing: a slot that
goes moves only its own connections, a new one takes some from each of the
others. What a slot stands for is a list of targets: the member that
has it, or, where clients are to find a peer of a dead one, its peers.
"""

from collections import abc
import dataclasses
import typing

from octavia_hmsync.distributor import document as doc


class Target(typing.NamedTuple):
    """A member, by the number of its own slot and its MAC address."""

    slot: int
    mac: str


@dataclasses.dataclass(frozen=True)
class Mapping:
    """What each slot stands for.

    :param affinity: FLOW, the slot is that of a connection, or SOURCE_IP,
                     that of a client.
    :param slots: pairs of the number of a slot and its targets, in order;
                  none of one whose members are all dead.
    """

    affinity: str
    slots: tuple[tuple[int, tuple[Target, ...]], ...]

    @property
    def macs(self) -> set[str]:
        """The MAC addresses of all who can be chosen."""
        return {target.mac for _, targets in self.slots for target in targets}

    def to_json(self) -> dict[str, typing.Any]:
        """Return what from_json() takes."""
        return {'affinity': self.affinity, 'slots': [
            [number, [list(target) for target in targets]]
            for number, targets in self.slots]}

    @classmethod
    def from_json(cls, raw: abc.Mapping[str, typing.Any]) -> 'Mapping':
        """Return what to_json() was called on; raise ValueError and others."""
        return cls(str(raw['affinity']), tuple(
            (int(number), tuple(Target(int(slot), str(mac))
                                for slot, mac in targets))
            for number, targets in raw['slots']))


def of_document(document: doc.Document) -> Mapping:
    """Return who is to get new connections.

    :returns: a Mapping of ACTIVE members only. With affinity
              SOURCE_IP the slot of another one stands for the ACTIVE members
              of its peer group, who know its clients.
    """
    active = [member for member in document.members
              if member.state == doc.ACTIVE]
    slots = {}
    for member in document.members:
        if member.state == doc.ACTIVE:
            targets = [member]
        elif document.affinity == doc.SOURCE_IP:
            targets = [peer for peer in active
                       if peer.peer_group == member.peer_group]
        else:
            targets = []
        if targets:
            slots[member.slot] = tuple(
                Target(target.slot, typing.cast(str, target.mac))
                for target in sorted(targets, key=lambda one: one.slot))
    return Mapping(document.affinity, tuple(sorted(slots.items())))


def get_living(document: doc.Document) -> set[str]:
    """Return the MAC addresses of members that have or get connections."""
    return {typing.cast(str, member.mac) for member in document.members
            if member.state in (doc.ACTIVE, doc.DRAINING)}


def without_dead(mapping: Mapping, living: abc.Collection[str],
                 current: Mapping, stands_in: bool = True) -> Mapping:
    """Take out of a mapping who is dead since it was made.

    :param living: the MAC addresses of who is not dead.
    :param stands_in: whether a slot that lost all its targets stands for what
                      it does now, so that its connections move once only;
                      else it leads nowhere. A slot that is not there now
                      goes, and only its connections are spread.
    """
    now = dict(current.slots)
    slots = {}
    for number, targets in mapping.slots:
        left = tuple(target for target in targets if target.mac in living)
        if left or not targets or not stands_in:
            slots[number] = left
        elif number in now:
            slots[number] = now[number]
    return Mapping(mapping.affinity, tuple(sorted(slots.items())))
