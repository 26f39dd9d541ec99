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

"""octavia-hmsync image rollout, but for its start and its watch."""

from cliff import command

from octavia_hmsync.cli import base
from octavia_hmsync.cli import formatters
from octavia_hmsync.db.repositories import image_replacement as replace_repo
from octavia_hmsync.db.repositories import image_rollout as rollout_repo
from octavia_hmsync import exceptions
from octavia_hmsync.image.rollout import rules

STATES = (replace_repo.RUNNING, replace_repo.DONE, replace_repo.FAILED,
          replace_repo.SKIPPED)
# Of the settings, how to name them on the command line.
NUMBERS = {
    'canaries': 'so many of each topology, flavor, availability zone and '
                'image come first',
    'parallel': 'so many load balancers at once',
    'parallel_per_az': 'so many of an availability zone at once, 0 for any',
    'rate_per_hour': 'so many may begin within an hour, 0 for any',
    'max_failures': 'halt when so many failed'}


def get_rollout(engine, rollout_id=None):
    """Return a rollout; without an id the one that runs, or the last one.

    :param engine: an SQLAlchemy engine.
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

    That load balancers are left out is another matter.

    :param engine: an SQLAlchemy engine.
    :param rollout: Rollout.
    :param rows: all of its Replacements.
    """
    if rollout.state != rollout_repo.RUNNING:
        return None
    running = sum(r.state == replace_repo.RUNNING for r in rows)
    ages = replace_repo.get_start_ages(engine, rules.HOUR)
    return rules.get_limit(rules.Situation(
        rollout.settings, rollout.now, (), start_ages=ages), running)


def add_rollout_argument(parser):
    """Let a command be about an earlier rollout."""
    parser.add_argument(
        'rollout', metavar='<rollout>', nargs='?',
        help='its id (default: the one that runs, or the last one)')


class _ChangeRollout(base.DatabaseMixin, command.Command):
    """For commands that change the state of the rollout that runs."""

    old: tuple[str, ...]
    new: str
    said: str
    verb: str

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
                parsed_args.dry_run or rollout_repo.change_state(
                    engine, rollout.id, self.old, self.new,
                    parsed_args.reason)):
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
        more = (f' {running} that run come to their end.'
                if running and self.new != rollout_repo.RUNNING else '')
        self.app.stdout.write(f'Rollout {rollout.id} {self.said}.{more}\n')


class PauseRollout(_ChangeRollout):
    """Have a rollout begin nothing; what runs comes to its end."""

    old, new = (rollout_repo.RUNNING,), rollout_repo.PAUSED
    said, verb = 'is paused', 'pause'


class ResumeRollout(_ChangeRollout):
    """Have a rollout that was paused go on."""

    old, new = (rollout_repo.PAUSED,), rollout_repo.RUNNING
    said, verb = 'goes on', 'resume'


class CancelRollout(_ChangeRollout):
    """End a rollout; what runs comes to its end, and nothing is undone."""

    old, new = rollout_repo.ACTIVE_STATES, rollout_repo.CANCELLED
    said, verb = 'is cancelled', 'cancel'


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
    """Show a rollout: its limits, what runs, and what failed."""

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        add_rollout_argument(parser)
        return parser

    def take_action(self, parsed_args):
        _conf, engine = self.open_database()
        rollout = get_rollout(engine, parsed_args.rollout)
        rows = replace_repo.get_of_rollout(engine, rollout.id)
        settings = rollout.settings
        return (
            ('id', 'state', 'reason', 'waits_for', 'mode', *NUMBERS,
             'windows', *map(str.lower, STATES), 'running_now', 'failures',
             'created_at', 'updated_at', 'finished_at'),
            (rollout.id, rollout.state, rollout.reason,
             why_it_waits(engine, rollout, rows), settings.mode,
             *(getattr(settings, name) for name in NUMBERS),
             settings.windows,
             *(sum(r.state == state for r in rows) for state in STATES),
             formatters.Lines(
                 f'{r.load_balancer_id} {r.phase or "-"}' for r in rows
                 if r.state == replace_repo.RUNNING),
             formatters.Lines(
                 f'{r.load_balancer_id}: {r.reason}' for r in rows
                 if r.state == replace_repo.FAILED),
             base.format_time(rollout.created_at),
             base.format_time(rollout.updated_at),
             base.format_time(rollout.finished_at)))
