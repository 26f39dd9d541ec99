# SPDX-License-Identifier: Apache-2.0

"""What commands without octavia.conf and Octavia share."""

import argparse

from cliff import command
from cliff import lister
from cliff import show

from octavia_hmsync import exceptions

# Some 30 years, which every date and clock can represent.
_LONGEST = 10 ** 9


class Command(command.Command):
    """cliff's command, without a look at all installed packages."""

    # The name and the help of a positional argument that must be given.
    ARGUMENT: tuple[str, str] | None = None

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        if self.ARGUMENT:
            name, text = self.ARGUMENT
            parser.add_argument(name, metavar=f'<{name}>', help=text)
        return parser

    def get_epilog(self):
        """Return nothing; cliff would tell which package has the command."""
        return ''


class Lister(Command, lister.Lister):
    """cliff's lister, with our forms of lists."""

    @property
    def formatter_namespace(self):
        return 'octavia_hmsync.formatter.list'


class ShowOne(Command, show.ShowOne):
    """cliff's ShowOne, with our forms of lists, and CSV."""

    @property
    def formatter_namespace(self):
        return 'octavia_hmsync.formatter.show'


def positive_seconds(text):
    """Read a time in seconds, or raise argparse's ArgumentTypeError."""
    try:
        value = float(text)
    except ValueError:
        value = 0
    if not 0 < value <= _LONGEST:
        raise argparse.ArgumentTypeError(
            f'{text!r} is not a time in seconds, above 0 and up to {_LONGEST}')
    return value


def seconds(text):
    """Read a time in seconds that may be 0; see positive_seconds()."""
    return 0.0 if text == '0' else positive_seconds(text)


def positive_number(text):
    """Read a number above 0, or raise argparse's ArgumentTypeError."""
    if not text.isdecimal() or not 0 < int(text) <= _LONGEST:
        raise argparse.ArgumentTypeError(
            f'{text!r} is not a number above 0 and up to {_LONGEST}')
    return int(text)


def count(number, one, many):
    """Return a number with its words: "1 amphora is", "2 amphorae are"."""
    return f'{number} {one if number == 1 else many}'


def add_dry_run(parser, text):
    """Add the option --dry-run of a command that changes something."""
    parser.add_argument('--dry-run', action='store_true',
                        help=f'change nothing, only tell {text}')


def add_long(parser, columns):
    """Add the option --long, for more columns of a list."""
    parser.add_argument(
        '--long', action='store_true',
        help=f'show {", ".join(columns)}, too; -c with one of these does so '
             f'as well')


def is_long(parsed_args, columns):
    """Tell whether a list has the columns of --long; see add_long()."""
    return parsed_args.long or bool(set(parsed_args.columns) & set(columns))


def add_paging(parser, metavar, limit=None):
    """Add the options --limit and --marker of a list; see take_page().

    :param metavar: what a row of the list is.
    :param limit: the default of --limit; None for all.
    """
    parser.add_argument(
        '--limit', type=positive_number, metavar='<number>', default=limit,
        help=f'show at most this many (default: {limit or "all"})')
    parser.add_argument(
        '--marker', metavar=metavar,
        help='show what follows this one, the last of the page before')


def take_page(rows, parsed_args):
    """Return the rows behind --marker, up to --limit, or raise NotPossible."""
    marker = parsed_args.marker
    if marker is not None:
        places = [place for place, row in enumerate(rows)
                  if str(row[0]) == marker]
        if not places:
            raise exceptions.NotPossible(describe_no_marker(marker))
        rows = rows[places[-1] + 1:]
    return rows[:parsed_args.limit]


def describe_no_marker(marker):
    """Report that --marker names nothing in the list."""
    return (f'{marker} is not in this list: give --marker the first column '
            f'of the last row of the page before, or begin anew without it.')
