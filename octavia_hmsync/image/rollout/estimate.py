# SPDX-License-Identifier: Apache-2.0

"""How long a rollout takes at least.

Pure rules, for an operator who is about to start one: from the windows, the
limit per hour, and the usual duration of a replacement.
"""

from collections.abc import Sequence
import datetime

from octavia_hmsync.conf import windows as win
from octavia_hmsync.image.db import rollout as rollout_repo
from octavia_hmsync.image.rollout import limits
from octavia_hmsync.image.rollout import model


def get_end(settings: rollout_repo.Settings,
            waves: Sequence[tuple[bool, Sequence[model.Candidate]]],
            now: datetime.datetime, seconds: float,
            at_once: int) -> datetime.datetime:
    """Return when all is done if nothing fails and nothing has to wait.

    :param settings: of the rollout.
    :param waves: see octavia_hmsync.image.rollout.waves.
    :param now: UTC.
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
    for _is_canary, wave in waves:
        for _candidate in wave:
            if per_hour and len(starts) >= per_hour:
                now = max(now, starts[-per_hour] + hour)
            now = win.get_opening(windows, now)
            starts.append(now)
        turns = -(-len(wave) // at_once)
        now += datetime.timedelta(
            seconds=turns * seconds + settings.watch_time)
    return now


def describe(duration: datetime.timedelta) -> str:
    """Put a duration in words, rounded up."""
    minutes = -(-duration // datetime.timedelta(minutes=1))
    days, minutes = divmod(minutes, 24 * 60)
    hours, minutes = divmod(minutes, 60)
    return ' '.join(f'{number} {unit}' for number, unit in (
        (days, 'd'), (hours, 'h'), (minutes, 'min')) if number) or '0 min'
