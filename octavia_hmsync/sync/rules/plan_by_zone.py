# SPDX-License-Identifier: Apache-2.0

"""Which list to publish where health managers have zones: pure rules, no I/O.

Each zone is planned by itself, by the rules of sync.rules.plan, because zones
differ in how many dead addresses they tolerate. The health managers without a
zone are planned as one more zone.
"""

from collections import abc
import dataclasses

from octavia_hmsync import addresses as addr
from octavia_hmsync.sync.rules import listening
from octavia_hmsync.sync.rules import plan
from octavia_hmsync.sync.rules import zones as zn


def decide(managers: listening.HealthManagers, last: tuple[str, ...] | None,
           suspects: abc.Iterable[str], good: tuple[str, ...] | None,
           zones: zn.Zones) -> plan.Decision:
    """Decide which list to publish, as plan.plan(), which has no zones."""
    if not zones:
        return plan.plan(managers, last, suspects, good)
    suspects = frozenset(suspects)
    known = managers.addresses.union(last or (), good or ())
    parts: dict[str | None, set[str]] = {None: set()}
    for address in known:
        parts.setdefault(zones.get(address), set()).add(address)
    decisions = {}
    lists: dict[str | None, tuple[str, ...]] = {}
    for zone in sorted(parts, key=lambda z: z or ''):
        published = _only(last, parts[zone])
        decision = plan.plan(
            managers.among(parts[zone]), published or None, suspects,
            _only(good, parts[zone]) or None)
        decisions[zone] = decision
        lists[zone] = (published if decision.addresses is None
                       else decision.addresses)
    _empty_drained(managers, lists, decisions)
    reasons = [_of_zone(d.reason, zone) for zone, d in decisions.items()
               if d.addresses is not None]
    for zone in [*_find_deserted(managers, lists),
                 *_find_left(managers, lists)]:
        if not all(map(managers.is_gone, lists[zone])):
            # Its addresses are away: its amphorae use others meanwhile.
            decisions[zone] = dataclasses.replace(decisions[zone], held=None)
            continue
        reasons.append(_of_zone(
            f'removed {addr.join_list(lists[zone])} (no health manager is '
            f'left)', zone))
        lists[zone] = ()
        decisions[zone] = dataclasses.replace(decisions[zone], held=None)
    return _combine(managers, last or (), lists, '; '.join(reasons),
                    _join_held(decisions))


def _empty_drained(managers: listening.HealthManagers,
                   lists: dict[str | None, tuple[str, ...]],
                   decisions: dict[str | None, plan.Decision]) -> None:
    """Let the last ones of a drained zone leave, too, if others listen.

    Only amphorae that reach all health managers send to them; while some are
    in networks of their own, that is not known.
    """
    if zn.find_networks(lists):
        return
    for zone, part in list(lists.items()):
        others = set().union(*(addresses for other, addresses in lists.items()
                               if other != zone))
        if _is_drained(managers, part) and any(map(managers.listens, others)):
            lists[zone] = ()
            decisions[zone] = plan.Decision(
                (), f'removed {addr.join_list(part)} (the zone is drained)')


def _is_drained(managers: listening.HealthManagers,
                part: tuple[str, ...]) -> bool:
    """Tell whether nothing is left in a zone but what has to leave with it."""
    members = [managers.member(a) for a in part]
    draining = {member.address for member in members
                if member is not None and member.is_zone_drained}
    return bool(draining) and not any(
        a in managers.pinned or a not in draining and managers.may_listen(a)
        for a in part)


def mark_away(managers: listening.HealthManagers, addresses: abc.Iterable[str],
              zones: zn.Zones, last: zn.Zones) -> dict[str, str]:
    """Mark the addresses of a list that are away.

    Those of a deserted zone, until one of its health managers has settled
    again. They stay in the list: amphorae that reach no other health manager
    are heard as soon as one is back.

    :returns: zone by address, without addresses that have no zone.
    """
    lists: dict[str | None, tuple[str, ...]] = {None: ()}
    for address in addresses:
        zone = zones.get(address)
        lists[zone] = (*lists.get(zone, ()), address)
    missed = set(_find_deserted(managers, lists))
    missed |= {zone for zone, part in lists.items()
               if zone and any(zn.is_away(last.get(a)) for a in part) and
               not any(_has_settled(managers, a) for a in part)}
    return {a: zn.away(zone) if zone in missed else zone
            for zone, part in lists.items() if zone for a in part}


def _has_settled(managers: listening.HealthManagers, address: str) -> bool:
    member = managers.member(address)
    return (member is not None and managers.listens(address) and
            member.online_for >= managers.settings.settle_time)


def _only(addresses: abc.Iterable[str] | None,
          part: abc.Container[str]) -> tuple[str, ...]:
    return tuple(a for a in addresses or () if a in part)


def _find_deserted(managers: listening.HealthManagers,
                   lists: abc.Mapping[str | None, tuple[str, ...]]
                   ) -> list[str]:
    """Find zones without health managers, if others can take over."""
    if not any(map(managers.listens, lists[None])):
        return []
    return [zone for zone, addresses in lists.items()
            if zone and addresses and not any(
                managers.may_listen(a) or a in managers.pinned
                for a in addresses)]


def _find_left(managers: listening.HealthManagers,
               lists: abc.Mapping[str | None, tuple[str, ...]]
               ) -> list[None]:
    """Find [None] if health managers have left for networks, and all of them.

    Amphorae may have moved there, or not: they would not be heard otherwise.
    """
    networks = {str(n) for n in zn.find_networks(lists)}
    is_left = (lists[None] and all(map(managers.is_gone, lists[None])) and
               any(managers.listens(a) for zone, part in lists.items()
                   if zone in networks for a in part))
    return [None] if is_left else []


def _combine(managers: listening.HealthManagers, last: tuple[str, ...],
             lists: abc.Mapping[str | None, tuple[str, ...]], reason: str,
             held: str | None) -> plan.Decision:
    target = set().union(*lists.values())
    removed = set(last) - target
    why = plan.why_implausible(managers, last, removed)
    if removed and why:
        # Few addresses of each zone can be most of the list.
        held = why
        target |= removed
        reason = 'added ' + addr.join_list(addr.canonical(target - set(last)))
    if target == set(last):
        return plan.Decision(held=held)
    return plan.Decision(addr.canonical(target), reason, held)


def _join_held(decisions: abc.Mapping[str | None, plan.Decision]
               ) -> str | None:
    held = {zone: d.held for zone, d in decisions.items() if d.held}
    if set(held.values()) <= {plan.SETTLING}:
        return plan.SETTLING if held else None
    return '; '.join(_of_zone(why, zone) for zone, why in held.items())


def _of_zone(text: str, zone: str | None) -> str:
    return f'{text} [zone {zone}]' if zone else text
