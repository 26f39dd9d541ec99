# SPDX-License-Identifier: Apache-2.0

"""Which controller_ip_port_list to publish: pure rules, no I/O.

Each step takes what is known and returns what to change. Removals that cannot
wait come first, as a decision of their own: a list that only loses addresses
goes to every amphora at once, but a list with new addresses goes on trial.
"""

from collections import abc
import dataclasses

from octavia_hmsync import addresses as addr
from octavia_hmsync.sync.rules import listening
from octavia_hmsync.sync.rules import member as mem
from octavia_hmsync.sync.rules import timing

# Health managers that start one after the other must not delay the publication
# for ever, nor for long if too few others listen: at most so many settle_time.
_LONGEST_SETTLE = 10
_LONGEST_URGENT_SETTLE = 3
# Generations in CALM_PERIOD after which new addresses wait longer.
_UNHURRIED = 3
# Seconds.
CALM_PERIOD = 60
# Why a change is held each time that a health manager joins.
SETTLING = 'waiting for new health managers to settle'
# Members below which a removal of most of them is plausible.
_SHRINKAGE_MIN = 3


def calm(settings: timing.Settings, recent: int) -> timing.Settings:
    """Return settings with a longer settle_time if the list changes often.

    A health manager that comes and goes every few seconds, each time at
    another address, must not cause an upload to the fleet each time. Each
    recent generation adds one settle_time: with settle_time = 2 one such
    health manager causes at most 9 generations in a minute.
    """
    factor = max(1, recent - _UNHURRIED + 2)
    return dataclasses.replace(settings,
                               settle_time=settings.settle_time * factor)


@dataclasses.dataclass(frozen=True)
class Decision:
    """What to do now; held: why a change that is due is not made, or None."""

    addresses: tuple[str, ...] | None = None
    reason: str = ''
    held: str | None = None


@dataclasses.dataclass(frozen=True)
class _Change:
    """What is to be added to a list, and removed from it."""

    before: frozenset[str]
    added: frozenset[str] = frozenset()
    removed: frozenset[str] = frozenset()

    @property
    def target(self) -> tuple[str, ...]:
        return addr.canonical((self.before | self.added) - self.removed)

    def __bool__(self) -> bool:
        return bool(self.added or self.removed)


def plan(managers: listening.HealthManagers, last: tuple[str, ...] | None,
         suspects: abc.Iterable[str] = (),
         good: tuple[str, ...] | None = None) -> Decision:
    """Decide which list to publish.

    :param managers: who listens where; pinned addresses are always
                      published.
    :param suspects: addresses that a roll back found at fault: they are not
                     added again as long as others listen.
    :param good: the list of the amphorae that are not on trial, if it differs
                 from the last.
    """
    has = good or last or ()
    too_few = _find_too_few(managers, has)
    if too_few:
        change = _Change(frozenset(has), removed=too_few)
        if (_why_implausible(managers, change) is None and
                change.target != last):
            return Decision(change.target, _describe(change, is_urgent=True))
    return _decide(managers, frozenset(last or ()),
                   _find_new(managers, last or (), frozenset(suspects)),
                   is_urgent=_cannot_wait(managers, has))


def for_key(decision: Decision, last: tuple[str, ...],
            is_key_new: bool) -> Decision:
    """Publish the last list again if nothing but its key changes."""
    return again(decision, last, 'for another heartbeat_key' if is_key_new
                 else '')


def again(decision: Decision, last: tuple[str, ...],
          reason: str) -> Decision:
    """Publish the last list again if what goes with it changes (reason)."""
    if not reason or decision.held and decision.addresses is None:
        return decision
    parts = filter(None, (decision.reason, reason))
    return dataclasses.replace(
        decision, addresses=decision.addresses or last,
        reason=', '.join(parts))


def _find_too_few(managers: listening.HealthManagers,
                  addresses: tuple[str, ...]) -> frozenset[str]:
    """Find dead ones to remove before removal_delay, if others are left."""
    unheard = listening.find_unheard(addresses, managers.may_listen)
    if not unheard or len(unheard) == len(addresses):
        return frozenset()
    if listening.published_level(addresses, unheard, managers.settings) is (
            listening.Level.FINE):
        return frozenset()
    return unheard - managers.pinned


def _cannot_wait(managers: listening.HealthManagers,
                 addresses: tuple[str, ...]) -> bool:
    """Tell whether too few listen now for a new address to settle."""
    unheard = listening.find_unheard(addresses, managers.listens)
    return bool(unheard) and listening.published_level(
        addresses, unheard, managers.settings) > listening.Level.FINE


def _find_new(managers: listening.HealthManagers, last: abc.Collection[str],
              suspects: frozenset[str]) -> frozenset[str]:
    """Find the addresses to publish that are not published yet."""
    published = frozenset(last)
    alive = {a for a in managers.addresses if managers.has_key(a) and
             managers.state(a) is mem.State.ALIVE}
    new = frozenset(alive | managers.wanted) - published
    if not published or any(map(managers.may_listen,
                                published | new - suspects)):
        return new - suspects
    return new


