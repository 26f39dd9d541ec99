# SPDX-License-Identifier: Apache-2.0

"""Which members of a cluster share stick tables: pure rules.

Groups of two or three slots follow from the slot numbers alone: a member that
comes or goes changes its own group only. Octavia renders the configuration of
a member as for an ACTIVE_STANDBY pair, with the amphorae of its group.
"""

from collections.abc import Iterable
import copy
import typing

from octavia_hmsync.cluster.db import member as member_repo

# The topology for which Octavia renders a peers section.
ACTIVE_STANDBY = 'ACTIVE_STANDBY'


class Slotted(typing.Protocol):
    """The part of a member that matters for groups."""

    @property
    def amphora_id(self) -> str | None:
        """None until it is built."""

    @property
    def slot(self) -> int | None:
        """None if it gets no connections."""


def get_group(slot: int, size: int) -> int:
    """Return the number of the group of a slot, which counts from 0."""
    return slot // size


def find_group(members: Iterable[Slotted], slot: int | None, size: int,
               amphora_id: str) -> frozenset[str]:
    """Return the ids of the amphorae that share stick tables with one.

    The states of members do not count: a silent member may come back.

    :param slot: the slot that it has or is to have; None for a standby, which
                 is alone.
    :param amphora_id: its own; it replaces the amphora in its slot.
    :returns: including its own.
    """
    if slot is None:
        return frozenset((amphora_id,))
    group = get_group(slot, size)
    return frozenset((amphora_id, *(
        member.amphora_id for member in members
        if member.amphora_id is not None and member.slot is not None and
        member.slot != slot and get_group(member.slot, size) == group)))


def find_teachers(members: Iterable[member_repo.Member],
                  member: member_repo.Member) -> list[member_repo.Member]:
    """Return the members that know the clients of a slot better.

    As long as there is one, clients are sent to it. A member that came into
    the group later is none: clients may have come to this one before.

    :returns: the ACTIVE members of its group if it is ALONE, else none.
    """
    if member.config_digest != member_repo.ALONE or member.slot is None:
        return []
    return [other for other in members
            if other.id != member.id and other.slot is not None and
            other.peer_group == member.peer_group and
            other.state == member_repo.ACTIVE and
            other.config_digest != member_repo.ALONE and
            other.updated_at <= member.updated_at]


def show(load_balancer: typing.Any,
         amphora_ids: frozenset[str]) -> typing.Any:
    """Return the load balancer as Octavia renders it for a member.

    :param load_balancer: Octavia's data model of it, which is not changed.
    :param amphora_ids: of the amphorae that share stick tables.
    :returns: a copy; of its children only the listeners refer to the copy.
    """
    shown = copy.copy(load_balancer)
    shown.topology = ACTIVE_STANDBY
    shown.amphorae = sorted(
        (copy.copy(amphora) for amphora in load_balancer.amphorae
         if amphora.id in amphora_ids), key=lambda amphora: amphora.id)
    shown.listeners = []
    for listener in load_balancer.listeners:
        shown.listeners.append(show_listener(listener, shown))
    return shown


def show_listener(listener: typing.Any, shown: typing.Any) -> typing.Any:
    """Return a copy of a listener that belongs to a copy of show()."""
    of_shown = copy.copy(listener)
    of_shown.load_balancer = shown
    return of_shown
