# SPDX-License-Identifier: Apache-2.0

"""octavia-hmsync rollout watch, and how far a rollout is."""

import collections
import dataclasses

from cliff import command

from octavia_hmsync.cli import base
from octavia_hmsync.cli import progress
from octavia_hmsync.conf import image as image_conf
from octavia_hmsync import exceptions
from octavia_hmsync.image.cli import replacement as replacement_commands
from octavia_hmsync.image.db import replacement as replace_repo
from octavia_hmsync.image.db import rollout as rollout_repo
from octavia_hmsync.image.rollout import estimate
from octavia_hmsync.image.rollout import limits
from octavia_hmsync.sync.cli import load_balancers
from octavia_hmsync.sync.db import house_keeper as keeper_repo

# Replacements whose durations are used for estimates.
LAST = 20
STATES = (replace_repo.RUNNING, replace_repo.DONE, replace_repo.FAILED,
          replace_repo.REFUSED, replace_repo.SKIPPED, replace_repo.CANCELLED)
_PROBLEMS = (replace_repo.FAILED, replace_repo.REFUSED)


def get_rollout(engine, rollout_id=None):
    """Return a rollout (default: active or last), or raise NotPossible."""
    if rollout_id is not None:
        rollout = rollout_repo.get(engine, rollout_id)
        if rollout is None:
            raise exceptions.NotPossible(
                f'There is no rollout {rollout_id}: see "octavia-hmsync '
                f'rollout list".')
        return rollout
    rollout = rollout_repo.get_last(engine)
    if rollout is None:
        raise exceptions.NotPossible(
            'There was no rollout yet: begin one with "octavia-hmsync image '
            'rollout start".')
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
    return limits.get_limit(limits.Situation(
        rollout.settings, rollout.now, (), rows, start_ages=ages))


class Lookout:
    """Tells how far a rollout is."""

    def __init__(self, conf, engine):
        self._conf = conf
        self._engine = engine
        # What was read of the fleet, and at which version of the rollout.
        self._version = None
        self._candidates = ()
        self._problem = None

    def look(self, rollout, rows):
        """Look once; the fleet is read again only after a change.

        :returns: (an estimate.Outlook; why it does not know what is left, or
                  None).
        """
        if self._version != rollout.version:
            self._read(rollout)
            self._version = rollout.version
        durations = replace_repo.get_durations(self._engine, LAST)
        return estimate.get_outlook(
            limits.Situation(rollout.settings, rollout.now, self._candidates,
                             rows),
            (rollout.now - rollout.created_at).total_seconds(),
            None if self._problem or not durations
            else sum(durations) / len(durations),
            min(rollout.settings.parallel,
                count_at_once(self._conf, self._engine))), self._problem

    def _read(self, rollout):
        # Imported late, as where other commands need more than the database.
        from octavia_hmsync.image.rollout import reading
        from octavia_hmsync.image import target

        self._candidates, self._problem = (), None
        if rollout.state not in rollout_repo.ACTIVE_STATES:
            return
        try:
            self._candidates = reading.read_fleet(
                self._conf, self._engine, target.Targets(self._conf),
                rollout.settings, rollout.now,
                rollout.undo_of).candidates
        except exceptions.CloudUnavailable as e:
            self._problem = str(e)


def count_at_once(conf, engine):
    """Return how many housekeeping replaces at once, by this octavia.conf."""
    return (conf[image_conf.GROUP].replacements_at_once *
            len(keeper_repo.get_up(engine, conf.hmsync.offline_after)))


def add_rollout_argument(parser):
    """Add the argument that names an earlier rollout."""
    parser.add_argument(
        'rollout', metavar='<rollout>', nargs='?',
        help='its id (default: the active one, or the last one)')


@dataclasses.dataclass(frozen=True)
class _Seen:
    """What was seen of a rollout at one time.

    :param rows: all of its Replacements.
    :param waits_for: why nothing begins now, or None.
    :param keepers: hosts of the housekeepers that are up.
    :param problem: why the outlook does not know what is left, or None.
    """

    rollout: rollout_repo.Rollout
    rows: list
    waits_for: str | None
    keepers: list
    outlook: object
    problem: str | None


