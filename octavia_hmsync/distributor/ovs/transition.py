# SPDX-License-Identifier: Apache-2.0

"""What is between two lists of members. Pure.

A connection belongs to the member that got its first packet. As long as the
list does not change, the hash of the connection leads there. After a change
there are two mappings: the base, of before, and the current one. New
connections follow the current mapping, all others the base; where the two
differ, the connection is pinned to its member, by itself. Who has not sent a
packet for pin_timeout is forgotten, so by then all others are pinned, and the
current mapping becomes the base.

Further changes meanwhile replace the current mapping and begin the time anew;
the base stays. What began under a mapping between the two is pinned since its
first packet, unless the base leads there too.

A first packet that is sent again has to go where it went before, as that one
may have been answered. So between the two mappings there is, for a moment, a
handover: beginnings go by the mapping of before still, and all are pinned.

Another distributor, which may take over, is told of pins, and of nothing else.
So it has to have the same base, whatever it has missed, and no longer than the
active one pins what begins: it adopts what that one has, and ends it sooner.
"""

from collections import abc
import dataclasses
import typing

from octavia_hmsync.distributor import document as doc
from octavia_hmsync.distributor.ovs import mapping

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


@dataclasses.dataclass(frozen=True)
class Transition:
    """The base, the current mapping, and since when that is the current one.

    :param since: by the clock of the distributor, in seconds.
    """

    base: mapping.Mapping
    current: mapping.Mapping
    since: float

    @property
    def is_over(self) -> bool:
        """Whether both are the same."""
        return self.base == self.current

    def to_json(self) -> dict[str, typing.Any]:
        """Return what from_json() takes."""
        return {'base': self.base.to_json(), 'current':
                self.current.to_json(), 'since': self.since}

    @classmethod
    def from_json(cls, raw: abc.Mapping[str, typing.Any]) -> 'Transition':
        """Return the transition that to_json() was called on.

        :raises KeyError, TypeError, ValueError: if it is none.
        """
        return cls(mapping.Mapping.from_json(raw['base']),
                   mapping.Mapping.from_json(raw['current']),
                   float(raw['since']))


def get_pin_timeout(document: doc.Document) -> int:
    """Return the seconds that a silent connection is kept for, at most.

    :param document: the VIP document.
    """
    return min(document.pin_timeout, MAX_PIN_TIMEOUT)


def advance(previous: Transition | None, document: doc.Document,
            now: float) -> Transition:
    """Return where a VIP stands.

    To be asked when there is a new document, and from time to time with the
    same one.

    :param previous: the Transition that was returned before; None if there
                     was none.
    :param document: the VIP document.
    :param now: the time, in seconds since the epoch: it is compared after a
                restart, too.
    :returns: a Transition; it equals the previous one where nothing is to be
              done.
    """
    current = mapping.of_document(document)
    if previous is None:
        return Transition(current, current, now)
    living = mapping.get_living(document)
    before = mapping.without_dead(previous.current, living, current)
    base = mapping.without_dead(previous.base, living, current)
    # A clock that was set back must not keep it for ever.
    since = min(previous.since, now)
    if before != current:
        since = now
    elif now - since >= _get_length(document):
        base = current
    if not base.slots:
        base = current
    return Transition(base, current, since)


def make_handover(before: Transition, after: Transition,
                  document: doc.Document) -> Transition | None:
    """Return what is to be in force between two transitions.

    With it, all beginnings are to be pinned, until Open vSwitch has accounted
    for those that came before it.

    :param before: what was in force.
    :param after: what advance() returned then.
    :param document: the VIP document of the latter.
    :returns: a Transition; None where beginnings go on as before, but for
              those of members that are dead.
    """
    former = mapping.without_dead(
        before.current, mapping.get_living(document), after.current)
    if former == after.current or not former.slots:
        return None
    return dataclasses.replace(after, current=former)


def get_end(transition: Transition,
            document: doc.Document) -> float | None:
    """Return when a transition will be over if nothing changes.

    :param transition: of that VIP.
    :param document: the VIP document.
    :returns: a time, in seconds since the epoch; None if it is over.
    """
    if transition.is_over:
        return None
    return transition.since + _get_length(document)


def _get_length(document: doc.Document) -> int:
    return (get_pin_timeout(document) + MARGIN +
            (LATER if document.active else 0))


def adopt(own: Transition, other: Transition,
          document: doc.Document) -> Transition:
    """Return where a VIP stands for one that may take over.

    :param own: its own Transition.
    :param other: that of the active one, for the same document.
    :param document: the VIP document, by which it is not active.
    :returns: the one that advance() goes on with; its own where the active
              one has the same, or is at something else.
    """
    base = mapping.without_dead(other.base, mapping.get_living(document),
                                own.current)
    if other.current != own.current or not base.slots or (
            base == own.base and
            abs(other.since - own.since) < _SAME_TIME):
        return own
    return Transition(base, own.current, other.since)
