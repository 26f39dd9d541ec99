# SPDX-License-Identifier: Apache-2.0

"""What amphorae report of their listeners and members: pure rules.

Octavia has only one status of a member, from the last heartbeat of any
amphora. A new amphora is judged by its own heartbeats, compared with those of
the others.
"""

from collections import abc
import dataclasses
import datetime

from octavia_hmsync.amphora import heartbeat
from octavia_hmsync.image.replace import proof
from octavia_hmsync.sync.db import amphora_view as view_repo

_GOOD = 'ONLINE'
_BAD = 'ERROR'


@dataclasses.dataclass(frozen=True)
class Wanted:
    """What heartbeats are compared with.

    :param before: {id: operating_status} of members, in Octavia's rows before
                   the new amphora existed.
    """

    served: abc.Collection[str]
    before: abc.Mapping[str, str]
    there: abc.Collection[str]


@dataclasses.dataclass
class Faults:
    """Problems in heartbeats, in words; ``bad`` has ids of members."""

    of_listeners: list[str] = dataclasses.field(default_factory=list)
    of_members: list[str] = dataclasses.field(default_factory=list)
    bad: set[str] = dataclasses.field(default_factory=set)

    def __bool__(self) -> bool:
        return bool(self.of_listeners or self.of_members)

    def add(self, other: 'Faults') -> None:
        """Add further problems."""
        self.of_listeners += other.of_listeners
        self.of_members += other.of_members
        self.bad |= other.bad


class Testimony:
    """What was reported since a replacement began.

    If another amphora has seen a member worse at any time since, the member
    comes and goes, or is down, and the new amphora is not at fault. After the
    switch this tolerance does not grow: what the old amphora loses with the
    VIP does not count.

    .is_closed tells whether that is so.
    """

    def __init__(self) -> None:
        self.is_closed = False
        self._seen: set[str] = set()
        self._proven: frozenset[str] = frozenset()
        self._began_at = datetime.datetime.min
        self._last: dict[str, view_repo.View] = {}
        # The worst status of each member that others have reported.
        self._worst: dict[str, str] = {}
        self._lately: list[view_repo.View] = []
        # Per amphora to prove: heartbeats in a row without a problem, and how
        # often haproxy was gone in one.
        self._whole: dict[str, int] = {}
        self._breaks: dict[str, int] = {}

    @property
    def heard(self) -> frozenset[str]:
        """Ids of amphorae whose heartbeats were reported in this proof."""
        return frozenset(self._last)

    def begin(self, proven: abc.Iterable[str],
              now: datetime.datetime) -> None:
        """Begin a proof: only heartbeats from now on count."""
        self._proven = frozenset(proven)
        self._began_at = now
        self._last = {}
        self.begin_again()

    def begin_again(self) -> None:
        """Count heartbeats from zero again, after a break."""
        self._whole = {}

    def take(self, views: abc.Iterable[view_repo.View],
             wanted: Wanted) -> Faults:
        """Take reports in order, repeated or not; return their problems."""
        faults = Faults()
        for view in views:
            if view.id in self._seen:
                continue
            self._seen.add(view.id)
            if view.amphora_id in self._proven:
                if view.seen_at >= self._began_at:
                    faults.add(self._hear_proven(view, wanted))
            else:
                self._hear_other(view)
        return faults

    def _hear_proven(self, view, wanted):
        last = self._last.get(view.amphora_id)
        self._last[view.amphora_id] = view
        if last is not None and not _find_silent(last, wanted) and (
                _find_silent(view, wanted)):
            self._breaks[view.amphora_id] = self.count_breaks(
                view.amphora_id) + 1
        found = self._judge(view, wanted)
        self._whole[view.amphora_id] = 0 if found else (
            self.count(view.amphora_id) + 1)
        return found

    def _hear_other(self, view):
        self._last[view.amphora_id] = view
        self._lately.append(view)
        if not self.is_closed:
            for member_id, status in view.members.items():
                self._worst[member_id] = heartbeat.worst(
                    self._worst.get(member_id, status), status)

    def forget_before(self, then: datetime.datetime) -> None:
        """Forget earlier reports when others' present view is asked for."""
        self._lately = [view for view in self._lately if view.seen_at >= then]

    def find_faults(self, wanted: Wanted) -> Faults:
        """Return the problems of the last heartbeat of each amphora."""
        faults = Faults()
        for amphora_id in sorted(self._proven & self._last.keys()):
            faults.add(self._judge(self._last[amphora_id], wanted))
        return faults

    def get_worst(self) -> dict[str, str]:
        """Return the worst recent status of each member from others."""
        found: dict[str, str] = {}
        for view in self._lately:
            for member_id, status in view.members.items():
                found[member_id] = heartbeat.worst(
                    found.get(member_id, status), status)
        return found

    def count(self, amphora_id: str) -> int:
        """Return how many heartbeats in a row had no problem."""
        return self._whole.get(amphora_id, 0)

    def count_breaks(self, amphora_id: str) -> int:
        """Return how often listeners vanished from one to the next."""
        return self._breaks.get(amphora_id, 0)

    def _judge(self, view, wanted):
        faults = Faults([
            f'the heartbeats of amphora {view.amphora_id} do not tell of '
            f'listener {listener_id}'
            for listener_id in _find_silent(view, wanted)])
        worse = self._find_worse(view, wanted)
        if worse:
            faults.bad.update(worse)
            faults.of_members.append(describe_worse(worse))
        elif self._reaches_none(view):
            faults.bad.update(view.members)
            faults.of_members.append(
                f'amphora {view.amphora_id} reaches no member, though '
                f'another one does')
        return faults

    def _find_worse(self, view, wanted):
        # A member that no other amphora reports, as in an unused pool, is
        # known only by Octavia's row: its absence is no fault.
        return [member_id for member_id, before
                in {**wanted.before, **self._worst}.items()
                if member_id in wanted.there and proof.is_worse(
                    view.members.get(member_id, 'OFFLINE' if member_id in
                                     self._worst else before), before)]

    def _reaches_none(self, view):
        """Tell whether it reaches no member, but another amphora does."""
        checked = [member_id for member_id, status in view.members.items()
                   if status in (_GOOD, _BAD)]
        others = self.get_worst()
        return bool(checked) and not any(
            view.members[member_id] == _GOOD for member_id in checked) and (
            any(others.get(member_id) == _GOOD for member_id in checked))


def describe_worse(member_ids: abc.Iterable[str]) -> str:
    """Return in words that members are worse than they were."""
    return (f'members that were better before: '
            f'{", ".join(sorted(member_ids))}')


def _find_silent(view: view_repo.View, wanted: Wanted) -> list[str]:
    return sorted(set(wanted.served) - view.listeners)
