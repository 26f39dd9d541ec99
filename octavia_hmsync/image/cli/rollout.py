# SPDX-License-Identifier: Apache-2.0

"""octavia-hmsync rollout, except for its start and its watch."""

import collections

from octavia_hmsync.cli import base
from octavia_hmsync.cli import formatters
from octavia_hmsync.cli import progress
from octavia_hmsync import exceptions
from octavia_hmsync.image.cli import rollout_watch as watch
from octavia_hmsync.image.db import cancel as cancel_repo
from octavia_hmsync.image.db import replacement as replace_repo
from octavia_hmsync.image.db import rollout as rollout_repo
from octavia_hmsync.image.rollout import limits
from octavia_hmsync.sync.cli import load_balancers

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


class _ChangeRollout(base.Change):
    """For commands that change the state of the active rollout."""

    old: tuple[str, ...]
    new: str
    said: str
    verb: str
    done: str
    # A note on running replacements.
    more = ''

    def take_action(self, parsed_args):
        _conf, engine = self.open_database()
        rollout = rollout_repo.get_last(engine)
        if rollout is None or rollout.state not in (*self.old,
                                                    self.new):
            raise exceptions.NotPossible(
                f'There is no rollout to {self.verb}: see "octavia-hmsync '
                f'rollout list".')
        if rollout.state == self.new:
            self.say(f'Rollout {rollout.id} is {rollout.state} already.')
            self._wait(engine, rollout.id, parsed_args)
            return
        if not (parsed_args.dry_run or self._change(engine, rollout,
                                                    parsed_args.reason or
                                                    '')):
            raise exceptions.NotPossible(
                f'Rollout {rollout.id} has changed at this moment: see '
                f'"octavia-hmsync rollout show", and run the command '
                f'again.')
        if parsed_args.dry_run:
            self.say(f'Rollout {rollout.id}, which is {rollout.state}, can be '
                     f'{self.done}.')
            return
        running = _count_running(engine, rollout.id)
        more = self.more.format(running) if running else ''
        self.say(f'Rollout {rollout.id} {self.said}.{more}')
        self._wait(engine, rollout.id, parsed_args)

    def _wait(self, engine, rollout_id, parsed_args):
        """Wait, if that is wanted, until nothing of it runs."""
        def look():
            running = _count_running(engine, rollout_id)
            return not running, {f'Rollout {rollout_id}': f'{running} run'}

        if self.WAIT:
            self.wait(parsed_args, look, f'What runs of rollout {rollout_id} '
                      f'comes to its end: see "octavia-hmsync rollout '
                      f'show".')

    def _change(self, engine, rollout, reason):
        """Change the state; returns False if it has changed meanwhile."""
        return rollout_repo.change_state(engine, rollout.id, self.old,
                                         self.new, reason)


class PauseRollout(_ChangeRollout):
    """Let a rollout begin nothing more; what runs comes to its end."""

    WAIT = 'nothing of it runs any more'
    old, new = (rollout_repo.RUNNING,), rollout_repo.PAUSED
    said, verb, done = 'is paused', 'pause', 'paused'
    more = ' {} that run come to their end.'


class ResumeRollout(_ChangeRollout):
    """Let a rollout that was paused go on."""

    WAIT = 'it is DONE; fails if it ends otherwise'
    old, new = (rollout_repo.PAUSED,), rollout_repo.RUNNING
    said, verb, done = 'goes on', 'resume', 'resumed'

    def _wait(self, engine, rollout_id, parsed_args):
        """Wait, if that is wanted, until it has ended."""
        if parsed_args.wait and not parsed_args.dry_run:
            conf = self.load_configuration(with_octavia=True)
            watch.follow(self.app, conf, engine, rollout_id,
                         progress.INTERVAL, parsed_args.timeout)


class CancelRollout(_ChangeRollout):
    """End a rollout; what runs goes back, and what is done stays.

    A running replacement goes back at its next step, until it deletes the
    old amphora: after that it is completed.
    """

    WAIT = PauseRollout.WAIT
    old, new = rollout_repo.ACTIVE_STATES, rollout_repo.CANCELLED
    said, verb, done = 'is cancelled', 'cancel', 'cancelled'
    more = (' {} that run go back, or come to their end where there is no '
            'way back: see "octavia-hmsync image replacement list".')

    def _change(self, engine, rollout, reason):
        return cancel_repo.cancel_rollout(engine, rollout.id, self.old,
                                          reason) is not None


