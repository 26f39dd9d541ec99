# SPDX-License-Identifier: Apache-2.0

"""What all commands share: configuration, database and errors."""

import traceback
import typing

from oslo_config import cfg

from octavia_hmsync.cli import actor
from octavia_hmsync.cli import plain
from octavia_hmsync.cli import symbols
from octavia_hmsync import compat
from octavia_hmsync.conf import octavia as octavia_conf
from octavia_hmsync.conf import opts as groups
from octavia_hmsync.db import api
from octavia_hmsync.db import order as order_repo
from octavia_hmsync.db import schema
from octavia_hmsync.db import types
from octavia_hmsync import exceptions

_IN_MEMORY = 'sqlite://'

# Imported here for the other modules.
Lister = plain.Lister
ShowOne = plain.ShowOne
positive_seconds = plain.positive_seconds
positive_number = plain.positive_number
add_long = plain.add_long
is_long = plain.is_long
add_paging = plain.add_paging
take_page = plain.take_page
describe_no_marker = plain.describe_no_marker
count = plain.count

# Errors that are reported in one line, without a traceback.
REPORTED_ERRORS = (exceptions.HMSyncException, *api.ERRORS, cfg.Error,
                   OSError)


def explain_passing(error):
    """Put an error of the database in one line; return None for others."""
    if isinstance(error, REPORTED_ERRORS) and api.is_database_error(error):
        return describe(error)
    return None


def describe(error):
    """Put one of REPORTED_ERRORS in one line."""
    if isinstance(error, exceptions.HMSyncException):
        return str(error)
    if api.is_database_error(error):
        return api.explain(error)
    if isinstance(error, cfg.Error):
        return (f'The configuration cannot be used: '
                f'{groups.describe_error(error)}.')
    return str(error)


def _check_connection(conf):
    """Refuse Octavia's default, an SQLite database in the process's memory.

    Tables in it would vanish with the process.
    """
    if conf.database.connection not in (None, '', _IN_MEMORY):
        return
    found = (f'{", ".join(conf.config_file)} was read'
             if conf.config_file else 'no octavia.conf was found')
    raise exceptions.DatabaseUnavailable(
        f'[database] connection is not set: {found}. Name octavia.conf with '
        f'--config-file, and run this as a user who may read it.')


class DatabaseMixin(plain.Command):
    """For cliff commands that need octavia.conf and the database.

    A command that changes something says so by add_dry_run(): each of its
    runs but dry ones is recorded as an order, before it changes anything.
    """

    # The application of cmd.hmsync.
    app: typing.Any
    _parsed_args: typing.Any = None
    # Why a command failed that raises nothing, or None.
    order_error: str | None = None
    # The engine and the order.New, once this run is recorded as an order.
    _recorded: typing.Any = None

    def run(self, parsed_args):
        """Run the command; any error becomes one line."""
        self._parsed_args = parsed_args
        try:
            code = super().run(parsed_args)
            self._finish_order(self.order_error)
            return code
        except BrokenPipeError:
            # The reader has closed the pipe: cliff ends silently.
            self._finish_order(None)
            raise
        except Exception as e:
            is_reported = (isinstance(e, REPORTED_ERRORS) or
                           api.is_database_error(e))
            # A database that has just failed is not waited for once more.
            if not api.is_database_error(e):
                self._finish_order(describe(e) if is_reported
                                   else type(e).__name__)
            if self.app.options.debug or not is_reported:
                raise
            error = exceptions.HMSyncException(describe(e))
        raise error

    def is_order(self, parsed_args):
        """Tell whether this run changes something."""
        return not getattr(parsed_args, 'dry_run', True)

    def make_order(self):
        """Return the order.New of this run."""
        name = self.cmd_name or ''
        words = len(name.split())
        return actor.make(name, self.app.subcommand_argv[words:],
                          getattr(self._parsed_args, 'reason', None))

    def record_order(self, engine):
        """Record this run, if it changes something, before it does so."""
        if self._recorded is None and self.is_order(self._parsed_args):
            new = self.make_order()
            order_repo.add(engine, new)
            self._recorded = engine, new

    def _finish_order(self, error):
        if self._recorded is None:
            return
        (engine, new), self._recorded = self._recorded, None
        try:
            order_repo.finish(engine, new.id,
                              error and types.storable(error))
        except api.ERRORS as e:
            # The command has done what it has done.
            self.app.stderr.write(f'How this order ended is not recorded: '
                                  f'{describe(e)}\n')

    def load_configuration(self, with_octavia=False):
        """Parse octavia.conf, without checking our options.

        :param with_octavia: whether Octavia's own code is to run, which
                             takes a second to import.
        :raises DatabaseUnavailable: if it names no database.
        :raises WrongOctavia: if Octavia lacks what we need of it.
        """
        groups.explain_wrong_driver()
        if with_octavia:
            symbols.check()
            conf = compat.load_configuration(self.app.config_args)
        else:
            conf = octavia_conf.load(self.app.config_args)
        _check_connection(conf)
        groups.register(conf)
        return conf

    def open_database(self, check_schema=True, with_octavia=False):
        """Parse octavia.conf and make an engine.

        :param check_schema: whether the plugin's tables must exist.
        :raises HMSyncException: saying what to do.
        """
        conf = self.load_configuration(with_octavia)
        groups.check(conf)
        engine = api.create_engine(conf)
        if check_schema:
            with engine.connect() as connection:
                try:
                    schema.check(connection)
                except exceptions.SchemaNewer as e:
                    self.app.stderr.write(f'{e}\n')
            self.record_order(engine)
        return conf, engine