def _decide(managers: listening.HealthManagers, published: frozenset[str],
            new: frozenset[str], is_urgent: bool) -> Decision:
    """Decide which addresses to add and remove without urgency."""
    leaving = _find_leaving(managers, published)
    draining = frozenset(
        a for a in leaving if managers.listens(a) or
        not managers.has_key(a))
    held = None
    if _is_settling(managers, new - managers.pinned, is_urgent):
        # Removals wait, too, so that a move is one change; but an operator
        # asked for a drain.
        new &= managers.pinned
        leaving = draining
        held = SETTLING
    if not any(map(managers.listens, published)):
        # No health manager hears amphorae meanwhile: do not wait.
        leaving |= listening.find_unheard(published - managers.pinned,
                                          managers.may_listen)
    leaving |= _find_replaced(managers, published, new, leaving)
    change = _Change(published, new, leaving)
    too_few = _find_too_few(managers, change.target)
    if too_few:
        # Added and removed addresses can put dead ones next to each other.
        change = _Change(published, removed=leaving | too_few & published)
        is_urgent = True
    if not any(map(managers.may_listen, change.target)):
        change = dataclasses.replace(change, removed=frozenset())
        if published:
            held = ('no health manager is alive: the last list stays as it '
                    'is')
    elif _why_implausible(managers, change):
        held = _why_implausible(managers, change)
        change = _Change(published, added=new)
    if not change:
        return Decision(held=held)
    return Decision(change.target, _describe(change, is_urgent), held)


def _find_leaving(managers: listening.HealthManagers,
                  published: frozenset[str]) -> frozenset[str]:
    """Find the addresses to remove."""
    return frozenset(a for a in published - managers.pinned if
                     managers.state(a) is mem.State.DRAINING or
                     not managers.has_key(a) or managers.is_gone(a) or
                     _is_overdue(managers, a))


def _is_overdue(managers: listening.HealthManagers, address: str) -> bool:
    return (not managers.may_listen(address) and
            managers.gone_for(address) >= managers.settings.removal_delay)


def _is_settling(managers: listening.HealthManagers, added: frozenset[str],
                 is_urgent: bool) -> bool:
    waited = [member.online_for for member in map(managers.member, added)
              if member is not None]
    settle_time = managers.settings.settle_time
    longest = _LONGEST_URGENT_SETTLE if is_urgent else _LONGEST_SETTLE
    if not waited or max(waited) >= longest * settle_time:
        return False
    return min(waited) < settle_time


def _find_replaced(managers: listening.HealthManagers,
                   published: frozenset[str],
                   added: frozenset[str], removed: frozenset[str]
                   ) -> frozenset[str]:
    """Find dead addresses that new addresses replace early.

    If amphorae have subsets, one change that replaces an address concerns half
    as many of them as a removal and an addition.
    """
    if len(published) <= managers.settings.max_list_length:
        return frozenset()
    dead = addr.canonical(
        a for a in published - removed - managers.pinned
        if managers.state(a) is mem.State.DEAD)
    return frozenset(dead[:max(0, len(added) - len(removed))])


def _why_implausible(managers: listening.HealthManagers,
                     change: _Change) -> str | None:
    """Tell why it is implausible that so many left at once, or None."""
    unpinned = change.before - managers.pinned
    if (len(change.before) < _SHRINKAGE_MIN or
            2 * len(change.removed) <= len(unpinned) or
            any(_is_proven_alive(managers, a) for a in change.target)):
        return None
    return (f'{len(change.removed)} of {len(unpinned)} health managers would '
            f'leave at once, and none of those left has given a fresh sign '
            f'of life')


def _is_proven_alive(managers: listening.HealthManagers, address: str) -> bool:
    """Tell whether a keepalive is younger than half of offline_after."""
    member = managers.member(address)
    return (member is not None and managers.has_key(address) and
            managers.state(address) is mem.State.ALIVE and
            member.keepalive_age <= managers.settings.offline_after / 2)


def why_implausible(managers: listening.HealthManagers,
                    before: abc.Iterable[str],
                    removed: abc.Iterable[str]) -> str | None:
    """Tell why it is implausible that so many left at once, or None."""
    return _why_implausible(managers, _Change(
        frozenset(before), removed=frozenset(removed)))


def _describe(change: _Change, is_urgent: bool) -> str:
    parts = []
    if change.added:
        parts.append('added ' + addr.join_list(addr.canonical(change.added)))
    if change.removed:
        parts.append('removed ' + addr.join_list(
            addr.canonical(change.removed)))
    reason = '; '.join(parts)
    if is_urgent:
        reason += ' (too few published addresses are alive to wait)'
    return reason
