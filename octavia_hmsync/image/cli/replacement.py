# SPDX-License-Identifier: Apache-2.0

"""octavia-hmsync image replacement, and what commands say of replacements."""

from octavia_hmsync.cli import base
from octavia_hmsync import exceptions
from octavia_hmsync.image.db import cancel as cancel_repo
from octavia_hmsync.image.db import replacement as replace_repo
from octavia_hmsync.image.db import rollout as rollout_repo
from octavia_hmsync.sync.cli import load_balancers
from octavia_hmsync.sync.db import house_keeper as keeper_repo

# The effect of "cancel", by state.
_TEXTS = {
    replace_repo.WAITING: 'can be cancelled',
    replace_repo.CANCELLED: 'is cancelled',
    replace_repo.RUNNING: 'has begun: it goes back at its next step, or '
                          'comes to its end where there is no way back'}


class ListReplacements(base.ListCommand):
    """List the replacements that wait or run, of rollouts and on their own.

    name is that of the load balancer. Ended replacements are shown for one
    load balancer, the newest first, or for one rollout.
    """

    COLUMNS = ('id', 'name', 'state', 'reason')
    LONG_COLUMNS = ('phase', 'loadbalancer_id', 'rollout_id', 'mode',
                    'created_at', 'started_at', 'finished_at', 'canary',
                    'forced', 'target_image_id', 'old_amphora_id',
                    'new_amphora_id', 'attempts', 'not_before',
                    'cancel_requested')

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        which = parser.add_mutually_exclusive_group()
        which.add_argument('--loadbalancer', metavar='<loadbalancer>',
                           help='all of this one (name or id), the ended '
                                'ones, too')
        which.add_argument('--rollout', metavar='<rollout>',
                           help='all of this rollout (id), likewise')
        return parser

    def read(self, _conf, engine, parsed_args):
        found = _find(engine, parsed_args)
        names = load_balancers.Names(engine).read(
            r.load_balancer_id for r in found)
        return [(r.id, names.get(r.load_balancer_id), r.state, r.reason,
                 r.phase, r.load_balancer_id, r.rollout_id, r.mode,
                 *map(base.format_time, (
                     r.created_at, r.started_at, r.finished_at)),
                 r.canary, r.forced, r.target_image_id, r.old_amphora_id,
                 r.new_amphora_id, r.attempts,
                 base.format_time(r.not_before), r.cancel_requested)
                for r in found]


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
            f'"octavia-hmsync rollout list".')
    return replace_repo.get_of_rollout(engine, parsed_args.rollout)


class CancelReplacement(base.Change):
    """End a waiting replacement, or send a running one back.

    A running replacement goes back at its next step, until it deletes the
    old amphora: after that it is completed. For a rollout see "rollout
    cancel".
    """

    ARGUMENT = ('replacement',
                'its id, or the name or id of its load balancer')
    WAIT = 'it has ended'

    def take_action(self, parsed_args):
        _conf, engine = self.open_database()
        found = _get_last(engine, parsed_args.replacement)
        state = found.state
        if state == replace_repo.CANCELLED or found.cancel_requested:
            self.say(f'Replacement {found.id} of load balancer '
                     f'{found.load_balancer_id} is cancelled already, and is '
                     f'{state}.')
        else:
            if not parsed_args.dry_run:
                state = cancel_repo.cancel(
                    engine, found.id, parsed_args.reason or 'by an operator')
            if state not in _TEXTS:
                raise exceptions.NotPossible(
                    f'{parsed_args.replacement} is neither a replacement that '
                    f'waits or runs nor a load balancer with one: see '
                    f'"octavia-hmsync image replacement list".')
            self.say(f'Replacement {found.id} of load balancer '
                     f'{found.load_balancer_id} {_TEXTS[state]}.')
        self._wait(engine, found.id, parsed_args)

    def _wait(self, engine, replacement_id, parsed_args):
        def look():
            found = replace_repo.get(engine, replacement_id)
            return (found is None or
                    found.state not in replace_repo.OPEN_STATES,
                    {f'Replacement {replacement_id}': found and
                     describe(found)})

        self.wait(parsed_args, look, f'Replacement {replacement_id} goes on: '
                  f'see "octavia-hmsync image replacement list".')


def _get_last(engine, name):
    """Find it by id, else a load balancer's last, or raise NotPossible."""
    found = replace_repo.get(engine, name)
    # A deleted load balancer has only its id.
    last = [found] if found else (
        replace_repo.get_of_load_balancer(engine, name) or
        replace_repo.get_of_load_balancer(
            engine, load_balancers.find(engine, name)))
    if not last:
        raise exceptions.NotPossible(
            f'There is no replacement of {name}: see "octavia-hmsync image '
            f'replacement list".')
    return next((r for r in last if r.state in replace_repo.OPEN_STATES),
                last[0])


def describe(replacement):
    """Return the progress of a replacement, in one line."""
    state = replacement.state
    if state == replace_repo.RUNNING and replacement.phase:
        state = replacement.phase
        if replacement.new_amphora_id:
            state = (f'{state}, amphora {replacement.new_amphora_id} for '
                     f'{replacement.old_amphora_id}')
    return join(state, replacement.reason)


def join(state, reason):
    """Put a state and its reason, if any, in one line."""
    return f'{state} ({reason})' if reason else state


def check_that_somebody_is_up(engine, max_age):
    """Raise NotPossible if no housekeeper is up to replace amphorae."""
    if not keeper_repo.get_up(engine, max_age):
        raise exceptions.NotPossible(
            f'No octavia-housekeeping has given a sign of life for {max_age} '
            f's, so that no amphora would be replaced: start one, or see its '
            f'log, and run the command again.')


def describe_nobody(max_age):
    """Report in one line that no housekeeper is there to replace amphorae."""
    return (f'No octavia-housekeeping has given a sign of life for {max_age} '
            f's: no amphora is replaced.')
