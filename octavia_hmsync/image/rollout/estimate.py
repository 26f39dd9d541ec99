# SPDX-License-Identifier: Apache-2.0

"""How far a rollout is, and how long it takes, if nothing fails.

Pure rules, from the windows, the limit per hour, and the usual duration of a
replacement.
"""

import collections
from collections.abc import Sequence
import dataclasses
import datetime
import heapq

from octavia_hmsync.conf import windows as win
from octavia_hmsync.image.db import replacement as replace_repo
from octavia_hmsync.image.db import rollout as rollout_repo
from octavia_hmsync.image.rollout import limits
from octavia_hmsync.image.rollout import rules


def get_waves(settings: rollout_repo.Settings,
              candidates: Sequence[limits.Candidate]
              ) -> list[tuple[bool, list[limits.Candidate]]]:
    """Return (are canaries, Candidates that begin together), in order.

    A real rollout has no waves: a finished and watched load balancer makes
    room for the next. The waves only show which load balancers are canaries,
    and the order of the others.
    """
    ordered = sorted(candidates, key=lambda c: c.load_balancer_id)
    seen: collections.Counter[limits.Group] = collections.Counter()
    canaries: list[limits.Candidate] = []
    others: list[limits.Candidate] = []
    for candidate in ordered:
        seen[candidate.group] += 1
        is_canary = seen[candidate.group] <= settings.canaries
        (canaries if is_canary else others).append(candidate)
    return [(is_canary, wave)
            for is_canary, part in ((True, canaries), (False, others))
            for wave in _split(settings, part)]


def _split(settings: rollout_repo.Settings,
           candidates: list[limits.Candidate]) -> list[list[limits.Candidate]]:
    """Split into waves of candidates that may begin together."""
    per_zone = settings.parallel_per_az or len(candidates)
    queues: dict[str | None, collections.deque[tuple[int, limits.Candidate]]]
    queues = collections.defaultdict(collections.deque)
    for item in enumerate(candidates):
        queues[item[1].availability_zone].append(item)
    waves = []
    while queues:
        wave: list[limits.Candidate] = []
        used: collections.Counter[str | None] = collections.Counter()
        # The first candidate of each zone, by its place among all.
        heads = [(queue[0][0], zone)
                 for zone, queue in queues.items()]
        heapq.heapify(heads)
        while heads and len(wave) < settings.parallel:
            zone = heapq.heappop(heads)[-1]
            queue = queues[zone]
            wave.append(queue.popleft()[1])
            used[zone] += 1
            if not queue:
                del queues[zone]
            elif used[zone] < per_zone:
                heapq.heappush(heads, (queue[0][0], zone))
        waves.append(wave)
    return waves


def get_end(settings: rollout_repo.Settings,
            found: Sequence[tuple[bool, Sequence[limits.Candidate]]],
            now: datetime.datetime, seconds: float,
            at_once: int) -> datetime.datetime:
    """Return when all is done if nothing fails and nothing has to wait.

    :param seconds: duration of one load balancer.
    :param at_once: how many all housekeepers together replace at once; a
                    larger wave takes several turns.
    :returns: now if there is no wave.
    :raises NotPossible: if the windows cannot be read.
    """
    windows = win.parse(settings.windows)
    per_hour = settings.rate_per_hour
    hour = datetime.timedelta(seconds=limits.HOUR)
    starts: list[datetime.datetime] = []
    for _is_canary, wave in found:
        for _candidate in wave:
            if per_hour and len(starts) >= per_hour:
                now = max(now, starts[-per_hour] + hour)
            now = win.get_opening(windows, now)
            starts.append(now)
        turns = -(-len(wave) // at_once)
        now += datetime.timedelta(
            seconds=turns * seconds + settings.watch_time)
    return now


@dataclasses.dataclass(frozen=True)
class Outlook:
    """How far a rollout is, and how long it takes yet.

    Counts are of load balancers.

    :param done: whose last replacement is done.
    :param left: that it will still begin, or has to try again.
    :param total: all that it deals with: ended, running or left.
    :param ends_at: UTC, when all is done if nothing fails; None if that
                    cannot be told.
    """

    done: int
    left: int
    total: int
    per_second: float
    ends_at: datetime.datetime | None


def get_outlook(situation: limits.Situation, age: float,
                seconds: float | None, at_once: int) -> Outlook:
    """Return how far a rollout is, or raise NotPossible for its windows."""
    progress = rules.Progress(situation)
    left = progress.get_left()
    dealt_with = {r.load_balancer_id for r in situation.replacements
                  if r.state != replace_repo.SKIPPED}
    done = [r for r in situation.replacements
            if r.state == replace_repo.DONE]
    period = min(age, limits.HOUR)
    lately = [r for r in done if r.finished_at is not None and
              (situation.now - r.finished_at).total_seconds() <= period]
    settings = situation.settings
    if not progress.needs_canaries():
        settings = dataclasses.replace(settings, canaries=0)
    ends_at = None
    if at_once and seconds is not None:
        # What runs counts as about to begin: how far it is varies.
        waves = get_waves(settings, [*left, *progress.get_running()])
        ends_at = get_end(settings, waves, situation.now, seconds, at_once)
    return Outlook(
        len({r.load_balancer_id for r in done}), len(left),
        len(dealt_with.union(c.load_balancer_id for c in left)),
        len(lately) / period if period else 0.0, ends_at)