class WatchRollout(base.DatabaseMixin, command.Command):
    """Show how far a rollout is, until it has ended.

    A bar on a terminal, a line for each change otherwise; with what runs and
    what failed. Fails if it is halted or cancelled, and after --timeout.
    """

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        add_rollout_argument(parser)
        progress.add_arguments(parser)
        return parser

    def take_action(self, parsed_args):
        conf, engine = self.open_database(with_octavia=True)
        rollout = get_rollout(engine, parsed_args.rollout)
        follow(self.app, conf, engine, rollout.id, parsed_args.interval,
               parsed_args.timeout)


def follow(app, conf, engine, rollout_id, interval, timeout, stream=None):
    """Show a rollout to its end; NotPossible unless that is DONE, in time."""
    max_age = conf.hmsync.offline_after
    lookout = Lookout(conf, engine)
    names = load_balancers.Names(engine)

    def look():
        now = get_rollout(engine, rollout_id)
        rows = replace_repo.get_of_rollout(engine, rollout_id)
        names.read({r.load_balancer_id for r in rows
                    if r.state in (replace_repo.RUNNING, *_PROBLEMS)})
        outlook, problem = lookout.look(now, rows)
        return _Seen(now, rows,
                     why_it_waits(engine, now, rows),
                     keeper_repo.get_up(engine, max_age), outlook, problem)

    with progress.Watch(
            app, interval, timeout,
            f'Rollout {rollout_id} goes on: see "octavia-hmsync '
            f'rollout show".', base.explain_passing, stream) as watch:
        watch.follow(
            look, lambda seen: _show(watch, seen, names, max_age),
            f'After {timeout or 0:g} s rollout {rollout_id} has '
            f'not ended: see "octavia-hmsync rollout show".')


def _show(watch, seen, names, max_age):
    """Show what is seen; returns whether it is done."""
    rollout = seen.rollout
    known = {f'Rollout {rollout.id}': replacement_commands.join(
        rollout.state, rollout.reason)}
    # The last one of each load balancer counts.
    last = {r.load_balancer_id: r for r in seen.rows}.values()
    for states in ((replace_repo.RUNNING,), _PROBLEMS):
        found = [r for r in last if r.state in states]
        for r in found[:progress.NAMED]:
            known[names.label(r.load_balancer_id)] = replacement_commands.join(
                r.phase if r.state == replace_repo.RUNNING and r.phase
                else r.state, r.reason)
        if len(found) > progress.NAMED:
            known[f'and {len(found) - progress.NAMED} more '
                  f'{" or ".join(states)}: see "octavia-hmsync rollout '
                  f'show"'] = ''
    if seen.waits_for and not any(r.state == replace_repo.RUNNING
                                  for r in seen.rows):
        known['Nothing begins now'] = seen.waits_for
    is_active = rollout.state in rollout_repo.ACTIVE_STATES
    if is_active and not seen.keepers:
        known[replacement_commands.describe_nobody(max_age)] = ''
    if seen.problem:
        known[f'How many are left is not known: {seen.problem}'] = ''
    watch.show([_make_bar(seen)], known)
    if is_active:
        return False
    if rollout.state == rollout_repo.DONE:
        return True
    raise exceptions.NotPossible(
        f'Rollout {rollout.id} is {rollout.state}: see "octavia-hmsync '
        f'rollout show" for what failed, and start another one when that is '
        f'put right.')


def _make_bar(seen):
    outlook, rollout = seen.outlook, seen.rollout
    counts = collections.Counter(r.state for r in seen.rows)
    left = None
    if rollout.state == rollout_repo.RUNNING and outlook.ends_at:
        left = (outlook.ends_at - rollout.now).total_seconds()
    return progress.Bar(
        'rollout', outlook.done, None if seen.problem else outlook.total,
        'load balancers', tuple(
            f'{counts[state]} {state.lower()}'
            for state in STATES
            if counts[state] and state != replace_repo.DONE),
        outlook.per_second, left or 0)
