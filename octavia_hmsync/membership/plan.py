#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""Which controller_ip_port_list to publish: pure rules, no I/O."""

from collections import abc
import dataclasses
import math

from octavia_hmsync.membership import addresses as addr
from octavia_hmsync.membership import member as mem
from octavia_hmsync.membership import timing

# A stream of health managers that start one after the other must not put
# off the publication for ever.
_LONGEST_SETTLE = 10
# Generations in CALM_PERIOD before further ones have to wait for longer.
_UNHURRIED = 3
# Seconds.
CALM_PERIOD = 60
# Why a change is held each time that a health manager joins.
SETTLING = 'waiting for new health managers to settle'
# 'Most members at once' means something only where there are a few.
_SHRINKAGE_MIN = 3


Settings = timing.Settings


def calm(settings: Settings, recent: int) -> Settings:
    """Have new addresses wait for longer where the list changes all the time.

    A health manager that comes and goes every few seconds, each time at
    another address, must not have the fleet uploaded to as often. With each
    generation it waits for settle_time longer: with settle_time = 2 one such
    health manager makes no more than 9 in a minute.

    :param settings: Settings.
    :param recent: generations that were published in the last CALM_PERIOD.
    :returns: Settings.
    """
    factor = max(1, recent - _UNHURRIED + 2)
    return dataclasses.replace(settings,
                               settle_time=settings.settle_time * factor)


@dataclasses.dataclass(frozen=True)
class Decision:
    """What to do now.

    :param addresses: the list to publish, or None for nothing.
    :param reason: why it is published, for people.
    :param held: why a change that would be due is not made, or None.
    """

    addresses: tuple[str, ...] | None = None
    reason: str = ''
    held: str | None = None


def heartbeat_gap(published: abc.Sequence[str], dead: abc.Container[str],
                  settings: Settings) -> float:
    """Return the longest time between two heartbeats that are heard.

    An amphora sends to its addresses in turn, so d dead ones in a row leave
    d intervals without a listener.

    :param published: the published list, in order.
    :param dead: those of its addresses at which nobody listens.
    :param settings: Settings.
    :returns: seconds, for the worst placed amphora; infinite where it has no
              living address at all.
    """
    length = settings.max_list_length
    if len(published) <= length:
        return list_gap(published, dead, settings.heartbeat_interval)
    # Each amphora has a subset, and some have the worst one.
    longest = sum(address in dead for address in published)
    if longest >= length:
        return math.inf
    return (longest + 1) * settings.heartbeat_interval


def list_gap(addresses: abc.Sequence[str], dead: abc.Container[str],
             heartbeat_interval: float) -> float:
    """Return the longest time between two heartbeats of one amphora.

    :param addresses: the list that it has, in order.
    :param dead: those of them at which nobody listens.
    :param heartbeat_interval: seconds.
    :returns: seconds; infinite if nobody listens at any.
    """
    longest, run = 0, 0
    # Twice round, as the sender goes round.
    for address in (*addresses, *addresses):
        run = run + 1 if address in dead else 0
        longest = max(longest, run)
    if longest >= len(addresses):
        return math.inf
    return (longest + 1) * heartbeat_interval


def is_near_timeout(gap: float, settings: Settings) -> bool:
    """Tell whether a heartbeat gap leaves too little before the timeout.

    One lost datagram doubles a gap; from half of heartbeat_timeout on it
    would make a false failover.
    """
    return 2 * gap > settings.heartbeat_timeout


class _View:
    """Members, pins and the last list, sorted by how they count."""

    def __init__(self, members: abc.Iterable[mem.Member],
                 pinned: abc.Iterable[str], last: tuple[str, ...] | None,
                 settings: Settings, reader_steady_for: float) -> None:
        self.settings = settings
        self.published: tuple[str, ...] = last or ()
        self.pinned = set(pinned)
        self.members = {m.address: m for m in members}
        self.states = {
            m.address: mem.state_of(m, settings.offline_after,
                                    reader_steady_for) for m in members}

    def state(self, address: str) -> mem.State | None:
        """Return the state of an address, None if no member holds it."""
        return self.states.get(address)

    def alive(self) -> set[str]:
        return {a for a, s in self.states.items() if s is mem.State.ALIVE}

    def may_hear(self, address: str) -> bool:
        """Tell whether somebody may listen at an address."""
        state = self.state(address)
        if state is None:
            # A pinned health manager need not have the plugin yet.
            return address in self.pinned
        return state is not mem.State.DEAD

    def is_gone(self, address: str) -> bool:
        """Tell whether no member holds an address any more.

        Its host has registered at another one, or its row was deleted.
        """
        return self.state(address) is None and address not in self.pinned

    def is_overdue(self, address: str) -> bool:
        return (self.state(address) is mem.State.DEAD and
                self.members[address].keepalive_age >=
                self.settings.removal_delay)

    def is_proven_alive(self, address: str) -> bool:
        """Tell whether a member gave a sign of life quite lately."""
        return (self.state(address) is mem.State.ALIVE and
                self.members[address].keepalive_age <=
                self.settings.offline_after / 2)


