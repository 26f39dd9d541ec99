# SPDX-License-Identifier: Apache-2.0

"""octavia-hmsync image rollout, except for its start and its watch."""

import collections

from cliff import command

from octavia_hmsync.cli import base
from octavia_hmsync.cli import formatters
from octavia_hmsync.conf import image as image_conf
from octavia_hmsync import exceptions
from octavia_hmsync.image.db import cancel as cancel_repo
from octavia_hmsync.image.db import replacement as replace_repo
from octavia_hmsync.image.db import rollout as rollout_repo
from octavia_hmsync.image.rollout import limits
from octavia_hmsync.image.rollout import model
from octavia_hmsync.sync.db import house_keeper as keeper_repo

STATES = (replace_repo.RUNNING, replace_repo.DONE, replace_repo.FAILED,
          replace_repo.REFUSED, replace_repo.SKIPPED, replace_repo.CANCELLED)
# Settings with a number, and their help texts.
NUMBERS = {
    'canaries': 'so many of each topology, flavor, availability zone and '
                'image come first',
    'parallel': 'so many load balancers at once',
    'parallel_per_az': 'so many of an availability zone at once, 0 for any',
    'rate_per_hour': 'so many may begin within an hour, 0 for any',
    'max_failures': 'halt when so many failed',
    'watch_time': 'seconds for which what is done is watched before it makes '
                  'room for the next one, 0 for none'}


def get_rollout(engine, rollout_id=None):
    """Return a rollout; without an id the active one, or the last one.

    :param rollout_id: its id, or None.
    :raises NotPossible: if there is none.
    """
    if rollout_id is not None:
        rollout = rollout_repo.get(engine, rollout_id)
        if rollout is None:
            raise exceptions.NotPossible(
                f'There is no rollout {rollout_id}: see "octavia-hmsync '
                f'image rollout list".')
        return rollout
    rollout = rollout_repo.get_active(engine)
    if rollout is None:
        newest = rollout_repo.get_all(engine, 1)
        if not newest:
            raise exceptions.NotPossible(
                'There was no rollout yet: begin one with "octavia-hmsync '
                'image rollout start".')
        rollout = newest[0]
    return rollout


def why_it_waits(engine, rollout, rows):
    """Tell why a rollout begins nothing more now, None if it may.

    Load balancers that are left out do not count.

    :param rollout: Rollout.
    :param rows: all of its Replacements.
    """
    if rollout.state != rollout_repo.RUNNING:
        return None
    ages = replace_repo.get_start_ages(engine, limits.HOUR)
    return limits.get_limit(model.Situation(
        rollout.settings, rollout.now, (), rows, start_ages=ages))


def count_at_once(conf, engine):
    """Return how many load balancers housekeeping replaces at once.

    By octavia.conf of this host; other hosts may differ.
    """
    return (conf[image_conf.GROUP].replacements_at_once *
            len(keeper_repo.get_up(engine, conf.hmsync.offline_after)))


def add_rollout_argument(parser):
    """Add the argument that names an earlier rollout."""
    parser.add_argument(
        'rollout', metavar='<rollout>', nargs='?',
        help='its id (default: the active one, or the last one)')


class _ChangeRollout(base.DatabaseMixin, command.Command):
    """For commands that change the state of the active rollout."""

    old: tuple[str, ...]
    new: str
    said: str
    verb: str
    # A note on running replacements.
    more = ''

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument('--reason', default='', metavar='<reason>',
                            help='why, for "image rollout show"')
        base.add_dry_run(parser, 'whether it could be done')
        return parser

    def take_action(self, parsed_args):
        _conf, engine = self.open_database()
        rollout = rollout_repo.get_active(engine)
        if rollout is None:
            raise exceptions.NotPossible(
                f'No rollout is there to {self.verb}: see "octavia-hmsync '
                f'image rollout list".')
        if rollout.state not in self.old or not (
                parsed_args.dry_run or self._change(
                    engine, rollout, parsed_args.reason)):
            raise exceptions.NotPossible(
                f'Rollout {rollout.id} is {rollout.state}, so that there is '
                f'nothing to {self.verb}: see "octavia-hmsync image rollout '
                f'show".')
        if parsed_args.dry_run:
            self.app.stdout.write(f'There is rollout {rollout.id} to '
                                  f'{self.verb}, which is {rollout.state}.\n')
            return
        running = replace_repo.count_states(engine, [rollout.id])[
            rollout.id].get(replace_repo.RUNNING, 0)
        more = self.more.format(running) if running else ''
        self.app.stdout.write(f'Rollout {rollout.id} {self.said}.{more}\n')

    def _change(self, engine, rollout, reason):
        """Change the state; returns False if it has changed meanwhile."""
        return rollout_repo.change_state(engine, rollout.id, self.old,
                                         self.new, reason)


