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

"""octavia-hmsync image rollout watch."""

import math
import time

from cliff import command
from oslo_utils import timeutils

from octavia_hmsync.cli import base
from octavia_hmsync.cli.image import rollout as rollout_commands
from octavia_hmsync.db.repositories import image_replacement as replace_repo
from octavia_hmsync.db.repositories import image_rollout as rollout_repo
from octavia_hmsync import exceptions


class WatchRollout(base.DatabaseMixin, command.Command):
    """Show what a rollout does, until it has ended: a line for each change.

    Fails if it is halted or cancelled, and after --timeout.
    """

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        rollout_commands.add_rollout_argument(parser)
        parser.add_argument('--interval', type=base.positive_seconds,
                            default=2, metavar='<seconds>',
                            help='time between two looks (default: 2)')
        parser.add_argument('--timeout', type=base.positive_seconds,
                            metavar='<seconds>',
                            help='give up after so long')
        return parser

    def take_action(self, parsed_args):
        _conf, engine = self.open_database()
        deadline = time.monotonic() + (parsed_args.timeout or math.inf)
        rollout = rollout_commands.get_rollout(engine, parsed_args.rollout)
        said: dict[str, str] = {}
        while True:
            rollout = rollout_commands.get_rollout(engine, rollout.id)
            rows = replace_repo.get_of_rollout(engine, rollout.id)
            said = self._show(said, rollout, rows)
            if rollout.state == rollout_repo.DONE:
                return
            if rollout.state not in rollout_repo.ACTIVE_STATES:
                raise exceptions.NotPossible(
                    f'Rollout {rollout.id} is {rollout.state}: see '
                    f'"octavia-hmsync image rollout show" for what failed, '
                    f'and start another one when that is put right.')
            left = deadline - time.monotonic()
            if left <= 0:
                raise exceptions.NotPossible(
                    f'After {parsed_args.timeout:g} s rollout {rollout.id} '
                    f'has not ended: see "octavia-hmsync image rollout '
                    f'show".')
            time.sleep(min(parsed_args.interval, left))

    def _show(self, said, rollout, rows):
        """Write what has changed; return what is known now."""
        known = {f'Rollout {rollout.id}': _join(rollout.state,
                                                rollout.reason)}
        # Of each load balancer the newest, which is the last one.
        known.update({r.load_balancer_id: _join(
            r.phase or r.state if r.state == replace_repo.RUNNING
            else r.state, r.reason) for r in rows})
        for subject, text in known.items():
            if said.get(subject) != text:
                self.app.stdout.write(
                    f'{timeutils.utcnow():%Y-%m-%dT%H:%M:%S} {subject}: '
                    f'{text}\n')
        self.app.stdout.flush()
        return known


def _join(state, reason):
    return f'{state} ({reason})' if reason else state