def add_dry_run(parser, text, needs_reason=False):
    """Add the options of a command that changes something."""
    plain.add_dry_run(parser, text)
    add_reason(parser, needs_reason)


def add_reason(parser, needs_reason=False):
    """Add the option --reason alone; see add_dry_run()."""
    parser.add_argument('--reason', required=needs_reason, metavar='<text>',
                        help='why, for other operators: see "order list"')


def format_time(value):
    """Write a time of the database, UTC, like Octavia's API."""
    return value.isoformat(timespec='seconds') if value else None


class ListCommand(DatabaseMixin, plain.Lister):
    """A list, by page; its last columns with --long only. It has read()."""

    COLUMNS: tuple[str, ...]
    LONG_COLUMNS: tuple[str, ...] = ()
    # What a row is, for --marker.
    METAVAR = '<id>'
    # The default of --limit.
    LIMIT: int | None = None
    # See load_configuration().
    WITH_OCTAVIA = False

    def get_parser(self, prog_name):
        """Add --long, --limit and --marker."""
        parser = super().get_parser(prog_name)
        if self.LONG_COLUMNS:
            add_long(parser, self.LONG_COLUMNS)
        add_paging(parser, self.METAVAR, self.LIMIT)
        return parser

    def take_action(self, parsed_args):
        """Return the columns and rows that are wanted."""
        conf, engine = self.open_database(with_octavia=self.WITH_OCTAVIA)
        return self.choose(parsed_args, take_page(
            self.read(conf, engine, parsed_args), parsed_args))

    def choose(self, parsed_args, rows):
        """Return names and rows, without columns for --long alone."""
        if self.LONG_COLUMNS and is_long(parsed_args, self.LONG_COLUMNS):
            return (*self.COLUMNS, *self.LONG_COLUMNS), rows
        return self.COLUMNS, [row[:len(self.COLUMNS)] for row in rows]

    def read(self, conf, engine, parsed_args):
        """Return a list of rows with all columns, LONG_COLUMNS, too."""
        raise NotImplementedError


class Checks(DatabaseMixin):
    """Checks: the exit code is their worst result, as of oslo.upgradecheck."""

    _FAILURE = 2
    _code = 0

    def run(self, parsed_args):
        """Run the checks; if they cannot run, that is a failure, too."""
        try:
            return super().run(parsed_args) or int(self._code)
        except BrokenPipeError:
            raise
        except Exception as e:
            if self.app.options.debug:
                traceback.print_exc(file=self.app.stderr)
            self.app.stderr.write(f'{e}\n')
            return self._FAILURE


class Change(DatabaseMixin):
    """A command that changes something: --dry-run, and --wait.

    What is so already is no failure: say() tells it, and the code is 0.
    """

    # What --dry-run tells.
    DRY_RUN = 'whether it could be done'
    # Whether --reason must be given.
    NEEDS_REASON = False
    # When --wait returns; None where nothing is left to wait for.
    WAIT: str | None = None
    # The default of --timeout, seconds; None for ever.
    TIMEOUT: int | None = None
    # For errors in the combination of arguments, as argparse prints them.
    parser: typing.Any

    def get_parser(self, prog_name):
        """Add --dry-run, and --wait with --timeout."""
        parser = super().get_parser(prog_name)
        add_dry_run(parser, self.DRY_RUN, self.NEEDS_REASON)
        if self.WAIT:
            parser.add_argument('--wait', action='store_true',
                                help=f'return when {self.WAIT}')
            parser.add_argument('--timeout', type=plain.seconds,
                                metavar='<seconds>',
                                help=f'with --wait: give up after so long; '
                                     f'it goes on (default: '
                                     f'{self.TIMEOUT or "never"})')
        self.parser = parser
        return parser

    def run(self, parsed_args):
        """Run the command, if its arguments go together."""
        if self.WAIT:
            if parsed_args.timeout is None:
                parsed_args.timeout = self.TIMEOUT
            elif not parsed_args.wait:
                self.parser.error('argument --timeout: needs --wait')
        return super().run(parsed_args)

    def say(self, text):
        self.app.stdout.write(f'{text}\n')

    def wait(self, parsed_args, look, goes_on):
        """Wait for what was ordered, with --wait; show what changes.

        :param look: called without arguments; returns whether it is done,
                     {subject: its state} or lines, and a list of
                     progress.Bar if there are any.
        :param goes_on: the line when it is not waited for any more.
        :raises NotPossible: with that line, after --timeout.
        """
        if parsed_args.wait and not parsed_args.dry_run:
            follow(self.app, look, goes_on, parsed_args.timeout)


def follow(app, look, goes_on, timeout):
    """Wait for what was ordered; see Change.wait().

    :param timeout: seconds; None for ever.
    """
    # Imported late: what draws bars takes a moment.
    from octavia_hmsync.cli import progress

    def show(found):
        is_done, known, *bars = found
        watch.show(bars[0] if bars else None, known)
        return is_done

    with progress.Watch(app, progress.INTERVAL, timeout, goes_on,
                        explain_passing) as watch:
        watch.follow(look, show, f'Not done after {timeout or 0:g} s. '
                                 f'{goes_on}')
