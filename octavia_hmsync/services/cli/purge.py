# SPDX-License-Identifier: Apache-2.0

"""octavia-hmsync db purge."""

import dataclasses

from cliff import command

from octavia_hmsync.cli import base
from octavia_hmsync.db import lookup
from octavia_hmsync.db import order as order_repo
from octavia_hmsync import exceptions
from octavia_hmsync.services import purge
from octavia_hmsync.sync import payloads


class Purge(base.DatabaseMixin, command.Command):
    """Delete the plugin's tables, and all its data with them.

    The last step of a roll-back. Octavia's own tables are left alone, except
    for the rows ACTIVE_ACTIVE and IN_CLUSTER of look-up tables, if they are
    not used; so is what was made in Neutron ("network delete" deletes
    that). Refused while a service runs with the plugin, while load balancers
    have clusters, and while distributors are booted. Running it again
    changes nothing.
    """

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument('--yes', action='store_true',
                            help='do it: nothing brings them back but a '
                                 'backup')
        parser.add_argument(
            '--force', action='store_true',
            help='also while services run with the plugin: they go on as '
                 'without it, with a warning')
        base.add_dry_run(parser, 'which tables')
        return parser

    def take_action(self, parsed_args):
        # Imported late: it imports much, which takes a moment.
        from octavia_hmsync.notifications import outbox

        conf, engine = self.open_database(check_schema=False)
        tables = purge.get_tables(engine)
        if not tables:
            self.app.stdout.write('There are no tables of octavia-hmsync in '
                                  'the database.\n')
            return
        alive = purge.get_alive(engine, conf.hmsync.offline_after)
        if alive and not parsed_args.force:
            raise exceptions.NotPossible(
                f'Services run with octavia-hmsync: {", ".join(alive)}. '
                f'Restart them without it, wait {conf.hmsync.offline_after} '
                f's, and run this again, or use --force.')
        clusters = purge.count_clusters(engine)
        if clusters and not parsed_args.force:
            raise exceptions.NotPossible(
                f'{clusters} load balancers have clusters, which could not '
                f'be changed or deleted any more: delete them first (see '
                f'"octavia-hmsync cluster list"), or use --force.')
        instances = purge.count_instances(engine)
        if instances and not parsed_args.force:
            raise exceptions.NotPossible(
                f'{instances} distributors are booted in instances, which '
                f'would not be deleted any more: set [hmsync_cluster] '
                f'distributor_instances = 0, run "octavia-hmsync distributor '
                f'instance delete" for each while housekeeping runs with '
                f'octavia-hmsync, or use --force.')
        what = (f'{len(tables)} tables with '
                f'{purge.count_rows(engine, tables)} rows: '
                f'{", ".join(tables)}')
        if parsed_args.dry_run:
            self.app.stdout.write(f'Would delete {what}.\n')
            return
        if not parsed_args.yes:
            raise exceptions.NotPossible(
                f'Nothing is deleted without --yes. It would delete {what}.')
        deleted = purge.drop_tables(engine)
        # Its row went with the tables.
        order = dataclasses.asdict(self.make_order())
        outbox.send_and_wait(conf, [payloads.OrderGiven(
            order.pop('id'), **order, state=order_repo.DONE, error=None)])
        self.app.stdout.write(
            f'Deleted {len(deleted)} tables: {", ".join(deleted)}.\n')
        kept = lookup.remove(engine)
        if kept:
            self.app.stdout.write(
                f'Kept in tables of Octavia, because load balancers or '
                f'amphorae have it: {", ".join(kept)}.\n')
