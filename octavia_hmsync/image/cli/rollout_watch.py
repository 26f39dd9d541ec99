# SPDX-License-Identifier: Apache-2.0

"""octavia-hmsync image rollout watch."""

import collections
import dataclasses

from cliff import command

from octavia_hmsync.cli import base
from octavia_hmsync.cli import progress
from octavia_hmsync import exceptions
from octavia_hmsync.image.cli import replacement as replacement_commands
from octavia_hmsync.image.cli import rollout as rollout_commands
from octavia_hmsync.image.db import replacement as replace_repo
from octavia_hmsync.image.db import rollout as rollout_repo
from octavia_hmsync.sync.cli import load_balancers
from octavia_hmsync.sync.db import house_keeper as keeper_repo

_PROBLEMS = (replace_repo.FAILED, replace_repo.REFUSED)


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
        rollout_commands.add_rollout_argument(parser)
        progress.add_arguments(parser)
        return parser

    def take_action(self, parsed_args):
        conf, engine = self.open_database(with_octavia=True)
        rollout = rollout_commands.get_rollout(engine, parsed_args.rollout)
        follow(self.app, conf, engine, rollout.id, parsed_args.interval,
               parsed_args.timeout)


def follow(app, conf, engine, rollout_id, interval, timeout, stream=None):
    """Show a rollout to its end; NotPossible unless that is DONE, in time."""
    max_age = conf.hmsync.offline_after
    lookout = rollout_commands.Lookout(conf, engine)
    names = load_balancers.Names(engine)

    def look():
        now = rollout_commands.get_rollout(engine, rollout_id)
        rows = replace_repo.get_of_rollout(engine, rollout_id)
        names.read({r.load_balancer_id for r in rows
                    if r.state in (replace_repo.RUNNING, *_PROBLEMS)})
        outlook, problem = lookout.look(now, rows)
        return _Seen(now, rows,
                     rollout_commands.why_it_waits(engine, now, rows),
                     keeper_repo.get_up(engine, max_age), outlook, problem)

    with progress.Watch(
            app, interval, timeout,
            f'Rollout {rollout_id} goes on: see "octavia-hmsync image '
            f'rollout show".', base.explain_passing, stream) as watch:
        watch.follow(
            look, lambda seen: _show(watch, seen, names, max_age),
            f'After {timeout or 0:g} s rollout {rollout_id} has '
            f'not ended: see "octavia-hmsync image rollout show".')


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
                  f'{" or ".join(states)}: see "octavia-hmsync image rollout '
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
        f'Rollout {rollout.id} is {rollout.state}: see "octavia-hmsync image '
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
            for state in rollout_commands.STATES
            if counts[state] and state != replace_repo.DONE),
        outlook.per_second, left or 0)