def _is_settling(view: _View, added: set[str]) -> bool:
    waited = [view.members[a].online_for for a in added if a in view.members]
    if not waited or max(waited) >= (
            _LONGEST_SETTLE * view.settings.settle_time):
        return False
    return min(waited) < view.settings.settle_time


def _describe(added: set[str], removed: set[str]) -> str:
    parts = []
    if added:
        parts.append('added ' + addr.join_list(addr.canonical(added)))
    if removed:
        parts.append('removed ' + addr.join_list(addr.canonical(removed)))
    return '; '.join(parts)


def plan(members: abc.Iterable[mem.Member], pinned: abc.Iterable[str],
         last: tuple[str, ...] | None, settings: Settings,
         reader_steady_for: float = math.inf,
         suspects: abc.Iterable[str] = ()) -> Decision:
    """Decide which list to publish.

    :param members: all registered health managers, a list of Member.
    :param pinned: well-formed addresses that configuration files list; they
                   are always published.
    :param last: the newest published list, a tuple, or None.
    :param settings: Settings.
    :param reader_steady_for: seconds for which the members have been read
                              without a gap, see member.state_of().
    :param suspects: addresses that a roll back found fault with: they are
                     not added again as long as there are others.
    :returns: a Decision.
    """
    view = _View(members, pinned, last, settings, reader_steady_for)
    published = set(view.published)
    unpinned = published - view.pinned
    unheard = {a for a in published if not view.may_hear(a)} - view.pinned
    urgent = _is_urgent(view, view.published)

    added = (view.alive() | view.pinned) - published
    others = published | added - set(suspects)
    if not published or any(view.may_hear(a) for a in others):
        added -= set(suspects)
    draining = {a for a in unpinned
                if view.state(a) is mem.State.DRAINING}
    removed = draining | {
        a for a in unpinned if view.is_gone(a) or view.is_overdue(a) or
        (urgent and a in unheard)}
    held = None
    if not urgent and _is_settling(view, added - view.pinned):
        # What leaves waits too, so that a move is one change; a drain was
        # asked for.
        added &= view.pinned
        removed = draining
        held = SETTLING
    removed |= _replaced(view, added, removed)
    if _is_urgent(view, addr.canonical((published | added) - removed)):
        # What comes and goes can bring dead addresses next to each other.
        urgent = True
        removed |= unheard

    target = (published | added) - removed
    if not any(view.may_hear(a) for a in target):
        removed = set()
        if published:
            held = ('no health manager is alive: the last list stays as it '
                    'is')
    elif (len(published) >= _SHRINKAGE_MIN and
            2 * len(removed) > len(unpinned) and
            not any(view.is_proven_alive(a) for a in target)):
        held = (f'{len(removed)} of {len(unpinned)} health managers would '
                f'leave at once, and none of those left has given a fresh '
                f'sign of life')
        removed = set()
    if not added and not removed:
        return Decision(held=held)
    reason = _describe(added, removed)
    if urgent:
        reason += ' (too few published addresses are alive to wait)'
    return Decision(addr.canonical((published | added) - removed), reason,
                    held)


def _is_urgent(view: _View, addresses: tuple[str, ...]) -> bool:
    """Tell whether a list holds too many dead addresses to wait."""
    unheard = {a for a in addresses if not view.may_hear(a)}
    return bool(unheard) and is_near_timeout(
        heartbeat_gap(addresses, unheard, view.settings), view.settings)


def _replaced(view: _View, added: set[str], removed: set[str]) -> set[str]:
    """Choose dead addresses to give up early for new ones.

    Where each amphora has a subset, one change in which a new address takes
    the place of a dead one concerns half as many of them as two.
    """
    if len(view.published) <= view.settings.max_list_length:
        return set()
    dead = addr.canonical(
        a for a in view.published if view.state(a) is mem.State.DEAD and
        a not in removed and a not in view.pinned)
    return set(dead[:max(0, len(added) - len(removed))])
