# SPDX-License-Identifier: Apache-2.0

"""octavia-hmsync db upgrade|current|history."""

import contextlib

from cliff import command

from octavia_hmsync.cli import base
from octavia_hmsync.db import schema
from octavia_hmsync import exceptions


class Upgrade(base.DatabaseMixin, command.Command):
    """Create the plugin's tables, or bring them to this release.

    They are in Octavia's database, beside its own tables, with a separate
    version table. Running it again changes nothing.
    """

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        base.add_dry_run(parser, 'from which revision to which')
        return parser

    def take_action(self, parsed_args):
        _conf, engine = self.open_database(check_schema=False)
        if parsed_args.dry_run:
            with engine.connect() as connection:
                schema.check_octavia(connection)
                with contextlib.suppress(exceptions.SchemaMissing):
                    schema.check(connection)
                before, after = schema.current(connection), schema.head()
        else:
            before, after = schema.upgrade(engine)
            # Its table may not have been there before.
            self.record_order(engine)
        if before == after:
            text = f'The tables are at revision {after} already.'
        elif parsed_args.dry_run:
            text = (f'The tables would be brought to revision {after} (now: '
                    f'{before or "none"}).')
        else:
            text = (f'The tables are now at revision {after} '
                    f'(before: {before or "none"}).')
        self.app.stdout.write(f'{text}\n')


class Current(base.DatabaseMixin, base.ShowOne):
    """Show the revision of the plugin's tables."""

    def take_action(self, parsed_args):
        _conf, engine = self.open_database(check_schema=False)
        with engine.connect() as connection:
            revision = schema.current(connection)
        return (('revision', 'newest'), (revision, schema.head()))


class History(base.Lister):
    """List the revisions that this release knows, oldest first."""

    COLUMNS = ('revision', 'description')

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        base.add_paging(parser, '<revision>')
        return parser

    def take_action(self, parsed_args):
        return (self.COLUMNS,
                base.take_page(schema.history(), parsed_args))
