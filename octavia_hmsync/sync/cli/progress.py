# SPDX-License-Identifier: Apache-2.0

"""What "sync watch" sees at a look, and how it reports that."""

import collections
import dataclasses

from octavia_hmsync.cli import base
from octavia_hmsync.sync.db import amphora as amphora_repo
from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.db import house_keeper as keeper_repo
from octavia_hmsync.sync.db import pause as pause_repo
from octavia_hmsync.sync.db import progress as progress_repo
from octavia_hmsync.sync.rules import trial
from octavia_hmsync.sync.worker import targets

# How many failed amphorae are named.
_NAMED = 5
# Seconds over which a rate is taken.
_RATE_PERIOD = 10


@dataclasses.dataclass(frozen=True)
class Part:
    """The amphorae that are to get one generation.

    :param generation: a Generation.
    :param progress: their Progress.
    """

    generation: generation_repo.Generation
    progress: progress_repo.Progress

    @property
    def is_complete(self):
        """Whether all amphorae that may have the list have it."""
        return self.progress.done >= self.progress.amphorae


@dataclasses.dataclass(frozen=True)
class Look:
    """What was seen at one time.

    :param parts: a list of Part, the newest generation first.
    :param pause: the present Pause, or None.
    :param house_keepers: hosts of the housekeepers that are up.
    :param failed: the first rows of amphorae that failed at the newest one.
    :param other_key: how many amphorae are not known to sign with its key.
    """

    parts: list
    pause: pause_repo.Pause | None
    house_keepers: list
    failed: list
    other_key: int = 0

    @property
    def is_complete(self):
        """Whether every amphora has the newest list, and may keep it."""
        return (len(self.parts) == 1 and self.parts[0].is_complete and
                self.parts[0].generation.status == trial.OPEN)


def look(conf, engine):
    """Read the progress of amphorae.

    :returns: a Look.
    """
    parts = [Part(target.generation, progress_repo.get_progress(
        engine, target.generation.number, target.admitted_to,
        target.not_admitted_to)) for target in targets.get_goals(engine)]
    return Look(
        parts, pause_repo.get(engine),
        keeper_repo.get_up(engine, conf.hmsync.offline_after),
        progress_repo.get_failed(engine, parts[0].generation.number,
                                 _NAMED) if parts else [],
        amphora_repo.count_other_key(
            engine, parts[0].generation.key_digest) if parts else 0)


class Rates:
    """How many amphorae per second get each generation."""

    def __init__(self):
        self._seen = collections.defaultdict(collections.deque)

    def note(self, now, number, done):
        """Record how many amphorae have a generation.

        :param now: a monotonic time, seconds.
        :param number: the generation.
        :param done: how many.
        :returns: amphorae per second lately, 0.0 until that is known.
        """
        seen = self._seen[number]
        seen.append((now, done))
        while len(seen) > 2 and now - seen[1][0] >= _RATE_PERIOD:
            seen.popleft()
        then, before = seen[0]
        return max(0.0, (done - before) / (now - then)) if now > then else 0.0


def describe_part(part, rate):
    """Return the progress of a generation in one line, without the bar.

    :param rate: amphorae per second.
    :returns: a line of text.
    """
    progress = part.progress
    words = [f'{progress.done} of {progress.amphorae} amphorae']
    if rate and not part.is_complete:
        left = (progress.amphorae - progress.done) / rate
        words.append(f'{rate:.1f} per second, {left:.0f} s left')
    for number, what in ((progress.claimed, 'in work'),
                         (progress.failed, 'failed'),
                         (progress.adopted, 'seen to use it')):
        if number:
            words.append(f'{number} {what}')
    if part.generation.is_on_trial and part.is_complete:
        words.append('watching how they fare')
    return ', '.join(words)


def name_part(part):
    """Name a generation, for the beginning of a line."""
    return f'generation {part.generation.number} {part.generation.status}'


def describe_problems(seen, offline_after):
    """Report what keeps amphorae from their list.

    :param seen: a Look.
    :param offline_after: ``[hmsync] offline_after``, seconds.
    :returns: a list of lines.
    """
    lines = []
    if not seen.parts:
        lines.append('No list has been published yet: see "octavia-hmsync '
                     'health manager list".')
    if seen.pause:
        lines.append(describe_pause(seen.pause))
    if not seen.house_keepers:
        lines.append(describe_nobody(offline_after))
    if seen.other_key:
        lines.append(f'{seen.other_key} amphorae are not known to sign with '
                     f'the heartbeat_key of the newest list.')
    for row in seen.failed:
        lines.append(f'{row.id} at {row.lb_network_ip} is {row.result} after '
                     f'{row.attempts} attempts: {row.error}. '
                     f'{_describe_next(row)}')
    if seen.parts and seen.parts[0].progress.failed > len(seen.failed):
        lines.append(f'and {seen.parts[0].progress.failed - len(seen.failed)}'
                     f' more: see "octavia-hmsync amphora list".')
    return lines


def describe_nobody(offline_after):
    """Report that no housekeeper is up, in one line.

    :param offline_after: ``[hmsync] offline_after``, seconds.
    """
    return (f'No octavia-housekeeping with octavia-hmsync has given a sign of '
            f'life for {offline_after} s: no uploads take place.')


def describe_pause(pause):
    """Report that uploads are paused, in one line.

    :param pause: a Pause.
    """
    return (f'Paused until {base.format_time(pause.ends_at)} UTC '
            f'({pause.reason or "no reason given"}): see "octavia-hmsync '
            f'sync resume".')


def _describe_next(row):
    if row.next_attempt_at is None or row.next_attempt_at <= row.now:
        return 'It is tried again now.'
    # A time, not a duration: a line that keeps changing is no news.
    return f'It is tried again at {base.format_time(row.next_attempt_at)} UTC.'
