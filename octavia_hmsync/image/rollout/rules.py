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

"""Who is next in a rollout, whether anything may begin, and when it is over.

Pure rules, the same for the first and for the ten thousandth load balancer: a
rollout keeps nothing in mind but what its replacements came to.

A *group* is what one canary speaks for: load balancers of one topology,
flavor, availability zone and target image. Nobody of a group begins before
its canaries are DONE, nobody but canaries while one of any group runs or may
begin. A group of which nobody may begin, because Octavia works on all of
them for example, holds up no other one.
"""

import collections
from collections.abc import Iterable
from collections.abc import Sequence
import dataclasses
import datetime

from octavia_hmsync.db.repositories import image_replacement as replace_repo
from octavia_hmsync.db.repositories import image_rollout as rollout_repo
from octavia_hmsync.image.rollout import windows as win

HOUR = 3600

Group = tuple[str | None, str | None, str | None, str | None]


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A load balancer that is outdated, and not excluded.

    :param load_balancer_id: its id.
    :param topology: its topology.
    :param flavor_id: its flavor, or None.
    :param availability_zone: its zone, or None, which counts like one.
    :param target_image_id: the image that it is to have.
    :param is_pending: whether it waits for something that passes.
    :param blocked_by: what else is in the way, empty for nothing.
    """

    load_balancer_id: str
    topology: str | None = None
    flavor_id: str | None = None
    availability_zone: str | None = None
    target_image_id: str | None = None
    is_pending: bool = False
    blocked_by: tuple[str, ...] = ()

    @property
    def group(self) -> Group:
        return (self.topology, self.flavor_id, self.availability_zone,
                self.target_image_id)


@dataclasses.dataclass(frozen=True)
class Situation:
    """What a decision is made from.

    :param settings: of the rollout.
    :param now: by the database's clock, UTC.
    :param candidates: Candidates, each load balancer once.
    :param replacements: all of this rollout; rows as get_standing() has
                         them, or Replacements.
    :param open_elsewhere: ids of load balancers with one that is open and
                           not of this rollout.
    :param start_ages: how many seconds ago replacements of any rollout
                       began, of the last hour at least.
    """

    settings: rollout_repo.Settings
    now: datetime.datetime
    candidates: Sequence[Candidate]
    replacements: Sequence[replace_repo.Replacement] = ()
    open_elsewhere: frozenset[str] = frozenset()
    start_ages: Sequence[float] = ()


@dataclasses.dataclass(frozen=True)
class Decision:
    """What is next.

    :param state: RUNNING, or how the rollout ends: DONE or HALTED.
    :param reason: why it ends, or why nothing begins now; empty where
                   something begins.
    :param chosen: what begins, in this order: (Candidate, whether it is a
                   canary).
    """

    state: str
    reason: str = ''
    chosen: tuple[tuple[Candidate, bool], ...] = ()


def decide(situation: Situation) -> Decision:
    """Tell what is next in a rollout that runs.

    :param situation: Situation.
    :raises NotPossible: if the windows cannot be read.
    """
    settings = situation.settings
    failed = [r for r in situation.replacements
              if r.state == replace_repo.FAILED]
    if len(failed) >= settings.max_failures:
        return Decision(rollout_repo.HALTED, _describe_failed(failed))
    progress = Progress(situation)
    if progress.is_over():
        return Decision(rollout_repo.DONE, progress.summarize())
    reason = get_limit(situation, len(progress.open))
    if reason:
        return Decision(rollout_repo.RUNNING, reason)
    chosen = progress.choose(get_room(situation, len(progress.open)))
    return Decision(rollout_repo.RUNNING,
                    '' if chosen else progress.explain(), chosen)


def _describe_failed(failed: Sequence[replace_repo.Replacement]) -> str:
    named = ', '.join(r.load_balancer_id for r in failed[:3])
    more = f' and {len(failed) - 3} more' if len(failed) > 3 else ''
    return f'{len(failed)} failed: {named}{more}'


def get_limit(situation: Situation, running: int) -> str | None:
    """Return why nothing may begin, whoever is next; None if it may.

    :param situation: Situation; who is a candidate is no matter.
    :param running: how many of this rollout run.
    :raises NotPossible: if the windows cannot be read.
    """
    settings = situation.settings
    windows = win.parse(settings.windows)
    if not win.is_open(windows, situation.now):
        opening = win.get_opening(windows, situation.now)
        return (f'the maintenance window opens at '
                f'{opening.isoformat(timespec="minutes")} UTC')
    if running >= settings.parallel:
        return f'{running} run, as many as may at once'
    if get_room(situation, running) <= 0:
        ages = sorted(age for age in situation.start_ages if age < HOUR)
        wait = HOUR - ages[settings.rate_per_hour - 1]
        # Not for how long: a line that changes all the time says nothing new.
        opening = situation.now + datetime.timedelta(seconds=wait)
        return (f'{len(ages)} began within an hour: the next one may at '
                f'{opening.isoformat(timespec="minutes")} UTC')
    return None


def get_room(situation: Situation, running: int) -> int:
    """Return how many may begin now, of all availability zones together.

    :param situation: Situation.
    :param running: how many run.
    """
    settings = situation.settings
    room = settings.parallel - running
    if settings.rate_per_hour:
        room = min(room, settings.rate_per_hour - sum(
            age < HOUR for age in situation.start_ages))
    return max(room, 0)


class Progress:
    """How far a rollout has come, told from its replacements.

    :param situation: Situation.
    """

    def __init__(self, situation: Situation):
        self._settings = situation.settings
        self._open_elsewhere = situation.open_elsewhere
        # What runs, by load balancer.
        self.open: dict[str, replace_repo.Replacement] = {}
        settled: set[tuple[str, str | None]] = set()
        self._waiting: set[str] = set()
        self._counts: collections.Counter[str] = collections.Counter()
        # Of each group: DONE, and canaries that run.
        self._done: collections.Counter[Group] = collections.Counter()
        self._canaries: collections.Counter[Group] = collections.Counter()
        for r in situation.replacements:
            group = (r.topology, r.flavor_id, r.availability_zone,
                     r.target_image_id)
            self._counts[r.state] += 1
            if r.state in replace_repo.OPEN_STATES:
                self.open[r.load_balancer_id] = r
                self._canaries[group] += r.canary
            elif r.state in (replace_repo.DONE, replace_repo.FAILED):
                settled.add((r.load_balancer_id, r.target_image_id))
                self._done[group] += r.state == replace_repo.DONE
            elif r.not_before is not None and r.not_before > situation.now:
                self._waiting.add(r.load_balancer_id)
        # Another image than the one that it got, or failed to get, is
        # another matter.
        self._left = sorted(
            (c for c in situation.candidates
             if (c.load_balancer_id, c.target_image_id) not in settled and
             c.load_balancer_id not in self.open),
            key=lambda c: c.load_balancer_id)
        self._blocked = [c for c in self._left if c.blocked_by]
        self._ready = [c for c in self._left if self._is_ready(c)]

    def _is_ready(self, candidate: Candidate) -> bool:
        return not (candidate.blocked_by or candidate.is_pending or
                    candidate.load_balancer_id in self._waiting or
                    candidate.load_balancer_id in self._open_elsewhere)

    def is_over(self) -> bool:
        """Tell whether nothing runs, and nothing is left that could."""
        return not self.open and len(self._left) == len(self._blocked)

    def summarize(self) -> str:
        """Tell what it came to, in words."""
        parts = [f'{self._counts[replace_repo.DONE]} done']
        if self._counts[replace_repo.FAILED]:
            parts.append(f'{self._counts[replace_repo.FAILED]} failed')
        if self._blocked:
            parts.append(f'{len(self._blocked)} blocked')
        return ', '.join(parts)

    def explain(self) -> str:
        """Tell why nothing begins though there is room."""
        if any(self._canaries.values()):
            return 'the canaries have to be done first'
        if self._ready:
            return 'as many run in their availability zones as may at once'
        return (f'{len(self._left) - len(self._blocked)} are left that '
                f'Octavia works on, or that wait to be tried again')

    def choose(self, room: int) -> tuple[tuple[Candidate, bool], ...]:
        """Choose who begins now.

        :param room: how many at most.
        :returns: (Candidate, whether it is a canary), in order.
        """
        canaries = self._get_canaries()
        is_canary = bool(canaries or any(self._canaries.values()))
        zones: collections.Counter[str | None] = collections.Counter(
            r.availability_zone for r in self.open.values())
        chosen = take(canaries if is_canary else self._ready, room,
                      self._settings.parallel_per_az, zones)
        return tuple((candidate, is_canary) for candidate in chosen)

    def _get_canaries(self) -> list[Candidate]:
        """Return the canaries that are still to begin."""
        missing: dict[Group, int] = {}
        canaries = []
        for candidate in self._ready:
            group = candidate.group
            if group not in missing:
                missing[group] = (self._settings.canaries -
                                  self._done[group] - self._canaries[group])
            if missing[group] > 0:
                missing[group] -= 1
                canaries.append(candidate)
        return canaries


def take(candidates: Iterable[Candidate], room: int, per_zone: int,
         zones: collections.Counter[str | None]) -> list[Candidate]:
    """Take the first that may begin together.

    :param candidates: in order.
    :param room: how many at most.
    :param per_zone: how many of an availability zone at once, 0 for any.
    :param zones: how many run in each; counts up with what is taken.
    """
    taken: list[Candidate] = []
    for candidate in candidates:
        if len(taken) >= room:
            break
        zone = candidate.availability_zone
        if not per_zone or zones[zone] < per_zone:
            zones[zone] += 1
            taken.append(candidate)
    return taken
