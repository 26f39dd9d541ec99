# SPDX-License-Identifier: Apache-2.0

"""octavia-hmsync image rollout watch."""

import collections

from cliff import command

from octavia_hmsync.cli import base
from octavia_hmsync import exceptions
from octavia_hmsync.image.cli import changes
from octavia_hmsync.image.cli import rollout as rollout_commands
from octavia_hmsync.image.db import replacement as replace_repo
from octavia_hmsync.image.db import rollout as rollout_repo
from octavia_hmsync.sync.db import house_keeper as keeper_repo


class WatchRollout(base.DatabaseMixin, command.Command):
    """Show what a rollout does, until it has ended: a line for each change.

    Fails if it is halted or cancelled, and after --timeout.
    """

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        rollout_commands.add_rollout_argument(parser)
        changes.add_arguments(parser)
        return parser

    def take_action(self, parsed_args):
        conf, engine = self.open_database()
        rollout = rollout_commands.get_rollout(engine, parsed_args.rollout)
        max_age = conf.hmsync.offline_after

        def look():
            now = rollout_commands.get_rollout(engine, rollout.id)
            rows = replace_repo.get_of_rollout(engine, now.id)
            return (now, rows,
                    rollout_commands.why_it_waits(engine, now, rows),
                    keeper_repo.get_up(engine, max_age))

        with changes.Changes(
                self.app, parsed_args.interval, parsed_args.timeout,
                f'Rollout {rollout.id} goes on: see "octavia-hmsync image '
                f'rollout show".') as watch:
            watch.follow(
                look, lambda found: self._show(watch, found, max_age),
                f'After {parsed_args.timeout or 0:g} s rollout {rollout.id} '
                f'has not ended: see "octavia-hmsync image rollout show".')

    @staticmethod
    def _show(watch, found, max_age):
        """Write what has changed; returns whether it is done."""
        rollout, rows, waits_for, keepers = found
        known = {f'Rollout {rollout.id}': _describe(rollout, rows)}
        # The last one of each load balancer is the newest.
        known.update({f'Load balancer {r.load_balancer_id}':
                      changes.describe(r) for r in rows})
        if waits_for and not any(r.state == replace_repo.RUNNING
                                 for r in rows):
            known['Nothing begins now'] = waits_for
        is_active = rollout.state in rollout_repo.ACTIVE_STATES
        if is_active and not keepers:
            known[changes.describe_nobody(max_age)] = ''
        watch.show(known)
        if is_active:
            return False
        if rollout.state == rollout_repo.DONE:
            return True
        raise exceptions.NotPossible(
            f'Rollout {rollout.id} is {rollout.state}: see "octavia-hmsync '
            f'image rollout show" for what failed, and start another one '
            f'when that is put right.')


def _describe(rollout, rows):
    counts = collections.Counter(r.state for r in rows)
    numbers = [f'{counts[state]} {state}'
               for state in rollout_commands.STATES if counts[state]]
    return ', '.join([changes.join(rollout.state, rollout.reason), *numbers])