class PauseRollout(_ChangeRollout):
    """Let a rollout begin nothing more; what runs comes to its end."""

    old, new = (rollout_repo.RUNNING,), rollout_repo.PAUSED
    said, verb = 'is paused', 'pause'
    more = ' {} that run come to their end.'


class ResumeRollout(_ChangeRollout):
    """Let a rollout that was paused go on."""

    old, new = (rollout_repo.PAUSED,), rollout_repo.RUNNING
    said, verb = 'goes on', 'resume'


class CancelRollout(_ChangeRollout):
    """End a rollout; what runs goes back, and what is done stays.

    A running replacement goes back at its next step, until it deletes the
    old amphora: after that it is completed.
    """

    old, new = rollout_repo.ACTIVE_STATES, rollout_repo.CANCELLED
    said, verb = 'is cancelled', 'cancel'
    more = (' {} that run go back, or come to their end where there is no '
            'way back: see "octavia-hmsync image replacement list".')

    def _change(self, engine, rollout, reason):
        return cancel_repo.cancel_rollout(engine, rollout.id, self.old,
                                          reason) is not None


class ListRollouts(base.DatabaseMixin, base.Lister):
    """List rollouts, the newest first."""

    def take_action(self, parsed_args):
        _conf, engine = self.open_database()
        rollouts = rollout_repo.get_all(engine)
        counts = replace_repo.count_states(engine, [r.id for r in rollouts])
        return (('id', 'state', 'mode', *map(str.lower, STATES),
                 'created_at', 'finished_at', 'reason'),
                [(r.id, r.state, r.settings.mode,
                  *(counts[r.id].get(state, 0) for state in STATES),
                  base.format_time(r.created_at),
                  base.format_time(r.finished_at), r.reason)
                 for r in rollouts])


class ShowRollout(base.DatabaseMixin, base.ShowOne):
    """Show a rollout: its limits, what runs, what failed, what is left."""

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        add_rollout_argument(parser)
        return parser

    def take_action(self, parsed_args):
        conf, engine = self.open_database()
        rollout = get_rollout(engine, parsed_args.rollout)
        rows = replace_repo.get_of_rollout(engine, rollout.id)
        settings = rollout.settings
        return (
            ('id', 'state', 'reason', 'waits_for', 'undo_of', 'mode',
             *NUMBERS, 'at_once', 'windows', *map(str.lower, STATES),
             'running_now', 'watched_now', 'failures', 'refusals',
             'tried_again', 'given_up', 'created_at', 'updated_at',
             'finished_at'),
            (rollout.id, rollout.state, rollout.reason,
             why_it_waits(engine, rollout, rows), rollout.undo_of,
             settings.mode, *(getattr(settings, name) for name in NUMBERS),
             min(settings.parallel, count_at_once(conf, engine)),
             settings.windows,
             *(sum(r.state == state for r in rows) for state in STATES),
             formatters.Lines(
                 f'{r.load_balancer_id} {r.phase or "-"}' for r in rows
                 if r.state == replace_repo.RUNNING),
             formatters.Lines(
                 f'{r.load_balancer_id} until '
                 f'{base.format_time(limits.get_watch_end(r, settings))}'
                 for r in rows
                 if limits.is_watched(r, settings, rollout.now)),
             _list_reasons(rows, replace_repo.FAILED),
             _list_reasons(rows, replace_repo.REFUSED),
             *_list_skipped(rows),
             base.format_time(rollout.created_at),
             base.format_time(rollout.updated_at),
             base.format_time(rollout.finished_at)))


def _list_reasons(rows, state):
    return formatters.Lines(f'{r.load_balancer_id}: {r.reason}'
                            for r in rows if r.state == state)


def _list_skipped(rows):
    """Return skipped ones that are tried again, and the others.

    The last attempt of each load balancer counts.
    """
    last = {r.load_balancer_id: r for r in rows}
    tries = collections.Counter((r.load_balancer_id, r.target_image_id)
                                for r in rows
                                if r.state == replace_repo.SKIPPED)
    again, given_up = [], []
    for r in last.values():
        if r.state != replace_repo.SKIPPED:
            continue
        number = tries[r.load_balancer_id, r.target_image_id]
        if number >= limits.TRIES:
            given_up.append(f'{r.load_balancer_id}: {r.reason}')
        else:
            when = (f', next not before {base.format_time(r.not_before)}'
                    if r.not_before else '')
            again.append(f'{r.load_balancer_id}: {r.reason} (tried {number} '
                         f'times{when})')
    return formatters.Lines(again), formatters.Lines(given_up)
