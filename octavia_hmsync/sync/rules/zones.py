# SPDX-License-Identifier: Apache-2.0

"""Which of the published addresses amphorae of a zone can reach. Pure rules.

A health manager may have a zone: then only amphorae of that zone reach it. All
amphorae reach a health manager without a zone. An amphora has a zone if its
availability zone has a management network of its own.

An amphora gets the addresses of its zone. If there are none, it gets the
addresses without a zone, and without these, all. The addresses of a zone are
*away* while none of its health managers listens: its amphorae then get the
addresses without a zone in addition, and are heard at the first that answers.

A network is a zone, too, while health managers have a further address in it,
named by its CIDR. All addresses in the network are of that zone, and all
amphorae with an address there.
"""

from collections import abc
import ipaddress
import itertools
import typing

from octavia_hmsync import addresses as addr
from octavia_hmsync.sync.rules import member as mem
from octavia_hmsync.sync.rules import subset

# Zone by address; an address without a zone is missing or has None.
Zones = abc.Mapping[str, str | None]
# Names of the zone of an amphora; empty for an amphora without a zone.
Names = frozenset[str]
NOWHERE: Names = frozenset()
# Added to the zone of an address that is away.
_AWAY = ' (away)'

T = typing.TypeVar('T')


def away(zone: str) -> str:
    """Return the zone to write for an address that is away."""
    return home(zone) + _AWAY


def is_away(zone: str | None) -> bool:
    """Tell whether an address with that zone is away."""
    return bool(zone and zone.endswith(_AWAY))


def home(zone: str) -> str:
    """Return the name of a zone, whether its addresses are away or not."""
    return zone.removesuffix(_AWAY)


def find_networks(names: abc.Iterable[str | None]) -> list[addr.IPNetwork]:
    """Return the zones that are networks, the smallest first."""
    found = set()
    for name in filter(None, names):
        try:
            found.add(ipaddress.ip_network(home(name)))
        except ValueError:
            # An availability zone.
            continue
    return sorted(found, key=lambda n: (-n.prefixlen, str(n)))


def network_of(ip: addr.IPAddress,
               networks: abc.Iterable[addr.IPNetwork]) -> str | None:
    """Return the first network that an address lies in, None if in none."""
    return next((str(n) for n in networks if ip in n), None)


def reachable(addresses: abc.Iterable[str], zones: Zones,
              names: Names) -> tuple[str, ...]:
    """Return the addresses, never none, that an amphora can reach."""
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
    """Return the slots of what is reachable()."""
    if not zones:
        return slots
    return {a: slots[a] for a in reachable(slots, zones, names)}


def part(key: str, slots: abc.Mapping[str, int], zones: Zones, names: Names,
         length: int) -> tuple[str, ...]:
    """Choose the addresses for one amphora, as subset.subset()."""
    reached = slots_of(slots, zones, names)
    gone = addr.canonical(_find_away(reached, zones, names))
    if not gone or len(gone) == len(reached):
        return subset.subset(key, reached, length)
    # Addresses that are away keep a place, for when they are back; with half
    # of them dead the gap stays below the timeout.
    kept = gone[:length // 2]
    return addr.canonical((*kept, *subset.subset(
        key, {a: slot for a, slot in reached.items() if a not in gone},
        length - len(kept))))


def boot_part(key: str, slots: abc.Mapping[str, int], zones: Zones,
              length: int) -> tuple[str, ...]:
    """Choose addresses for new amphorae, whose address is not known yet.

    Those without a zone; while there are networks, those of each network in
    turn with them, so that every second or so is heard.
    """
    views = [NOWHERE, *(frozenset({str(n)}) for n in
                        find_networks(zones.values()))]
    if len(views) == 1:
        return subset.subset(key, slots_of(slots, zones, NOWHERE), length)
    parts = [subset.subset(key, slots_of(slots, zones, names),
                           max(1, length // len(views))) for names in views]
    return tuple(dict.fromkeys(a for turn in itertools.zip_longest(*parts)
                               for a in turn if a))


def views(*lists: Zones) -> list[Names]:
    """Return the zones for which lists' zones differ, and NOWHERE."""
    named = {home(zone) for zones in lists for zone in zones.values() if zone}
    return [NOWHERE, *(frozenset({zone}) for zone in sorted(named))]


def find_fresh(old: abc.Collection[str], old_zones: Zones,
               new: abc.Collection[str], new_zones: Zones) -> set[str]:
    """Find addresses new to amphorae of any zone; old may be empty."""
    return set().union(*(
        find_fresh_in(old, old_zones, new, new_zones, names)
        for names in views(old_zones, new_zones)))


def find_fresh_in(old: abc.Collection[str], old_zones: Zones,
                  new: abc.Collection[str], new_zones: Zones,
                  names: Names) -> set[str]:
    """Find addresses that are new in one zone, as find_fresh()."""
    before = set(reachable(old, old_zones, names))
    after = set(reachable(new, new_zones, names))
    kept = [a for a in new if a in old]
    if before <= after or (reachable(kept, old_zones, names) ==
                           reachable(kept, new_zones, names)):
        return after - before
    # Amphorae lose addresses because zones changed: test all that is left,
    # because a health manager may have the wrong zone.
    return after


def assign(addresses: abc.Iterable[str], members: abc.Collection[mem.Member],
           last: Zones, kept: abc.Container[str] = ()) -> dict[str, str]:
    """Tell which zone each address is in.

    :param last: zone by address of the last list: the zones of health
                 managers that are gone.
    :param kept: addresses that keep the zone of the last list: a roll back
                 found them at fault, perhaps because their zone changed.
    :returns: without addresses that have no zone.
    """
    now: dict[str, str | None] = {m.address: m.zone for m in members}
    networks = find_networks(m.zone for m in members if m.is_further)
    found = {a: last.get(a) if a in kept or a not in now else now[a]
             for a in addresses}
    if networks:
        found.update({a: network for a in found if (network := network_of(
            addr.parse_address(a)[0], networks))})
    return {a: home(zone) for a, zone in of_list(found, found).items()}


def describe_change(before: Zones, now: Zones) -> str:
    """Say why a list is published for its zones alone, '' if not."""
    if before == now:
        return ''
    for address, zone in sorted(now.items()):
        was_away = is_away(before.get(address))
        if zone and is_away(zone) and not was_away:
            return (f'because no health manager is left in zone '
                    f'{home(zone)}: its amphorae also get the addresses '
                    f'without a zone')
        if was_away and not is_away(zone):
            return f'because zone {zone} is back'
    return 'because zones of its addresses changed'


def of_list(zones: Zones, addresses: abc.Iterable[str]) -> dict[str, str]:
    """Return zone by address of a list, without addresses that have none."""
    found = {a: zones.get(a) for a in addresses}
    return {address: zone for address, zone in found.items() if zone}
