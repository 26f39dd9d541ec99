# SPDX-License-Identifier: Apache-2.0

"""What is between two lists of members. Pure.

A connection belongs to the member that got its first packet. As long as the
list does not change, the hash of the connection leads there. After a change
there is the current mapping, and those of before: the base, which is the
oldest one, and those between. New connections follow the current mapping.
Where all lead to one member, so do all other packets. Where they do not:

* If members are known to bear it (proven), a packet that may be of any of
  them goes to all of them, see pipeline.py. Nothing is remembered of it.
* If not, what began under the base goes by the base, and all that begins is
  pinned to its member, by itself; so is what goes by the base.

A mapping of before is forgotten when no connection has been silent for so
long since it was the current one. Connections that live on are pinned by then.

A first packet that is sent again must go where it went before, as the first
may have been answered. So between two mappings there is, for a moment, a
handover: beginnings go by the mapping of before still, and all are pinned.

Another distributor, which may take over, must have the same mappings,
whatever it has missed: it adopts what the active one has. If all are proven,
it forgets none by itself, as one too many does no harm. If not, it is told of
pins, and forgets sooner than the active one: that one must not pin less than
it knows of.
"""

from collections import abc
import dataclasses
import math
import typing

from octavia_hmsync.distributor import document as doc
from octavia_hmsync.distributor.ovs import mapping
from octavia_hmsync.distributor import schemas

# Seconds. Open vSwitch learns from a packet that it had cached the way of
# only when it looks over its cache, which it does twice a second, later if it
# is busy.
MARGIN = 15
# So much later the active one ends what others end, too, whose clocks began
# when they heard of it.
LATER = 15
# What is shared takes its time; less is no difference.
_SAME_TIME = 1
# Open vSwitch has 16 bits for a timeout.
MAX_PIN_TIMEOUT = 65535 - MARGIN


# How many mappings of before there may be. With as many all that begins is
# pinned, so that the next change needs no more of them.
MAX_FORMERS = schemas.MAX_FORMERS


@dataclasses.dataclass(frozen=True)
class Transition:
    """The base, the current mapping, and those between.

    :param since: when the current one became that, by the clock of the
                  distributor, in seconds.
    :param between: pairs of a mapping after the base and when it became the
                    current one, oldest first.
    :param proven: MAC addresses of members that may get packets of
                   connections of others.
    :param stands_by: whether this distributor is not the active one.
    """

    base: mapping.Mapping
    current: mapping.Mapping
    since: float
    between: tuple[tuple[mapping.Mapping, float], ...] = ()
    proven: frozenset[str] = frozenset()
    stands_by: bool = False

    @property
    def is_over(self) -> bool:
        """Whether there is one mapping alone."""
        return self.base == self.current and not self.between

    @property
    def formers(self) -> tuple[mapping.Mapping, ...]:
        """The base and those between."""
        return self.base, *(one for one, _ in self.between)

    @property
    def macs(self) -> set[str]:
        """The MAC addresses of all who may have connections by a mapping."""
        return self.current.macs.union(*(one.macs for one in self.formers))

    @property
    def doubles(self) -> bool:
        """Whether packets may go to several members."""
        return not self.is_over and len(self.macs & self.proven) > 1

    @property
    def is_full(self) -> bool:
        """Whether there are as many mappings as there may be."""
        return len(self.formers) >= MAX_FORMERS

    @property
    def has_doubled(self) -> bool:
        """Whether they did before a member died."""
        return bool(self.between) or any(
            not targets for _, targets in self.base.slots)

    @property
    def unproven(self) -> set[str]:
        """Those of them that are to get packets of their own alone."""
        return self.macs - self.proven

    @property
    def base_ended(self) -> float:
        """When the base was the current one for the last time."""
        return self.between[0][1] if self.between else self.since

    def to_json(self) -> dict[str, typing.Any]:
        """Return what from_json() takes."""
        return {'base': self.base.to_json(),
                'current': self.current.to_json(), 'since': self.since,
                'between': [[one.to_json(), since]
                            for one, since in self.between],
                'proven': sorted(self.proven), 'stands_by': self.stands_by}

    @classmethod
    def from_json(cls, raw: abc.Mapping[str, typing.Any]) -> 'Transition':
        """Return what to_json() was called on; raise ValueError and others."""
        return cls(mapping.Mapping.from_json(raw['base']),
                   mapping.Mapping.from_json(raw['current']),
                   float(raw['since']),
                   # One of a release before has none of these.
                   tuple((mapping.Mapping.from_json(one), float(since))
                         for one, since in raw.get('between', ())),
                   frozenset(map(str, raw.get('proven', ()))),
                   bool(raw.get('stands_by')))


def get_pin_timeout(document: doc.Document) -> int:
    """Return the seconds that a silent connection is kept for, at most."""
    return min(document.pin_timeout, MAX_PIN_TIMEOUT)


