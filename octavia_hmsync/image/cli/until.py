# SPDX-License-Identifier: Apache-2.0

"""The end of what an operator orders for a while: --until, and release."""

import argparse
import datetime
import typing

from cliff import command

from octavia_hmsync.cli import base
from octavia_hmsync import exceptions
from octavia_hmsync.sync.db import host_hold as hold_repo


def parse_time(text):
    """Read a time without a zone, UTC, or with one, for argparse."""
    try:
        time = datetime.datetime.fromisoformat(text)
    except ValueError as e:
        raise argparse.ArgumentTypeError(
            f'{text!r} is not a time such as 2026-11-29T15:30') from e
    return time if time.tzinfo is None else time.astimezone(
        datetime.timezone.utc).replace(tzinfo=None)


def add_argument(parser, longest):
    """Add --until; longest: seconds until the end, at most."""
    parser.add_argument(
        '--until', type=parse_time, required=True, metavar='<time>',
        help='the end, UTC, such as 2026-11-29T15:30; in '
             f'{longest // 3600} hours at the latest')


def check(engine, time, longest, what):
    """Raise NotPossible if the end of what is ordered is over, or too late."""
    seconds = hold_repo.get_seconds(engine, time)
    if not 0 < seconds <= longest:
        raise exceptions.NotPossible(
            f'{what} ends within {longest // 3600} hours, and '
            f'{base.format_time(time)} UTC is '
            f'{"later" if seconds > 0 else "over"}: give another --until.')


class Release(base.Change, command.Command):
    """End sooner what was ordered for a while; again, it says so."""

    ARGUMENT: tuple[str, str]
    # How a host or zone is meanwhile, and the repository that tells.
    STATE: str
    REPOSITORY: typing.Any

    def take_action(self, parsed_args):
        _conf, engine = self.open_database()
        kind = self.ARGUMENT[0]
        name = getattr(parsed_args, kind)
        if parsed_args.dry_run:
            is_there = name in self.REPOSITORY.get_all(engine)
            negation = '' if is_there else 'not '
        else:
            negation = ('no longer ' if self.REPOSITORY.end(engine, name)
                        else 'not ')
        self.say(f'{kind.capitalize()} {name} is {negation}{self.STATE}.')
