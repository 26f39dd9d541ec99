# SPDX-License-Identifier: Apache-2.0

"""Commands on published lists."""

from cliff import command

from octavia_hmsync import addresses as addr
from octavia_hmsync.cli import base
from octavia_hmsync.cli import formatters
from octavia_hmsync import exceptions
from octavia_hmsync.sync.cli import rollback
from octavia_hmsync.sync.cli import watch
from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.db import pause as pause_repo


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
        change = rollback.prepare(conf, engine, parsed_args.number)
        would = 'would be' if parsed_args.dry_run else 'is'
        if not parsed_args.dry_run:
            rollback.carry_out(conf, engine, change)
        self.say(
            f'Generation {change.newest.number} {would} rolled back: '
            f'controller_ip_port_list {would} {addr.join_list(change.slots)} '
            f'again, without '
            f'{addr.join_list(addr.canonical(change.suspects))}.')
        pause = pause_repo.get(engine)
        if pause:
            self.say(f'No amphora gets it before the pause ends. '
                     f'{watch.describe_pause(pause)}')
        if parsed_args.wait and not parsed_args.dry_run:
            watch.wait(self, parsed_args, conf, engine)
