# SPDX-License-Identifier: Apache-2.0

"""When a rollout may begin a replacement, how long it waits, when it halts.

Pure rules about a rollout as a whole, whichever load balancer is next.
"""

from collections.abc import Sequence
import dataclasses
import datetime

from octavia_hmsync.conf import windows as win
from octavia_hmsync.image.db import replacement as replace_repo
from octavia_hmsync.image.db import rollout as rollout_repo

HOUR = 3600

# Tries of a load balancer: with the waits below, for two hours.
TRIES = 8
# Seconds between two tries, at most.
LONGEST_WAIT = 3600
# Seconds after which a PENDING load balancer is not waited for.
STUCK_AFTER = 3600
# How many load balancers are named in one line.
_NAMED = 5

Group = tuple[str | None, str | None, str | None, str | None]


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A load balancer that is outdated, and not excluded.

    :param is_pending: whether it waits for something that passes.
    :param blocked_by: other obstacles, empty without any.
    """

    load_balancer_id: str
    topology: str | None = None
    flavor_id: str | None = None
    availability_zone: str | None = None
    target_image_id: str | None = None
    is_pending: bool = False
    blocked_by: tuple[str, ...] = ()
    operating_status: str | None = None
    was_spread: bool = False

    @property
    def group(self) -> Group:
        return (self.topology, self.flavor_id, self.availability_zone,
                self.target_image_id)


@dataclasses.dataclass(frozen=True)
class Situation:
    """The data of one decision.

    :param replacements: all of this rollout; rows of get_standing(), or
                         Replacements.
    :param open_elsewhere: ids of load balancers that have an open replacement
                           outside this rollout.
    :param start_ages: how many seconds ago replacements of any rollout
                       began, of the last hour at least.
    """

    settings: rollout_repo.Settings
    now: datetime.datetime
    candidates: Sequence[Candidate]
    replacements: Sequence[replace_repo.Replacement] = ()
    open_elsewhere: frozenset[str] = frozenset()
    start_ages: Sequence[float] = ()


def why_halted(situation: Situation) -> str | None:
    """Return why a rollout must end, and what to do, or None."""
    failed = [r.load_balancer_id for r in situation.replacements
              if r.state == replace_repo.FAILED]
    if len(failed) < situation.settings.max_failures:
        return None
    done = sum(r.state == replace_repo.DONE for r in situation.replacements)
    kept = (f'; {done} done before keep the image: if it is bad, take its '
            f'tag off and run "octavia-hmsync rollout undo"'
            if done else '')
    return f'{len(failed)} failed: {name(failed)}{kept}'


def name(load_balancer_ids: Sequence[str]) -> str:
    """Name some load balancers, in one line."""
    named = ', '.join(load_balancer_ids[:_NAMED])
    more = len(load_balancer_ids) - _NAMED
    return f'{named} and {more} more' if more > 0 else named


def is_watched(replacement: replace_repo.Replacement,
               settings: rollout_repo.Settings,
               now: datetime.datetime) -> bool:
    """Tell whether a replacement is done, but still watched."""
    return (replacement.state == replace_repo.DONE and
            replacement.finished_at is not None and
            get_watch_end(replacement, settings) > now)


def get_watch_end(replacement: replace_repo.Replacement,
                  settings: rollout_repo.Settings) -> datetime.datetime:
    """Return when the watch of a DONE replacement ends."""
    assert replacement.finished_at is not None
    return replacement.finished_at + datetime.timedelta(
        seconds=settings.watch_time)


def count_places(situation: Situation) -> tuple[int, int]:
    """Return how many are running, and how many are watched."""
    return (sum(r.state in replace_repo.OPEN_STATES
                for r in situation.replacements),
            sum(is_watched(r, situation.settings, situation.now)
                for r in situation.replacements))


def get_wait(wait: float, skipped: int) -> float | None:
    """Return the wait, doubled for each skip before; None: given up."""
    if skipped + 1 >= TRIES:
        return None
    return min(wait * float(2 ** skipped), LONGEST_WAIT)


def is_stuck(pending_for: float | None) -> bool:
    """Tell whether PENDING takes too long; None if that is not recorded."""
    return pending_for is not None and pending_for >= STUCK_AFTER


def get_limit(situation: Situation) -> str | None:
    """Return why nothing may begin, or None; NotPossible: bad windows."""
    running, watched = count_places(situation)
    settings = situation.settings
    windows = win.parse(settings.windows)
    if not win.is_open(windows, situation.now):
        opening = win.get_opening(windows, situation.now)
        return (f'the maintenance window opens at '
                f'{opening.isoformat(timespec="minutes")} UTC')
    if running + watched >= settings.parallel:
        return _describe_places(situation, running, watched)
    if get_room(situation, running + watched) <= 0:
        ages = sorted(age for age in situation.start_ages if age < HOUR)
        wait = HOUR - ages[settings.rate_per_hour - 1]
        # A time, not a duration: a line that keeps changing is no news.
        opening = situation.now + datetime.timedelta(seconds=wait)
        return (f'{len(ages)} began within an hour: the next one may at '
                f'{opening.isoformat(timespec="minutes")} UTC')
    return None


def _describe_places(situation: Situation, running: int,
                     watched: int) -> str:
    if not watched:
        return f'{running} run, as many as may at once'
    ends = min(get_watch_end(r, situation.settings)
               for r in situation.replacements
               if is_watched(r, situation.settings, situation.now))
    return (f'{running} run and {watched} that are done are watched, as many '
            f'as may at once: the first of these until '
            f'{ends.isoformat(timespec="minutes")} UTC')


def get_room(situation: Situation, taken: int) -> int:
    """Return how many may begin, with so many taken, in all zones."""
    settings = situation.settings
    room = settings.parallel - taken
    if settings.rate_per_hour:
        room = min(room, settings.rate_per_hour - sum(
            age < HOUR for age in situation.start_ages))
    return max(room, 0)
