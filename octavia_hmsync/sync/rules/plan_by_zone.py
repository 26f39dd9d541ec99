# SPDX-License-Identifier: Apache-2.0

"""Which list to publish where health managers have zones: pure rules, no I/O.

Each zone is planned for itself, by the rules of sync.rules.plan: what one zone
can bear, another one cannot. Health managers without a zone are planned like
one.
"""

from collections import abc
import dataclasses

from octavia_hmsync import addresses as addr
from octavia_hmsync.sync.rules import listening
from octavia_hmsync.sync.rules import plan
from octavia_hmsync.sync.rules import zones as zn


def decide(listeners: listening.Listeners, last: tuple[str, ...] | None,
           suspects: abc.Iterable[str], good: tuple[str, ...] | None,
           zones: zn.Zones) -> plan.Decision:
    """Decide which list to publish.

    :param listeners: as for plan.plan(); so are last, suspects and good.
    :param zones: zone by address, see zones.assign().
    :returns: a plan.Decision; without zones that of plan.plan().
    """
    if not zones:
        return plan.plan(listeners, last, suspects, good)
    suspects = frozenset(suspects)
    known = listeners.addresses.union(last or (), good or ())
    parts: dict[str | None, set[str]] = {None: set()}
    for address in known:
        parts.setdefault(zones.get(address), set()).add(address)
    decisions = {}
    lists: dict[str | None, tuple[str, ...]] = {}
    for zone in sorted(parts, key=lambda z: z or ''):
        published = _only(last, parts[zone])
        decision = plan.plan(
            listeners.among(parts[zone]), published or None, suspects,
            _only(good, parts[zone]) or None)
        decisions[zone] = decision
        lists[zone] = (published if decision.addresses is None
                       else decision.addresses)
    reasons = [_of_zone(d.reason, zone) for zone, d in decisions.items()
               if d.addresses is not None]
    for zone in _find_deserted(listeners, lists):
        if not all(map(listeners.is_gone, lists[zone])):
            # They are away, and its amphorae have others meanwhile.
            decisions[zone] = dataclasses.replace(decisions[zone], held=None)
            continue
        reasons.append(_of_zone(
            f'removed {addr.join_list(lists[zone])} (nobody is left)', zone))
        lists[zone] = ()
    return _combine(listeners, last or (), lists, '; '.join(reasons),
                    _join_held(decisions))


def mark_away(listeners: listening.Listeners, addresses: abc.Iterable[str],
              zones: zn.Zones, last: zn.Zones) -> dict[str, str]:
    """Tell of the addresses of a list which are away.

    Those of a zone at which nobody is left, where others can take over, until
    a health manager of it has settled again. Their place is kept: amphorae
    that reach nobody else are heard as soon as it is back.

    :param listeners: as for plan.plan().
    :param addresses: the list.
    :param zones: zone by address, see zones.assign().
    :param last: zone by address of the last list.
    :returns: zone by address, of those that have one.
    """
    lists: dict[str | None, tuple[str, ...]] = {None: ()}
    for address in addresses:
        zone = zones.get(address)
        lists[zone] = (*lists.get(zone, ()), address)
    missed = set(_find_deserted(listeners, lists))
    missed |= {zone for zone, part in lists.items()
               if zone and any(zn.is_away(last.get(a)) for a in part) and
               not any(_has_settled(listeners, a) for a in part)}
    return {a: zn.away(zone) if zone in missed else zone
            for zone, part in lists.items() if zone for a in part}


def _has_settled(listeners: listening.Listeners, address: str) -> bool:
    member = listeners.member(address)
    return (member is not None and listeners.listens(address) and
            member.online_for >= listeners.settings.settle_time)


def _only(addresses: abc.Iterable[str] | None,
          part: abc.Container[str]) -> tuple[str, ...]:
    return tuple(a for a in addresses or () if a in part)


def _find_deserted(listeners: listening.Listeners,
                   lists: abc.Mapping[str | None, tuple[str, ...]]
                   ) -> list[str]:
    """Find zones in which nobody is left, where others can take over."""
    if not any(map(listeners.listens, lists[None])):
        return []
    return [zone for zone, addresses in lists.items()
            if zone and addresses and not any(
                listeners.may_listen(a) or a in listeners.pinned
                for a in addresses)]


def _combine(listeners: listening.Listeners, last: tuple[str, ...],
             lists: abc.Mapping[str | None, tuple[str, ...]], reason: str,
             held: str | None) -> plan.Decision:
    target = set().union(*lists.values())
    removed = set(last) - target
    why = plan.why_implausible(listeners, last, removed)
    if removed and why:
        # What is little for each zone can be most of all.
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
