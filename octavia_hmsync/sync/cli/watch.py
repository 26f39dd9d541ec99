# SPDX-License-Identifier: Apache-2.0

"""octavia-hmsync sync watch."""

import dataclasses

from cliff import command

from octavia_hmsync.cli import base
from octavia_hmsync.cli import progress
from octavia_hmsync.sync.db import amphora as amphora_repo
from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.db import house_keeper as keeper_repo
from octavia_hmsync.sync.db import pause as pause_repo
from octavia_hmsync.sync.db import progress as progress_repo
from octavia_hmsync.sync.rules import trial
from octavia_hmsync.sync.worker import targets


@dataclasses.dataclass(frozen=True)
class Part:
    """The amphorae that are to get one generation."""

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
    :param house_keepers: see house_keeper.get_up().
    :param failed: the first rows of amphorae that failed at the newest one.
    :param other_key: how many amphorae are not known to sign with its key.
    """

    parts: list
    pause: pause_repo.Pause | None
    house_keepers: dict
    failed: list
    other_key: int = 0

    @property
    def is_complete(self):
        """Whether every amphora has the newest list, and may keep it."""
        return (len(self.parts) == 1 and self.parts[0].is_complete and
                self.parts[0].generation.status == trial.OPEN)


def look(conf, engine):
    """Read the progress of amphorae."""
    parts = [Part(target.generation, progress_repo.get_progress(
        engine, target.generation.number, target.admitted_to,
        target.not_admitted_to)) for target in targets.get_goals(engine)]
    return Look(
        parts, pause_repo.get(engine),
        keeper_repo.get_up(engine, conf.hmsync.offline_after),
        progress_repo.get_failed(engine, parts[0].generation.number,
                                 progress.NAMED) if parts else [],
        amphora_repo.count_other_key(
            engine, parts[0].generation.key_digest) if parts else 0)


def wait(order: base.Change, parsed_args, conf, engine, is_done=None):
    """Wait until every amphora has the newest list, as "sync watch" does.

    :param is_done: called with a Look, in place of that.
    :raises NotPossible: after --timeout.
    """
    def look_once():
        seen = look(conf, engine)
        return (is_done(seen) if is_done else seen.is_complete,
                describe_problems(seen, conf.hmsync.offline_after),
                [make_bar(part) for part in seen.parts])

    order.wait(parsed_args, look_once, 'It goes on: see "octavia-hmsync sync '
                                       'watch".')


def make_bar(part):
    """Return the progress.Bar of a generation."""
    counts = part.progress
    facts = [f'{number} {what}' for number, what in (
        (counts.claimed, 'in work'), (counts.failed, 'failed'),
        (counts.adopted, 'seen to use it')) if number]
    if part.generation.is_on_trial and part.is_complete:
        facts.append('watching how they fare')
    return progress.Bar(
        f'generation {part.generation.number} {part.generation.status}',
        counts.done, counts.amphorae, 'amphorae', tuple(facts))


def describe_problems(seen: Look, offline_after):
    """Report what keeps amphorae from their list."""
    lines = []
    if not seen.parts:
        lines.append('No list has been published yet: see "octavia-hmsync '
                     'health manager list".')
    if seen.pause:
        lines.append(describe_pause(seen.pause))
    if not seen.house_keepers:
        lines.append(describe_nobody(offline_after))
    lines += [f'octavia-housekeeping on {host} uploads nothing: {problem}'
              for host, problem in seen.house_keepers.items() if problem]
    if seen.other_key:
        number = base.count(seen.other_key, 'amphora is', 'amphorae are')
        lines.append(f'{number} not known to sign with the heartbeat_key of '
                     f'the newest list.')
    return lines + progress.name_some(
        [f'{row.id} at {row.lb_network_ip} is {row.result} after '
         f'{base.count(row.attempts, "attempt", "attempts")}: {row.error}. '
         f'{_describe_next(row)}'
         for row in seen.failed],
        seen.parts[0].progress.failed if seen.parts else 0,
        'octavia-hmsync amphora list')


def describe_nobody(offline_after):
    """Report that no housekeeper is up, in one line."""
    return (f'No octavia-housekeeping with octavia-hmsync has given a sign of '
            f'life for {offline_after} s: no uploads take place.')


def describe_pause(pause: pause_repo.Pause):
    """Report that uploads are paused, in one line."""
    return (f'Paused until {base.format_time(pause.ends_at)} UTC '
            f'({pause.reason or "no reason given"}): see "octavia-hmsync '
            f'sync resume".')


def _describe_next(row):
    if row.next_attempt_at is None or row.next_attempt_at <= row.now:
        return 'It is tried again now.'
    # A time, not a duration: a line that keeps changing is no news.
    return f'It is tried again at {base.format_time(row.next_attempt_at)} UTC.'


class Watch(base.DatabaseMixin, command.Command):
    """Show how far the amphorae are with their list, until all have it.

    A bar for each generation on a terminal, a line for each change
    otherwise; with what is stuck, and why. While canaries try a list, that
    one and the last good one are shown. Fails after --timeout.
    """

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        progress.add_arguments(parser)
        parser.add_argument('--follow', action='store_true',
                            help='go on when all amphorae have their list')
        return parser

    def take_action(self, parsed_args):
        conf, engine = self.open_database()
        # The last state of each generation, also of former ones.
        bars: dict[int, progress.Bar] = {}

        def show(seen):
            current = {part.generation.number: make_bar(part)
                       for part in seen.parts}
            if current:
                bars.update({
                    number: dataclasses.replace(
                        bar, total=None, per_second=0,
                        facts=('then another came',))
                    for number, bar in bars.items() if number not in current})
            bars.update(current)
            watch.show([bar for _number, bar in sorted(bars.items())],
                       describe_problems(seen, conf.hmsync.offline_after))
            return seen.is_complete and not parsed_args.follow

        with progress.Watch(self.app, parsed_args.interval,
                            parsed_args.timeout,
                            explain=base.explain_passing) as watch:
            watch.follow(
                lambda: look(conf, engine), show,
                f'After {parsed_args.timeout or 0:g} s not every amphora has '
                f'the newest list: see above for what keeps them, or '
                f'"octavia-hmsync amphora list".')
        self.app.stdout.write(f'Every amphora has generation {max(bars)}.\n')
