# SPDX-License-Identifier: Apache-2.0

"""Which load balancer is next in a rollout, and when the rollout is complete.

Pure rules, the same for the first and for the ten thousandth load balancer: a
rollout remembers nothing but the results of its replacements.

A *group* is what one canary stands for: load balancers of one topology,
flavor, availability zone and target image. The others of a group begin only
when its canaries are DONE. While a canary of any group is running or may
begin, only canaries begin. A group in which none may begin, for example
because Octavia works on all of them, does not block other groups.

A DONE replacement is watched for a while, for late failures of new amphorae
that were proven to serve, and counts as running until then. A
SKIPPED one comes after all that were tried less often, later each time, and a
few times at most, so that it takes nothing from the others.
"""

import collections
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses

from octavia_hmsync import compat
from octavia_hmsync.image.db import aftermath as aftermath_repo
from octavia_hmsync.image.db import replacement as replace_repo
from octavia_hmsync.image.db import rollout as rollout_repo
from octavia_hmsync.image import outdated
from octavia_hmsync.image.rollout import limits

Brought = Mapping[str, Collection[str]]


@dataclasses.dataclass(frozen=True)
class Decision:
    """What comes next.

    :param state: RUNNING, or how the rollout ends: DONE or HALTED.
    :param reason: why it ends, or why nothing begins now; empty if something
                   begins.
    :param chosen: what begins, in this order: (Candidate, whether it is a
                   canary).
    """

    state: str
    reason: str = ''
    chosen: tuple[tuple[limits.Candidate, bool], ...] = ()


def decide(situation: limits.Situation) -> Decision:
    """Decide what comes next, or raise NotPossible for the windows."""
    halted = limits.why_halted(situation)
    if halted:
        return Decision(rollout_repo.HALTED, halted)
    progress = Progress(situation)
    if progress.is_over():
        return Decision(rollout_repo.DONE, progress.summarize())
    reason = limits.get_limit(situation)
    if reason:
        return Decision(rollout_repo.RUNNING, reason)
    chosen = progress.choose(limits.get_room(situation, len(progress.open)))
    return Decision(rollout_repo.RUNNING,
                    '' if chosen else progress.explain(), chosen)


class Progress:
    """How far a rollout has come, by its replacements."""

    def __init__(self, situation: limits.Situation):
        self._settings = situation.settings
        self._open_elsewhere = situation.open_elsewhere
        # Running or watched replacements, by load balancer.
        self.open: dict[str, replace_repo.Replacement] = {}
        settled: set[tuple[str, str | None]] = set()
        self._waiting: set[str] = set()
        # How often each was skipped.
        tries: collections.Counter[tuple[str, str | None]] = (
            collections.Counter())
        self._refused: list[str] = []
        self._counts: collections.Counter[str] = collections.Counter()
        # Of each group: DONE ones, and running canaries.
        self._done: collections.Counter[limits.Group] = collections.Counter()
        self._canaries: collections.Counter[limits.Group] = (
            collections.Counter())
        for r in situation.replacements:
            group = (r.topology, r.flavor_id, r.availability_zone,
                     r.target_image_id)
            self._counts[r.state] += 1
            key = r.load_balancer_id, r.target_image_id
            if (r.state in replace_repo.OPEN_STATES or
                    limits.is_watched(r, situation.settings, situation.now)):
                self.open[r.load_balancer_id] = r
                self._canaries[group] += r.canary
            elif r.state == replace_repo.SKIPPED:
                tries[key] += 1
                if r.not_before is not None and r.not_before > situation.now:
                    self._waiting.add(r.load_balancer_id)
            else:
                settled.add(key)
                self._done[group] += r.state == replace_repo.DONE
                if r.state == replace_repo.REFUSED:
                    self._refused.append(r.load_balancer_id)
        # A load balancer counts as settled only for the image that it got or
        # failed to get.
        left = [c for c in situation.candidates
                if (c.load_balancer_id, c.target_image_id) not in settled and
                c.load_balancer_id not in self.open]

        def get_tries(c: limits.Candidate) -> int:
            return tries[c.load_balancer_id, c.target_image_id]

        self._left = sorted(left, key=lambda c: (get_tries(c),
                                                 c.load_balancer_id))
        self._blocked = [c for c in self._left
                         if c.blocked_by or get_tries(c) >= limits.TRIES]
        blocked = {c.load_balancer_id for c in self._blocked}
        self._ready = [c for c in self._left
                       if c.load_balancer_id not in blocked and
                       self._is_ready(c)]

    def _is_ready(self, candidate: limits.Candidate) -> bool:
        return not (candidate.is_pending or
                    candidate.load_balancer_id in self._waiting or
                    candidate.load_balancer_id in self._open_elsewhere)

    def is_over(self) -> bool:
        """Tell whether nothing is running, watched, or left to begin."""
        return not self.open and len(self._left) == len(self._blocked)

    def get_left(self) -> list[limits.Candidate]:
        """Return what this rollout will still begin, in no order."""
        blocked = {c.load_balancer_id for c in self._blocked}
        return [c for c in self._left if c.load_balancer_id not in blocked]

    def get_running(self) -> list[limits.Candidate]:
        """Return what runs, and is neither done nor watched."""
        return [limits.Candidate(
            r.load_balancer_id, r.topology, r.flavor_id, r.availability_zone,
            r.target_image_id) for r in self.open.values()
            if r.state != replace_repo.DONE]

    def needs_canaries(self) -> bool:
        """Tell whether canaries run, or have yet to begin."""
        return bool(self._get_canaries() or any(self._canaries.values()))

    def summarize(self) -> str:
        """Return the results so far, in words."""
        parts = [f'{self._counts[replace_repo.DONE]} done']
        if self._counts[replace_repo.FAILED]:
            parts.append(f'{self._counts[replace_repo.FAILED]} failed')
        for ids, word in ((self._refused, 'refused'),
                          ([c.load_balancer_id for c in self._blocked],
                           'blocked')):
            if ids:
                parts.append(f'{len(ids)} {word} ({limits.name(ids)})')
        return ', '.join(parts)

    def explain(self) -> str:
        """Tell why nothing begins although there is room."""
        if any(self._canaries.values()):
            watched = [limits.get_watch_end(r, self._settings)
                       for r in self.open.values()
                       if r.state == replace_repo.DONE]
            if len(watched) < len(self.open):
                return 'the canaries have to be done first'
            return (f'the canaries are done, and watched until '
                    f'{max(watched).isoformat(timespec="minutes")} UTC')
        if self._ready:
            return 'as many run in their availability zones as may at once'
        return (f'{len(self._left) - len(self._blocked)} are left that '
                f'Octavia works on, or that wait to be tried again')

    def choose(self, room: int) -> tuple[tuple[limits.Candidate, bool], ...]:
        """Return (limits.Candidate, is a canary) of what begins now."""
        canaries = self._get_canaries()
        is_canary = self.needs_canaries()
        zones: collections.Counter[str | None] = collections.Counter(
            r.availability_zone for r in self.open.values())
        chosen = take(canaries if is_canary else self._ready, room,
                      self._settings.parallel_per_az, zones)
        return tuple((candidate, is_canary) for candidate in chosen)

    def _get_canaries(self) -> list[limits.Candidate]:
        """Return the canaries that have not begun yet."""
        missing: dict[limits.Group, int] = {}
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