def _count_running(engine, rollout_id):
    return replace_repo.count_states(engine, [rollout_id])[rollout_id].get(
        replace_repo.RUNNING, 0)


class ListRollouts(base.ListCommand):
    """List rollouts, the newest first."""

    COLUMNS = ('id', 'state', 'running', 'done', 'failed')
    LONG_COLUMNS = ('refused', 'skipped', 'cancelled', 'mode', 'cause',
                    'cause_value', 'undo_of', 'created_at', 'finished_at',
                    'reason')

    def read(self, _conf, engine, _parsed_args):
        rollouts = rollout_repo.get_all(engine)
        counts = replace_repo.count_states(engine, [r.id for r in rollouts])
        return [(r.id, r.state, *(counts[r.id].get(state, 0)
                                  for state in watch.STATES),
                 r.settings.mode, r.settings.cause, r.settings.cause_value,
                 r.undo_of, base.format_time(r.created_at),
                 base.format_time(r.finished_at), r.reason)
                for r in rollouts]


class ShowRollout(base.DatabaseMixin, base.ShowOne):
    """Show a rollout: its limits, what runs, what failed, what is left.

    total counts the load balancers that it deals with, and left those that
    it will still begin. ends_at is about when all are done, if none fails
    and it is not paused.
    """

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        watch.add_rollout_argument(parser)
        return parser

    def take_action(self, parsed_args):
        conf, engine = self.open_database(with_octavia=True)
        rollout = watch.get_rollout(engine, parsed_args.rollout)
        rows = replace_repo.get_of_rollout(engine, rollout.id)
        settings = rollout.settings
        outlook, problem = watch.Lookout(conf, engine).look(rollout, rows)
        if problem:
            self.app.stderr.write(f'How many are left is not known: '
                                  f'{problem}\n')
        is_active = rollout.state in rollout_repo.ACTIVE_STATES
        names = load_balancers.Names(engine).read(
            r.load_balancer_id for r in rows
            if r.state != replace_repo.DONE or
            limits.is_watched(r, settings, rollout.now))
        return (
            ('id', 'state', 'reason', 'total', 'left', 'done_per_hour',
             'ends_at', 'waits_for', 'undo_of', 'cause', 'cause_value',
             'only', 'mode', *NUMBERS, 'at_once', 'windows',
             *map(str.lower, watch.STATES),
             'running_now', 'watched_now', 'failures', 'refusals',
             'tried_again', 'given_up', 'created_at', 'updated_at',
             'finished_at'),
            (rollout.id, rollout.state, rollout.reason,
             None if problem else outlook.total,
             None if problem else outlook.left,
             round(outlook.per_second * limits.HOUR, 1) if is_active
             else None,
             base.format_time(outlook.ends_at) if is_active else None,
             watch.why_it_waits(engine, rollout, rows), rollout.undo_of,
             settings.cause, settings.cause_value, settings.only or None,
             settings.mode, *(getattr(settings, name) for name in NUMBERS),
             min(settings.parallel, watch.count_at_once(conf, engine)),
             settings.windows,
             *(sum(r.state == state for r in rows) for state in watch.STATES),
             _list(names, [(r, {'phase': r.phase}) for r in rows
                           if r.state == replace_repo.RUNNING]),
             _list(names, [
                 (r, {'until': base.format_time(limits.get_watch_end(
                     r, settings))}) for r in rows
                 if limits.is_watched(r, settings, rollout.now)]),
             *(_list(names, [(r, {'reason': r.reason}) for r in rows
                             if r.state == state])
               for state in (replace_repo.FAILED, replace_repo.REFUSED)),
             *(_list(names, found) for found in _find_skipped(rows)),
             base.format_time(rollout.created_at),
             base.format_time(rollout.updated_at),
             base.format_time(rollout.finished_at)))


def _list(names, found):
    """Return load balancers of [(Replacement, {what: of it})], with names."""
    return formatters.Objects(
        [{'loadbalancer_id': r.load_balancer_id,
          'name': names.get(r.load_balancer_id), **more}
         for r, more in found],
        lambda each: ', '.join([
            names.label(each['loadbalancer_id']),
            *(f'{key.replace("_", " ")}: {value}'
              for key, value in list(each.items())[2:]
              if value is not None)]))


def _find_skipped(rows):
    """Return skipped ones that are tried again, and the others."""
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
            given_up.append((r, {'reason': r.reason}))
        else:
            again.append((r, {
                'reason': r.reason, 'tries': number,
                'not_before': base.format_time(r.not_before)}))
    return again, given_up
