# SPDX-License-Identifier: Apache-2.0

"""Which uploader can reach which amphorae, and what that proves: pure rules.

An uploader is a service that uploads, on one controller. An amphora that it
cannot reach may be gone only if the uploader reaches other amphorae. If other
uploaders reach the amphora, the fault lies with this uploader.
"""

from collections import abc
import dataclasses
import datetime

# An uploader that fails at fewer amphorae that others reach may be unlucky.
_OVERTAKEN = 3
# Amphorae of the first batch of an uploader that has not reached any amphora
# yet: if it cannot, it delays only these.
_FIRST_BATCH = 8
# One lost connection is no proof of a death.
_ATTEMPTS_IN_VAIN = 2


@dataclasses.dataclass(frozen=True)
class Uploader:
    """A service that uploads, and its recent results.

    :param name: service and host.
    :param keepalive_age: seconds since it looked for work.
    :param reached_at: when an amphora last answered it, or None.
    :param failing_since: when the first unanswered attempt after reached_at
                          began, or None.
    :param failures: amphorae that did not answer since reached_at.
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
    """One uploader's failed attempts at one amphora.

    :param attempts: how many, at the newest generation.
    :param is_unanswered: whether no attempt got an answer.
    :param first_tried_at: when the first attempt began.
    """

    uploader: str
    attempts: int
    is_unanswered: bool
    first_tried_at: datetime.datetime


def is_up(uploader: Uploader, max_age: float) -> bool:
    """Tell whether an uploader has looked for work recently."""
    return uploader.keepalive_age <= max_age


def is_suspect(uploader: Uploader) -> bool:
    """Tell whether other uploaders reach amphorae that this one does not."""
    return uploader.overtaken >= _OVERTAKEN


def count_overtaken(uploader: Uploader,
                    applied_at: abc.Collection[datetime.datetime]) -> int:
    """Return how many amphorae only other uploaders can reach.

    :param uploader: an Uploader that has just looked for one in vain.
    :param applied_at: when each amphora that this uploader has just probed in
                       vain last answered any uploader.
    """
    if uploader.failing_since is None:
        return 0
    # These answered another uploader: an answer to this one would have
    # cleared failing_since.
    return sum(at >= uploader.failing_since for at in applied_at)


def get_able(uploaders: abc.Iterable[Uploader],
             max_age: float) -> list[Uploader]:
    """Return the uploaders that are up and not suspect."""
    return [u for u in uploaders if is_up(u, max_age) and not is_suspect(u)]


def get_active(uploaders: abc.Iterable[Uploader],
               max_age: float) -> list[Uploader]:
    """Return the able uploaders; if there are none, all that are up."""
    uploaders = list(uploaders)
    return (get_able(uploaders, max_age) or
            [u for u in uploaders if is_up(u, max_age)])


def get_blind(uploaders: abc.Iterable[Uploader],
              max_age: float) -> list[Uploader]:
    """Return the suspect uploaders, if others that reach amphorae are up."""
    uploaders = list(uploaders)
    active = get_active(uploaders, max_age)
    return [u for u in uploaders if is_up(u, max_age) and u not in active]


def is_trusted(uploader: Uploader) -> bool:
    """Tell whether an uploader's failures are likely the amphorae's fault.

    :returns: False if it failed at several amphorae and has reached none
              since.
    """
    return not is_suspect(uploader) and not is_systematic(uploader.failures)


def is_systematic(failures: int) -> bool:
    """Tell whether so many amphorae are too many to have failed by chance.

    :param failures: how many, without one that did not in between.
    """
    return failures >= _OVERTAKEN


def batch_limit(own: Uploader, others: abc.Iterable[Uploader],
                max_age: float, limit: int, has_reached: bool) -> int:
    """Return how many to claim at once; 0 leaves it to the others."""
    able = get_able(others, max_age)
    if not able:
        return limit
    if is_suspect(own):
        return 0
    if has_reached and is_trusted(own):
        return limit
    # If no amphora answers any uploader, thousands of dead ones must not
    # delay the rest for long: failures, and so the batch, grow each time.
    return min(limit, max(_FIRST_BATCH, own.failures))


def is_slow_start(own: Uploader, others: abc.Iterable[Uploader],
                  max_age: float, has_reached: bool) -> bool:
    """Tell whether one batch at a time is enough; see batch_limit()."""
    return bool(get_able(others, max_age)) and not (
        has_reached and is_trusted(own))


def next_look(times: abc.Mapping[str, datetime.datetime],
              active: abc.Iterable[str]) -> datetime.datetime | None:
    """Return when the first uploader should try an amphora again.

    :param times: until when each uploader that has tried it waits, by name.
    :param active: names of the uploaders of get_active().
    :returns: None for now, if an active uploader has yet to try it.
    """
    active = set(active)
    if not active:
        return min(times.values(), default=None)
    if active - set(times):
        return None
    return min(times[name] for name in active)


def is_believed(attempts: abc.Iterable[Attempt],
                uploaders: abc.Iterable[Uploader], max_age: float) -> bool:
    """Tell whether failed uploads prove that an amphora is gone.

    They do if no attempt got an answer, every able uploader has tried, and
    one of them has reached another amphora since its first attempt. Otherwise
    the fault may lie with the uploaders.
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
