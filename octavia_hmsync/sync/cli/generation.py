# SPDX-License-Identifier: Apache-2.0

"""Commands on published lists."""

import dataclasses

from cliff import command

from octavia_hmsync import addresses as addr
from octavia_hmsync.cli import base
from octavia_hmsync.cli import formatters
from octavia_hmsync import exceptions
from octavia_hmsync.sync.cli import watch
from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.db import health_manager as hm_repo
from octavia_hmsync.sync.db import house_keeper as keeper_repo
from octavia_hmsync.sync.db import pause as pause_repo
from octavia_hmsync.sync import payloads
from octavia_hmsync.sync.rules import member as mem
from octavia_hmsync.sync.rules import subset
from octavia_hmsync.sync.rules import trial
from octavia_hmsync.sync.rules import zones as zn


class ListGenerations(base.ListCommand):
    """List the published lists, the newest first.

    status is how far a list may go: CANARY and WAVES (some amphorae try it),
    OPEN (all get it) or ROLLED_BACK. completed_at is when the last amphora
    had it; a list that was replaced before that has none.
    """

    COLUMNS = ('number', 'status', 'published_at', 'completed_at')
    LONG_COLUMNS = ('controller_ip_port_list', 'reason')
    METAVAR = '<generation>'
    LIMIT = 20

    def read(self, _conf, engine, parsed_args):
        return [(g.number, g.status, base.format_time(g.published_at),
                 base.format_time(g.completed_at),
                 formatters.List(g.addresses), g.reason)
                for g in generation_repo.get_history(engine)[::-1]]


class ShowGeneration(base.DatabaseMixin, base.ShowOne):
    """Show one published list."""

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument('number', type=int, metavar='<generation>',
                            help='its number; see "generation list"')
        return parser

    def take_action(self, parsed_args):
        _conf, engine = self.open_database()
        found = next((g for g in generation_repo.get_history(engine)
                      if g.number == parsed_args.number), None)
        if found is None:
            raise exceptions.NotPossible(
                f'There is no generation {parsed_args.number}: see '
                f'"octavia-hmsync generation list". The oldest ones are '
                f'deleted.')
        return (('number', 'status', 'wave', 'controller_ip_port_list',
                 'slots', 'published_at', 'completed_at', 'reason'),
                (found.number, found.status, found.wave,
                 formatters.List(found.addresses),
                 formatters.List(found.slots.values()),
                 base.format_time(found.published_at),
                 base.format_time(found.completed_at), found.reason))


class RollBackGeneration(base.Change, command.Command):
    """Take back what the newest list added.

    Publishes the newest list without the addresses that an earlier one does
    not have, and uploads it to every amphora at once. These addresses are
    left out until their health managers restart, or until "sync retry".
    Addresses whose health managers are gone do not come back.
    """

    DRY_RUN = 'what the list would be'
    WAIT = 'every amphora has that list'

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument(
            'number', type=int, nargs='?', metavar='<generation>',
            help='the earlier generation; by default the last one before the '
                 'newest that was not rolled back')
        return parser

    def take_action(self, parsed_args):
        conf, engine = self.open_database(with_octavia=True)
        change = _prepare(conf, engine, parsed_args.number)
        would = 'would be' if parsed_args.dry_run else 'is'
        if not parsed_args.dry_run:
            _carry_out(conf, engine, change)
        self.say(
            f'Generation {change.newest.number} {would} rolled back: '
            f'controller_ip_port_list {would} {addr.join_list(change.slots)} '
            f'again, without '
            f'{addr.join_list(addr.canonical(change.suspects))}.')
        pause = pause_repo.get(engine)
        if pause:
            self.say(f'No amphora gets it before the pause ends. '
                     f'{watch.describe_pause(pause)}')
        watch.wait(self, parsed_args, conf, engine)


@dataclasses.dataclass(frozen=True)
class _RollBack:
    """The plan of a roll back.

    :param newest: the Generation that is withdrawn.
    :param target: the earlier Generation.
    :param slots: {address: slot} of the list that takes its place.
    :param suspects: the addresses that are left out, a set.
    """

    newest: generation_repo.Generation
    target: generation_repo.Generation
    slots: dict
    suspects: set


def _prepare(conf, engine, number=None):
    """Plan the roll back of the newest generation.

    :param number: the generation to go back to, by default the last one that
                   was not rolled back itself.
    :raises NotPossible: if there is nothing to take back, or if no health
                         manager would hear the amphorae then.
    """
    history = generation_repo.get_history(engine)
    if len(history) < 2:
        raise exceptions.NotPossible(
            'There is no earlier generation to roll back to: see '
            '"octavia-hmsync generation list".')
    newest = history[-1]
    target = _find_target(history, number)
    suspects = set(newest.addresses) - set(target.addresses)
    if newest.status == trial.ROLLED_BACK or not suspects:
        raise exceptions.NotPossible(
            f'Generation {newest.number} has no address that generation '
            f'{target.number} does not have: there is nothing to take back. '
            f'Addresses that only the latter has are gone, or draining.')
    pinned = keeper_repo.get_pinned(
        engine, conf.hmsync.offline_after + conf.hmsync.removal_delay)
    if suspects & set(pinned):
        raise exceptions.NotPossible(
            f'{addr.join_list(addr.canonical(suspects & set(pinned)))} are '
            f'listed in octavia.conf of a controller, and so in every list: '
            f'correct [health_manager] controller_ip_port_list there.')
    addresses = addr.canonical(set(newest.addresses) - suspects)
    heard = {m.address for m in hm_repo.get_all(engine) if mem.is_listening(
        m, conf.hmsync.offline_after)} | set(pinned)
    zones = zn.of_list(newest.zones, addresses)
    if not all(heard.intersection(zn.reachable(addresses, zones, names))
               for names in zn.views(newest.zones)):
        raise exceptions.NotPossible(
            f'No health manager of generation {target.number} is up: without '
            f'{addr.join_list(addr.canonical(suspects))} the amphorae '
            f'would not be heard. Start one first.')
    return _RollBack(newest, target, subset.assign_slots(
        newest.slots, addresses), suspects)


def _find_target(history, number):
    earlier = [g for g in history[:-1] if number in (None, g.number)]
    if number is None:
        earlier = [g for g in earlier if g.status != trial.ROLLED_BACK]
    if not earlier:
        raise exceptions.NotPossible(
            f'There is no generation {number} before the newest one, '
            f'{history[-1].number}: see "octavia-hmsync generation list".'
            if number is not None else
            'Every earlier generation was rolled back: name one, see '
            '"octavia-hmsync generation list".')
    return earlier[-1]


def _carry_out(conf, engine, change):
    """Roll back; NotPossible if another list was published meanwhile."""
    # Imported late, as where other commands need more than the database.
    from octavia_hmsync.notifications import outbox

    suspects = addr.canonical(change.suspects)
    why = f'by an operator, to {change.target.number}'
    if not generation_repo.roll_back(
            engine, change.newest.number, suspects, change.slots,
            f'generation {change.newest.number} is rolled back: {why}',
            conf.host, (*trial.TRIAL_STATUSES, trial.OPEN),
            change.newest.key_digest,
            zn.of_list(change.newest.zones, change.slots)):
        raise exceptions.NotPossible(
            f'Generation {change.newest.number} is no longer the newest: '
            f'look at "octavia-hmsync generation list" and run it again.')
    outbox.send_and_wait(conf, payloads.for_roll_back(
        change.newest.number, suspects, why, change.slots, conf.host))
