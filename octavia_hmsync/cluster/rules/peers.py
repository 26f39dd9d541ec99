# SPDX-License-Identifier: Apache-2.0

"""Which members of a cluster share stick tables: pure rules.

Slots are in groups of two or three, by their number alone: who comes or goes
in another group changes nothing here. The configuration of a member is what
Octavia renders for one of a pair, with the amphorae of its group for the pair.
"""

from collections.abc import Iterable
import copy
import typing

from octavia_hmsync.cluster.db import member as member_repo

# What Octavia renders the section of peers for.
ACTIVE_STANDBY = 'ACTIVE_STANDBY'


class Slotted(typing.Protocol):
    """A member, as far as groups are concerned."""

    @property
    def amphora_id(self) -> str | None:
        """Of what it is; None until that is built."""

    @property
    def slot(self) -> int | None:
        """None for one that nothing is sent to."""


def get_group(slot: int, size: int) -> int:
    """Return the number of the group of a slot.

    :param slot: 0 or more.
    :param size: how many slots a group has.
    """
    return slot // size


def find_group(members: Iterable[Slotted], slot: int | None, size: int,
               amphora_id: str) -> frozenset[str]:
    """Return the ids of the amphorae that one shares stick tables with.

    The states of members are of no account: one that is silent for a while is
    found again.

    :param members: of its cluster.
    :param slot: its own, or the one that it is to have; None for one that
                 stands by: it is alone.
    :param size: how many slots a group has.
    :param amphora_id: its own; it takes the place of another one in its slot.
    :returns: with its own.
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
    """Return who knows the clients of a slot better than who has it.

    As long as one of them is there, clients are sent to them. Who came into
    the group after it is none: clients may have come to it until then.

    :param members: of its cluster.
    :param member: one of them.
    :returns: the ACTIVE ones of its group if it is ALONE, else nobody.
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
    """Make what Octavia renders the configuration of a member from.

    :param load_balancer: Octavia's data model of it, which stays as it is.
    :param amphora_ids: those that share stick tables.
    :returns: a copy; of what is in it, only the listeners know of that.
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
    """Make a copy of a listener that is one of such a copy's."""
    of_shown = copy.copy(listener)
    of_shown.load_balancer = shown
    return of_shown
