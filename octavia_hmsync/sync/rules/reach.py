# SPDX-License-Identifier: Apache-2.0

"""Whom which service can reach, and what that says: pure rules.

A service that uploads on one controller is an uploader. What it cannot reach
says something of the amphora only if it reaches others, and something of the
uploader if others reach these amphorae.
"""

from collections import abc
import dataclasses
import datetime

# So many amphorae that others reach are no accident.
_OVERTAKEN = 3
# Where it is not known whether an uploader can reach anybody, it begins with
# so many amphorae: if it cannot, it holds up no more of them than these.
_FIRST_BATCH = 8
# One lost connection is no proof of a death.
_ATTEMPTS_IN_VAIN = 2


@dataclasses.dataclass(frozen=True)
class Uploader:
    """A service that uploads, and how it fared of late.

    :param name: service and host.
    :param keepalive_age: seconds since it looked for work.
    :param reached_at: when somebody answered it for the last time, or None.
    :param failing_since: when it began with the first attempt since then at
                          which nobody answered, None if there is none.
    :param failures: at how many amphorae there was one since then.
    :param overtaken: how many of these another uploader has reached.
    """

    name: str
    keepalive_age: float
    reached_at: datetime.datetime | None
    failing_since: datetime.datetime | None
    failures: int
    overtaken: int


@dataclasses.dataclass(frozen=True)
class Attempt:
    """One uploader's attempts at one amphora, all in vain.

    :param uploader: its name.
    :param attempts: how many, at the newest generation.
    :param is_unanswered: whether nobody answered, each of these times.
    :param first_tried_at: when the first of them began.
    """

    uploader: str
    attempts: int
    is_unanswered: bool
    first_tried_at: datetime.datetime


def is_up(uploader: Uploader, max_age: float) -> bool:
    """Tell whether an uploader looks for work.

    :param uploader: an Uploader.
    :param max_age: ``[hmsync] offline_after``, seconds.
    """
    return uploader.keepalive_age <= max_age


def is_suspect(uploader: Uploader) -> bool:
    """Tell whether others reach those amphorae that an uploader does not."""
    return uploader.overtaken >= _OVERTAKEN


def count_overtaken(uploader: Uploader,
                    applied_at: abc.Collection[datetime.datetime]) -> int:
    """Return how many amphorae others reach to which there is no way.

    :param uploader: an Uploader that has just looked for one in vain.
    :param applied_at: when each amphora that it tried answered somebody.
    """
    if uploader.failing_since is None:
        return 0
    # It was another one: an answer to itself would have ended this.
    return sum(at >= uploader.failing_since for at in applied_at)


def get_able(uploaders: abc.Iterable[Uploader],
             max_age: float) -> list[Uploader]:
    """Return those that are up, and not known to reach nobody.

    :param uploaders: all of them.
    :param max_age: see is_up().
    """
    return [u for u in uploaders if is_up(u, max_age) and not is_suspect(u)]


def get_active(uploaders: abc.Iterable[Uploader],
               max_age: float) -> list[Uploader]:
    """Return those that do the work: who is able, or else who is up at all.

    :param uploaders: all of them.
    :param max_age: see is_up().
    """
    uploaders = list(uploaders)
    return (get_able(uploaders, max_age) or
            [u for u in uploaders if is_up(u, max_age)])


def get_blind(uploaders: abc.Iterable[Uploader],
              max_age: float) -> list[Uploader]:
    """Return those that reach nobody, while others are up that do.

    :param uploaders: all of them.
    :param max_age: see is_up().
    """
    uploaders = list(uploaders)
    active = get_active(uploaders, max_age)
    return [u for u in uploaders if is_up(u, max_age) and u not in active]


def is_trusted(uploader: Uploader) -> bool:
    """Tell whether the fault lies with the amphorae, as far as one can tell.

    :returns: False while an uploader that failed at several amphorae has
              reached nobody since.
    """
    return not is_suspect(uploader) and uploader.failures < _OVERTAKEN


def batch_limit(own: Uploader, others: abc.Iterable[Uploader],
                max_age: float, limit: int, has_reached: bool) -> int:
    """Return how many amphorae an uploader may claim at once.

    :param own: the Uploader.
    :param others: all others.
    :param max_age: see is_up().
    :param limit: how many a batch may have at most.
    :param has_reached: whether its process has reached anybody so far.
    :returns: 0 to leave the work to the others.
    """
    able = get_able(others, max_age)
    if not able:
        return limit
    if is_suspect(own):
        return 0
    if has_reached and is_trusted(own):
        return limit
    # While nobody answers anybody, thousands that are dead must not hold up
    # the rest for long: it doubles.
    return min(limit, max(_FIRST_BATCH, own.failures))


def is_slow_start(own: Uploader, others: abc.Iterable[Uploader],
                  max_age: float, has_reached: bool) -> bool:
    """Tell whether one batch at a time is enough; see batch_limit()."""
    return bool(get_able(others, max_age)) and not (
        has_reached and is_trusted(own))


def next_look(times: abc.Mapping[str, datetime.datetime],
              active: abc.Iterable[str]) -> datetime.datetime | None:
    """Return when the first uploader is to look at an amphora.

    :param times: until when each uploader that has tried it waits.
    :param active: names of those that do the work; see get_active().
    :returns: a time; None for now, as one of them has not tried it yet.
    """
    active = set(active)
    if not active:
        return min(times.values(), default=None)
    if active - set(times):
        return None
    return min(times[name] for name in active)


def is_believed(attempts: abc.Iterable[Attempt],
                uploaders: abc.Iterable[Uploader], max_age: float) -> bool:
    """Tell whether uploads in vain prove that an amphora is gone.

    Only if nobody ever answered, if whoever is able to try it has done so,
    and if one of these has reached another amphora since it began to: not if
    the fault may lie with the uploaders.

    :param attempts: those at the newest generation.
    :param uploaders: all of them.
    :param max_age: see is_up().
    """
    attempts = list(attempts)
    if not all(a.is_unanswered for a in attempts):
        return False
    known = {u.name: u for u in uploaders if not is_suspect(u)}
    counted = [a for a in attempts if a.uploader in known]
    if any(is_up(u, max_age) and u.name not in {a.uploader for a in counted}
           for u in known.values()):
        return False
    return (sum(a.attempts for a in counted) >= _ATTEMPTS_IN_VAIN and
            any(_has_reached_since(known[a.uploader], a.first_tried_at)
                for a in counted))


def _has_reached_since(uploader: Uploader, at: datetime.datetime) -> bool:
    return uploader.reached_at is not None and uploader.reached_at >= at