def advance(previous: Transition | None, document: doc.Document,
            now: float, known_since: float = -math.inf) -> Transition:
    """Return where a VIP stands.

    To be asked when there is a new document, and from time to time with the
    same one.

    :param previous: the Transition that was returned before; None if there
                     was none.
    :param now: the time, in seconds since the epoch: it is compared after a
                restart, too.
    :param known_since: since when it is known who has connections that are
                        not pinned yet; inf for not at all.
    :returns: a Transition; it equals the previous one where nothing is to be
              done.
    """
    current = mapping.of_document(document)
    if previous is None:
        return Transition(current, current, now,
                          stands_by=not document.active)
    living = mapping.get_living(document)

    def adapt(one: mapping.Mapping, stands_in: bool) -> mapping.Mapping:
        return mapping.without_dead(one, living, current, stands_in)

    # A clock that was set back must not keep them for ever; nor may a
    # distributor that becomes active forget what it has not seen.
    begins = document.active and previous.stands_by
    chain = [(adapt(one, not previous.doubles),
              now if begins else min(since, now))
             for one, since in ((previous.base, 0.0), *previous.between)]
    chain.append((adapt(previous.current, True),
                  now if begins else min(previous.since, now)))
    if chain[-1][0] != current:
        if previous.is_full or not (
                previous.is_over or previous.doubles or
                previous.has_doubled):
            # What began under it is pinned, unless the base leads there.
            del chain[-1]
        chain.append((current, now))
    after = _Forgetting(document, previous, now, known_since)
    chain = _merge(chain, previous)
    if not (previous.doubles or previous.has_doubled) and (
            chain[0][0] == chain[-1][0]):
        del chain[:-1]
    while len(chain) > 1 and after.may_go(chain):
        del chain[0]
    (base, _), *between = chain[:-1] or chain
    since = chain[-1][1]
    if len(chain) == 1 and previous.is_over and previous.current == current:
        since = min(previous.since, now)
    is_over = len(chain) == 1
    return Transition(
        base, current, since, tuple(between),
        frozenset() if is_over else previous.proven & living,
        not document.active)


def _merge(chain: list[tuple[mapping.Mapping, float]], known: Transition
           ) -> list[tuple[mapping.Mapping, float]]:
    """Take out what leads nowhere, or where a later one leads, too.

    What began under the first one alone is not pinned. It stays, unless
    packets go to members of all of them.

    :param known: what tells whether they do, and to which.
    """
    if known.doubles:
        # A member that comes and goes fills no room.
        last = {one: number for number, (one, _) in enumerate(chain)}
        stays = 0 if any(one.macs - known.proven for one, _ in chain) else None
        chain = [pair for number, pair in enumerate(chain)
                 if number in (stays, last[pair[0]])]
    merged: list[tuple[mapping.Mapping, float]] = []
    for number, (one, since) in enumerate(chain):
        if not one.macs and number < len(chain) - 1:
            continue
        if merged and merged[-1][0] == one:
            # So the one before ends later.
            if len(merged) > 1 or number == len(chain) - 1:
                merged[-1] = one, since
            continue
        merged.append((one, since))
    return merged


@dataclasses.dataclass(frozen=True)
class _Forgetting:
    """When the oldest mapping may be forgotten."""

    document: doc.Document
    previous: Transition
    now: float
    known_since: float

    def may_go(self, chain: list[tuple[mapping.Mapping, float]]) -> bool:
        macs = set().union(*(one.macs for one, _ in chain))
        is_proven = macs <= self.previous.proven
        if is_proven and not self.document.active:
            return False
        if self.now - chain[1][1] < _get_length(self.document):
            return False
        if len(macs & self.previous.proven) < 2:
            # Nothing but what is pinned already is more than one's.
            return True
        return (self.now - self.known_since >=
                get_pin_timeout(self.document) + MARGIN)


def make_handover(before: Transition, after: Transition,
                  document: doc.Document,
                  down: abc.Collection[str] = ()) -> Transition | None:
    """Return what is to be in force between two transitions.

    With it, all beginnings are to be pinned, until Open vSwitch has accounted
    for earlier packets.

    :param before: what was in force.
    :param after: what advance() returned then.
    :param document: the VIP document of the latter.
    :param down: MAC addresses of members to which nothing new is sent in the
                 handover either, unless there is no other one.
    :returns: a Transition; None where beginnings go on as before, but for
              those of members that are dead.
    """
    living = mapping.get_living(document)
    former = mapping.without_dead(before.current, living, after.current)
    if former == after.current or not former.slots:
        return None
    answering = mapping.without_dead(former, living.difference(down),
                                     after.current)
    between = after.between
    if after.current.slots and after.current not in after.formers and (
            after.current.macs <= after.proven or after.current in {
                mapping.without_dead(one, living, after.current, False)
                for one in before.formers}):
        # What began under it before, or does so in a moment.
        between = *between, (after.current, after.since)
    return dataclasses.replace(
        after, current=answering if answering.slots else former,
        between=between)


def get_end(transition: Transition,
            document: doc.Document) -> float | None:
    """Return when the base may be forgotten if nothing changes.

    :returns: a time, in seconds since the epoch; None if there is no other
              mapping, or it is not forgotten here.
    """
    if transition.is_over or (
            not document.active and not transition.unproven):
        return None
    return transition.base_ended + _get_length(document)


def _get_length(document: doc.Document) -> int:
    return (get_pin_timeout(document) + MARGIN +
            (LATER if document.active else 0))


def adopt(own: Transition, other: Transition,
          document: doc.Document) -> Transition:
    """Return where a VIP stands at a standby distributor.

    :param other: that of the active one, for the same document.
    :param document: the VIP document, by which it is not active.
    :returns: what advance() goes on with; its own where the active
              one has the same, or is at something else.
    """
    living = mapping.get_living(document)
    chain = _merge([
        *((mapping.without_dead(one, living, own.current,
                                not other.doubles), since)
          for one, since in ((other.base, 0.0), *other.between)),
        (own.current, other.since)], other)
    (base, _), *between = chain[:-1] or chain
    adopted = Transition(base, own.current, other.since, tuple(between),
                         other.proven & living, True)
    if other.current != own.current or _are_alike(own, adopted):
        return own
    return adopted


def _are_alike(one: Transition, other: Transition) -> bool:
    return (one.formers == other.formers and one.proven == other.proven and
            all(abs(a - b) < _SAME_TIME for a, b in zip(
                (one.since, *(since for _, since in one.between)),
                (other.since, *(since for _, since in other.between)))))