def take(candidates: Iterable[limits.Candidate], room: int, per_zone: int,
         zones: collections.Counter[str | None]) -> list[limits.Candidate]:
    """Take the first candidates that may begin together.

    :param per_zone: how many of an availability zone at once, 0 for any.
    :param zones: how many are running in each; taken ones are added.
    """
    taken: list[limits.Candidate] = []
    for candidate in candidates:
        if len(taken) >= room:
            break
        zone = candidate.availability_zone
        if not per_zone or zones[zone] < per_zone:
            zones[zone] += 1
            taken.append(candidate)
    return taken


@dataclasses.dataclass(frozen=True)
class Sight:
    """What was observed besides the load balancer's rows.

    :param timeout: seconds without a heartbeat after which Octavia fails an
                    amphora over; a bad operating status is tolerated as long.
    :param heard_ago: seconds since the last heartbeat of any amphora, None
                      for none.
    :param error_for: for how many seconds its operating status was seen to
                      be ERROR.
    """

    timeout: float
    heard_ago: float | None
    error_for: float


def is_worse(watched: aftermath_repo.Watched) -> bool:
    """Tell whether its operating status is ERROR and was not before."""
    return (watched.operating_status == compat.ERROR and
            watched.old_status not in (None, compat.ERROR))


def find_problem(watched: aftermath_repo.Watched,
                 sight: Sight) -> str | None:
    """Return what is wrong with a load balancer, None if it is well."""
    return (_find_broken(watched) or _find_replaced(watched) or
            _find_silent(watched, sight) or _find_worse(watched, sight))


def _is_member(watched: aftermath_repo.Watched) -> bool:
    """Tell whether its amphorae are members of a cluster."""
    return watched.provider == compat.CLUSTER_PROVIDER


def _find_broken(watched: aftermath_repo.Watched) -> str | None:
    for amphora in watched.amphorae:
        if amphora.status == compat.ERROR:
            return f'amphora {amphora.id} is in ERROR'
        if amphora.is_busy and not _is_member(watched):
            return f'amphora {amphora.id} is failed over again'
    return None


def _find_replaced(watched: aftermath_repo.Watched) -> str | None:
    if _is_member(watched):
        return None
    later = [amphora.id for amphora in watched.amphorae
             if amphora.created_at is not None and
             amphora.created_at > watched.finished_at]
    if later:
        return f'an amphora was failed over again, to {", ".join(later)}'
    there = {amphora.id for amphora in watched.amphorae}
    if watched.new_amphora_id not in {None, *there}:
        return f'amphora {watched.new_amphora_id} is gone'
    return None


def _find_silent(watched: aftermath_repo.Watched,
                 sight: Sight) -> str | None:
    if sight.heard_ago is None or sight.heard_ago > sight.timeout:
        # If no amphora at all is heard, the image is not the cause.
        return None
    for amphora in watched.amphorae:
        if amphora.silent_for is None or amphora.silent_for > sight.timeout:
            return (f'amphora {amphora.id} has sent no heartbeat for more '
                    f'than {sight.timeout:.0f} s')
    return None


def _find_worse(watched: aftermath_repo.Watched, sight: Sight) -> str | None:
    if is_worse(watched) and sight.error_for >= sight.timeout:
        return (f'its operating status, {watched.old_status} before, is '
                f'ERROR')
    return None


def is_on_image(load_balancer: outdated.LoadBalancer,
                brought: Brought) -> bool:
    """Tell whether an amphora has an image of brought, {id: images}."""
    images = brought.get(load_balancer.id, ())
    return any(amphora.image_id in images
               for amphora in load_balancer.amphorae)


def find_tags_to_change(load_balancers: Sequence[outdated.LoadBalancer],
                        brought: Brought,
                        image_of_tag: Mapping[str | None, str | None]
                        ) -> dict[str | None, str]:
    """Return {tag: image} of tags that still point to what is undone."""
    return {each.tag: image for each in load_balancers
            if (image := image_of_tag.get(each.tag)) is not None and
            image in brought[each.id]}
