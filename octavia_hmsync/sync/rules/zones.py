# SPDX-License-Identifier: Apache-2.0

"""Which of the published addresses amphorae of a zone can reach. Pure rules.

A health manager may have a zone: then only amphorae of that zone reach it. One
without is reached by all. Amphorae have a zone where their availability zone
has a management network of its own.

An amphora gets the addresses of its zone; where there are none, those without
a zone; and where there are none of these either, all, as nothing is known.
Where nobody is left at the addresses of its zone for now, they are *away*: it
gets those without a zone beside them, and is heard wherever it is heard first.
"""

from collections import abc
import typing

from octavia_hmsync import addresses as addr
from octavia_hmsync.sync.rules import member as mem
from octavia_hmsync.sync.rules import subset

# Zone by address; an address without one is not in it, or has None.
Zones = abc.Mapping[str, str | None]
# What the zone of an amphora is called; empty for one without.
Names = frozenset[str]
NOWHERE: Names = frozenset()
# Added to the zone of an address that is away, which to an earlier release is
# a zone without amphorae.
_AWAY = ' (away)'

T = typing.TypeVar('T')


def away(zone: str) -> str:
    """Return how the zone of an address is written that is away."""
    return home(zone) + _AWAY


def is_away(zone: str | None) -> bool:
    """Tell whether an address with that zone is away."""
    return bool(zone and zone.endswith(_AWAY))


def home(zone: str) -> str:
    """Return the name of a zone, whether its addresses are away or not."""
    return zone.removesuffix(_AWAY)


def reachable(addresses: abc.Iterable[str], zones: Zones,
              names: Names) -> tuple[str, ...]:
    """Return the addresses that an amphora's list is made of.

    :param addresses: a published list, in order.
    :param zones: zone by address.
    :param names: what the zone of the amphora is called.
    :returns: some of the addresses, in order; never none of them.
    """
    addresses = tuple(addresses)
    if not zones:
        return addresses
    own = tuple(a for a in addresses if zones.get(a) in names)
    if own:
        return own
    gone = _find_away(addresses, zones, names)
    others = {a for a in addresses if zones.get(a) is None}
    return tuple(a for a in addresses
                 if a in gone or a in others) or addresses


def _find_away(addresses: abc.Iterable[str], zones: Zones,
               names: Names) -> set[str]:
    found = ((a, zones.get(a)) for a in addresses)
    return {a for a, zone in found if zone and is_away(zone) and
            home(zone) in names}


def slots_of(slots: abc.Mapping[str, int], zones: Zones,
             names: Names) -> abc.Mapping[str, int]:
    """Return the slots of what is reachable().

    :param slots: slot by published address, see subset.assign_slots().
    :param zones: zone by address.
    :param names: what the zone of the amphora is called.
    """
    if not zones:
        return slots
    return {a: slots[a] for a in reachable(slots, zones, names)}


def part(key: str, slots: abc.Mapping[str, int], zones: Zones, names: Names,
         length: int) -> tuple[str, ...]:
    """Choose the addresses for one amphora.

    Of those that are away it keeps some, as none is left where a list has no
    other; they are no more than half, which a gap can bear.

    :param key: the amphora's id.
    :param slots: slot by published address, see subset.assign_slots().
    :param zones: zone by address.
    :param names: what the zone of the amphora is called.
    :param length: how many it may get, see subset.max_list_length().
    :returns: as subset.subset().
    """
    reached = slots_of(slots, zones, names)
    gone = addr.canonical(_find_away(reached, zones, names))
    if not gone or len(gone) == len(reached):
        return subset.subset(key, reached, length)
    kept = gone[:length // 2]
    return addr.canonical((*kept, *subset.subset(
        key, {a: slot for a, slot in reached.items() if a not in gone},
        length - len(kept))))


def views(*lists: Zones) -> list[Names]:
    """Return the zones that amphorae may have which lists tell apart.

    :param lists: zone by address, of each list.
    """
    named = {home(zone) for zones in lists for zone in zones.values() if zone}
    return [NOWHERE, *(frozenset({zone}) for zone in sorted(named))]


def find_fresh(old: abc.Collection[str], old_zones: Zones,
               new: abc.Collection[str], new_zones: Zones) -> set[str]:
    """Find the addresses of a list that are new to amphorae of any zone.

    :param old: the list that amphorae have, empty if that is not known.
    :param old_zones: zone by address of it.
    :param new: the new list.
    :param new_zones: zone by address of it.
    """
    return set().union(*(
        find_fresh_in(old, old_zones, new, new_zones, names)
        for names in views(old_zones, new_zones)))


def find_fresh_in(old: abc.Collection[str], old_zones: Zones,
                  new: abc.Collection[str], new_zones: Zones,
                  names: Names) -> set[str]:
    """Find the addresses of a list that are new to amphorae of one zone.

    Where an amphora loses addresses because of the zones that they have now,
    all that is left counts as new: with a zone at the wrong health manager it
    was never heard there.

    :param old: as for find_fresh(); so are the other lists and zones.
    :param names: what the zone is called.
    """
    before = set(reachable(old, old_zones, names))
    after = set(reachable(new, new_zones, names))
    kept = [a for a in new if a in old]
    if before <= after or (reachable(kept, old_zones, names) ==
                           reachable(kept, new_zones, names)):
        return after - before
    return after


def assign(addresses: abc.Iterable[str], members: abc.Iterable[mem.Member],
           last: Zones, kept: abc.Container[str] = ()) -> dict[str, str]:
    """Tell which zone each address is in.

    :param addresses: published ones, and others.
    :param members: all registered health managers, a list of Member.
    :param last: zone by address of the last list: it tells of those that are
                 gone.
    :param kept: addresses of the last list that stay where they were: a roll
                 back found fault with them, and that they changed their zone
                 may be what was wrong.
    :returns: zone by address, of those that have one.
    """
    now: dict[str, str | None] = {m.address: m.zone for m in members}
    found = {a: last.get(a) if a in kept or a not in now else now[a]
             for a in addresses}
    return {a: home(zone) for a, zone in of_list(found, found).items()}


def describe_change(before: Zones, now: Zones) -> str:
    """Say for people why a list is published for its zones alone.

    :param before: zone by address.
    :param now: likewise.
    :returns: nothing if they are the same.
    """
    if before == now:
        return ''
    for address, zone in sorted(now.items()):
        was_away = is_away(before.get(address))
        if zone and is_away(zone) and not was_away:
            return (f'for nobody is left in zone {home(zone)}, whose amphorae '
                    f'get those without a zone, too')
        if was_away and not is_away(zone):
            return f'for zone {zone} is back'
    return 'for other zones of its addresses'


def of_list(zones: Zones, addresses: abc.Iterable[str]) -> dict[str, str]:
    """Return the zones of the addresses of a list, of those that have one."""
    found = {a: zones.get(a) for a in addresses}
    return {address: zone for address, zone in found.items() if zone}
