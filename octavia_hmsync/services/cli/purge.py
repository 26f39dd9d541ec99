# SPDX-License-Identifier: Apache-2.0

"""octavia-hmsync db purge.

The tables may be of any revision, or incomplete after an aborted purge. So
this reads only columns that every revision has.
"""

import dataclasses

from cliff import command
import sqlalchemy as sa

from octavia_hmsync.cli import base
from octavia_hmsync.db import lookup
from octavia_hmsync.db import models
from octavia_hmsync.db import order as order_repo
from octavia_hmsync.db import schema
from octavia_hmsync.db import types
from octavia_hmsync import exceptions
from octavia_hmsync.sync import payloads
from octavia_hmsync.sync.rules import member as mem


# Of each table of any release, and of no other table.
_PREFIX = 'hmsync_'
_HEALTH_MANAGER = models.HealthManager.__table__
_HOUSE_KEEPER = models.HouseKeeper.__table__


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
        tables = get_tables(engine)
        if not tables:
            self.app.stdout.write('There are no tables of octavia-hmsync in '
                                  'the database.\n')
            return
        alive = get_alive(engine, conf.hmsync.offline_after)
        if alive and not parsed_args.force:
            raise exceptions.NotPossible(
                f'Services run with octavia-hmsync: {", ".join(alive)}. '
                f'Restart them without it, wait {conf.hmsync.offline_after} '
                f's, and run this again, or use --force.')
        clusters = count(engine, models.Cluster)
        if clusters and not parsed_args.force:
            raise exceptions.NotPossible(
                f'{clusters} load balancers have clusters, which could not '
                f'be changed or deleted any more: delete them first (see '
                f'"octavia-hmsync cluster list"), or use --force.')
        instances = count(engine, models.DistributorInstance)
        if instances and not parsed_args.force:
            raise exceptions.NotPossible(
                f'{instances} distributors are booted in instances, which '
                f'would not be deleted any more: set [hmsync_cluster] '
                f'distributor_instances = 0, run "octavia-hmsync distributor '
                f'instance delete" for each while housekeeping runs with '
                f'octavia-hmsync, or use --force.')
        what = (f'{len(tables)} tables with '
                f'{count_rows(engine, tables)} rows: '
                f'{", ".join(tables)}')
        if parsed_args.dry_run:
            self.app.stdout.write(f'Would delete {what}.\n')
            return
        if not parsed_args.yes:
            raise exceptions.NotPossible(
                f'Nothing is deleted without --yes. It would delete {what}.')
        deleted = drop_tables(engine)
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


def get_tables(engine):
    """Return the names of the plugin's tables that exist, in order."""
    with engine.connect() as connection:
        return _get_tables(connection)


def _get_tables(connection):
    return sorted(name for name in sa.inspect(connection).get_table_names()
                  if name.startswith(_PREFIX))


def count_rows(engine, tables):
    """Return the number of rows of all these tables."""
    with engine.connect() as connection:
        return sum(connection.execute(
            sa.select(sa.func.count()).select_from(sa.table(name))).scalar()
            for name in tables)


def count(engine, model):
    """Return the number of rows of a table, 0 if there is no such table."""
    return count_rows(engine, {model.__tablename__} & {*get_tables(engine)})


def get_alive(engine, max_age):
    """Return the services that are up with the plugin, as texts."""
    alive = []
    tables = get_tables(engine)
    for table, service, conditions in (
            (_HEALTH_MANAGER, 'octavia-health-manager',
             [_HEALTH_MANAGER.c.status != mem.OFFLINE]),
            (_HOUSE_KEEPER, 'octavia-housekeeping', [])):
        if table.name not in tables:
            continue
        with engine.connect() as connection:
            alive += [f'{service} on {host}' for host in connection.execute(
                sa.select(table.c.host).where(
                    table.c.keepalive_at >= types.utcnow_plus(-max_age),
                    *conditions).order_by(table.c.host)).scalars()]
    return alive


def drop_tables(engine):
    """Delete the plugin's tables; another call continues an aborted one.

    :returns: the names of the tables, in order.
    :raises DatabaseUnavailable: if an upgrade of the tables does not end.
    """
    with engine.connect() as connection, schema.upgrade_lock(connection):
        tables = _get_tables(connection)
        # The version table first: without it services do not use the others,
        # and an upgrade creates the missing tables anew.
        for name in sorted(tables, key=lambda n: n != schema.VERSION_TABLE):
            connection.execute(sa.schema.DropTable(
                sa.Table(name, sa.MetaData()), if_exists=True))
        connection.commit()
    return tables
