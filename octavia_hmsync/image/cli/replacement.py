# SPDX-License-Identifier: Apache-2.0

"""octavia-hmsync image replacement."""

from cliff import command

from octavia_hmsync.cli import base
from octavia_hmsync import exceptions
from octavia_hmsync.image.db import cancel as cancel_repo
from octavia_hmsync.image.db import replacement as replace_repo
from octavia_hmsync.image.db import rollout as rollout_repo
from octavia_hmsync.sync.cli import load_balancers

_COLUMNS = ('id', 'load_balancer', 'rollout', 'mode', 'state', 'phase',
            'reason', 'created_at', 'started_at', 'finished_at')
_LONG_COLUMNS = ('canary', 'forced', 'target_image', 'old_amphora',
                 'new_amphora', 'attempts', 'not_before', 'cancel_requested')


# The effect of "cancel", by state.
_TEXTS = {
    replace_repo.WAITING: 'can be cancelled',
    replace_repo.CANCELLED: 'is cancelled',
    replace_repo.RUNNING: 'has begun: it goes back at its next step, or '
                          'comes to its end where there is no way back'}


class ListReplacements(base.DatabaseMixin, base.Lister):
    """List the replacements that wait or run, of rollouts and on their own.

    Ended replacements are shown for one load balancer, the newest first,
    or for one rollout.
    """

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        which = parser.add_mutually_exclusive_group()
        which.add_argument('--loadbalancer', metavar='<loadbalancer>',
                           help='all of this one (name or id), the ended '
                                'ones, too')
        which.add_argument('--rollout', metavar='<rollout>',
                           help='all of this rollout (id), likewise')
        base.add_long(parser, _LONG_COLUMNS)
        return parser

    def take_action(self, parsed_args):
        _conf, engine = self.open_database()
        rows = [(r.id, r.load_balancer_id, r.rollout_id, r.mode, r.state,
                 r.phase, r.reason, *map(base.format_time, (
                     r.created_at, r.started_at, r.finished_at)),
                 r.canary, r.forced, r.target_image_id, r.old_amphora_id,
                 r.new_amphora_id, r.attempts,
                 base.format_time(r.not_before), r.cancel_requested)
                for r in _find(engine, parsed_args)]
        if base.is_long(parsed_args, _LONG_COLUMNS):
            return (*_COLUMNS, *_LONG_COLUMNS), rows
        return _COLUMNS, [row[:len(_COLUMNS)] for row in rows]


def _find(engine, parsed_args):
    name = parsed_args.loadbalancer
    if name is not None:
        # A deleted load balancer has only its id.
        found = replace_repo.get_of_load_balancer(engine, name)
        return found or replace_repo.get_of_load_balancer(
            engine, load_balancers.find(engine, name))
    if parsed_args.rollout is None:
        return replace_repo.get_open(engine)
    if rollout_repo.get(engine, parsed_args.rollout) is None:
        raise exceptions.NotPossible(
            f'There is no rollout {parsed_args.rollout}: see '
            f'"octavia-hmsync image rollout list".')
    return replace_repo.get_of_rollout(engine, parsed_args.rollout)


class CancelReplacement(base.DatabaseMixin, command.Command):
    """End a waiting replacement, or send a running one back.

    A running replacement goes back at its next step, until it deletes the
    old amphora: after that it is completed. For a rollout see "image rollout
    cancel".
    """

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument(
            'replacement', metavar='<replacement>',
            help='its id, or the name or id of its load balancer')
        base.add_dry_run(parser, 'whether it could be cancelled')
        return parser

    def take_action(self, parsed_args):
        _conf, engine = self.open_database()
        found = _get_open(engine, parsed_args.replacement)
        state = found.state
        if not parsed_args.dry_run:
            state = cancel_repo.cancel(
                engine, found.id, parsed_args.reason or 'by an operator')
            if state is None:
                raise _ended(parsed_args.replacement)
        self.app.stdout.write(f'Replacement {found.id} of load balancer '
                              f'{found.load_balancer_id} {_TEXTS[state]}.\n')


def _get_open(engine, name):
    found = replace_repo.get(engine, name)
    if found is None:
        open_ = {r.load_balancer_id: r for r in replace_repo.get_open(engine)}
        found = open_.get(name) or open_.get(load_balancers.find(engine,
                                                                 name))
    if found is None or found.state not in replace_repo.OPEN_STATES:
        raise _ended(name)
    return found


def _ended(name):
    return exceptions.NotPossible(
        f'No replacement waits or runs that is, or is of, {name}: see '
        f'"octavia-hmsync image replacement list".')
