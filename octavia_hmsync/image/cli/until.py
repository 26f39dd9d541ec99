# SPDX-License-Identifier: Apache-2.0

"""The end of what an operator orders for a while: --until."""

import argparse
import datetime

from octavia_hmsync.cli import base
from octavia_hmsync import exceptions
from octavia_hmsync.sync.db import host_hold as hold_repo


def _time(text):
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
        '--until', type=_time, required=True, metavar='<time>',
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
