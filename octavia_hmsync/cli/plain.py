# SPDX-License-Identifier: Apache-2.0

"""What commands without octavia.conf and Octavia share."""

import argparse

from cliff import lister
from cliff import show

# Some 30 years, which every date and clock can represent.
_LONGEST = 10 ** 9


class Lister(lister.Lister):
    """cliff's lister, with our forms of lists."""

    @property
    def formatter_namespace(self):
        return 'octavia_hmsync.formatter.list'


class ShowOne(show.ShowOne):
    """cliff's ShowOne, with our forms of lists, and CSV."""

    @property
    def formatter_namespace(self):
        return 'octavia_hmsync.formatter.show'


def positive_seconds(text):
    """Read a time in seconds, for argparse.

    :param text: from the command line.
    :returns: a float.
    :raises ArgumentTypeError: if it is not such a time.
    """
    try:
        value = float(text)
    except ValueError:
        value = 0
    if not 0 < value <= _LONGEST:
        raise argparse.ArgumentTypeError(
            f'{text!r} is no time in seconds, above 0 and up to {_LONGEST}')
    return value


def seconds(text):
    """Read a time in seconds that may be 0; see positive_seconds()."""
    return 0.0 if text == '0' else positive_seconds(text)


def positive_number(text):
    """Read a number above 0, for argparse.

    :param text: from the command line.
    :returns: an int.
    :raises ArgumentTypeError: if it is not such a number.
    """
    if not text.isdecimal() or not 0 < int(text) <= _LONGEST:
        raise argparse.ArgumentTypeError(
            f'{text!r} is no number, above 0 and up to {_LONGEST}')
    return int(text)


def add_dry_run(parser, text):
    """Add the option --dry-run of a command that changes something.

    :param parser: its argparse parser.
    :param text: what the command tells then.
    """
    parser.add_argument('--dry-run', action='store_true',
                        help=f'change nothing, only tell {text}')
