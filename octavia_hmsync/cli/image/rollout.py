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

"""octavia-hmsync image rollout, but for its watch."""

import uuid

from cliff import command

from octavia_hmsync.cli import base
from octavia_hmsync.cli import formatters
from octavia_hmsync.db.repositories import image_replacement as replace_repo
from octavia_hmsync.db.repositories import image_rollout as rollout_repo
from octavia_hmsync import exceptions
from octavia_hmsync.image import conf as image_conf
from octavia_hmsync.image.rollout import reading
from octavia_hmsync.image.rollout import waves
from octavia_hmsync.image.rollout import windows
from octavia_hmsync.image import target

_STATES = (replace_repo.RUNNING, replace_repo.DONE, replace_repo.FAILED,
           replace_repo.SKIPPED)
# Of the settings, how to name them on the command line.
_NUMBERS = {
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


def add_rollout_argument(parser):
    """Let a command be about an earlier rollout."""
    parser.add_argument(
        'rollout', metavar='<rollout>', nargs='?',
        help='its id (default: the one that runs, or the last one)')


class StartRollout(base.DatabaseMixin, base.Lister):
    """Bring all load balancers to their newest image.

    It is housekeeping that does it, some at a time. Lists who gets it: wave
    1 and those with canary come first, and the others when these are done.
    What is not given comes from [hmsync_image].
    """

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--mode', choices=('replace', 'failover'), default='replace',
            help='make before break, or Octavia\'s own failover, standby '
                 'first (default: replace)')
        for name, text in _NUMBERS.items():
            parser.add_argument(
                f'--{name.replace("_", "-")}', metavar='<number>',
                type=_number, help=text)
        parser.add_argument(
            '--windows', metavar='<windows>',
            help='when something may begin, in UTC: '
                 '"Sat,Sun 01:00-05:00; Wed 02:00-03:00"; empty for always')
        parser.add_argument('--reason', default='', metavar='<reason>',
                            help='why, for "image rollout list"')
        base.add_dry_run(parser, 'who would be in which wave')
        return parser

    def take_action(self, parsed_args):
        conf, engine = self.open_database()
        settings = _get_settings(conf, parsed_args)
        fleet = reading.read_fleet(conf, engine, target.Targets(conf))
        rows = _make_rows(settings, fleet)
        if not parsed_args.dry_run:
            self._start(engine, settings, parsed_args.reason, fleet)
        return (('wave', 'canary', 'load_balancer', 'topology', 'flavor_id',
                 'availability_zone', 'target_image', 'left_out_by'), rows)

    def _start(self, engine, settings, reason, fleet):
        if not any(not c.blocked_by for c in fleet.candidates):
            raise exceptions.NotPossible(
                'No load balancer is outdated that a rollout could bring to '
                'another image: see "octavia-hmsync image list".')
        rollout_id = str(uuid.uuid4())
        if not rollout_repo.add(engine, rollout_id, settings, reason):
            active = rollout_repo.get_active(engine)
            raise exceptions.NotPossible(
                f'There is a rollout that has not ended'
                f'{f", {active.id}" if active else ""}: see "octavia-hmsync '
                f'image rollout show", or "image rollout cancel".')
        self.app.stderr.write(f'Rollout {rollout_id} runs.\n')


def _number(text):
    return 0 if text == '0' else base.positive_number(text)


def _get_settings(conf, parsed_args):
    opts = conf[image_conf.GROUP]
    values = {name: getattr(parsed_args, name) for name in
              (*_NUMBERS, 'windows')}
    for name, value in values.items():
        if value is None:
            values[name] = opts[f'rollout_{name}']
    for name in ('parallel', 'max_failures'):
        if not values[name]:
            raise exceptions.NotPossible(
                f'With --{name.replace("_", "-")} 0 nothing would ever '
                f'begin: give it 1 or more.')
    windows.parse(values['windows'])
    return rollout_repo.Settings(mode=parsed_args.mode, **values)


def _make_rows(settings, fleet):
    """Return who is in which wave, and behind them who is in none."""
    rows = []
    for number, (is_canary, wave) in enumerate(waves.get_waves(
            settings, [c for c in fleet.candidates if not c.blocked_by]), 1):
        rows += [(number, is_canary, *_describe(c),
                  'PENDING' if c.is_pending else None) for c in wave]
    rows += [(None, False, *_describe(c), ', '.join(c.blocked_by))
             for c in fleet.candidates if c.blocked_by]
    return rows + [
        (None, False, lb.id, lb.topology, lb.flavor_id, lb.availability_zone,
         None, f'excluded by {e.kind} {e.value}: {e.reason}')
        for lb, e in fleet.excluded]


def _describe(candidate):
    return (candidate.load_balancer_id, candidate.topology,
            candidate.flavor_id, candidate.availability_zone,
            candidate.target_image_id)


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
        return parser

    def take_action(self, parsed_args):
        _conf, engine = self.open_database()
        rollout = rollout_repo.get_active(engine)
        if rollout is None:
            raise exceptions.NotPossible(
                f'No rollout is there to {self.verb}: see "octavia-hmsync '
                f'image rollout list".')
        if not rollout_repo.change_state(engine, rollout.id, self.old,
                                         self.new, parsed_args.reason):
            raise exceptions.NotPossible(
                f'Rollout {rollout.id} is {rollout.state}, so that there is '
                f'nothing to {self.verb}: see "octavia-hmsync image rollout '
                f'show".')
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
        return (('id', 'state', 'mode', *map(str.lower, _STATES),
                 'created_at', 'finished_at', 'reason'),
                [(r.id, r.state, r.settings.mode,
                  *(counts[r.id].get(state, 0) for state in _STATES),
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
            ('id', 'state', 'reason', 'mode', *_NUMBERS, 'windows',
             *map(str.lower, _STATES), 'running_now', 'failures',
             'created_at', 'updated_at', 'finished_at'),
            (rollout.id, rollout.state, rollout.reason, settings.mode,
             *(getattr(settings, name) for name in _NUMBERS),
             settings.windows,
             *(sum(r.state == state for r in rows) for state in _STATES),
             formatters.Lines(
                 f'{r.load_balancer_id} {r.phase or "-"}' for r in rows
                 if r.state == replace_repo.RUNNING),
             formatters.Lines(
                 f'{r.load_balancer_id}: {r.reason}' for r in rows
                 if r.state == replace_repo.FAILED),
             base.format_time(rollout.created_at),
             base.format_time(rollout.updated_at),
             base.format_time(rollout.finished_at)))
